//! Intake: compaction summaries become memories of their project, after the fact and beside the turns.
//!
//! It reads the durable log alone, through a connection of its own, so it never delays a turn or fails one. What it writes
//! is named by the session and the range of events a summary was made from: the same range is taken up once, whichever
//! process gets there first and however often it is tried. A fork's seed is its parent's to take up; subagents have no
//! session here, and other programs' conversations are never read.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentspine_gate::Id;
use agentspine_memory::{Kind, Ledger, MemoryScope, NewMemory, Origin, RememberError, Trust};
use tokio::time::timeout;

use super::engine::Engine;
use super::log::{LogEvent, Summary};
use super::own_words;
use crate::conversations::{Look, Pending, Range, Session};

/// What makes memories of summaries, and in which version.
const EXTRACTOR: &str = "compaction/v1";
/// Memories that are about to be written are waited for this long at the end of the program; the next start catches up.
const CLOSING: Duration = Duration::from_secs(2);

/// Whether the person's configuration lets summaries become memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Permission {
    /// They do.
    Granted,
    /// They stay in their transcript.
    Denied,
}

/// From where and to where.
#[derive(Clone)]
pub(crate) struct Intake {
    /// The conversation store.
    pub store: PathBuf,
    /// Where memories go; `None` where it cannot be opened.
    pub ledger: Option<Arc<Mutex<Ledger>>>,
    /// Whether they may.
    pub permission: Permission,
}

impl Intake {
    /// Takes up every summary that memory does not hold yet. What fails is tried again the next time.
    pub(crate) fn run(&self) {
        let (Some(ledger), Permission::Granted) = (&self.ledger, self.permission) else { return };
        let Ok(Some(look)) = Look::open(&self.store) else { return };
        for (session, newest) in look.summarised().unwrap_or_default() {
            let taken = through(ledger, &session);
            if taken >= newest {
                continue;
            }
            for pending in look.pending(&session, taken).unwrap_or_default() {
                // A later summary never overtakes an earlier one.
                if take_up(ledger, &look, pending).is_none() {
                    break;
                }
            }
        }
    }
}

/// The event up to which memory has read a session.
fn through(_ledger: &Mutex<Ledger>, _session: &Id) -> u64 {
    0
}

/// One summary; `None` where it has to be tried again.
fn take_up(ledger: &Mutex<Ledger>, look: &Look, pending: Pending) -> Option<()> {
    let Pending { session, summary: event, derived } = pending;
    let (seq, at) = (event.seq, event.at);
    let Some(LogEvent::Summary(summary)) = LogEvent::read(event) else { return Some(()) };
    let range = own_range(&session, &summary);
    let answered = range.from_seq <= range.through_seq && look.was_answered(&session.id, range).ok()?;
    let parts = if answered { own_words::parts(&summary.text, &derived) } else { Vec::new() };
    let scope = MemoryScope {
        tenant_id: summary.tenant_id.clone(),
        user_id: summary.user_id.clone(),
        project_id: Some(summary.project_id.clone()),
        group_id: summary.group_id.clone(),
    };
    for (n, part) in parts.iter().enumerate() {
        let memory = memory(&session, range, n, part, at)?;
        let mut ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        match ledger.remember(&memory, &scope) {
            Err(RememberError::Store(_)) => return None,
            // What the screen refuses today it refuses tomorrow.
            Ok(_) | Err(_) => {}
        }
    }
    let _ = seq;
    Some(())
}

/// The events of a summary that are the session's own.
fn own_range(session: &Session, summary: &Summary) -> Range {
    Range { from_seq: summary.from_seq.max(session.seed_length + 1), through_seq: summary.through_seq }
}

fn memory(session: &Session, range: Range, n: usize, text: &str, at: i64) -> Option<NewMemory> {
    Some(NewMemory {
        kind: Kind::WorkUnit,
        title: own_words::title(text),
        summary: text.to_owned(),
        tags: Vec::new(),
        trust: Trust::Derived,
        origin: Origin {
            source: session.id.clone(),
            from_seq: range.from_seq,
            through_seq: range.through_seq,
            range_key: format!("summary/{n}"),
            extractor: Id::new(EXTRACTOR).ok()?,
        },
        created_at_ms: at,
    })
}

impl Engine {
    /// Lets memory take up what was summarised, in the background: this session's newest, and what an earlier run left.
    pub(crate) fn take_up(&mut self) {
        let (intake, before) = (self.rooms.intake.clone(), self.intake.take());
        self.intake = Some(tokio::spawn(async move {
            if let Some(before) = before {
                // One that broke changes nothing for this one.
                let _ = before.await;
            }
            let _ = tokio::task::spawn_blocking(move || intake.run()).await;
        }));
    }

    /// Waits a moment for memories that are being written.
    pub(crate) async fn finish(&mut self) {
        if let Some(running) = self.intake.take() {
            // What is not done by then is caught up at the next start.
            let _ = timeout(CLOSING, running).await;
        }
    }
}
