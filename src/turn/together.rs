//! The desk's part of the path, for all calls that wait for it: each step is taken for all of them, then the next one.
//!
//! So they share one reading of the files at their plan and one at their consumption, one commit each of issue, event and
//! consumption, one raise of the anchor. Every call has its own receipt and its own answer, and fails alone.

use std::collections::HashSet;
use std::sync::Arc;

use agentspine_gate::instructions::Snapshot;
use agentspine_gate::recall::Outcome;
use agentspine_gate::receipt::{Consumed, Prepared, Receipt};
use agentspine_gate::turn::TurnRequest;
use agentspine_gate::{CallOutcome, Composed, Fresh, Plan, ReceiptId, Refusal, admit};
use tokio::sync::oneshot;

use super::{Call, Passed, Stopped};
use crate::chat::cancel::Cancel;
use crate::chat::log::LogEvent;
use crate::conversations::Kept;
use crate::desk::{self, Drawer};

/// Puts a call together at the desk.
type Make = Box<dyn FnOnce(&mut Drawer) -> Result<Call, Refusal> + Send>;

/// What a call wants of the desk.
pub(crate) enum Step {
    /// To be put together, bound and planned; to the end where nobody is to be asked.
    Begin(Make),
    /// The rest, with what the providers said.
    Finish(Box<Planned>, Vec<Outcome>),
}

/// A call whose files and rules are read.
pub(crate) struct Planned {
    call: Call,
    pub(super) plan: Plan,
}

/// How far a call came.
pub(crate) enum Came {
    /// Providers are asked next.
    Asking(Box<Planned>),
    /// To the end.
    Over {
        /// The files, where they were read in this visit.
        seen: Option<Arc<Snapshot>>,
        /// What came of it.
        done: Box<Result<Passed, Stopped>>,
    },
}

impl Came {
    /// Stopped before any file was read.
    pub(crate) fn stopped(why: impl Into<Stopped>) -> Self {
        Self::Over { seen: None, done: Box::new(Err(why.into())) }
    }
}

/// A call that waits for the desk.
pub(crate) struct Waiting {
    /// What it wants.
    pub step: Step,
    /// Its client's switch.
    pub cancel: Cancel,
    /// Where it waits.
    pub answer: oneshot::Sender<Came>,
}

impl Waiting {
    /// Answers a call that no step can be taken for.
    pub(crate) fn refuse(self, why: Refusal) {
        // Nobody may wait any more.
        let _ = self.answer.send(Came::stopped(why));
    }
}

/// A call that goes to the end in this visit.
struct Walker {
    planned: Planned,
    outcomes: Vec<Outcome>,
    exit: Exit,
}

/// Where a call's end is told.
struct Exit {
    seen: Option<Arc<Snapshot>>,
    cancel: Cancel,
    answer: oneshot::Sender<Came>,
}

impl Exit {
    /// Tells the end. A call that passed and that nobody waits for any more is given back: it will not be sent.
    fn leave(self, done: Result<Passed, Stopped>) -> Option<ReceiptId> {
        let came = self.answer.send(Came::Over { seen: self.seen, done: Box::new(done) });
        let Err(Came::Over { done, .. }) = came else { return None };
        done.ok().map(|passed| passed.claims.id)
    }

    /// Goes on, or is told why not.
    fn pass<T>(self, done: Result<T, impl Into<Stopped>>) -> Option<(T, Self)> {
        match done {
            Ok(value) => Some((value, self)),
            Err(why) => {
                self.leave(Err(why.into()));
                None
            }
        }
    }
}

/// Walks every waiting call as far as it comes. The outcomes of earlier calls are written down with the first of them.
pub(crate) fn walk_together(
    at: &mut Drawer,
    waiting: Vec<Waiting>,
    outcomes: &mut Vec<(ReceiptId, CallOutcome)>,
) {
    let mut fresh = Fresh::default();
    let walkers: Vec<Walker> = waiting.into_iter().filter_map(|call| begin(at, call, &mut fresh)).collect();
    let mut rest = walkers;
    while !rest.is_empty() {
        let (round, later) = one_each(rest);
        let composed: Vec<_> = round.into_iter().filter_map(|walker| compose(at, walker)).collect();
        let issued = issue(at, composed, outcomes);
        let kept = keep(at, issued);
        let unsent = consume(at, kept);
        outcomes.extend(unsent.into_iter().map(|receipt| (receipt, CallOutcome::NotSent)));
        rest = later;
    }
}

/// The first call of each conversation, and the others: these must see what the first one adds to it.
fn one_each(walkers: Vec<Walker>) -> (Vec<Walker>, Vec<Walker>) {
    let mut seen = HashSet::new();
    walkers.into_iter().partition(|walker| seen.insert(walker.planned.call.request.scope.session_id.clone()))
}

/// Binds who asks and where; reads files, policy and rules fresh. `None` where the call does not go on in this visit.
fn begin(at: &mut Drawer, waiting: Waiting, fresh: &mut Fresh) -> Option<Walker> {
    let Waiting { step, cancel, answer } = waiting;
    let make = match step {
        Step::Finish(planned, outcomes) => {
            return Some(Walker { planned: *planned, outcomes, exit: Exit { seen: None, cancel, answer } });
        }
        Step::Begin(make) => make,
    };
    let exit = Exit { seen: None, cancel, answer };
    let (planned, mut exit) = exit.pass(make(at).and_then(|call| plan(at, call, fresh)))?;
    if planned.plan.queries().is_empty() {
        exit.seen = Some(Arc::clone(planned.plan.snapshot()));
        return Some(Walker { planned, outcomes: Vec::new(), exit });
    }
    // Nobody waits any more: nobody is asked.
    let _ = exit.answer.send(Came::Asking(Box::new(planned)));
    None
}

