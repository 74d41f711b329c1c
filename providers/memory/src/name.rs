//! Names of what the ledger projects: made by the host from digests and ids, never from text.

use std::fmt;

use agentspine_gate::{Digest, Id};

use crate::record::MemoryScope;

/// A stable name outside: `dshmem:v1:<scopeHash>:<memoryId>` or `dshsession:v1:<sessionIdentityHash>`.
///
/// Only the two constructors make one, so that no text, model or payload can name a record of another scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    /// The name of a memory of this scope.
    pub fn memory(scope: &MemoryScope, id: &Id) -> Self {
        Self::in_scope(&scope.digest().to_hex(), id.as_str())
    }

    /// The same, by the stored digest of the scope.
    pub(crate) fn in_scope(digest: &str, id: &str) -> Self {
        Self(format!("dshmem:v1:{digest}:{id}"))
    }

    /// The name of a session of this scope.
    pub fn session(scope: &MemoryScope, session: &Id) -> Self {
        let identity = ["session v1", &scope.digest().to_hex(), session.as_str()].join("\0");
        Self(format!("dshsession:v1:{}", Digest::of(identity.as_bytes()).to_hex()))
    }

    /// A name that was stored before.
    pub(crate) fn stored(text: String) -> Self {
        Self(text)
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
