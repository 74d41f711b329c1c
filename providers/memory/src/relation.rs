//! Relations: validated candidates that become exact triples of host-made names.

use agentspine_gate::Id;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::ledger::StoreError;
use crate::name::Name;
use crate::record::MemoryScope;

/// Most relations of one memory.
pub const RELATIONS_MAX: usize = 8;

/// How one memory relates to another, a closed list: no predicate is ever made from text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Predicate {
    /// It was made from it.
    DerivedFrom,
    /// It is true instead of it.
    Supersedes,
    /// It cannot be true beside it.
    Contradicts,
    /// It makes sense only with it.
    DependsOn,
    /// Anything else.
    RelatesTo,
}

impl Predicate {
    /// Every predicate.
    pub const ALL: [Self; 5] =
        [Self::DerivedFrom, Self::Supersedes, Self::Contradicts, Self::DependsOn, Self::RelatesTo];

    /// Parses the wire text.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|predicate| predicate.as_str() == text)
    }

    /// Wire text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DerivedFrom => "derived-from",
            Self::Supersedes => "supersedes",
            Self::Contradicts => "contradicts",
            Self::DependsOn => "depends-on",
            Self::RelatesTo => "relates-to",
        }
    }
}

/// What a memory relates to. An id of another scope cannot be meant: the name is made from the memory's own scope.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Related {
    /// A memory of the same scope that was not forgotten.
    Memory(Id),
    /// A session.
    Session(Id),
}

impl Related {
    /// Which kind, and its id.
    pub(crate) fn to_text(&self) -> String {
        match self {
            Self::Memory(id) => format!("memory {id}"),
            Self::Session(id) => format!("session {id}"),
        }
    }
}

/// A relation of the memory that brings it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Relation {
    /// How.
    pub predicate: Predicate,
    /// To what.
    pub object: Related,
}

impl Relation {
    /// Its name in a scope.
    pub(crate) fn object_name(&self, scope: &MemoryScope) -> Name {
        match &self.object {
            Related::Memory(id) => Name::memory(scope, id),
            Related::Session(id) => Name::session(scope, id),
        }
    }

    /// Whether what it points to may be pointed to.
    pub(crate) fn known(&self, db: &Connection, scope: &MemoryScope) -> Result<bool, StoreError> {
        let Related::Memory(id) = &self.object else { return Ok(true) };
        let sql = "SELECT 1 FROM memory_record r JOIN memory_scope s ON s.no = r.scope_no
                   WHERE r.memory_id = ? AND s.digest = ? AND r.state <> 'tombstoned'";
        let key = params![id.as_str(), scope.digest().to_hex()];
        Ok(db.query_row(sql, key, |_| Ok(())).optional()?.is_some())
    }
}

/// Keeps the relations of a new memory, in the caller's transaction.
pub(crate) fn insert(
    db: &Connection,
    scope: &MemoryScope,
    memory: &Id,
    relations: &[Relation],
    state: &str,
    now_ms: i64,
) -> rusqlite::Result<()> {
    let subject = Name::memory(scope, memory);
    let sql = "INSERT INTO memory_relation (memory_id, n, subject, predicate, object, state, changed_at)
               VALUES (?, ?, ?, ?, ?, ?, ?)";
    for (n, relation) in (0i64..).zip(relations) {
        let object = relation.object_name(scope);
        db.prepare_cached(sql)?.execute(params![
            memory.as_str(),
            n,
            subject.as_str(),
            relation.predicate.as_str(),
            object.as_str(),
            state,
            now_ms
        ])?;
    }
    Ok(())
}