fn plan(at: &mut Drawer, call: Call, fresh: &mut Fresh) -> Result<Planned, Refusal> {
    let bound = at.gate.bind(call.request.clone())?;
    Ok(Planned { plan: at.gate.plan(bound, fresh)?, call })
}

/// A call whose exact body is put together.
struct Ready {
    request: TurnRequest,
    event: Box<dyn FnOnce(ReceiptId) -> LogEvent + Send>,
    composed: Composed,
    exit: Exit,
}

fn compose(at: &mut Drawer, walker: Walker) -> Option<Ready> {
    let Walker { planned: Planned { call: Call { request, draft, event }, plan }, mut outcomes, exit } =
        walker;
    if exit.cancel.is_cancelled() {
        exit.leave(Err(Stopped::Cancelled));
        return None;
    }
    at.memories.forget_in(&mut outcomes);
    // Read for every call: what was forgotten or purged meanwhile is not said again.
    let spans = at.spans(&request.scope.session_id);
    let composed = spans.and_then(|spans| at.gate.compose(plan, &outcomes, &draft, &spans));
    let (composed, exit) = exit.pass(composed)?;
    Some(Ready { request, event, composed, exit })
}

/// A call with its receipt.
struct Issued {
    request: TurnRequest,
    event: LogEvent,
    composed: Composed,
    receipt: Receipt<Prepared>,
    exit: Exit,
}

fn issue(at: &mut Drawer, ready: Vec<Ready>, outcomes: &mut Vec<(ReceiptId, CallOutcome)>) -> Vec<Issued> {
    let calls: Vec<&Composed> = ready.iter().map(|ready| &ready.composed).collect();
    let receipts = at.gate.issue_all(&calls, outcomes);
    let mut issue = |(ready, receipt): (Ready, Result<Receipt<Prepared>, Refusal>)| {
        let Ready { request, event, composed, exit } = ready;
        let (receipt, exit) = exit.pass(receipt)?;
        let (receipt, exit) = unless_cancelled(at, receipt, exit)?;
        Some(Issued { event: event(receipt.id()), request, composed, receipt, exit })
    };
    ready.into_iter().zip(receipts).filter_map(&mut issue).collect()
}

/// The receipt of a cancelled call is void: it is not spent any more.
fn unless_cancelled(
    at: &mut Drawer,
    receipt: Receipt<Prepared>,
    exit: Exit,
) -> Option<(Receipt<Prepared>, Exit)> {
    if !exit.cancel.is_cancelled() {
        return Some((receipt, exit));
    }
    let void = at.gate.void(receipt);
    exit.leave(Err(void.err().map_or(Stopped::Cancelled, Stopped::Refused)));
    None
}

/// Keeps what the conversations need before their calls are made.
fn keep(at: &mut Drawer, issued: Vec<Issued>) -> Vec<Issued> {
    let now = at.seams.clock.wall_ms();
    let keeps = issued.iter().map(|call| Kept {
        session: &call.request.scope.session_id,
        event: call.event.stored(now),
        span: call.composed.span(),
    });
    let kept = at.conversations.append_each(&keeps.collect::<Vec<_>>());
    let mut go_on = |(call, kept): (Issued, Result<(), _>)| {
        let holds = kept.map_err(desk::store).and_then(|()| at.memories.still_hold(call.composed.claims()));
        if let Err(why) = holds {
            give_up(at, call, why);
            return None;
        }
        let Issued { request, event, composed, receipt, exit } = call;
        let (receipt, exit) = unless_cancelled(at, receipt, exit)?;
        Some(Issued { request, event, composed, receipt, exit })
    };
    issued.into_iter().zip(kept).filter_map(&mut go_on).collect()
}

/// Gives a call up whose receipt is not spent; what it would have added to the conversation goes with it.
fn give_up(at: &mut Drawer, call: Issued, why: Refusal) {
    let span = call.composed.span().map(|span| span.receipt);
    let why = at.gate.give_up(call.receipt, &call.request, why);
    // Without its span the conversation is as before; one that cannot be taken out is not replayed, its receipt is void.
    let _ = at.conversations.erase_spans(span.as_slice());
    call.exit.leave(Err(why.into()));
}

/// Spends the receipts, and admits the bodies; the receipts of calls whose client has gone meanwhile.
fn consume(at: &mut Drawer, kept: Vec<Issued>) -> Vec<ReceiptId> {
    let (mut offers, mut calls) = (Vec::new(), Vec::new());
    for Issued { request, composed, receipt, exit, .. } in kept {
        offers.push(receipt);
        calls.push((request, composed, exit));
    }
    let offers =
        offers.into_iter().zip(&calls).map(|(receipt, (request, composed, _))| (receipt, composed, request));
    let consumed = at.gate.consume_all(offers.collect());
    let ends = calls.into_iter().zip(consumed).filter_map(|((_, composed, exit), receipt)| {
        exit.leave(receipt.and_then(|receipt| passed(receipt, composed)).map_err(Stopped::Refused))
    });
    ends.collect()
}

fn passed(receipt: Receipt<Consumed>, composed: Composed) -> Result<Passed, Refusal> {
    let (claims, span) = (composed.claims().clone(), composed.span().cloned());
    Ok(Passed { admitted: admit(receipt, composed)?, claims, span })
}
