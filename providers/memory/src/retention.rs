//! Retention: how long it is known of a forgotten memory where it came from.
//!
//! What a forget leaves is content-free: ids, states, times, the session and range it was made from. After
//! [`AUDIT_DAYS`] the latter go too. The memory's id and the operation's id stay for ever, so that no repeated delivery
//! brings the memory back.

use rusqlite::{TransactionBehavior, params};

use crate::ledger::{Ledger, StoreError};

/// Days for which a forgotten memory's audit metadata is kept, counted from its tombstone.
pub const AUDIT_DAYS: i64 = 90;
/// Most memories of one sweep: it runs with every reconcile.
pub const SWEEP_MAX: i64 = 500;

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

impl Ledger {
    /// Erases the audit metadata that is older than [`AUDIT_DAYS`], of at most [`SWEEP_MAX`] memories whose cleanup is
    /// complete; how many they were. Reconcile does it by itself.
    pub fn sweep(&mut self, now_ms: i64) -> Result<u64, StoreError> {
        let until = now_ms.saturating_sub(AUDIT_DAYS * DAY_MS);
        let old = "SELECT t.memory_id FROM memory_tombstone t JOIN memory_record r USING (memory_id)
                   WHERE t.forgotten_at <= ? AND t.swept_at IS NULL AND r.cleanup = 'active-shelf-cleanup-complete'
                   ORDER BY t.forgotten_at LIMIT ?";
        let limits = params![until, SWEEP_MAX];
        // Nearly always there is nothing to do: that is found out without taking the writers' turn.
        if !self.db.prepare_cached(old)?.exists(limits)? {
            return Ok(0);
        }
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let ids = {
            let mut statement = tx.prepare(old)?;
            let rows = statement.query_map(limits, |row| row.get::<_, String>(0))?;
            rows.collect::<Result<Vec<_>, _>>()?
        };
        for id in &ids {
            tx.execute("DELETE FROM memory_provenance WHERE memory_id = ?", [id])?;
            let sql = "UPDATE memory_operation SET source = 'swept', from_seq = 0, through_seq = 0, extractor = 'swept',
                              proposal_schema = NULL WHERE memory_id = ?";
            tx.execute(sql, [id])?;
            tx.execute("UPDATE memory_record SET source = 'swept' WHERE memory_id = ?", [id])?;
            tx.execute("UPDATE memory_tombstone SET swept_at = ? WHERE memory_id = ?", params![now_ms, id])?;
        }
        tx.commit()?;
        Ok(u64::try_from(ids.len()).unwrap_or(u64::MAX))
    }
}
