//! Forks: a session that begins with what was said in another one, and goes its own way from there.
//!
//! The events of the seed and the text injected into them are copied, so a fork outlives its parent. Places of the seed
//! were reckoned from the id of the session where its first words were said (`root`); a fork goes on reckoning from it, and
//! the copied spans stand where they stood, byte for byte.

use agentspine_gate::Id;
use agentspine_gate::turn::Host;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::{Conversations, ConversationsError, Result, Session};

/// What a fork is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fork {
    /// The session that is copied.
    pub parent: Id,
    /// The new session's id.
    pub child: Id,
    /// The last event that may be taken along; `None` for all that ended.
    pub at: Option<u64>,
    /// Wall clock, milliseconds.
    pub now: i64,
}

impl Conversations {
    /// Forks a chat at its last turn that ended, at or before `at`; the child.
    pub(crate) fn fork_session(&mut self, fork: &Fork) -> Result<Session> {
        let Fork { parent, child, .. } = fork;
        let origin =
            self.session(parent)?.ok_or_else(|| ConversationsError::UnknownSession(parent.clone()))?;
        if origin.host != Host::Agentspine {
            return Err(ConversationsError::NotOurs(parent.clone()));
        }
        self.write(|tx| {
            let seed = seed(tx, fork)?;
            copy(tx, fork, seed)
        })?;
        self.session(child)?.ok_or_else(|| ConversationsError::UnknownSession(child.clone()))
    }
}

/// The last event up to there after which nothing is under way.
fn seed(tx: &Connection, Fork { parent, at, .. }: &Fork) -> Result<i64> {
    let redacted = "SELECT redacted_at IS NOT NULL FROM session WHERE id = ?1";
    let redacted: Option<bool> = tx.query_row(redacted, [parent.as_str()], |row| row.get(0)).optional()?;
    if redacted.unwrap_or_default() {
        return Err(ConversationsError::Redacted(parent.clone()));
    }
    let last = at.map_or(i64::MAX, |at| i64::try_from(at).unwrap_or(i64::MAX));
    let sql = "SELECT max(seq) FROM event WHERE session_id = ?1 AND seq <= ?2 \
         AND kind IN ('turn-end', 'compaction/summary')";
    let found: Option<i64> = tx.query_row(sql, params![parent.as_str(), last], |row| row.get(0))?;
    found.ok_or_else(|| ConversationsError::NothingEnded(parent.clone()))
}

fn copy(tx: &Connection, Fork { parent, child, now, .. }: &Fork, seed: i64) -> Result<()> {
    let (parent, child) = (parent.as_str(), child.as_str());
    let session = "INSERT INTO session(id, created_at, project_id, cwd, host, instruction_host, title, parent, seed, root) \
         SELECT ?2, ?3, project_id, cwd, host, instruction_host, title, id, ?4, coalesce(root, id) \
         FROM session WHERE id = ?1";
    tx.execute(session, params![parent, child, now, seed])?;
    let events = "INSERT INTO event(session_id, seq, kind, at, body) \
         SELECT ?2, seq, kind, at, body FROM event WHERE session_id = ?1 AND seq <= ?3 ORDER BY seq";
    tx.execute(events, params![parent, child, seed])?;
    let spans = "INSERT INTO span(session_id, place, receipt_id, text, last_used) \
         SELECT ?2, place, receipt_id, text, ?3 FROM span WHERE session_id = ?1 AND receipt_id IN \
         (SELECT json_extract(body, '$.receipt') FROM event WHERE session_id = ?2) ORDER BY rowid";
    tx.execute(spans, params![parent, child, now])?;
    Ok(())
}
