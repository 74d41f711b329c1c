//! What was said: sessions as append-only event logs, drafts, and the text we injected, in one SQLite file.
//!
//! [`Conversations::append`] makes events and spans durable in one transaction before a call may start. Events have a
//! gapless sequence per session; the schema itself refuses to change, replace or skip one ([`schema`]). User content lives
//! here and never in a receipt. One connection, used from one thread.

mod claim;
mod error;
mod event;
mod fork;
mod look;
mod redact;
mod rows;
mod schema;
mod summaries;
#[cfg(test)]
mod tests;
mod title;

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use agentspine_gate::span::Span;
use agentspine_gate::turn::{Host, InstructionHost};
use agentspine_gate::tx::Tx;
use agentspine_gate::{Id, ReceiptId};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde::Serialize;

pub(crate) use claim::Claim;
pub(crate) use error::ConversationsError;
pub(crate) use event::{Event, EventKind, NewEvent};
pub(crate) use fork::Fork;
pub(crate) use look::Look;
pub(crate) use redact::LogFile;
pub(crate) use summaries::{Pending, Range};
pub(crate) use title::title_of;

/// Largest event body, bytes of JSON.
pub(crate) const EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Largest draft, bytes.
pub(crate) const DRAFT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Injected text of another program's conversation goes this long after its last use.
pub(crate) const SPAN_UNUSED_MS_MAX: i64 = 30 * DAY_MS;
/// How often the use of a session's spans is written down.
const DAY_MS: i64 = 24 * 3600 * 1000;
/// How long it is not looked whether that is due: the look reads every text of the session.
const TOUCHED_MS: i64 = 3600 * 1000;
/// Sessions that this is known of.
const TOUCHED_MAX: usize = 1024;
/// Most events in one append.
pub(crate) const APPEND_EVENTS_MAX: usize = 256;

type Result<T> = std::result::Result<T, ConversationsError>;

/// A session as it is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NewSession {
    /// Its id, unique for ever.
    pub id: Id,
    /// Wall clock, milliseconds.
    pub created_at: i64,
    /// The repository.
    pub project_id: Id,
    /// Canonical working directory.
    pub cwd: PathBuf,
    /// Through which door.
    pub host: Host,
    /// Whose instruction files.
    pub instruction_host: InstructionHost,
}

/// A session in a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Session {
    /// Its id.
    pub id: Id,
    /// Wall clock of its start, milliseconds.
    pub created_at: i64,
    /// Wall clock of its last event, milliseconds; its start where there is none.
    pub last_at: i64,
    /// Sequence of its last event, 0 where there is none.
    pub events: u64,
    /// The repository.
    pub project_id: Id,
    /// Working directory. For the person's own terminal only.
    pub cwd: PathBuf,
    /// Through which door.
    pub host: Host,
    /// Whose instruction files.
    pub instruction_host: InstructionHost,
    /// Title: the first words of the first prompt, or what the person gave.
    pub title: Option<String>,
    /// The session it was forked from. That one may be gone.
    pub parent: Option<Id>,
    /// How many of its first events are its parent's.
    pub seed_length: u64,
    /// The session whose id its places begin with, where that is not its own.
    #[serde(skip)]
    pub root: Option<Id>,
    /// Wall clock of its redaction, milliseconds.
    pub redacted_at: Option<i64>,
}

/// Whether the use of a session's spans may have to be written down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Touch {
    /// It may.
    Due,
    /// It was a while ago.
    Done,
}

/// When a write is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durability {
    /// With its commit.
    Now,
    /// With the next one that is, as all share one write-ahead log.
    Later,
}

impl Durability {
    /// SQLite's `synchronous`. With NORMAL a commit returns before its fsync: what was said could be lost while the call
    /// is on its way.
    fn level(self) -> &'static str {
        match self {
            Self::Now => "PRAGMA synchronous = FULL",
            Self::Later => "PRAGMA synchronous = NORMAL",
        }
    }
}

/// Where the file stood when it was opened. What is written to a file that has lost its name is lost with the process.
struct Place {
    path: PathBuf,
    file: (u64, u64),
}

impl Place {
    fn of(path: &Path) -> Result<Self> {
        Ok(Self { path: path.to_owned(), file: Self::file_at(path)? })
    }

    fn file_at(path: &Path) -> Result<(u64, u64)> {
        let meta = path.symlink_metadata().map_err(|cause| ConversationsError::File(cause.kind()))?;
        Ok((meta.dev(), meta.ino()))
    }

