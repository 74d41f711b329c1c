//! Threads: what the calls of a conversation so far mean for its next one.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use agentspine_gate::span::{Draft, Place};
use agentspine_gate::turn::CallKind;
use agentspine_gate::{Digest, Id, ReceiptId, Refusal};

use crate::chat::log::LogEvent;

/// Conversations kept in memory; the others are read from the store again.
const THREADS_MAX: usize = 1024;
/// Calls of one conversation that a repetition is looked for among.
const CALLS_MAX: usize = 256;
/// How long the same body gets the same refusal without another run: clients repeat at once, people do not.
const REFUSED_FOR: Duration = Duration::from_secs(5);

/// The calls of one conversation.
#[derive(Default)]
pub(crate) struct Thread {
    turn: Option<LastTurn>,
    calls: Vec<(Digest, ReceiptId)>,
}

impl Thread {
    /// From what the store kept.
    pub(crate) fn read(events: &[LogEvent]) -> Self {
        let mut thread = Self::default();
        for event in events {
            if let LogEvent::Call { receipt, call, body, at, .. } = event {
                thread.take(*receipt, *call, *body, *at);
            }
        }
        thread
    }

    fn take(&mut self, receipt: ReceiptId, kind: CallKind, body: Digest, at: Option<Place>) {
        if speaks(kind) {
            self.turn = Some(LastTurn { receipt, kind, at });
        }
        if self.calls.len() == CALLS_MAX {
            self.calls.remove(0);
        }
        self.calls.push((body, receipt));
    }

    /// The newest call with the same body.
    fn repeated(&self, body: Digest) -> Option<ReceiptId> {
        self.calls.iter().rev().find(|(known, _)| *known == body).map(|(_, receipt)| *receipt)
    }
}

/// What is the same where a client repeats a request: its workspace, its conversation, its body.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Attempt {
    /// Digest of the workspace's secret.
    pub workspace: Digest,
    /// As the client names it.
    pub conversation: Id,
    /// Digest of the body.
    pub body: Digest,
}

/// Whether a call of this kind answers words, and others go on with it.
pub(crate) fn speaks(kind: CallKind) -> bool {
    matches!(kind, CallKind::Turn | CallKind::Subagent)
}

/// Where the words stand that a call answers; `None` where it goes on with another one.
pub(crate) fn answers_at(kind: CallKind, draft: &Draft) -> Option<Place> {
    draft.slots.last().filter(|_| speaks(kind)).map(|slot| slot.place)
}

/// What a continuation goes on with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LastTurn {
    /// Its receipt.
    pub receipt: ReceiptId,
    /// Turn or subagent.
    pub kind: CallKind,
    /// Where the words stand that it answers.
    pub at: Option<Place>,
}

impl LastTurn {
    /// Whether the words that it answers are no part of this request any more: the client has written its history anew.
    pub(crate) fn is_gone_from(&self, draft: &Draft) -> bool {
        self.at.is_some_and(|at| !draft.slots.iter().any(|slot| slot.place == at))
    }
}

/// What a call follows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Before {
    /// The conversation's last turn.
    pub turn: Option<LastTurn>,
    /// The call whose body this one repeats.
    pub retry_of: Option<ReceiptId>,
}

/// The conversations of one daemon.
#[derive(Default)]
pub(crate) struct Threads {
    known: HashMap<Id, Thread>,
    refused: HashMap<Attempt, (Instant, Refusal)>,
}

impl Threads {
    /// What a call with this body follows; `None` where the conversation must be read first.
    pub(crate) fn before(&self, session: &Id, body: Digest) -> Option<Before> {
        let thread = self.known.get(session)?;
        Some(Before { turn: thread.turn, retry_of: thread.repeated(body) })
    }

    /// Takes up a conversation that was read, unless it is known meanwhile.
    pub(crate) fn know(&mut self, session: Id, thread: Thread) {
        if self.known.len() >= THREADS_MAX {
            self.known.clear();
        }
        self.known.entry(session).or_insert(thread);
    }

    /// A call passed.
    pub(crate) fn passed(
        &mut self,
        session: &Id,
        receipt: ReceiptId,
        call: CallKind,
        body: Digest,
        at: Option<Place>,
    ) {
        if let Some(thread) = self.known.get_mut(session) {
            thread.take(receipt, call, body, at);
        }
    }

    /// A call was refused.
    pub(crate) fn refused(&mut self, attempt: Attempt, refusal: &Refusal) {
        self.refused.retain(|_, (at, _)| at.elapsed() < REFUSED_FOR);
        if self.refused.len() < THREADS_MAX {
            self.refused.insert(attempt, (Instant::now(), refusal.clone()));
        }
    }

    /// The refusal of the same body a moment ago.
    pub(crate) fn just_refused(&self, attempt: &Attempt) -> Option<Refusal> {
        let (at, refusal) = self.refused.get(attempt)?;
        (at.elapsed() < REFUSED_FOR).then(|| refusal.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(n: u8, call: CallKind, body: &str) -> LogEvent {
        LogEvent::Call {
            receipt: ReceiptId([n; 16]),
            call,
            sort: "human".into(),
            body: Digest::of(body.as_bytes()),
            at: None,
        }
    }

    #[test]
    fn a_continuation_follows_the_last_turn_and_a_repeated_body_its_newest_call() {
        let events = [
            call(1, CallKind::Turn, "a"),
            call(2, CallKind::Continuation, "b"),
            call(3, CallKind::Side, "c"),
            call(4, CallKind::Continuation, "b"),
        ];
        let session = Id::new("s").unwrap();
        let mut threads = Threads::default();
        assert!(threads.before(&session, Digest::of(b"b")).is_none());
        threads.know(session.clone(), Thread::read(&events));
        let before = threads.before(&session, Digest::of(b"b")).unwrap();
        assert_eq!(before.turn.map(|turn| turn.receipt), Some(ReceiptId([1; 16])));
        assert_eq!(before.retry_of, Some(ReceiptId([4; 16])));
        threads.passed(&session, ReceiptId([5; 16]), CallKind::Turn, Digest::of(b"d"), None);
        let before = threads.before(&session, Digest::of(b"e")).unwrap();
        let turn = before.turn.map(|turn| turn.receipt);
        assert_eq!((turn, before.retry_of), (Some(ReceiptId([5; 16])), None));
    }
}
