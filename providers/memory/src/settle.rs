//! Settling: what the ledger keeps of an operation's outcome. Every function runs in its caller's transaction.

use agentspine_gate::Id;
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::ledger::StoreError;
use crate::name::Name;
use crate::operation::State;
use crate::projection::{Key, Projected, Triple};
use crate::relation::Predicate;
use crate::rows;

/// A record as it is projected.
pub(crate) struct Job {
    pub(crate) row: i64,
    pub(crate) state: State,
    pub(crate) what: Projected,
}

/// A relation as it is projected.
pub(crate) struct Edge {
    /// The memory that brought it.
    pub(crate) memory: Id,
    pub(crate) n: i64,
    pub(crate) state: State,
    pub(crate) what: Projected,
}

/// The record of a memory, with the furthest state of its operations; `None` where it was forgotten.
pub(crate) fn job(db: &Connection, memory: &Id) -> Result<Option<Job>, StoreError> {
    let sql = "SELECT r.row, s.digest, r.kind, r.trust, r.title, r.summary, r.tags, coalesce(r.subject, ''),
                      (SELECT min(o.state) FROM memory_operation o WHERE o.memory_id = r.memory_id), r.state
               FROM memory_record r JOIN memory_scope s ON s.no = r.scope_no
               WHERE r.memory_id = ? AND r.state <> 'tombstoned'";
    let found = db.prepare_cached(sql)?.query_row([memory.as_str()], |row| {
        let texts = (1..10).map(|at| row.get::<_, String>(at)).collect::<rusqlite::Result<Vec<_>>>()?;
        Ok((row.get::<_, i64>(0)?, texts))
    });
    let Some((row, texts)) = found.optional()? else { return Ok(None) };
    let [digest, kind, trust, title, summary, tags, subject, operation, record] =
        <[String; 9]>::try_from(texts).map_err(|_| StoreError::Corrupt)?;
    // A record knows no `dispatched`; its operation does.
    let state = match State::parse(&record)? {
        State::Pending => State::parse(&operation)?,
        other => other,
    };
    let data = ["memory v1", &kind, &trust, &subject, &tags.replace('\n', ", "), &title, &summary].join("\n");
    let what = Projected {
        key: Key::Record(Name::in_scope(&digest, memory.as_str())),
        data,
        tags: tags.split('\n').filter(|tag| !tag.is_empty()).map(str::to_owned).collect(),
    };
    Ok(Some(Job { row, state, what }))
}

impl Job {
    /// Its projection stands: receipt, index, scope statistics.
    pub(crate) fn apply(&self, db: &Connection, memory: &Id, now_ms: i64) -> Result<(), StoreError> {
        if self.state == State::Applied {
            return Ok(());
        }
        set_record(db, memory, State::Applied, now_ms)?;
        rows::publish(db, self.row)?;
        Ok(())
    }
}

/// Moves a record and its open operations; `applied` also writes the receipt.
pub(crate) fn set_record(db: &Connection, memory: &Id, state: State, now_ms: i64) -> Result<(), StoreError> {
    let sql =
        "UPDATE memory_record SET state = ?, changed_at = ? WHERE memory_id = ? AND state <> 'tombstoned'";
    db.execute(sql, params![state.of_record(), now_ms, memory.as_str()])?;
    let sql = "UPDATE memory_operation SET state = ?1,
                      dispatched_at = iif(?1 = 'dispatched', coalesce(dispatched_at, ?2), dispatched_at),
                      settled_at = iif(?1 = 'applied', ?2, NULL), receipt = iif(?1 = 'applied', payload_digest, NULL)
               WHERE memory_id = ?3 AND state <> 'applied'";
    db.execute(sql, params![state.as_str(), now_ms, memory.as_str()])?;
    Ok(())
}

/// The relations a memory brought whose outcome is open.
pub(crate) fn open_edges(db: &Connection, memory: &Id) -> Result<Vec<Edge>, StoreError> {
    let sql = "SELECT memory_id, n, state, subject, predicate, object FROM memory_relation
               WHERE memory_id = ? AND state IN ('pending', 'dispatched', 'uncertain', 'failed') ORDER BY n";
    edges(db, sql, memory.as_str())
}

/// Every relation from or to a name.
pub(crate) fn edges_of(db: &Connection, name: &Name) -> Result<Vec<Edge>, StoreError> {
    let sql = "SELECT memory_id, n, state, subject, predicate, object FROM memory_relation
               WHERE subject = ?1 OR object = ?1 ORDER BY memory_id, n";
    edges(db, sql, name.as_str())
}

fn edges(db: &Connection, sql: &str, key: &str) -> Result<Vec<Edge>, StoreError> {
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query([key])?;
    let mut edges = Vec::new();
    while let Some(row) = rows.next()? {
        let text = |at: usize| row.get::<_, String>(at);
        let triple = Triple {
            subject: Name::stored(text(3)?),
            predicate: Predicate::parse(&text(4)?).ok_or(StoreError::Corrupt)?,
            object: Name::stored(text(5)?),
        };
        let what = Projected { key: Key::Relation(triple), data: String::new(), tags: Vec::new() };
        let state = text(2)?;
        // A withdrawn one is on its way out: only cleanup reads those, and it does not look at the state.
        let state = if state == "withdrawn" { State::Uncertain } else { State::parse(&state)? };
        let memory = Id::new(text(0)?).map_err(|_| StoreError::Corrupt)?;
        edges.push(Edge { memory, n: row.get(1)?, state, what });
    }
    Ok(edges)
}

/// Moves a relation; whether it was not withdrawn meanwhile.
pub(crate) fn set_edge(db: &Connection, edge: &Edge, state: State, now_ms: i64) -> Result<bool, StoreError> {
    let sql = "UPDATE memory_relation SET state = ?1, changed_at = ?2,
                      dispatched_at = iif(?1 = 'dispatched', coalesce(dispatched_at, ?2), dispatched_at)
               WHERE memory_id = ?3 AND n = ?4 AND state <> 'withdrawn'";
    Ok(db.execute(sql, params![state.as_str(), now_ms, edge.memory.as_str(), edge.n])? > 0)
}
