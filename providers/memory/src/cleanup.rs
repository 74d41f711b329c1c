//! Cleanup outside, after a forget: relations, then the record, each removed and read back; then the keys go too.
//!
//! Only exact keys of ours are removed, and a record only while what stands there is what we wrote.

use agentspine_gate::{Digest, Id};
use rusqlite::{Connection, params};

use crate::dispatch::{Errand, Step};
use crate::forget::{self, Cleanup};
use crate::ledger::StoreError;
use crate::name::Name;
use crate::projection::{Fault, Key, Outcome};
use crate::retry::{self, Postponed};
use crate::settle::{self, Edge};

/// What became of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gone {
    /// Nothing stands there; the other side said so.
    Verified,
    /// Not ours to remove.
    Foreign,
    Open(Fault),
}

/// What may stand outside of a forgotten memory.
struct Remains {
    name: Name,
    payload: Option<Digest>,
    edges: Vec<Edge>,
    /// Whether another host may be writing a relation to it right now.
    neighbours_at_work: bool,
}

impl Errand<'_> {
    /// Removes what may stand outside.
    pub(crate) fn clear(&mut self) -> Result<Step, StoreError> {
        let (memory, now_ms) = (self.claim.memory.clone(), self.projection.now_ms());
        let load = |db: &Connection| remains(db, &memory, now_ms);
        let Some(remains) = self.ledger.held(self.claim, now_ms, load)? else { return Ok(Step::Lost) };
        if remains.neighbours_at_work {
            return self.cleared(&remains, Gone::Open(Fault::Locked));
        }
        for edge in &remains.edges {
            let gone = self.remove(&edge.what.key, None);
            if gone != Gone::Verified {
                return self.cleared(&remains, gone);
            }
            // Removing many takes longer than one claim.
            let now_ms = self.projection.now_ms();
            if self.ledger.held(self.claim, now_ms, |_| Ok(()))?.is_none() {
                return Ok(Step::Lost);
            }
        }
        let gone = self.remove(&Key::Record(remains.name.clone()), remains.payload);
        self.cleared(&remains, gone)
    }

    /// Reads, removes what is ours, and reads again.
    fn remove(&self, key: &Key, ours: Option<Digest>) -> Gone {
        match self.projection.read(key) {
            Outcome::Absent => return Gone::Verified,
            Outcome::Found(digest) if ours.is_some_and(|ours| ours != digest) => return Gone::Foreign,
            Outcome::Found(_) => {}
            Outcome::Undispatched(fault) | Outcome::Unknown(fault) => return Gone::Open(fault),
            Outcome::Done => return Gone::Open(Fault::Malformed),
        }
        if let Outcome::Undispatched(fault) = self.projection.remove(key) {
            return Gone::Open(fault);
        }
        match self.projection.read(key) {
            Outcome::Absent => Gone::Verified,
            Outcome::Found(_) => Gone::Open(Fault::Kept),
            Outcome::Undispatched(fault) | Outcome::Unknown(fault) => Gone::Open(fault),
            Outcome::Done => Gone::Open(Fault::Malformed),
        }
    }

    fn cleared(&mut self, remains: &Remains, gone: Gone) -> Result<Step, StoreError> {
        let (memory, now_ms) = (&self.claim.memory, self.projection.now_ms());
        let step = self.ledger.held(self.claim, now_ms, |db| match gone {
            Gone::Verified => {
                forget::complete(db, memory, &remains.name, now_ms)?;
                Ok(Step::Cleaned)
            }
            Gone::Foreign => {
                forget::set(db, memory, Cleanup::CleanupUncertain, now_ms)?;
                retry::done(db, memory)?;
                Ok(Step::Cleaned)
            }
            Gone::Open(fault) => {
                if retry::postpone(db, memory, fault, now_ms)? == Postponed::Dead {
                    forget::set(db, memory, Cleanup::CleanupUncertain, now_ms)?;
                }
                Ok(Step::Open)
            }
        })?;
        let step = step.unwrap_or(Step::Lost);
        if step == Step::Cleaned {
            // The digest that was kept until now is in the log. Where a reader holds that, a later checkpoint takes it.
            self.ledger.truncate_log()?;
        }
        Ok(step)
    }
}

fn remains(db: &Connection, memory: &Id, now_ms: i64) -> Result<Remains, StoreError> {
    let name = forget::name(db, memory)?;
    let sql = "SELECT payload_digest FROM memory_tombstone WHERE memory_id = ?";
    let payload: Option<String> = db.query_row(sql, [memory.as_str()], |row| row.get(0))?;
    let payload = payload.map(|hex| Digest::parse(&hex).ok_or(StoreError::Corrupt)).transpose()?;
    let sql = "SELECT EXISTS (SELECT 1 FROM memory_relation l JOIN retry_queue q USING (memory_id)
                              WHERE l.object = ? AND l.memory_id <> ? AND q.work = 'write' AND q.claimed_until > ?)";
    let neighbours_at_work =
        db.query_row(sql, params![name.as_str(), memory.as_str(), now_ms], |row| row.get(0))?;
    Ok(Remains { edges: settle::edges_of(db, &name)?, name, payload, neighbours_at_work })
}
