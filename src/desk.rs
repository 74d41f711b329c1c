//! The desk: one thread owns the gate and the conversation store; everybody else asks it by channel.
//!
//! The thread opens them itself, so the screen paints before any database is touched. Work that was asked for runs to its
//! end even where nobody waits for the answer any more: a receipt is never left half spent.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use agentspine_gate::seams::Seams;
use agentspine_gate::span::Span;
use agentspine_gate::{CallOutcome, Detail, Digest, Field, Gate, Id, ReceiptId, Refusal};
use tokio::sync::oneshot;

use crate::chat::cancel::Cancel;
use crate::chat::log::LogEvent;
use crate::conversations::{Claim, Conversations, ConversationsError, NewSession};
use crate::turn::{Came, Memories, Step, Waiting, walk_together};

/// What the desk's thread owns.
pub(crate) struct Drawer {
    /// The gate.
    pub gate: Gate,
    /// The conversation store.
    pub conversations: Conversations,
    /// Time.
    pub seams: Seams,
    /// The session this process works on.
    pub claim: Option<Claim>,
    /// What was forgotten since it was recalled.
    pub memories: Memories,
}

impl Drawer {
    /// Keeps other processes off a session for the life of this one; false where another one works on it.
    pub(crate) fn claim(&mut self, session: &Id) -> Result<bool, Refusal> {
        self.claim = Claim::take(&self.gate.state_dir().run_dir(), session).map_err(store)?;
        Ok(self.claim.is_some())
    }

    /// Starts a session. One that holds anything already is not ours to start: its log was not read.
    pub(crate) fn begin(&mut self, session: &NewSession) -> Result<(), Refusal> {
        let free = self.claim(&session.id)?;
        match self.conversations.session(&session.id).map_err(store)? {
            _ if !free => Err(taken(&session.id)),
            Some(known) if known.events > 0 => Err(taken(&session.id)),
            Some(_) => Ok(()),
            None => self.conversations.start_session(session).map_err(store),
        }
    }

    /// The session of a conversation that another program holds, started where it is new. An id that another directory
    /// uses already gets the directory's own mark, and so does one whose files another host names: injected text does not
    /// cross projects.
    pub(crate) fn enter(&mut self, mut session: NewSession) -> Result<Id, Refusal> {
        let mut known = self.conversations.home(&session.id).map_err(store)?;
        let mine = (session.cwd.clone(), session.host, session.instruction_host);
        if known.as_ref().is_some_and(|known| *known != mine) {
            session.id = elsewhere(&session)?;
            known = self.conversations.home(&session.id).map_err(store)?;
        }
        if known.is_none() {
            self.conversations.start_session(&session).map_err(store)?;
        }
        Ok(session.id)
    }

    /// Appends an event that follows a call; durable before the next call is made.
    pub(crate) fn note(&mut self, session: &Id, event: &LogEvent) -> Result<(), Refusal> {
        let stored = event.stored(self.seams.clock.wall_ms());
        self.conversations.append_later(session, &[stored]).map(drop).map_err(store)
    }

    /// Appends an event that others build on; durable when it returns.
    pub(crate) fn keep(&mut self, session: &Id, event: &LogEvent) -> Result<(), Refusal> {
        let stored = event.stored(self.seams.clock.wall_ms());
        self.conversations.append(session, &[stored], &[]).map(drop).map_err(store)
    }

    /// The injected text a session keeps.
    pub(crate) fn spans(&self, session: &Id) -> Result<Vec<Span>, Refusal> {
        self.conversations.spans(session).map_err(store)
    }

    /// What a session's log holds.
    pub(crate) fn read(&self, session: &Id) -> Result<Vec<LogEvent>, Refusal> {
        let events = self.conversations.events(session).map_err(store)?;
        Ok(events.into_iter().filter_map(LogEvent::read).collect())
    }
}

/// The conversation store is part of the path: a call whose prompt cannot be kept is not made.
pub(crate) fn store(error: ConversationsError) -> Refusal {
    Refusal::new(
        Detail::StateDir,
        format!("The conversation store: {error}"),
        "Check disk space and rights, then: agentspine doctor",
    )
}

fn taken(session: &Id) -> Refusal {
    Refusal::new(
        Detail::Mismatch(Field::Session),
        format!("There is a session {session} already."),
        format!("Continue it: agentspine chat --resume {session}"),
    )
}

/// A conversation's id in another directory.
fn elsewhere(session: &NewSession) -> Result<Id, Refusal> {
    let parts = [
        session.id.as_str().as_bytes(),
        session.host.as_str().as_bytes(),
        session.instruction_host.as_str().as_bytes(),
        session.cwd.as_os_str().as_encoded_bytes(),
    ];
    let digest = Digest::of(&parts.join(&0)).to_hex();
    Id::new(format!("x:{digest}")).map_err(|_| gone())
}

type Question = Box<dyn FnOnce(Result<&mut Drawer, &Refusal>) + Send>;

/// What waits for the desk.
enum Job {
    Question(Question),
    Walk(Waiting),
    Outcome(ReceiptId, CallOutcome),
}

