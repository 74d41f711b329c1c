//! Forget: a tombstone at once, the text and its index entries erased with it; content-free metadata is kept.
//!
//! The first commit is the tombstone: from it on no path of recall returns the memory, in any process. It also takes the
//! text out of the records and the index, which needs nothing from outside. What may stand outside (relations, then the
//! projected record) is removed and its absence verified by reconcile; the digest and the names that this needs go last.
//! The bytes go with [`crate::erase`].

use agentspine_gate::Id;
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};

use crate::erase::{ERASE_AT_ONCE_BYTES_MAX, erased};
use crate::ledger::{Ledger, StoreError};
use crate::name::Name;
use crate::record::MemoryScope;
use crate::retry::{self, Work};
use crate::{rows, settle};

/// How far the cleanup after a forget has come. Recall returns the memory in none of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cleanup {
    /// Taken from records and index; the file or its log may still hold erased bytes until reconcile has run.
    Tombstoned,
    /// Gone here; outside it is still to be removed, which is retried.
    CleanupPending,
    /// Gone here, and verified to be gone from the shelf this ledger projects to.
    ActiveShelfCleanupComplete,
    /// Gone here; what stands outside could not be found out, or is not ours to remove.
    CleanupUncertain,
    /// Gone here; it was projected once and no projection is configured now.
    ExternalRetentionUnknown,
}

impl Cleanup {
    /// Every state.
    pub const ALL: [Self; 5] = [
        Self::Tombstoned,
        Self::CleanupPending,
        Self::ActiveShelfCleanupComplete,
        Self::CleanupUncertain,
        Self::ExternalRetentionUnknown,
    ];

    /// Wire text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tombstoned => "tombstoned",
            Self::CleanupPending => "cleanup-pending",
            Self::ActiveShelfCleanupComplete => "active-shelf-cleanup-complete",
            Self::CleanupUncertain => "cleanup-uncertain",
            Self::ExternalRetentionUnknown => "external-retention-unknown",
        }
    }

    fn parse(text: &str) -> Result<Self, StoreError> {
        Self::ALL.into_iter().find(|cleanup| cleanup.as_str() == text).ok_or(StoreError::Corrupt)
    }
}

/// What became of a memory that was to be forgotten. No result reaches session transcripts, exports, backups, relations
/// a person made, stale rows of another index, or other clients and shelves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgotten {
    /// Forgotten now.
    Now(Cleanup),
    /// Forgotten before.
    Before(Cleanup),
    /// This scope has no such memory.
    Unknown,
}

impl Ledger {
    /// Forgets one memory of exactly this scope. From the first commit on nothing returns it.
    pub fn forget(&mut self, scope: &MemoryScope, id: &Id, now_ms: i64) -> Result<Forgotten, StoreError> {
        let forgotten = self.forget_all(scope, std::slice::from_ref(id), now_ms)?;
        forgotten.first().copied().ok_or(StoreError::Corrupt)
    }

    /// Forgets several memories of exactly this scope, all in one commit; one result for each, in their order.
    pub fn forget_all(
        &mut self,
        scope: &MemoryScope,
        ids: &[Id],
        now_ms: i64,
    ) -> Result<Vec<Forgotten>, StoreError> {
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut forgotten = Vec::with_capacity(ids.len());
        for id in ids {
            forgotten.push(match find(&tx, scope, id)? {
                None => Forgotten::Unknown,
                Some((_, state)) if state == "tombstoned" => Forgotten::Before(cleanup(&tx, id)?),
                Some((row, state)) => {
                    bury(&tx, row, &state, id, now_ms)?;
                    Forgotten::Now(Cleanup::Tombstoned)
                }
            });
        }
        tx.commit()?;
        if self.bytes()? > ERASE_AT_ONCE_BYTES_MAX {
            return Ok(forgotten);
        }
        for (id, result) in ids.iter().zip(&mut forgotten) {
            if matches!(result, Forgotten::Now(_)) {
                *result = Forgotten::Now(self.erase(id, now_ms)?);
            }
        }
        Ok(forgotten)
    }

    /// What can be done here; where bytes or projections are left over, reconcile goes on.
    pub(crate) fn erase(&mut self, id: &Id, now_ms: i64) -> Result<Cleanup, StoreError> {
        if !erased(&self.db, id)? && !self.scrub(now_ms)? {
            return Ok(Cleanup::Tombstoned);
        }
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let name = name(&tx, id)?;
        let left = if outside(&tx, id, &name)? {
            set(&tx, id, Cleanup::CleanupPending, now_ms)?;
            Cleanup::CleanupPending
        } else {
            complete(&tx, id, &name, now_ms)?;
            Cleanup::ActiveShelfCleanupComplete
        };
        tx.commit()?;
        Ok(left)
    }
}

