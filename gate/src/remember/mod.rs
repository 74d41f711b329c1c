//! Must-Remember: few, user-confirmed rules, scoped, versioned, MACed, append-only.
//!
//! `store` is the public door (propose, confirm, rollback, purge, list, active), `rows` the verified table behind it,
//! `signed` which keys it needs, `capture` the wording in a chat that proposes. A candidate is nowhere in a turn; only a
//! person's confirmation makes an entry. Every row carries a MAC and is verified at each load, under the key it names,
//! retired or not; claims are never screened again once stored. What a MAC per row can't see: an entry deleted together
//! with all its events, or the whole file set back to an older copy.

mod capture;
mod error;
mod rows;
mod signed;
mod store;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use capture::capture;
pub use error::RememberError;
pub use rows::{Candidate, CandidateStatus, Entry, EntryStatus};
pub(crate) use signed::{SignedBy, signed_by};
pub use store::{Confirmed, Counts, Listing, Proposal, Proposed, Purged, RememberStore};

use crate::failure::{Detail, Refusal};
use crate::ids::{Digest, Id};

/// Budget of active claims in one turn, bytes.
pub const REMEMBER_BYTES_MAX: u64 = 6144;
/// Longest claim, bytes.
pub const CLAIM_BYTES_MAX: usize = 4096;
/// Most candidates and most entries in the store.
pub const ROWS_MAX: usize = 1000;
/// How many entries a budget message lists.
const LISTED_MAX: usize = 5;

/// Whom an entry applies to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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

impl std::fmt::Debug for Active {
    /// Without the claim.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Active").field("id", &self.id).field("version", &self.version).finish_non_exhaustive()
    }
}

/// Refuses where the claims of one turn are together over [`REMEMBER_BYTES_MAX`]; the message lists the largest.
pub fn fits_budget(active: &[Active]) -> Result<(), Refusal> {
    let total: usize = active.iter().map(|entry| entry.claim.len()).sum();
    if total as u64 <= REMEMBER_BYTES_MAX {
        return Ok(());
    }
    let mut largest: Vec<&Active> = active.iter().collect();
    largest.sort_by_key(|entry| std::cmp::Reverse(entry.claim.len()));
    largest.truncate(LISTED_MAX);
    let list: Vec<String> = largest.iter().map(|e| format!("{} ({} bytes)", e.id, e.claim.len())).collect();
    let first = largest.first().map_or("ID", |entry| entry.id.as_str());
    Err(Refusal::new(
        Detail::MustRememberBytes,
        format!(
            "Must-Remember entries of this turn are {total} bytes, {REMEMBER_BYTES_MAX} fit. Largest: {}.",
            list.join(", ")
        ),
        format!(
            "Replace one by a shorter version (`agentspine remember-confirm CANDIDATE --confirm-local-user --supersedes {first}`) or delete it (`agentspine remember-purge {first} --confirm-local-purge`)."
        ),
    ))
}
