//! The retry queue: one row for each memory with open work, claimed by one host at a time.
//!
//! A claim names its owner and ends at a time of the callers' clock, so that the work of a host that was killed is taken
//! over. Nothing is settled but by the owner; a lost claim only means that somebody else settles it.

use agentspine_gate::Id;
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};

use crate::ledger::{Ledger, StoreError};
use crate::projection::{CALL_MS_MAX, Fault};

/// Pauses before each retry, milliseconds; after the last one the work is a dead letter.
pub const RETRY_MS: [i64; 3] = [1000, 5000, 30_000];
/// How long a claim holds without being renewed, milliseconds: a read, a write and a read, and one more.
pub const CLAIM_MS: i64 = 4 * CALL_MS_MAX;

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

/// Work that this ledger has claimed.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) memory: Id,
    pub(crate) work: Work,
}

/// What became of work that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Postponed {
    Later,
    Dead,
}

impl Ledger {
    /// When the earliest open work is due, milliseconds of the callers' clock: the host arms its one timer by it.
    ///
    /// Work that another host has claimed is due when its claim ends.
    pub fn next_due(&self) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT min(max(due_at, coalesce(claimed_until, due_at))) FROM retry_queue";
        Ok(self.db.query_row(sql, [], |row| row.get(0))?)
    }

    /// Gives every dead letter its attempts back; how many there were.
    pub fn revive(&mut self, now_ms: i64) -> Result<u64, StoreError> {
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let sql =
            "INSERT INTO retry_queue (memory_id, work, due_at) SELECT memory_id, work, ? FROM dead_letter
                   WHERE true ON CONFLICT (memory_id) DO NOTHING";
        tx.execute(sql, [now_ms])?;
        tx.execute_batch(
            "UPDATE memory_operation SET state = 'pending' WHERE state = 'failed';
             UPDATE memory_record SET state = 'pending' WHERE state = 'failed';
             UPDATE memory_relation SET state = 'pending' WHERE state = 'failed';",
        )?;
        let revived = tx.execute("DELETE FROM dead_letter", [])?;
        tx.commit()?;
        Ok(u64::try_from(revived).unwrap_or(u64::MAX))
    }

    /// Claims the earliest due work that nobody else has.
    pub(crate) fn claim(&mut self, now_ms: i64) -> Result<Option<Claim>, StoreError> {
        self.claim_of(None, now_ms)
    }

    /// Claims the work of one memory, due or not, where nobody else has it.
    pub(crate) fn claim_this(&mut self, memory: &Id, now_ms: i64) -> Result<Option<Claim>, StoreError> {
        self.claim_of(Some(memory), now_ms)
    }

    /// A clock that was set back must not hold work up: a time further ahead than we ever set one counts as passed.
    fn claim_of(&mut self, memory: Option<&Id>, now_ms: i64) -> Result<Option<Claim>, StoreError> {
        let longest = RETRY_MS.into_iter().max().unwrap_or_default();
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let sql = "UPDATE retry_queue SET owner = ?1, claimed_until = ?2 + ?3 WHERE memory_id =
                       (SELECT memory_id FROM retry_queue
                        WHERE (memory_id = ?5 OR ?5 IS NULL AND (due_at <= ?2 OR due_at > ?2 + ?4))
                            AND (owner IS NULL OR owner = ?1 OR claimed_until <= ?2 OR claimed_until > ?2 + ?3)
                        ORDER BY due_at, memory_id LIMIT 1)
                   RETURNING memory_id, work";
        let key = params![self.owner, now_ms, CLAIM_MS, longest, memory.map(Id::as_str)];
        let claimed = tx.query_row(sql, key, |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)));
        let Some((memory, work)) = claimed.optional()? else { return Ok(None) };
        tx.commit()?;
        let memory = Id::new(memory).map_err(|_| StoreError::Corrupt)?;
        let work = if work == Work::Write.as_str() { Work::Write } else { Work::Cleanup };
        Ok(Some(Claim { memory, work }))
    }

    /// Runs one short transaction for claimed work and renews the claim; `None` where the claim is lost, or where other
    /// work was asked for meanwhile.
    pub(crate) fn held<T>(
        &mut self,
        claim: &Claim,
        now_ms: i64,
        step: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<Option<T>, StoreError> {
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let sql = "UPDATE retry_queue SET claimed_until = ? WHERE memory_id = ? AND owner = ? AND work = ?";
        let key = params![now_ms + CLAIM_MS, claim.memory.as_str(), self.owner, claim.work.as_str()];
        if tx.execute(sql, key)? == 0 {
            release(&tx, &claim.memory, &self.owner)?;
            tx.commit()?;
            return Ok(None);
        }
        let value = step(&tx)?;
        tx.commit()?;
        Ok(Some(value))
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

/// It failed: tried again later, or given up after the last pause, in the caller's transaction.
pub(crate) fn postpone(
    db: &Connection,
    memory: &Id,
    fault: Fault,
    now_ms: i64,
) -> Result<Postponed, StoreError> {
    let sql = "SELECT attempts FROM retry_queue WHERE memory_id = ?";
    let attempts: i64 = db.query_row(sql, [memory.as_str()], |row| row.get(0))?;
    if let Some(pause) = usize::try_from(attempts).ok().and_then(|n| RETRY_MS.get(n)) {
        again(db, memory, fault, now_ms + pause)?;
        return Ok(Postponed::Later);
    }
    let sql = "INSERT OR REPLACE INTO dead_letter (memory_id, work, attempts, fault, died_at)
               SELECT memory_id, work, attempts + 1, ?, ? FROM retry_queue WHERE memory_id = ?";
    db.execute(sql, params![fault.as_str(), now_ms, memory.as_str()])?;
    done(db, memory)?;
    Ok(Postponed::Dead)
}

/// It failed here and is tried for ever: nothing but this ledger is needed for it.
pub(crate) fn linger(db: &Connection, memory: &Id, fault: Fault, now_ms: i64) -> Result<(), StoreError> {
    let sql = "SELECT attempts FROM retry_queue WHERE memory_id = ?";
    let attempts: i64 = db.query_row(sql, [memory.as_str()], |row| row.get(0))?;
    let pause = usize::try_from(attempts).ok().and_then(|n| RETRY_MS.get(n)).or(RETRY_MS.last());
    again(db, memory, fault, now_ms + pause.copied().unwrap_or_default())
}

fn again(db: &Connection, memory: &Id, fault: Fault, due_at: i64) -> Result<(), StoreError> {
    let sql = "UPDATE retry_queue SET attempts = attempts + 1, due_at = ?, fault = ?, owner = NULL,
                      claimed_until = NULL WHERE memory_id = ?";
    db.execute(sql, params![due_at, fault.as_str(), memory.as_str()])?;
    Ok(())
}

fn release(db: &Connection, memory: &Id, owner: &str) -> rusqlite::Result<()> {
    let sql = "UPDATE retry_queue SET owner = NULL, claimed_until = NULL WHERE memory_id = ? AND owner = ?";
    db.execute(sql, params![memory.as_str(), owner])?;
    Ok(())
}
