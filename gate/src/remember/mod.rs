//! Must-Remember: few, user-confirmed rules, scoped, versioned, MACed, append-only.

use serde::Serialize;

use crate::ids::{Digest, Id};

/// Budget of active claims in one turn, bytes.
pub const REMEMBER_BYTES_MAX: u64 = 6144;

/// Whom an entry applies to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RememberScope {
    /// User.
    pub user_id: Id,
    /// Tenant.
    pub tenant_id: Id,
    /// `None` = every project.
    pub project_id: Option<Id>,
    /// `None` = turns without a group only, unless the entry says so.
    pub group_id: Option<Id>,
    /// `None` = every task.
    pub task_id: Option<Id>,
}

/// An active entry as a turn sees it.
#[derive(Clone, PartialEq, Eq)]
pub struct Active {
    /// Entry id.
    pub id: Id,
    /// Version within its lineage.
    pub version: u64,
    /// Keyed HMAC of the claim.
    pub checksum: Digest,
    /// The rule itself.
    pub claim: String,
}
