//! Compaction summaries: what they are made from, and those that memory has not taken up yet.

use agentspine_gate::Id;
use agentspine_gate::turn::Host;
use rusqlite::{OptionalExtension as _, params};
use serde_json::Value;

use super::{Conversations, ConversationsError, Event, Look, Result, Session, rows};

/// A run of events of one session, both ends within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    /// Its first event.
    pub from_seq: u64,
    /// Its last event.
    pub through_seq: u64,
}

/// A summary with all that decides what memory may take from it.
pub(crate) struct Pending {
    /// The session.
    pub session: Session,
    /// The summary.
    pub summary: Event,
    /// Texts the summary may repeat that were injected, found by a tool, or summarised before.
    pub derived: Vec<String>,
}

impl Conversations {
    /// What a summary would be made from: everything since the last one. `None` where nothing was answered since.
    pub(crate) fn unsummarised(&self, session: &Id) -> Result<Option<Range>> {
        let sql = "SELECT coalesce((SELECT max(seq) FROM event WHERE session_id = ?1 AND kind = 'compaction/summary'), 0)";
        let before: i64 = self.0.query_row(sql, [session.as_str()], |row| row.get(0))?;
        let sql = "SELECT max(seq), max(kind = 'assistant') FROM event WHERE session_id = ?1 AND seq > ?2";
        let found = self.0.query_row(sql, params![session.as_str(), before], |row| {
            Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<bool>>(1)?))
        })?;
        let (Some(last), Some(true)) = found else { return Ok(None) };
        Ok(Some(Range { from_seq: seq(before)? + 1, through_seq: seq(last)? }))
    }
}

impl Look {
    /// The chats that hold a summary of their own, each with its newest. A fork's seed is its parent's, a redacted session
    /// holds none.
    pub(crate) fn summarised(&self) -> Result<Vec<(Id, u64)>> {
        let sql = "SELECT event.session_id, max(event.seq) FROM event JOIN session ON session.id = event.session_id \
             WHERE event.kind = 'compaction/summary' AND event.seq > session.seed AND session.redacted_at IS NULL \
             AND session.host = ?1 GROUP BY event.session_id";
        let mut select = self.connection.prepare_cached(sql)?;
        let mut found = select.query([Host::Agentspine.as_str()])?;
        let mut sessions = Vec::new();
        while let Some(row) = found.next()? {
            sessions.push((rows::id(row.get(0)?)?, seq(row.get(1)?)?));
        }
        Ok(sessions)
    }

    /// A chat's own summaries after an event, oldest first.
    pub(crate) fn pending(&self, session: &Id, after: u64) -> Result<Vec<Pending>> {
        let mut select = self.connection.prepare_cached(&format!("{} WHERE id = ?1", rows::SESSIONS))?;
        let known = select.query_row([session.as_str()], |row| Ok(rows::session(row))).optional()?;
        let Some(known) = known.transpose()? else { return Ok(Vec::new()) };
        let after = after.max(known.seed_length);
        let summaries = self.of_kind(session, "compaction/summary")?;
        let of = |event: &Event| self.derived(session, event.seq, &summaries);
        let own = summaries.iter().filter(|event| event.seq > after);
        own.map(|event| Ok(Pending { session: known.clone(), summary: event.clone(), derived: of(event)? }))
            .collect()
    }

    /// Whether something was answered within a range.
    pub(crate) fn was_answered(&self, session: &Id, range: Range) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT 1 FROM event WHERE session_id = ?1 AND kind = 'assistant' AND seq BETWEEN ?2 AND ?3)";
        let bound = |seq: u64| i64::try_from(seq).unwrap_or(i64::MAX);
        let values = params![session.as_str(), bound(range.from_seq), bound(range.through_seq)];
        Ok(self.connection.query_row(sql, values, |row| row.get(0))?)
    }

    fn of_kind(&self, session: &Id, kind: &str) -> Result<Vec<Event>> {
        let sql = "SELECT seq, kind, at, body FROM event WHERE session_id = ?1 AND kind = ?2 ORDER BY seq";
        let mut select = self.connection.prepare_cached(sql)?;
        let mut found = select.query([session.as_str(), kind])?;
        let mut events = Vec::new();
        while let Some(row) = found.next()? {
            events.push(rows::event(row)?);
        }
        Ok(events)
    }

    /// What stood in the conversation before a summary and is no work of its turns.
    fn derived(&self, session: &Id, before: u64, summaries: &[Event]) -> Result<Vec<String>> {
        let mut select = self.connection.prepare_cached("SELECT text FROM span WHERE session_id = ?1")?;
        let spans = select.query_map([session.as_str()], |row| row.get::<_, String>(0))?;
        let mut texts = spans.collect::<std::result::Result<Vec<_>, _>>()?;
        for event in self.of_kind(session, "tool-results")?.iter().filter(|event| event.seq < before) {
            strings(&event.body, &mut texts);
        }
        let earlier = summaries.iter().filter(|event| event.seq < before);
        texts.extend(earlier.filter_map(|event| event.body.get("text")?.as_str().map(str::to_owned)));
        Ok(texts)
    }
}

/// Every string in a value; a tool's result may be JSON in a string, and then its strings count too.
fn strings(value: &Value, out: &mut Vec<String>) {
    match value {
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(inner @ (Value::Object(_) | Value::Array(_))) => strings(&inner, out),
            _ => out.push(text.clone()),
        },
        Value::Array(items) => items.iter().for_each(|item| strings(item, out)),
        Value::Object(members) => members.values().for_each(|member| strings(member, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn seq(number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| ConversationsError::Corrupt("seq"))
}
