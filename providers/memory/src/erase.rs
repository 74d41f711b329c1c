//! Erasure: no byte of a forgotten text stays in the ledger's files.
//!
//! `secure_delete` overwrites deleted cells and freed pages, but not the copies that SQLite leaves between the cells of a
//! page when it moves some of them to another one. So the whole file is written anew, which leaves nothing between
//! cells, and the write-ahead log, which still holds the old pages, is truncated.

use std::time::Duration;

use agentspine_gate::Id;
use rusqlite::{Connection, ErrorCode, TransactionBehavior, params};

use crate::ledger::{BUSY_MS_MAX, Ledger, StoreError};

/// Largest ledger that a forget writes anew before it returns, bytes; a larger one takes seconds, and reconcile does it.
pub const ERASE_AT_ONCE_BYTES_MAX: i64 = 32 << 20;
/// How long an erasure waits for readers of old pages, milliseconds: longer than any recall may take.
pub const READERS_MS_MAX: u64 = 500;

impl Ledger {
    /// Frees the files of everything that was forgotten before; `false` where another connection held it back.
    pub(crate) fn scrub(&mut self, now_ms: i64) -> Result<bool, StoreError> {
        let ids = self.unerased()?;
        if !self.rewrite()? || !self.truncate_log()? {
            return Ok(false);
        }
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for id in ids {
            let sql = "UPDATE memory_tombstone SET erased_at = ? WHERE memory_id = ?";
            tx.prepare_cached(sql)?.execute(params![now_ms, id])?;
        }
        tx.commit()?;
        Ok(true)
    }

    fn unerased(&self) -> Result<Vec<String>, StoreError> {
        let mut statement =
            self.db.prepare("SELECT memory_id FROM memory_tombstone WHERE erased_at IS NULL")?;
        let ids = statement.query_map([], |row| row.get(0))?;
        Ok(ids.collect::<Result<_, _>>()?)
    }

    /// The memory is a tombstone already, so whatever hinders this (a writer, a deadline, a full disk) only puts it off.
    fn rewrite(&self) -> Result<bool, StoreError> {
        match self.db.execute_batch("VACUUM").map_err(StoreError::from) {
            Ok(()) => Ok(true),
            Err(error @ (StoreError::Corrupt | StoreError::Sqlite(ErrorCode::DatabaseCorrupt))) => Err(error),
            Err(_) => Ok(false),
        }
    }

    /// Truncates the write-ahead log; whether no reader held it back for longer than [`READERS_MS_MAX`].
    pub(crate) fn truncate_log(&self) -> Result<bool, StoreError> {
        self.db.busy_timeout(Duration::from_millis(READERS_MS_MAX))?;
        let busy = self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        self.db.busy_timeout(Duration::from_millis(BUSY_MS_MAX))?;
        match busy.map_err(StoreError::from) {
            Ok(busy) => Ok(busy == 0),
            Err(StoreError::Busy) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Size of the ledger's file.
    pub(crate) fn bytes(&self) -> Result<i64, StoreError> {
        let sql = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size";
        Ok(self.db.query_row(sql, [], |row| row.get(0))?)
    }
}

/// Whether the files were freed of this memory's text.
pub(crate) fn erased(db: &Connection, id: &Id) -> Result<bool, StoreError> {
    let sql = "SELECT erased_at IS NOT NULL FROM memory_tombstone WHERE memory_id = ?";
    Ok(db.query_row(sql, [id.as_str()], |row| row.get(0))?)
}
