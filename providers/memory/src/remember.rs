//! Remember: one operation, its record, provenance, relations and index entry in one transaction.
//!
//! Where the ledger is not projected the read-back is of the ledger itself, so the record is applied with its commit.
//! Where it is, the commit is the intent: [`crate::Ledger::reconcile`] projects and settles it.

use agentspine_gate::screen::Refused;
use agentspine_gate::{Digest, Id};
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};

use crate::cursor::{self, SessionCursor};
use crate::ledger::{Ledger, Projecting, StoreError};
use crate::operation::{self, Earlier, OperationId, State};
use crate::record::{MemoryScope, NewMemory, Trust};
use crate::retry::{self, Work};
use crate::text::Screened;
use crate::{provenance, relation, rows};

/// What became of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Stored now.
    Applied,
    /// The same operation, or the same words of a person, stored it before.
    Replayed,
    /// The same operation stored it before and it was forgotten since. [`Ledger::remember_anew`] remembers it again.
    Forgotten,
    /// Stored, but its projection is not verified yet: recall returns it once reconcile has settled it.
    Uncertain,
}

/// A memory that is in the ledger, or was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// Its id: the same operation always gives the same one.
    pub memory_id: Id,
    /// What became of it.
    pub settled: Settled,
    /// Labels of what was redacted, without duplicates; values nowhere.
    pub redacted: Vec<String>,
}

/// Why nothing was remembered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RememberError {
    /// Title or summary without text.
    #[error("a memory needs a {0}")]
    Empty(&'static str),
    /// Over a limit.
    #[error("the {field} is longer than {limit} {unit}")]
    TooLong {
        /// Which field.
        field: &'static str,
        /// Its limit.
        limit: usize,
        /// What is counted.
        unit: &'static str,
    },
    /// The screen refused the text.
    #[error("not remembered: {0}")]
    Refused(#[from] Refused),
    /// The same operation remembered something else before, or something else stands under its name outside.
    #[error("this operation already remembered another text")]
    Conflict,
    /// It relates to a memory that this scope does not have.
    #[error("a related memory is not in this scope, or was forgotten")]
    Unrelated,
    /// Made from events a fork shares with its parent.
    #[error("the first {0} events belong to the session this one was forked from")]
    Seed(u64),
    /// The range overlaps another one of the same session that was ingested before.
    #[error("events of this range are in the ledger already")]
    Ingested,
    /// The cursor is of another session, or stops before what the memory is made from.
    #[error("the cursor does not fit what the memory is made from")]
    Cursor,
    /// The ledger failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<rusqlite::Error> for RememberError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Store(error.into())
    }
}

impl RememberError {
    /// The next thing to do.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Empty(_) => "give a title and a summary",
            Self::TooLong { .. } => "shorten it, or split it into several memories",
            Self::Refused(Refused::Secret(_)) => "leave the secret out; say where it is kept instead",
            Self::Refused(Refused::Authority(_)) => {
                "a standing rule is a Must-Remember entry: agentspine remember-propose"
            }
            Self::Conflict => "remember it as a new memory",
            Self::Unrelated => "leave the relation out, or name a memory of this project",
            Self::Seed(_) => "remember it in the session it was forked from",
            Self::Ingested | Self::Cursor => "go on after the session's cursor",
            Self::Store(_) => "run: agentspine doctor",
        }
    }
}

/// Whether a forgotten operation may be done anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repeat {
    /// A repeated delivery must not bring back what was forgotten.
    StaysForgotten,
    /// A person asked for it.
    Anew,
    /// A range is ingested once: whoever came first has said it, and the cursor has to get past it.
    FirstWins,
}

impl Ledger {
    /// Remembers one memory in exactly this scope.
    ///
    /// Text is redacted, screened, and only then hashed and stored. Repeating an operation returns the first result.
    pub fn remember(&mut self, memory: &NewMemory, scope: &MemoryScope) -> Result<Remembered, RememberError> {
        self.store(memory, scope, Repeat::StaysForgotten, None)
    }

    /// Remembers it also where the same operation was forgotten, as the next version. Only for the act of a person.
    pub fn remember_anew(
        &mut self,
        memory: &NewMemory,
        scope: &MemoryScope,
    ) -> Result<Remembered, RememberError> {
        self.store(memory, scope, Repeat::Anew, None)
    }

    /// Remembers what was made from a range of a session, and moves the session's cursor with it.
    ///
    /// A range is ingested once: several memories may be made from it, told apart by their range keys, but no other
    /// range of the same source and extractor may overlap it. The same range again keeps what it said first, also where
    /// it says something else now. An error moves no cursor; see [`Ledger::skip`].
    pub fn ingest(
        &mut self,
        memory: &NewMemory,
        scope: &MemoryScope,
        cursor: &SessionCursor,
    ) -> Result<Remembered, RememberError> {
        if cursor.session != memory.origin.source || cursor.through_seq < memory.origin.through_seq {
            return Err(RememberError::Cursor);
        }
        self.store(memory, scope, Repeat::FirstWins, Some(cursor))
    }

    fn store(
        &mut self,
        new: &NewMemory,
        scope: &MemoryScope,
        repeat: Repeat,
        cursor: Option<&SessionCursor>,
    ) -> Result<Remembered, RememberError> {
        let text = Screened::of(new)?;
        let projecting = self.projecting;
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let order = Order { new, text: &text, scope, payload: text.digest(new), repeat, projecting };
        if cursor.is_some() {
            order.refuse_overlap(&tx)?;
        }
        let (memory_id, settled) = order.carry_out(&tx)?;
        if let Some(cursor) = cursor {
            cursor::advance(&tx, cursor, new.created_at_ms)?;
        }
        tx.commit()?;
        Ok(Remembered { memory_id, settled, redacted: text.redacted })
    }
}

