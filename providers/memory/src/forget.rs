//! Forget: a tombstone at once, the text and its index entries erased, content-free metadata kept.

use agentspine_gate::Id;
use rusqlite::{OptionalExtension as _, TransactionBehavior, params};

use crate::index;
use crate::ledger::{Ledger, StoreError};
use crate::record::MemoryScope;

/// What became of a memory that was to be forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgotten {
    /// Erased now.
    Now,
    /// Erased before.
    Before,
    /// This scope has no such memory.
    Unknown,
}

impl Ledger {
    /// Forgets one memory of exactly this scope.
    ///
    /// From the commit on no search returns it. Does not reach transcripts, exports or backups.
    pub fn forget(&mut self, scope: &MemoryScope, id: &Id, now_ms: i64) -> Result<Forgotten, StoreError> {
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let sql =
            "SELECT r.row, r.words, r.state FROM memory_record r JOIN memory_scope s ON s.no = r.scope_no
                   WHERE r.memory_id = ? AND s.digest = ?";
        let key = params![id.as_str(), scope.digest().to_hex()];
        let found: Option<(i64, i64, String)> =
            tx.query_row(sql, key, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).optional()?;
        let Some((row, words, state)) = found else { return Ok(Forgotten::Unknown) };
        if state == "tombstoned" {
            return Ok(Forgotten::Before);
        }
        index::remove(&tx, row)?;
        tx.execute(
            "UPDATE memory_record SET state = 'tombstoned', cleanup = 'active-shelf-cleanup-complete', title = NULL,
                    summary = NULL, tags = NULL, subject = NULL, words = 0, changed_at = ? WHERE row = ?",
            params![now_ms, row],
        )?;
        // The digest of a short text could be guessed, the range key can be a host's words.
        let sql = "UPDATE memory_operation SET payload_digest = NULL, range_key = '' WHERE memory_id = ?";
        tx.execute(sql, [id.as_str()])?;
        let sql = "UPDATE memory_scope SET records = records - 1, words = words - ? WHERE no = ? >> 32";
        tx.execute(sql, params![words, row])?;
        tx.commit()?;
        self.erase_log()?;
        Ok(Forgotten::Now)
    }

    /// Truncates the write-ahead log, which still holds the erased pages. Another reader may hold it back; then the
    /// next checkpoint does it.
    fn erase_log(&self) -> Result<(), StoreError> {
        self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }
}
