//! Intake: compaction summaries become memories of their project, after the fact and beside the turns.
//!
//! It reads the durable log alone, through a connection of its own, so it never delays a turn or fails one. What it writes
//! is named by the session and the range of events a summary was made from: the same range is taken up once, whichever
//! process gets there first and however often it is tried. A fork's seed is its parent's to take up; subagents have no
//! session here, and other programs' conversations are never read.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use agentspine_gate::Id;
use agentspine_memory::provenance::{Provenance, ROUTE_BYTES_MAX, SessionSource};
use agentspine_memory::{Kind, Ledger, MemoryScope, NewMemory, Origin, RememberError, SessionCursor, Trust};
use tokio::time::timeout;

use super::engine::Engine;
use super::log::{LogEvent, Summary};
use super::own_words;
use crate::conversations::{Look, Pending, Range, Session};

/// What makes memories of summaries, and in which version.
const EXTRACTOR: &str = "compaction/v1";
/// The form in which a summary proposes a memory.
const PROPOSAL: &str = "summary-lines/v1";
/// What decides which of its lines are taken.
const VALIDATOR: &str = "own-words-and-screen/v1";
/// What keeps the session.
const PERSISTENCE: &str = "conversations";
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
            let Some(taken) = through(ledger, &session) else { return };
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

/// The event up to which memory has read a session; `None` where it cannot be asked.
fn through(ledger: &Mutex<Ledger>, session: &Id) -> Option<u64> {
    let cursor = open(ledger).cursor(session).ok()?;
    Some(cursor.map_or(0, |cursor| cursor.through_seq))
}

/// Recall waits for it, so it is held for one statement's time.
fn open(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One summary; `None` where it has to be tried again.
fn take_up(ledger: &Mutex<Ledger>, look: &Look, pending: Pending) -> Option<()> {
    let Pending { session, summary: event, derived } = pending;
    let done = SessionCursor { session: session.id.clone(), through_seq: event.seq };
    let at = event.at;
    let Some(LogEvent::Summary(summary)) = LogEvent::read(event) else { return pass(ledger, &done, at) };
    let range = own_range(&session, &summary);
    let answered = range.from_seq <= range.through_seq && look.was_answered(&session.id, range).ok()?;
    let parts = if answered { own_words::parts(&summary.text, &derived) } else { Vec::new() };
    let scope = MemoryScope {
        tenant_id: summary.tenant_id.clone(),
        user_id: summary.user_id.clone(),
        project_id: Some(summary.project_id.clone()),
        group_id: summary.group_id.clone(),
    };
    // Until the last part is written the summary counts as unread: the others are then found as they are.
    let unread = SessionCursor { through_seq: range.through_seq, ..done.clone() };
    let last = parts.len().checked_sub(1);
    for (n, part) in parts.iter().enumerate() {
        let memory = memory(&session, &summary, range, Part { n, text: part, seq: done.through_seq, at })?;
        let cursor = if Some(n) == last { &done } else { &unread };
        if let Err(RememberError::Store(_)) = open(ledger).ingest(&memory, &scope, cursor) {
            return None;
        }
    }
    // What the screen refuses today it refuses tomorrow, and a summary may hold nothing of its own.
    pass(ledger, &done, at)
}

fn pass(ledger: &Mutex<Ledger>, cursor: &SessionCursor, at: i64) -> Option<()> {
    open(ledger).skip(cursor, at).ok()
}

/// The events of a summary that are the session's own.
fn own_range(session: &Session, summary: &Summary) -> Range {
    Range { from_seq: summary.from_seq.max(session.seed_length + 1), through_seq: summary.through_seq }
}

/// One part of a summary.
struct Part<'a> {
    n: usize,
    text: &'a str,
    /// The summary's own event.
    seq: u64,
    /// When the summary was made, wall milliseconds.
    at: i64,
}

fn memory(session: &Session, summary: &Summary, range: Range, part: Part<'_>) -> Option<NewMemory> {
    let id = |text: &str| Id::new(text).ok();
    let route = format!("{} at {}", summary.model, summary.route);
    let route_end = route.floor_char_boundary(ROUTE_BYTES_MAX.min(route.len()));
    let provenance = Provenance {
        session: Some(SessionSource {
            created_at_ms: session.created_at,
            cwd: session.cwd.to_str()?.to_owned(),
            persistence: id(PERSISTENCE)?,
            revision: part.seq,
            parent: session.parent.clone(),
            seed_length: session.seed_length,
            turn: Some(summary.turn),
        }),
        proposal_schema: id(PROPOSAL)?.into(),
        validator_policy: id(VALIDATOR)?.into(),
        embedding_models: Vec::new(),
        model_route: route.get(..route_end).map(str::to_owned),
    };
    Some(NewMemory {
        kind: Kind::WorkUnit,
        title: own_words::title(part.text),
        summary: part.text.to_owned(),
        tags: Vec::new(),
        subject: None,
        trust: Trust::Derived,
        origin: Origin {
            source: session.id.clone(),
            from_seq: range.from_seq,
            through_seq: range.through_seq,
            range_key: format!("summary/{}", part.n),
            extractor: id(EXTRACTOR)?,
        },
        provenance,
        relations: Vec::new(),
        created_at_ms: part.at,
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
