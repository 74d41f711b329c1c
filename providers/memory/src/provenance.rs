//! Provenance: the session a memory was made from, and what derived it.

use std::fmt;

use agentspine_gate::Id;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::ledger::{Ledger, StoreError, count};
use crate::operation::OperationId;
use crate::record::{MemoryScope, Origin};

/// Longest working directory, bytes.
pub const CWD_BYTES_MAX: usize = 4096;
/// Longest model route, bytes.
pub const ROUTE_BYTES_MAX: usize = 256;
/// Most embedding models of one memory.
pub const EMBEDDINGS_MAX: usize = 8;

/// Where a memory comes from beyond its [`Origin`]. The default says: a person's own act at the command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Provenance {
    /// The session [`Origin::source`] names; `None` where there is none.
    pub session: Option<SessionSource>,
    /// Schema of the proposal it came as, such as `compaction/v1`; part of the operation id.
    pub proposal_schema: Option<Id>,
    /// What validated it, with its version.
    pub validator_policy: Option<Id>,
    /// Models whose vectors were made of it, with their versions.
    pub embedding_models: Vec<Id>,
    /// Provider and model that wrote it, at most [`ROUTE_BYTES_MAX`].
    pub model_route: Option<String>,
}

/// The session a memory was made from; its id is [`Origin::source`].
#[derive(Clone, PartialEq, Eq)]
pub struct SessionSource {
    /// Milliseconds since the Unix epoch.
    pub created_at_ms: i64,
    /// Its working directory, at most [`CWD_BYTES_MAX`]; erased with the memory.
    pub cwd: String,
    /// What keeps it, such as `conversations`.
    pub persistence: Id,
    /// Its last event when the memory was made.
    pub revision: u64,
    /// The session it was forked from.
    pub parent: Option<Id>,
    /// How many of its first events it shares with its parent: those are the parent's to remember.
    pub seed_length: u64,
    /// Number of the turn.
    pub turn: Option<u64>,
}

impl fmt::Debug for SessionSource {
    /// Without the working directory.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionSource").field("parent", &self.parent).finish_non_exhaustive()
    }
}

/// Where a stored memory comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The operation that made it.
    pub origin: Origin,
    /// The rest; the default for memories of the first schema.
    pub provenance: Provenance,
}

impl Ledger {
    /// Where a memory of exactly this scope comes from; `None` where the scope has no such memory or forgot it.
    pub fn source(&self, scope: &MemoryScope, id: &Id) -> Result<Option<Source>, StoreError> {
        let sql = "SELECT o.source, o.from_seq, o.through_seq, o.range_key, o.extractor, o.proposal_schema,
                          p.session_created_at, p.cwd, p.persistence, p.revision, p.parent_session, p.seed_length,
                          p.turn, p.validator_policy, coalesce(p.embedding_models, ''), p.model_route
                   FROM memory_record r JOIN memory_scope s ON s.no = r.scope_no
                   LEFT JOIN memory_provenance p ON p.memory_id = r.memory_id
                   JOIN memory_operation o ON o.operation_id = coalesce(p.operation_id,
                        (SELECT min(operation_id) FROM memory_operation WHERE memory_id = r.memory_id))
                   WHERE r.memory_id = ? AND s.digest = ? AND r.state <> 'tombstoned'";
        let key = params![id.as_str(), scope.digest().to_hex()];
        self.db.query_row(sql, key, |row| Ok(read(row))).optional()?.transpose()
    }
}

fn read(row: &Row<'_>) -> Result<Source, StoreError> {
    let origin = Origin {
        source: id(row.get(0)?)?,
        from_seq: count(row, 1)?,
        through_seq: count(row, 2)?,
        range_key: row.get(3)?,
        extractor: id(row.get(4)?)?,
    };
    let models: String = row.get(14)?;
    let models = models.lines().map(|model| id(model.to_owned()));
    let provenance = Provenance {
        session: session(row)?,
        proposal_schema: optional(row, 5)?,
        validator_policy: optional(row, 13)?,
        embedding_models: models.collect::<Result<_, _>>()?,
        model_route: row.get(15)?,
    };
    Ok(Source { origin, provenance })
}

fn session(row: &Row<'_>) -> Result<Option<SessionSource>, StoreError> {
    let Some(created_at_ms) = row.get(6)? else { return Ok(None) };
    Ok(Some(SessionSource {
        created_at_ms,
        cwd: row.get(7)?,
        persistence: id(row.get(8)?)?,
        revision: count(row, 9)?,
        parent: optional(row, 10)?,
        seed_length: count(row, 11)?,
        turn: row.get::<_, Option<i64>>(12)?.map(|_| count(row, 12)).transpose()?,
    }))
}

fn id(text: String) -> Result<Id, StoreError> {
    Id::new(text).map_err(|_| StoreError::Corrupt)
}

fn optional(row: &Row<'_>, at: usize) -> Result<Option<Id>, StoreError> {
    row.get::<_, Option<String>>(at)?.map(id).transpose()
}

/// Keeps the provenance of a new memory, in the caller's transaction.
pub(crate) fn insert(
    db: &Connection,
    memory: &Id,
    operation: OperationId,
    of: &Provenance,
) -> rusqlite::Result<()> {
    let session = of.session.as_ref();
    let models: Vec<&str> = of.embedding_models.iter().map(Id::as_str).collect();
    db.prepare_cached(
        "INSERT INTO memory_provenance (memory_id, operation_id, session_created_at, cwd, persistence, revision,
             parent_session, seed_length, turn, validator_policy, embedding_models, model_route)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        memory.as_str(),
        operation.to_hex(),
        session.map(|s| s.created_at_ms),
        session.map(|s| s.cwd.as_str()),
        session.map(|s| s.persistence.as_str()),
        session.map(|s| number(s.revision)),
        session.and_then(|s| s.parent.as_ref()).map(Id::as_str),
        session.map(|s| number(s.seed_length)),
        session.and_then(|s| s.turn).map(number),
        of.validator_policy.as_ref().map(Id::as_str),
        models.join("\n"),
        of.model_route,
    ])?;
    Ok(())
}

/// SQLite's integers are signed; a count of events never comes near the end of them.
pub(crate) fn number(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}