    fn is_still_there(&self) -> Result<()> {
        let same = Self::file_at(&self.path).is_ok_and(|file| file == self.file);
        if same { Ok(()) } else { Err(ConversationsError::Vanished) }
    }
}

/// What one call keeps before it is made.
pub(crate) struct Kept<'a> {
    /// Its conversation.
    pub session: &'a Id,
    /// What happened.
    pub event: NewEvent,
    /// The text it injects.
    pub span: Option<&'a Span>,
}

/// When this process last saw to it that the use of a session's spans is written down, wall milliseconds.
type Touched = HashMap<Id, i64>;

/// The store, what its connection is set to, and whose spans are written down as used.
pub(crate) struct Conversations(Connection, Place, Option<Durability>, Touched);

impl Conversations {
    /// Opens or creates the file, 0600, in an existing private directory.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let connection = schema::open(path)?;
        Ok(Self(connection, Place::of(path)?, None, Touched::new()))
    }

    /// Starts a session.
    pub(crate) fn start_session(&mut self, new: &NewSession) -> Result<()> {
        let cwd = new.cwd.to_str().ok_or(ConversationsError::CwdNotUtf8)?;
        let host = (new.host.as_str(), new.instruction_host.as_str());
        let sql = "INSERT INTO session(id, created_at, project_id, cwd, host, instruction_host) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let values = params![new.id.as_str(), new.created_at, new.project_id.as_str(), cwd, host.0, host.1];
        self.write(|tx| Ok(tx.execute(sql, values)?))?;
        Ok(())
    }

    /// Appends events and remembers spans, durable when it returns; the sequence of the last event.
    pub(crate) fn append(&mut self, session: &Id, events: &[NewEvent], spans: &[Span]) -> Result<u64> {
        self.append_as(Durability::Now, session, events, spans)
    }

    /// Appends events that follow a call: durable with the next [`Self::append`], which comes before the next call. A
    /// process that dies loses none of them; a power cut may, and then the receipt shows as spent, outcome unknown.
    pub(crate) fn append_later(&mut self, session: &Id, events: &[NewEvent]) -> Result<u64> {
        self.append_as(Durability::Later, session, events, &[])
    }

    fn append_as(
        &mut self,
        durability: Durability,
        session: &Id,
        events: &[NewEvent],
        spans: &[Span],
    ) -> Result<u64> {
        if events.len() > APPEND_EVENTS_MAX {
            return Err(ConversationsError::TooLarge { what: "append", limit: APPEND_EVENTS_MAX });
        }
        let touch = self.touch(session, events.last());
        self.write_as(durability, |tx| rows::append(tx, session, events, spans, touch))
    }

    /// Whether it is time to look if the use of a session's spans was written down.
    fn touch(&mut self, session: &Id, newest: Option<&NewEvent>) -> Touch {
        let at = newest.map_or(0, |event| event.at);
        if self.3.get(session).is_some_and(|touched| (0..TOUCHED_MS).contains(&at.saturating_sub(*touched))) {
            return Touch::Done;
        }
        if self.3.len() >= TOUCHED_MAX {
            self.3.clear();
        }
        self.3.insert(session.clone(), at);
        Touch::Due
    }

    /// Appends what several calls keep, durable with one commit when it returns; the answers in their order. What cannot
    /// be kept fails no other.
    pub(crate) fn append_each(&mut self, calls: &[Kept<'_>]) -> Vec<Result<()>> {
        let touches: Vec<Touch> =
            calls.iter().map(|call| self.touch(call.session, Some(&call.event))).collect();
        let together = |tx: &Connection| {
            let append = |(Kept { session, event, span }, touch): (&Kept<'_>, &Touch)| {
                rows::append(tx, session, std::slice::from_ref(event), *span, *touch).map(drop)
            };
            calls.iter().zip(&touches).try_for_each(append)
        };
        let done = if calls.is_empty() { Ok(()) } else { self.write(together) };
        match done {
            Ok(()) => calls.iter().map(|_| Ok(())).collect(),
            Err(cause) if calls.len() == 1 => vec![Err(cause)],
            // Nothing of them was kept: each by itself says which one it was.
            Err(_) => {
                let alone = |call: &Kept<'_>| {
                    self.append(
                        call.session,
                        std::slice::from_ref(&call.event),
                        call.span.map(std::slice::from_ref).unwrap_or_default(),
                    )
                    .map(drop)
                };
                calls.iter().map(alone).collect()
            }
        }
    }

    /// All events of a session, in order.
    pub(crate) fn events(&self, session: &Id) -> Result<Vec<Event>> {
        self.session(session)?.ok_or_else(|| ConversationsError::UnknownSession(session.clone()))?;
        let sql = "SELECT seq, kind, at, body FROM event WHERE session_id = ?1 ORDER BY seq";
        let mut statement = self.0.prepare_cached(sql)?;
        let mut found = statement.query([session.as_str()])?;
        let mut events = Vec::new();
        while let Some(row) = found.next()? {
            events.push(rows::event(row)?);
        }
        Ok(events)
    }

    /// The spans of a session, in the order they were injected.
    pub(crate) fn spans(&self, session: &Id) -> Result<Vec<Span>> {
        // Put in order here: SQLite would copy every text into a sorter.
        let sql = "SELECT place, receipt_id, text, rowid FROM span WHERE session_id = ?1";
        let mut statement = self.0.prepare_cached(sql)?;
        let mut found = statement.query([session.as_str()])?;
        let mut spans = Vec::new();
        while let Some(row) = found.next()? {
            spans.push((row.get::<_, i64>(3)?, rows::span(row)?));
        }
        spans.sort_unstable_by_key(|(order, _)| *order);
        Ok(spans.into_iter().map(|(_, span)| span).collect())
    }

    /// Takes the spans of another conversation along into this one, durable when it returns.
    pub(crate) fn copy_spans(&mut self, session: &Id, spans: &[Span], at: i64) -> Result<()> {
        self.write(|tx| spans.iter().try_for_each(|span| rows::insert_span(tx, session, span, at)))
    }

    /// The conversations that a client of this directory, bound to the same files, may have forked a new one from: those
    /// with spans, newest first.
    pub(crate) fn forkable(
        &self,
        cwd: &Path,
        hosts: (Host, InstructionHost),
        fork: &Id,
        limit: u32,
    ) -> Result<Vec<Id>> {
        let sql = "SELECT id FROM session WHERE cwd = ?1 AND host = ?2 AND instruction_host = ?3 AND id <> ?4 \
             AND EXISTS (SELECT 1 FROM span WHERE session_id = id) ORDER BY created_at DESC LIMIT ?5";
        let cwd = cwd.to_str().ok_or(ConversationsError::CwdNotUtf8)?;
        let values = params![cwd, hosts.0.as_str(), hosts.1.as_str(), fork.as_str(), limit];
        let mut statement = self.0.prepare_cached(sql)?;
        let found = statement.query_map(values, |row| row.get::<_, String>(0))?;
        found.map(|id| rows::id(id?)).collect()
    }

    /// Erases the spans of other programs' conversations that were not used since; how many. Our own chats keep what was
    /// said, and so what was injected.
    pub(crate) fn expire_spans(&mut self, before: i64) -> Result<usize> {
        let sql = "DELETE FROM span WHERE last_used < ?1 \
             AND session_id IN (SELECT id FROM session WHERE host <> 'agentspine')";
        let erased = self.write(|tx| Ok(tx.execute(sql, [before])?))?;
        if erased > 0 {
            self.forget_freed_pages()?;
        }
        Ok(erased)
    }

    /// The sessions that would lose injected text if the spans of these receipts were erased.
    pub(crate) fn sessions_holding(&self, receipts: &[ReceiptId]) -> Result<Vec<Id>> {
        let mut statement = self.0.prepare("SELECT DISTINCT session_id FROM span WHERE receipt_id = ?1")?;
        let mut sessions = Vec::new();
        for receipt in receipts {
            let found = statement.query_map([receipt.to_hex()], |row| row.get::<_, String>(0))?;
            for id in found {
                sessions.push(rows::id(id?)?);
            }
        }
        sessions.sort();
        sessions.dedup();
        Ok(sessions)
    }

    /// Erases the spans of these receipts for good; how many.
    pub(crate) fn erase_spans(&mut self, receipts: &[ReceiptId]) -> Result<usize> {
        let erased = self.write(|tx| {
            let mut statement = tx.prepare("DELETE FROM span WHERE receipt_id = ?1")?;
            let mut erased = 0;
            for receipt in receipts {
                erased += statement.execute([receipt.to_hex()])?;
            }
            Ok(erased)
        })?;
        self.forget_freed_pages()?;
        Ok(erased)
    }

    /// One session.
    pub(crate) fn session(&self, id: &Id) -> Result<Option<Session>> {
        let mut statement = self.0.prepare_cached(&format!("{} WHERE id = ?1", rows::SESSIONS))?;
        statement.query_row([id.as_str()], |row| Ok(rows::session(row))).optional()?.transpose()
    }

    /// Where a session is at work, and for whom; quicker than all of it.
    pub(crate) fn home(&self, id: &Id) -> Result<Option<(PathBuf, Host, InstructionHost)>> {
        let sql = "SELECT cwd, host, instruction_host FROM session WHERE id = ?1";
        let mut statement = self.0.prepare_cached(sql)?;
        statement.query_row([id.as_str()], |row| Ok(rows::home(row))).optional()?.transpose()
    }

    /// Sessions, the most recently used first.
    pub(crate) fn sessions(&self, limit: u32) -> Result<Vec<Session>> {
        let mut statement =
            self.0.prepare(&format!("{} ORDER BY last_at DESC, id LIMIT ?1", rows::SESSIONS))?;
        let mut found = statement.query([limit])?;
        let mut sessions = Vec::new();
        while let Some(row) = found.next()? {
            sessions.push(rows::session(row)?);
        }
        Ok(sessions)
    }

    /// The project's most recently used chat with at least one event.
    pub(crate) fn last_session(&self, project: &Id) -> Result<Option<Session>> {
        let sql = format!(
            "{} WHERE project_id = ?1 AND host = 'agentspine' AND events > 0 \
             AND redacted_at IS NULL ORDER BY last_at DESC, id LIMIT 1",
            rows::SESSIONS
        );
        let mut statement = self.0.prepare_cached(&sql)?;
        statement.query_row([project.as_str()], |row| Ok(rows::session(row))).optional()?.transpose()
    }

    /// Deletes a session with its events, spans and draft, and overwrites what they held; false where there is none.
    pub(crate) fn delete_session(&mut self, session: &Id) -> Result<bool> {
        let found = self.write(|tx| {
            // The session goes first: the event table refuses deletions as long as its session exists.
            let found = tx.execute("DELETE FROM session WHERE id = ?1", [session.as_str()])? > 0;
            for table in ["event", "span", "draft"] {
                tx.execute(&format!("DELETE FROM {table} WHERE session_id = ?1"), [session.as_str()])?;
            }
            Ok(found)
        })?;
        self.forget_freed_pages()?;
        Ok(found)
    }

    /// Keeps the text in the composer; an empty text removes it.
    pub(crate) fn save_draft(&mut self, session: &Id, text: &str) -> Result<()> {
        if text.len() > DRAFT_BYTES_MAX {
            return Err(ConversationsError::TooLarge { what: "draft", limit: DRAFT_BYTES_MAX });
        }
        self.write(|tx| {
            tx.execute("DELETE FROM draft WHERE session_id = ?1", [session.as_str()])?;
            if !text.is_empty() {
                tx.execute(
                    "INSERT INTO draft(session_id, text) VALUES (?1, ?2)",
                    params![session.as_str(), text],
                )?;
            }
            Ok(())
        })
    }

    /// The text last left in the composer.
    pub(crate) fn load_draft(&self, session: &Id) -> Result<Option<String>> {
        let sql = "SELECT text FROM draft WHERE session_id = ?1";
        Ok(self.0.query_row(sql, [session.as_str()], |row| row.get(0)).optional()?)
    }

    fn write<T>(&mut self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        self.write_as(Durability::Now, work)
    }

    /// One immediate transaction: a deferred one that reads first fails at once when another process writes.
    fn write_as<T>(
        &mut self,
        durability: Durability,
        work: impl FnOnce(&Connection) -> Result<T>,
    ) -> Result<T> {
        self.1.is_still_there()?;
        if self.2 != Some(durability) {
            self.0.prepare_cached(durability.level())?.execute([])?;
            self.2 = Some(durability);
        }
        let tx = Tx::write(&self.0)?;
        let done = work(&tx)?;
        tx.commit()?;
        Ok(done)
    }

    /// Deleted text also leaves the write-ahead log, unless another process is reading it just now.
    fn forget_freed_pages(&self) -> Result<LogFile> {
        let busy: bool = self.0.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        Ok(if busy { LogFile::InUse } else { LogFile::Emptied })
    }
}
