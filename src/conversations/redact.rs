//! Redaction: what was said in a session is erased for good; that it was, when, and under which receipts stays.

use agentspine_gate::Id;
use agentspine_gate::turn::Host;
use rusqlite::params;

use super::{Conversations, ConversationsError, Result, rows};

/// Where erased text may still lie for a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogFile {
    /// The write-ahead log is empty: the text is in no file of the store.
    Emptied,
    /// Another process reads the write-ahead log just now, so it could not be emptied.
    InUse,
}

/// What a redaction did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Redacted {
    /// Events without their text now.
    pub events: usize,
    /// Forks that keep their own copy of what was said before they were made.
    pub forks: Vec<Id>,
    /// Whether the text is out of every file.
    pub log: LogFile,
}

impl Conversations {
    /// Erases the texts of a chat: events keep kind, time and receipt; title, draft and injected text go. Repeating it
    /// changes nothing more.
    pub(crate) fn redact(&mut self, session: &Id, now: i64) -> Result<Redacted> {
        let known =
            self.session(session)?.ok_or_else(|| ConversationsError::UnknownSession(session.clone()))?;
        if known.host != Host::Agentspine {
            return Err(ConversationsError::NotOurs(session.clone()));
        }
        let id = session.as_str();
        let events = self.write(|tx| {
            let mark =
                "UPDATE session SET redacted_at = ?2, title = NULL WHERE id = ?1 AND redacted_at IS NULL";
            tx.execute(mark, params![id, now])?;
            let erase = "UPDATE event SET body = json_object('kind', json_extract(body, '$.kind'), \
                 'receipt', json_extract(body, '$.receipt'), 'redacted', json('true')) WHERE session_id = ?1";
            let events = tx.execute(erase, [id])?;
            for table in ["span", "draft"] {
                tx.execute(&format!("DELETE FROM {table} WHERE session_id = ?1"), [id])?;
            }
            Ok(events)
        })?;
        Ok(Redacted { events, forks: self.forks(session)?, log: self.forget_freed_pages()? })
    }

    /// The sessions forked from this one that still hold what was said.
    pub(crate) fn forks(&self, session: &Id) -> Result<Vec<Id>> {
        let sql = "SELECT id FROM session WHERE parent = ?1 AND redacted_at IS NULL ORDER BY created_at, id";
        let mut statement = self.0.prepare_cached(sql)?;
        let found = statement.query_map([session.as_str()], |row| row.get::<_, String>(0))?;
        found.map(|id| rows::id(id?)).collect()
    }
}
