//! The desk: one thread owns the gate and the conversation store; everybody else asks it by channel.
//!
//! The thread opens them itself, so the screen paints before any database is touched. Work that was asked for runs to its
//! end even where nobody waits for the answer any more: a receipt is never left half spent.

use std::sync::mpsc;
use std::thread::JoinHandle;

use agentspine_gate::seams::Seams;
use agentspine_gate::span::Span;
use agentspine_gate::{Detail, Digest, Field, Gate, Id, Refusal};
use tokio::sync::oneshot;

use crate::chat::log::LogEvent;
use crate::conversations::{Claim, Conversations, ConversationsError, NewSession, Session};

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
        let mut known = self.conversations.session(&session.id).map_err(store)?;
        let other = |known: &Session| {
            (&known.cwd, known.host, known.instruction_host)
                != (&session.cwd, session.host, session.instruction_host)
        };
        if known.as_ref().is_some_and(other) {
            session.id = elsewhere(&session)?;
            known = self.conversations.session(&session.id).map_err(store)?;
        }
        if known.is_none() {
            self.conversations.start_session(&session).map_err(store)?;
        }
        Ok(session.id)
    }

    /// Appends an event, with the span its call injects; durable when it returns.
    pub(crate) fn keep(
        &mut self,
        session: &Id,
        event: &LogEvent,
        span: Option<&Span>,
    ) -> Result<(), Refusal> {
        let stored = event.stored(self.seams.clock.wall_ms());
        let spans: Vec<Span> = span.into_iter().cloned().collect();
        self.conversations.append(session, &[stored], &spans).map(drop).map_err(store)
    }

    /// Appends an event that follows a call; durable before the next call is made.
    pub(crate) fn note(&mut self, session: &Id, event: &LogEvent) -> Result<(), Refusal> {
        let stored = event.stored(self.seams.clock.wall_ms());
        self.conversations.append_later(session, &[stored]).map(drop).map_err(store)
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

type Job = Box<dyn FnOnce(Result<&mut Drawer, &Refusal>) + Send>;

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
            for job in inbox {
                job(drawer.as_mut().map_err(|refusal| &*refusal));
            }
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
        let job: Job = Box::new(move |drawer| {
            // A dropped receiver means that nobody waits for the answer; the work itself is done.
            let _ = reply.send(drawer.map_err(Clone::clone).and_then(work));
        });
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        if !sent {
            return Err(gone());
        }
        answer.await.unwrap_or_else(|_| Err(gone()))
    }
}

impl Desk {
    /// Leaves work for the desk's thread; nobody waits for it.
    pub(crate) fn tell(&self, work: impl FnOnce(&mut Drawer) + Send + 'static) {
        let job: Job = Box::new(move |drawer| drawer.map_or((), work));
        if let Some(jobs) = &self.jobs {
            // A thread that is gone has nothing to record into either.
            let _ = jobs.send(job);
        }
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

fn gone() -> Refusal {
    Refusal::new(
        Detail::JournalIo,
        "The gate stopped working in this process.",
        "Start again: agentspine chat --continue",
    )
}
