//! The retry queue: one row for each memory with open work, claimed by one host at a time.

use agentspine_gate::Id;
use rusqlite::{Connection, params};

use crate::ledger::{Ledger, StoreError};

/// Pauses before each retry, milliseconds; after the last one the work is a dead letter.
pub const RETRY_MS: [i64; 3] = [1000, 5000, 30_000];

/// What is to be done for a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Project it and its relations.
    Write,
    /// Remove what stands outside, and erase what is left of it here.
    Cleanup,
}

impl Work {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Cleanup => "cleanup",
        }
    }
}

impl Ledger {
    /// When the earliest open work is due, milliseconds of the callers' clock: the host arms its one timer by it.
    pub fn next_due(&self) -> Result<Option<i64>, StoreError> {
        Ok(self.db.query_row("SELECT min(due_at) FROM retry_queue", [], |row| row.get(0))?)
    }
}

/// Asks for work, due now and from its first attempt on, in the caller's transaction. What was open or dead before is
/// replaced; a claim stays, because its owner may be in the middle of a call.
pub(crate) fn ask(db: &Connection, memory: &Id, work: Work, now_ms: i64) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM dead_letter WHERE memory_id = ?")?.execute([memory.as_str()])?;
    let sql = "INSERT INTO retry_queue (memory_id, work, due_at) VALUES (?, ?, ?)
               ON CONFLICT (memory_id) DO UPDATE SET work = excluded.work, attempts = 0, due_at = excluded.due_at,
                                                     fault = NULL";
    db.prepare_cached(sql)?.execute(params![memory.as_str(), work.as_str(), now_ms])?;
    Ok(())
}

/// Nothing is left to be done, in the caller's transaction.
pub(crate) fn done(db: &Connection, memory: &Id) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM retry_queue WHERE memory_id = ?")?.execute([memory.as_str()])?;
    Ok(())
}
