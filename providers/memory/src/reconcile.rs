//! Reconcile: everything that is due, after a start, a timeout, a crash, an ambiguous answer.

use agentspine_gate::Id;
use rusqlite::{TransactionBehavior, params};

use crate::dispatch::{Errand, Step};
use crate::forget::{self, Cleanup};
use crate::ledger::{Ledger, StoreError, count};
use crate::operation::State;
use crate::projection::{Fault, Projection};
use crate::retry::{self, Claim, Work};
use crate::settle;

/// Most memories one reconcile looks at; what is left is due at once.
pub const RECONCILE_MAX: u64 = 100;

/// What a reconcile did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reconciled {
    /// Memories whose open work was taken up.
    pub checked: u64,
    /// Of those: projected, with every relation, and read back.
    pub applied: u64,
    /// Something else stands under their names.
    pub conflicts: u64,
    /// Tried again later, given up, or done by another host.
    pub unresolved: u64,
    /// Forgotten ones that are gone as far as they can be.
    pub cleanups: u64,
    /// Memories with open work, due or not.
    pub remaining: u64,
    /// Whether work that is due was left for the next call.
    pub truncated: bool,
}

impl Ledger {
    /// Does the work that is due at `now_ms` and that no other host has claimed.
    ///
    /// Without a projection the read-back is of the ledger itself: what waits is applied, and what may stand outside of a
    /// forgotten memory is unknown until a projection is there again. No call is made inside a transaction.
    pub fn reconcile(
        &mut self,
        projection: Option<&dyn Projection>,
        now_ms: i64,
    ) -> Result<Reconciled, StoreError> {
        let mut done = Reconciled::default();
        if projection.is_some() {
            self.ask_for_unknown(now_ms)?;
        }
        while done.checked < RECONCILE_MAX {
            let Some(claim) = self.claim(now_ms)? else { break };
            let step = self.work(&claim, projection, now_ms)?;
            done.count(step);
        }
        self.sweep(now_ms)?;
        let remaining = |sql, key: &[&dyn rusqlite::ToSql]| self.db.query_row(sql, key, |row| count(row, 0));
        done.remaining = remaining("SELECT count(*) FROM retry_queue", &[])?;
        let due = "SELECT count(*) FROM retry_queue WHERE due_at <= ? AND owner IS NULL";
        done.truncated = done.checked == RECONCILE_MAX && remaining(due, &[&now_ms])? > 0;
        Ok(done)
    }

    /// Settles one memory now, where its work is open and nobody else has it; for the host that just remembered it.
    pub fn settle(&mut self, id: &Id, projection: &dyn Projection) -> Result<Option<State>, StoreError> {
        let now_ms = projection.now_ms();
        if let Some(claim) = self.claim_this(id, now_ms)? {
            self.work(&claim, Some(projection), now_ms)?;
        }
        Ok(settle::job(&self.db, id)?.map(|job| job.state))
    }

    fn work(
        &mut self,
        claim: &Claim,
        projection: Option<&dyn Projection>,
        now_ms: i64,
    ) -> Result<Step, StoreError> {
        match (claim.work, projection) {
            (Work::Write, Some(projection)) => Errand { ledger: self, projection, claim }.write(),
            (Work::Write, None) => self.apply_here(claim, now_ms),
            (Work::Cleanup, _) => match (self.erase(&claim.memory, now_ms)?, projection) {
                (Cleanup::Tombstoned, _) => self.linger(claim, now_ms),
                (Cleanup::CleanupPending, Some(projection)) => {
                    Errand { ledger: self, projection, claim }.clear()
                }
                (Cleanup::CleanupPending, None) => self.give_up_outside(claim, now_ms),
                _ => Ok(Step::Cleaned),
            },
        }
    }

    /// There is no projection: the commit of the record is all it needs.
    fn apply_here(&mut self, claim: &Claim, now_ms: i64) -> Result<Step, StoreError> {
        let memory = &claim.memory;
        let applied = self.held(claim, now_ms, |db| {
            let Some(job) = settle::job(db, memory)? else { return Ok(Step::Lost) };
            job.apply(db, memory, now_ms)?;
            for edge in settle::open_edges(db, memory)? {
                settle::set_edge(db, &edge, State::Applied, now_ms)?;
            }
            retry::done(db, memory)?;
            Ok(Step::Applied)
        })?;
        Ok(applied.unwrap_or(Step::Lost))
    }

    fn linger(&mut self, claim: &Claim, now_ms: i64) -> Result<Step, StoreError> {
        self.held(claim, now_ms, |db| retry::linger(db, &claim.memory, Fault::LogInUse, now_ms))?;
        Ok(Step::Open)
    }

    fn give_up_outside(&mut self, claim: &Claim, now_ms: i64) -> Result<Step, StoreError> {
        let given_up = self.held(claim, now_ms, |db| {
            forget::set(db, &claim.memory, Cleanup::ExternalRetentionUnknown, now_ms)?;
            Ok(retry::done(db, &claim.memory)?)
        })?;
        Ok(given_up.map_or(Step::Lost, |()| Step::Cleaned))
    }

    /// A projection is there again: what was unknown without one can be found out.
    fn ask_for_unknown(&mut self, now_ms: i64) -> Result<(), StoreError> {
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let sql = "INSERT INTO retry_queue (memory_id, work, due_at) SELECT memory_id, 'cleanup', ? FROM memory_record
                   WHERE cleanup = 'external-retention-unknown' ON CONFLICT (memory_id) DO NOTHING";
        tx.execute(sql, params![now_ms])?;
        Ok(tx.commit()?)
    }
}

impl Reconciled {
    fn count(&mut self, step: Step) {
        self.checked += 1;
        match step {
            Step::Applied => self.applied += 1,
            Step::Conflict => self.conflicts += 1,
            Step::Cleaned => self.cleanups += 1,
            Step::Open | Step::Lost => self.unresolved += 1,
        }
    }
}