/// Most jobs taken up at once.
const TOGETHER_MAX: usize = 64;
/// How long an outcome waits for a call to be written down with.
const OUTCOME_WAIT: Duration = Duration::from_millis(2);

/// A handle to the desk's thread. Dropping the last one ends the thread.
pub(crate) struct Desk {
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

impl Desk {
    /// Starts the thread; `open` runs on it. What `open` refuses is the answer to every question.
    pub(crate) fn start(
        open: impl FnOnce() -> Result<Drawer, Refusal> + Send + 'static,
    ) -> std::io::Result<Self> {
        let (jobs, inbox) = mpsc::channel::<Job>();
        let work = move || {
            let mut drawer = open();
            serve(&mut drawer, &inbox);
        };
        let thread = std::thread::Builder::new().name("desk".to_owned()).spawn(work)?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Runs `work` on the desk's thread and waits for its answer.
    pub(crate) async fn ask<R: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Drawer) -> Result<R, Refusal> + Send + 'static,
    ) -> Result<R, Refusal> {
        let (reply, answer) = oneshot::channel();
        let question: Question = Box::new(move |drawer| {
            // A dropped receiver means that nobody waits for the answer; the work itself is done.
            let _ = reply.send(drawer.map_err(Clone::clone).and_then(work));
        });
        if !self.leave(Job::Question(question)) {
            return Err(gone());
        }
        answer.await.unwrap_or_else(|_| Err(gone()))
    }

    /// Takes a step of the path on the desk's thread, together with the calls that wait there too.
    pub(crate) async fn walk(&self, step: Step, cancel: &Cancel) -> Came {
        let (answer, came) = oneshot::channel();
        if !self.leave(Job::Walk(Waiting { step, cancel: cancel.clone(), answer })) {
            return Came::stopped(gone());
        }
        came.await.unwrap_or_else(|_| Came::stopped(gone()))
    }

    /// Leaves work for the desk's thread; nobody waits for it.
    pub(crate) fn tell(&self, work: impl FnOnce(&mut Drawer) + Send + 'static) {
        // A thread that is gone has nothing to record into either.
        let _ = self.leave(Job::Question(Box::new(move |drawer| drawer.map_or((), work))));
    }

    /// Leaves what became of a call; it is written down with the next call, or soon.
    pub(crate) fn settle(&self, receipt: ReceiptId, outcome: CallOutcome) {
        // Nobody left to write it down: it is shown as unknown.
        let _ = self.leave(Job::Outcome(receipt, outcome));
    }

    fn leave(&self, job: Job) -> bool {
        self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok())
    }
}

impl Drop for Desk {
    /// Lets the thread finish what it was asked, then joins it.
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panicked thread has already reported itself; there is nothing left to join.
            let _ = thread.join();
        }
    }
}

/// Takes up what waits, until nobody can ask any more.
fn serve(drawer: &mut Result<Drawer, Refusal>, inbox: &Receiver<Job>) {
    let mut outcomes = Vec::new();
    loop {
        let first = if outcomes.is_empty() {
            inbox.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            inbox.recv_timeout(OUTCOME_WAIT)
        };
        match first {
            Ok(first) => take_up(drawer, std::iter::once(first).chain(inbox.try_iter()), &mut outcomes),
            Err(RecvTimeoutError::Timeout) => settle(drawer, &mut outcomes),
            Err(RecvTimeoutError::Disconnected) => return settle(drawer, &mut outcomes),
        }
    }
}

type Outcomes = Vec<(ReceiptId, CallOutcome)>;

/// Answers questions as they come, then walks all calls together.
fn take_up(drawer: &mut Result<Drawer, Refusal>, jobs: impl Iterator<Item = Job>, outcomes: &mut Outcomes) {
    let mut walks = Vec::new();
    for job in jobs.take(TOGETHER_MAX) {
        match job {
            Job::Walk(waiting) => walks.push(waiting),
            Job::Outcome(receipt, outcome) => outcomes.push((receipt, outcome)),
            Job::Question(question) => {
                // Whoever asks sees what was told before.
                settle(drawer, outcomes);
                question(drawer.as_mut().map_err(|refusal| &*refusal));
            }
        }
    }
    match drawer {
        Ok(drawer) => walk_together(drawer, walks, outcomes),
        Err(refusal) => walks.into_iter().for_each(|waiting| waiting.refuse(refusal.clone())),
    }
    if outcomes.len() >= TOGETHER_MAX {
        settle(drawer, outcomes);
    }
}

/// Writes down what became of calls.
fn settle(drawer: &mut Result<Drawer, Refusal>, outcomes: &mut Outcomes) {
    let outcomes = std::mem::take(outcomes);
    if let (Ok(drawer), false) = (drawer, outcomes.is_empty()) {
        // A journal that cannot take the rows shows the receipts as spent, outcome unknown.
        let _ = drawer.gate.record_outcomes(&outcomes);
    }
}

fn gone() -> Refusal {
    Refusal::new(
        Detail::JournalIo,
        "The gate stopped working in this process.",
        "Start again: agentspine chat --continue",
    )
}
