//! Between rows and types.

use std::path::PathBuf;

use agentspine_gate::span::{Place, Span};
use agentspine_gate::turn::{Host, InstructionHost};
use agentspine_gate::{Digest, Id, ReceiptId};
use rusqlite::{Connection, Row, params};

use super::{
    ConversationsError, DAY_MS, EVENT_BYTES_MAX, Event, EventKind, NewEvent, Result, Session, Touch,
};

/// Every session with its last event. A subquery, so that conditions may name the computed columns.
pub(super) const SESSIONS: &str = "SELECT * FROM (SELECT id, created_at, project_id, cwd, host, instruction_host, \
     title, parent, seed, root, redacted_at, \
     coalesce((SELECT max(seq) FROM event WHERE session_id = id), 0) AS events, \
     max(created_at, coalesce((SELECT at FROM event WHERE session_id = id ORDER BY seq DESC LIMIT 1), created_at)) \
     AS last_at FROM session)";

/// Appends events and remembers spans; the sequence of the last event.
pub(super) fn append<'a>(
    tx: &Connection,
    session: &Id,
    events: &[NewEvent],
    spans: impl IntoIterator<Item = &'a Span>,
    touch: Touch,
) -> Result<u64> {
    let mut seq = last_seq(tx, session)?;
    for event in events {
        seq += 1;
        insert_event(tx, session, seq, event)?;
    }
    let at = events.last().map_or(0, |event| event.at);
    if touch == Touch::Due {
        touch_spans(tx, session, at, at.saturating_sub(DAY_MS))?;
    }
    spans.into_iter().try_for_each(|span| insert_span(tx, session, span, at))?;
    Ok(seq)
}

fn last_seq(tx: &Connection, session: &Id) -> Result<u64> {
    let sql =
        "SELECT coalesce((SELECT max(seq) FROM event WHERE session_id = id), 0) FROM session WHERE id = ?1";
    let found = tx.prepare_cached(sql)?.query_row([session.as_str()], |row| row.get::<_, i64>(0));
    match found {
        Ok(seq) => u64::try_from(seq).map_err(|_| ConversationsError::Corrupt("seq")),
        Err(rusqlite::Error::QueryReturnedNoRows) => Err(ConversationsError::UnknownSession(session.clone())),
        Err(cause) => Err(cause.into()),
    }
}

fn insert_event(tx: &Connection, session: &Id, seq: u64, event: &NewEvent) -> Result<()> {
    let body = event.body.to_string();
    if body.len() > EVENT_BYTES_MAX {
        return Err(ConversationsError::TooLarge { what: "event", limit: EVENT_BYTES_MAX });
    }
    let seq = i64::try_from(seq).map_err(|_| ConversationsError::Corrupt("seq"))?;
    let sql = "INSERT INTO event(session_id, seq, kind, at, body) VALUES (?1, ?2, ?3, ?4, ?5)";
    tx.prepare_cached(sql)?.execute(params![session.as_str(), seq, event.kind.as_str(), event.at, body])?;
    Ok(())
}

/// A prompt that was refused, or sent and not answered, may be sent again at the same place: the later span takes it.
pub(super) fn insert_span(tx: &Connection, session: &Id, span: &Span, at: i64) -> Result<()> {
    let free = "DELETE FROM span WHERE session_id = ?1 AND place = ?2";
    tx.prepare_cached(free)?.execute(params![session.as_str(), span.place.0.to_hex()])?;
    let sql = "INSERT INTO span(session_id, place, receipt_id, text, last_used) VALUES (?1, ?2, ?3, ?4, ?5)";
    let values = params![session.as_str(), span.place.0.to_hex(), span.receipt.to_hex(), span.text, at];
    tx.prepare_cached(sql)?.execute(values)?;
    Ok(())
}

/// Writes down that the spans of a session are in use, where that was not done since `before`.
fn touch_spans(tx: &Connection, session: &Id, at: i64, before: i64) -> Result<()> {
    let sql = "UPDATE span SET last_used = ?2 WHERE session_id = ?1 AND last_used < ?3";
    tx.prepare_cached(sql)?.execute(params![session.as_str(), at, before])?;
    Ok(())
}

pub(super) fn event(row: &Row<'_>) -> Result<Event> {
    let seq = u64::try_from(row.get::<_, i64>(0)?).map_err(|_| ConversationsError::Corrupt("seq"))?;
    let body =
        serde_json::from_str(row.get_ref(3)?.as_str().map_err(|_| ConversationsError::Corrupt("body"))?)
            .map_err(|_| ConversationsError::Corrupt("body"))?;
    Ok(Event { seq, kind: EventKind::of(row.get(1)?), at: row.get(2)?, body })
}

pub(super) fn span(row: &Row<'_>) -> Result<Span> {
    let place = Digest::parse(&row.get::<_, String>(0)?).ok_or(ConversationsError::Corrupt("place"))?;
    let receipt =
        ReceiptId::parse(&row.get::<_, String>(1)?).ok_or(ConversationsError::Corrupt("receipt"))?;
    Ok(Span { place: Place(place), receipt, text: row.get(2)? })
}

pub(super) fn session(row: &Row<'_>) -> Result<Session> {
    let events =
        u64::try_from(row.get::<_, i64>("events")?).map_err(|_| ConversationsError::Corrupt("seq"))?;
    Ok(Session {
        id: id(row.get("id")?)?,
        created_at: row.get("created_at")?,
        last_at: row.get("last_at")?,
        events,
        project_id: id(row.get("project_id")?)?,
        cwd: PathBuf::from(row.get::<_, String>("cwd")?),
        host: host(&row.get::<_, String>("host")?)?,
        instruction_host: instruction_host(&row.get::<_, String>("instruction_host")?)?,
        title: row.get("title")?,
        parent: row.get::<_, Option<String>>("parent")?.map(id).transpose()?,
        seed_length: u64::try_from(row.get::<_, i64>("seed")?)
            .map_err(|_| ConversationsError::Corrupt("seed"))?,
        root: row.get::<_, Option<String>>("root")?.map(id).transpose()?,
        redacted_at: row.get("redacted_at")?,
    })
}

pub(super) fn home(row: &Row<'_>) -> Result<(PathBuf, Host, InstructionHost)> {
    let (host_is, files_of) = (row.get::<_, String>(1)?, row.get::<_, String>(2)?);
    Ok((row.get::<_, String>(0)?.into(), host(&host_is)?, instruction_host(&files_of)?))
}

pub(super) fn id(text: String) -> Result<Id> {
    Id::new(text).map_err(|_| ConversationsError::Corrupt("id"))
}

fn host(text: &str) -> Result<Host> {
    let all = [Host::Agentspine, Host::Claude, Host::Codex, Host::King, Host::Generic];
    all.into_iter().find(|host| host.as_str() == text).ok_or(ConversationsError::Corrupt("host"))
}

fn instruction_host(text: &str) -> Result<InstructionHost> {
    let all = [InstructionHost::Claude, InstructionHost::Codex];
    all.into_iter().find(|host| host.as_str() == text).ok_or(ConversationsError::Corrupt("instruction host"))
}
