//! Threads: what the calls of a conversation so far mean for its next one.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use agentspine_gate::turn::{CallKind, Host};
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
    turn: Option<ReceiptId>,
    calls: Vec<(Digest, ReceiptId)>,
}

impl Thread {
    /// From what the store kept.
    pub(crate) fn read(events: &[LogEvent]) -> Self {
        let mut thread = Self::default();
        for event in events {
            if let LogEvent::Call { receipt, call, body, .. } = event {
                thread.take(*receipt, *call, *body);
            }
        }
        thread
    }

    fn take(&mut self, receipt: ReceiptId, call: CallKind, body: Digest) {
        if matches!(call, CallKind::Turn | CallKind::Subagent) {
            self.turn = Some(receipt);
        }
        if self.calls.len() == CALLS_MAX {
            self.calls.remove(0);
        }
        self.calls.push((body, receipt));
    }

    /// What a continuation goes on with.
    fn parent(&self) -> Option<ReceiptId> {
        self.turn
    }

    /// The newest call with the same body.
    fn repeated(&self, body: Digest) -> Option<ReceiptId> {
        self.calls.iter().rev().find(|(known, _)| *known == body).map(|(_, receipt)| *receipt)
    }
}

/// What a call follows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Before {
    /// The conversation's last turn.
    pub parent: Option<ReceiptId>,
    /// The call whose body this one repeats.
    pub retry_of: Option<ReceiptId>,
}

/// What a client sends again when it repeats itself.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Repeat {
    /// The workspace's directory.
    pub dir: PathBuf,
    /// Its client.
    pub host: Host,
    /// The conversation, as the client names it.
    pub conversation: Id,
    /// The client's body.
    pub body: Digest,
}

/// The conversations of one daemon.
#[derive(Default)]
pub(crate) struct Threads {
    known: HashMap<Id, Thread>,
    refused: HashMap<Repeat, (Instant, Refusal)>,
}

impl Threads {
    /// What a call with this body follows; `None` where the conversation must be read first.
    pub(crate) fn before(&self, session: &Id, body: Digest) -> Option<Before> {
        let thread = self.known.get(session)?;
        Some(Before { parent: thread.parent(), retry_of: thread.repeated(body) })
    }

    /// Takes up a conversation that was read, unless it is known meanwhile.
    pub(crate) fn know(&mut self, session: Id, thread: Thread) {
        if self.known.len() >= THREADS_MAX {
            self.known.clear();
        }
        self.known.entry(session).or_insert(thread);
    }

    /// A call passed.
    pub(crate) fn passed(&mut self, session: &Id, receipt: ReceiptId, call: CallKind, body: Digest) {
        if let Some(thread) = self.known.get_mut(session) {
            thread.take(receipt, call, body);
        }
    }

    /// A call was refused.
    pub(crate) fn refused(&mut self, call: Repeat, refusal: &Refusal) {
        self.refused.retain(|_, (at, _)| at.elapsed() < REFUSED_FOR);
        if self.refused.len() < THREADS_MAX {
            self.refused.insert(call, (Instant::now(), refusal.clone()));
        }
    }

    /// The refusal of the same body a moment ago.
    pub(crate) fn just_refused(&self, call: &Repeat) -> Option<Refusal> {
        let (at, refusal) = self.refused.get(call)?;
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
        assert_eq!(before.parent, Some(ReceiptId([1; 16])));
        assert_eq!(before.retry_of, Some(ReceiptId([4; 16])));
        threads.passed(&session, ReceiptId([5; 16]), CallKind::Turn, Digest::of(b"d"));
        let before = threads.before(&session, Digest::of(b"e")).unwrap();
        assert_eq!((before.parent, before.retry_of), (Some(ReceiptId([5; 16])), None));
    }
}