fn find(db: &Connection, scope: &MemoryScope, id: &Id) -> Result<Option<(i64, String)>, StoreError> {
    let sql = "SELECT r.row, r.state FROM memory_record r JOIN memory_scope s ON s.no = r.scope_no
               WHERE r.memory_id = ? AND s.digest = ?";
    let key = params![id.as_str(), scope.digest().to_hex()];
    Ok(db.query_row(sql, key, |row| Ok((row.get(0)?, row.get(1)?))).optional()?)
}

/// The tombstone, in the caller's transaction: text, index and everything a text could be guessed from.
fn bury(db: &Connection, row: i64, state: &str, id: &Id, now_ms: i64) -> Result<(), StoreError> {
    let key = params![id.as_str()];
    let name = name(db, id)?;
    let payload = match settle::job(db, id)? {
        Some(job) if outside(db, id, &name)? => Some(job.what.digest().to_hex()),
        _ => None,
    };
    if state == "applied" {
        rows::withdraw(db, row)?;
    }
    db.execute(
        "UPDATE memory_record SET state = 'tombstoned', cleanup = 'tombstoned', title = NULL, summary = NULL, tags = NULL,
                subject = NULL, words = 0, changed_at = ? WHERE row = ?",
        params![now_ms, row],
    )?;
    let sql = "INSERT INTO memory_tombstone (memory_id, forgotten_at, payload_digest) VALUES (?, ?, ?)";
    db.execute(sql, params![id.as_str(), now_ms, payload])?;
    // The digest of a short text could be guessed, the range key can be a host's words.
    let sql = "UPDATE memory_operation SET payload_digest = NULL, receipt = NULL, range_key = '' WHERE memory_id = ?";
    db.execute(sql, key)?;
    db.execute("UPDATE memory_provenance SET cwd = '' WHERE memory_id = ? AND cwd IS NOT NULL", key)?;
    // Nobody may write these any more, also not the host that has another memory's relation to this one in hand.
    let sql =
        "UPDATE memory_relation SET state = 'withdrawn', changed_at = ?2 WHERE subject = ?1 OR object = ?1";
    db.execute(sql, params![name.as_str(), now_ms])?;
    retry::ask(db, id, Work::Cleanup, now_ms)?;
    Ok(())
}

/// Nothing of it stands anywhere: the last of what was needed to remove it goes, in the caller's transaction.
pub(crate) fn complete(db: &Connection, id: &Id, name: &Name, now_ms: i64) -> Result<(), StoreError> {
    db.execute("DELETE FROM memory_relation WHERE subject = ?1 OR object = ?1", [name.as_str()])?;
    db.execute("UPDATE memory_tombstone SET payload_digest = NULL WHERE memory_id = ?", [id.as_str()])?;
    set(db, id, Cleanup::ActiveShelfCleanupComplete, now_ms)?;
    Ok(retry::done(db, id)?)
}

/// The name of a memory, by its stored scope.
pub(crate) fn name(db: &Connection, id: &Id) -> Result<Name, StoreError> {
    let sql =
        "SELECT s.digest FROM memory_record r JOIN memory_scope s ON s.no = r.scope_no WHERE r.memory_id = ?";
    let digest: String = db.query_row(sql, [id.as_str()], |row| row.get(0))?;
    Ok(Name::in_scope(&digest, id.as_str()))
}

/// Whether anything of it may stand outside.
fn outside(db: &Connection, id: &Id, name: &Name) -> Result<bool, StoreError> {
    let sql =
        "SELECT EXISTS (SELECT 1 FROM memory_operation WHERE memory_id = ?1 AND dispatched_at IS NOT NULL)
                   OR EXISTS (SELECT 1 FROM memory_relation
                              WHERE (subject = ?2 OR object = ?2) AND dispatched_at IS NOT NULL)";
    Ok(db.query_row(sql, [id.as_str(), name.as_str()], |row| row.get(0))?)
}

fn cleanup(db: &Connection, id: &Id) -> Result<Cleanup, StoreError> {
    let sql = "SELECT cleanup FROM memory_record WHERE memory_id = ?";
    let text: String = db.query_row(sql, [id.as_str()], |row| row.get(0))?;
    Cleanup::parse(&text)
}

pub(crate) fn set(db: &Connection, id: &Id, cleanup: Cleanup, now_ms: i64) -> Result<(), StoreError> {
    let sql = "UPDATE memory_record SET cleanup = ?, changed_at = ? WHERE memory_id = ?";
    db.execute(sql, params![cleanup.as_str(), now_ms, id.as_str()])?;
    Ok(())
}
