//! One memory's way to the projection: intent, call, read-back, receipt.
//!
//! Every key is read before it is written, so that an operation whose outcome was lost (crash, timeout, ambiguous answer)
//! is settled by what stands there and never written blindly. Each commit is short and holds the claim; between commits
//! stand the calls.

use agentspine_gate::Digest;

use crate::ledger::{Ledger, StoreError};
use crate::operation::State;
use crate::projection::{Fault, Key, Outcome, Projected, Projection};
use crate::retry::{self, Claim, Postponed};
use crate::settle::{self, Edge, Job};

/// What came of one piece of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// The memory and its relations stand and were read back.
    Applied,
    /// Something else stands under its name.
    Conflict,
    /// Tried again later, or given up.
    Open,
    /// A forgotten memory is gone as far as it can be.
    Cleaned,
    /// Somebody else does it, or it was forgotten meanwhile.
    Lost,
}

/// What became of one key.
enum Verdict {
    Verified,
    Conflict,
    /// Not there, or not known; and the state it is left in.
    Open(Fault, State),
    Lost,
}

/// The work of one claim.
pub(crate) struct Errand<'a> {
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) projection: &'a dyn Projection,
    pub(crate) claim: &'a Claim,
}

/// What a key belongs to.
enum Target<'a> {
    Record(&'a Job),
    Relation(&'a Edge),
}

impl Target<'_> {
    fn what(&self) -> &Projected {
        match self {
            Self::Record(job) => &job.what,
            Self::Relation(edge) => &edge.what,
        }
    }

    fn state(&self) -> State {
        match self {
            Self::Record(job) => job.state,
            Self::Relation(edge) => edge.state,
        }
    }
}

impl Errand<'_> {
    /// Projects the record where it is open, then its relations.
    pub(crate) fn write(&mut self) -> Result<Step, StoreError> {
        let memory = self.claim.memory.clone();
        let load = |db: &_| Ok((settle::job(db, &memory)?, settle::open_edges(db, &memory)?));
        let now_ms = self.projection.now_ms();
        let Some((Some(job), edges)) = self.ledger.held(self.claim, now_ms, load)? else {
            return Ok(Step::Lost);
        };
        if job.state != State::Applied {
            let verdict = self.put(&Target::Record(&job))?;
            match self.settle_record(&job, &verdict)? {
                Step::Applied => {}
                other => return Ok(other),
            }
        }
        self.relations(&edges)
    }

    /// The relations, each settled apart: one that fails keeps none of the others.
    fn relations(&mut self, edges: &[Edge]) -> Result<Step, StoreError> {
        let mut fault = None;
        for edge in edges {
            let verdict = self.put(&Target::Relation(edge))?;
            let state = match verdict {
                Verdict::Lost => continue,
                Verdict::Verified | Verdict::Conflict => State::Applied,
                Verdict::Open(why, state) => {
                    fault = Some(why);
                    state
                }
            };
            let now_ms = self.projection.now_ms();
            self.ledger.held(self.claim, now_ms, |db| settle::set_edge(db, edge, state, now_ms))?;
        }
        self.close(fault)
    }

    /// Takes the work off the queue, or puts it off.
    fn close(&mut self, fault: Option<Fault>) -> Result<Step, StoreError> {
        let (memory, now_ms) = (&self.claim.memory, self.projection.now_ms());
        let closed = self.ledger.held(self.claim, now_ms, |db| {
            let Some(fault) = fault else {
                retry::done(db, memory)?;
                return Ok(Step::Applied);
            };
            if retry::postpone(db, memory, fault, now_ms)? == Postponed::Dead {
                for edge in settle::open_edges(db, memory)?.iter().filter(|edge| edge.state == State::Pending)
                {
                    settle::set_edge(db, edge, State::Failed, now_ms)?;
                }
            }
            Ok(Step::Open)
        })?;
        Ok(closed.unwrap_or(Step::Lost))
    }

    fn settle_record(&mut self, job: &Job, verdict: &Verdict) -> Result<Step, StoreError> {
        let (memory, now_ms) = (&self.claim.memory, self.projection.now_ms());
        let settled = self.ledger.held(self.claim, now_ms, |db| match verdict {
            Verdict::Verified => {
                job.apply(db, memory, now_ms)?;
                Ok(Step::Applied)
            }
            Verdict::Conflict => {
                settle::set_record(db, memory, State::Conflict, now_ms)?;
                retry::done(db, memory)?;
                Ok(Step::Conflict)
            }
            Verdict::Open(fault, state) => {
                let dead = retry::postpone(db, memory, *fault, now_ms)? == Postponed::Dead;
                // What may have landed is not called failed.
                let state = if dead && *state == State::Pending { State::Failed } else { *state };
                settle::set_record(db, memory, state, now_ms)?;
                Ok(Step::Open)
            }
            Verdict::Lost => Ok(Step::Lost),
        })?;
        Ok(settled.unwrap_or(Step::Lost))
    }

    /// Makes a key stand outside: an exact read, and only where nothing stands there a write and another read.
    fn put(&mut self, target: &Target<'_>) -> Result<Verdict, StoreError> {
        let what = target.what();
        match self.projection.read(&what.key) {
            Outcome::Found(digest) => return Ok(found(what, digest)),
            Outcome::Absent => {}
            Outcome::Undispatched(fault) | Outcome::Unknown(fault) => return Ok(unread(target, fault)),
            Outcome::Done => return Ok(unread(target, Fault::Malformed)),
        }
        if !self.dispatched(target)? {
            return Ok(Verdict::Lost);
        }
        let written = self.projection.write(what);
        if let Outcome::Undispatched(fault) = written {
            return Ok(Verdict::Open(fault, State::Pending));
        }
        Ok(match (self.projection.read(&what.key), written) {
            (Outcome::Found(digest), _) => found(what, digest),
            (Outcome::Absent, Outcome::Done) => Verdict::Open(Fault::Lost, State::Pending),
            // Nothing stands there yet, but the write may still land.
            (Outcome::Absent, Outcome::Unknown(fault)) => Verdict::Open(fault, State::Uncertain),
            (Outcome::Undispatched(fault) | Outcome::Unknown(fault), _) => {
                Verdict::Open(fault, State::Uncertain)
            }
            (Outcome::Done | Outcome::Absent, _) => Verdict::Open(Fault::Malformed, State::Uncertain),
        })
    }

    /// Commits that something may leave this ledger now; `false` where it was forgotten meanwhile.
    fn dispatched(&mut self, target: &Target<'_>) -> Result<bool, StoreError> {
        let (memory, now_ms) = (&self.claim.memory, self.projection.now_ms());
        let marked = self.ledger.held(self.claim, now_ms, |db| match target {
            Target::Record(_) => settle::set_record(db, memory, State::Dispatched, now_ms).map(|()| true),
            Target::Relation(edge) => settle::set_edge(db, edge, State::Dispatched, now_ms),
        })?;
        Ok(marked.unwrap_or(false))
    }
}

/// A relation is its key: whatever stands under it is the relation.
fn found(what: &Projected, digest: Digest) -> Verdict {
    match what.key {
        Key::Record(_) if digest != what.digest() => Verdict::Conflict,
        Key::Record(_) | Key::Relation(_) => Verdict::Verified,
    }
}

/// The first read gave nothing, so nothing was done; what was given away earlier is uncertain.
fn unread(target: &Target<'_>, fault: Fault) -> Verdict {
    let state = match target.state() {
        State::Pending | State::Failed => State::Pending,
        State::Dispatched | State::Applied | State::Uncertain | State::Conflict => State::Uncertain,
    };
    Verdict::Open(fault, state)
}
