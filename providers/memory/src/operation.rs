//! Operations: the id that makes at-least-once delivery idempotent, and the states one goes through.

use agentspine_gate::{Digest, Id};
use rusqlite::{Connection, OptionalExtension as _, params};

use crate::ledger::StoreError;
use crate::provenance::number;
use crate::record::{MemoryScope, NewMemory, Origin};

/// Where an operation stands. A record has the same states but `dispatched`, and `tombstoned` beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Intended; nothing has left this ledger.
    Pending,
    /// Given to the projection; what came of it is not known yet.
    Dispatched,
    /// Read back and verified.
    Applied,
    /// Given to the projection, and what came of it could not be found out. Recall does not return it.
    Uncertain,
    /// Something else stands under its name outside.
    Conflict,
    /// Every retry failed.
    Failed,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Dispatched, Self::Applied, Self::Uncertain, Self::Conflict, Self::Failed];

    /// Parses what is stored.
    pub(crate) fn parse(text: &str) -> Result<Self, StoreError> {
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or(StoreError::Corrupt)
    }

    /// Stored text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Dispatched => "dispatched",
            Self::Applied => "applied",
            Self::Uncertain => "uncertain",
            Self::Conflict => "conflict",
            Self::Failed => "failed",
        }
    }

    /// The record's state while its operation is in this one.
    pub(crate) fn of_record(self) -> &'static str {
        match self {
            Self::Dispatched => Self::Pending.as_str(),
            other => other.as_str(),
        }
    }
}

/// Digest of the immutable, host-owned fields of one operation in one scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OperationId(Digest);

impl OperationId {
    /// `again` counts how often a person remembered the same thing anew after it was forgotten.
    pub(crate) fn of(scope: &MemoryScope, new: &NewMemory, again: u64) -> Self {
        let Origin { source, from_seq, through_seq, range_key, extractor } = &new.origin;
        let (from, through) = (from_seq.to_string(), through_seq.to_string());
        let range = Digest::of(range_key.as_bytes()).to_hex();
        let scope = scope.digest().to_hex();
        let again = again.to_string();
        let mut fields = vec!["operation v1", &scope, source.as_str(), &from, &through, &range];
        fields.extend([new.kind.as_str(), extractor.as_str()]);
        // Left out where absent: those are the ids of the first schema.
        if let Some(schema) = &new.provenance.proposal_schema {
            fields.extend(["schema", schema.as_str()]);
        }
        if again != "0" {
            fields.extend(["again", &again]);
        }
        Self(Digest::of(fields.join("\0").as_bytes()))
    }

    pub(crate) fn to_hex(self) -> String {
        self.0.to_hex()
    }

    /// The id of the memory it makes.
    pub(crate) fn memory_id(self) -> Result<Id, StoreError> {
        let digits: String = self.to_hex().chars().take(32).collect();
        Id::new(format!("memory:{digits}")).map_err(|_| StoreError::Corrupt)
    }
}

/// What an earlier run of the same operation left.
pub(crate) enum Earlier {
    Never,
    /// Its memory, the digest of what it said, and how far it came.
    Stored(Id, String, State),
    /// Its memory was forgotten.
    Forgotten(Id),
}

pub(crate) fn earlier(db: &Connection, operation: OperationId) -> Result<Earlier, StoreError> {
    let sql = "SELECT memory_id, payload_digest, state FROM memory_operation WHERE operation_id = ?";
    let found = db.prepare_cached(sql)?.query_row([operation.to_hex()], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?, row.get::<_, String>(2)?))
    });
    let Some((id, digest, state)) = found.optional()? else { return Ok(Earlier::Never) };
    let id = Id::new(id).map_err(|_| StoreError::Corrupt)?;
    Ok(match digest {
        None => Earlier::Forgotten(id),
        Some(digest) => Earlier::Stored(id, digest, State::parse(&state)?),
    })
}

/// Keeps an operation, in the caller's transaction.
pub(crate) fn insert(
    db: &Connection,
    operation: OperationId,
    again: u64,
    memory: (&Id, State),
    payload: Digest,
    new: &NewMemory,
) -> rusqlite::Result<()> {
    let (memory, state) = memory;
    let origin = &new.origin;
    db.prepare_cached(
        "INSERT INTO memory_operation (operation_id, memory_id, state, payload_digest, source, from_seq, through_seq,
                                       range_key, extractor, created_at, proposal_schema, again, settled_at, receipt)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12,
                 iif(?3 = 'applied', ?10, NULL), iif(?3 = 'applied', ?4, NULL))",
    )?
    .execute(params![
        operation.to_hex(),
        memory.as_str(),
        state.as_str(),
        payload.to_hex(),
        origin.source.as_str(),
        number(origin.from_seq),
        number(origin.through_seq),
        origin.range_key,
        origin.extractor.as_str(),
        new.created_at_ms,
        new.provenance.proposal_schema.as_ref().map(Id::as_str),
        number(again),
    ])?;
    Ok(())
}