/// One memory on its way into the ledger.
struct Order<'a> {
    new: &'a NewMemory,
    text: &'a Screened,
    scope: &'a MemoryScope,
    payload: Digest,
    repeat: Repeat,
    projecting: Projecting,
}

impl Order<'_> {
    fn carry_out(&self, db: &Connection) -> Result<(Id, Settled), RememberError> {
        let mut again = 0;
        loop {
            let operation = OperationId::of(self.scope, self.new, again);
            match operation::earlier(db, operation)? {
                Earlier::Never => return self.first(db, operation, again),
                Earlier::Forgotten(_) if self.repeat == Repeat::Anew => again += 1,
                Earlier::Forgotten(memory) => return Ok((memory, Settled::Forgotten)),
                Earlier::Stored(memory, digest, state)
                    if digest == self.payload.to_hex() || self.repeat == Repeat::FirstWins =>
                {
                    let settled = self.repeated(db, &memory, state)?;
                    return Ok((memory, settled));
                }
                Earlier::Stored(..) => return Err(RememberError::Conflict),
            }
        }
    }

    /// The stored receipt; an operation without one is asked for once more.
    fn repeated(&self, db: &Connection, memory: &Id, state: State) -> Result<Settled, RememberError> {
        match state {
            State::Applied => Ok(Settled::Replayed),
            State::Conflict if self.repeat == Repeat::FirstWins => Ok(Settled::Replayed),
            State::Conflict => Err(RememberError::Conflict),
            State::Pending | State::Dispatched | State::Uncertain | State::Failed => {
                retry::ask(db, memory, Work::Write, self.new.created_at_ms)?;
                Ok(Settled::Uncertain)
            }
        }
    }

    fn first(
        &self,
        db: &Connection,
        operation: OperationId,
        again: u64,
    ) -> Result<(Id, Settled), RememberError> {
        for relation in &self.new.relations {
            if !relation.known(db, self.scope)? {
                return Err(RememberError::Unrelated);
            }
        }
        if let Some((memory, state)) = self.same_words(db)? {
            operation::insert(db, operation, again, (&memory, state), self.payload, self.new)?;
            let settled = if state == State::Applied { Settled::Replayed } else { Settled::Uncertain };
            return Ok((memory, settled));
        }
        let state = match self.projecting {
            Projecting::Off => State::Applied,
            Projecting::On => State::Pending,
        };
        let memory = operation.memory_id()?;
        self.keep(db, operation, again, (&memory, state))?;
        Ok((memory, if state == State::Applied { Settled::Applied } else { Settled::Uncertain }))
    }

    fn keep(
        &self,
        db: &Connection,
        operation: OperationId,
        again: u64,
        memory: (&Id, State),
    ) -> rusqlite::Result<()> {
        let (id, state) = memory;
        let now_ms = self.new.created_at_ms;
        let row = rows::insert(db, self.new, self.text, self.scope, memory, again)?;
        operation::insert(db, operation, again, memory, self.payload, self.new)?;
        provenance::insert(db, id, operation, &self.new.provenance)?;
        relation::insert(db, self.scope, id, &self.new.relations, state.as_str(), now_ms)?;
        match state {
            State::Applied => rows::publish(db, row),
            _ => retry::ask(db, id, Work::Write, now_ms),
        }
    }

    /// The live memory that says exactly the same: a person's words make one memory, however often and from how many
    /// sessions they come. What is derived is told apart by its range, and a forgotten memory holds nothing back.
    fn same_words(&self, db: &Connection) -> Result<Option<(Id, State)>, StoreError> {
        if self.new.trust != Trust::Explicit {
            return Ok(None);
        }
        let sql = "SELECT o.memory_id, o.state FROM memory_operation o JOIN memory_record r USING (memory_id)
                   JOIN memory_scope s ON s.no = r.scope_no
                   WHERE o.payload_digest = ? AND s.digest = ? AND r.kind = ?
                         AND r.state IN ('applied', 'pending', 'uncertain') ORDER BY r.row LIMIT 1";
        let key = params![self.payload.to_hex(), self.scope.digest().to_hex(), self.new.kind.as_str()];
        let found = db.prepare_cached(sql)?.query_row(key, |row| Ok((row.get(0)?, row.get(1)?)));
        let found: Option<(String, String)> = found.optional()?;
        let Some((id, state)) = found else { return Ok(None) };
        Ok(Some((Id::new(id).map_err(|_| StoreError::Corrupt)?, State::parse(&state)?)))
    }

    /// Two sessions that summarise overlapping ranges at once would remember the same events twice.
    fn refuse_overlap(&self, db: &Connection) -> Result<(), RememberError> {
        let origin = &self.new.origin;
        let (from, through) = (provenance::number(origin.from_seq), provenance::number(origin.through_seq));
        let sql = "SELECT 1 FROM memory_operation WHERE source = ?1 AND extractor = ?2 AND from_seq <= ?4
                          AND through_seq >= ?3 AND NOT (from_seq = ?3 AND through_seq = ?4) LIMIT 1";
        let key = params![origin.source.as_str(), origin.extractor.as_str(), from, through];
        match db.prepare_cached(sql)?.query_row(key, |_| Ok(())).optional()? {
            Some(()) => Err(RememberError::Ingested),
            None => Ok(()),
        }
    }
}
