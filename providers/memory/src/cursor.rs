//! Cursors: how far each session has been ingested.

use agentspine_gate::Id;
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};

use crate::ledger::{Ledger, StoreError, count};
use crate::provenance::number;

/// Events up to which a session has been ingested.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionCursor {
    /// The session.
    pub session: Id,
    /// Its last event that was looked at.
    pub through_seq: u64,
}

impl Ledger {
    /// How far a session has been ingested; `None` where it never was.
    pub fn cursor(&self, session: &Id) -> Result<Option<SessionCursor>, StoreError> {
        let sql = "SELECT through_seq FROM session_cursor WHERE session = ?";
        let through = self.db.query_row(sql, [session.as_str()], |row| count(row, 0)).optional()?;
        Ok(through.map(|through_seq| SessionCursor { session: session.clone(), through_seq }))
    }

    /// Moves a cursor forward over events that hold nothing to remember. It never goes back.
    pub fn skip(&mut self, cursor: &SessionCursor, now_ms: i64) -> Result<(), StoreError> {
        let tx = self.db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        advance(&tx, cursor, now_ms)?;
        Ok(tx.commit()?)
    }
}

/// Moves a cursor forward, in the caller's transaction.
pub(crate) fn advance(db: &Connection, cursor: &SessionCursor, now_ms: i64) -> rusqlite::Result<()> {
    let sql = "INSERT INTO session_cursor (session, through_seq, changed_at) VALUES (?1, ?2, ?3)
               ON CONFLICT (session) DO UPDATE SET through_seq = excluded.through_seq, changed_at = excluded.changed_at
               WHERE excluded.through_seq > through_seq";
    db.prepare_cached(sql)?.execute(params![cursor.session.as_str(), number(cursor.through_seq), now_ms])?;
    Ok(())
}
