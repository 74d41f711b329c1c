//! How the ledger stands: counts of everything that is not settled.

use std::collections::BTreeMap;

use rusqlite::Connection;

use crate::ledger::{Ledger, StoreError, count};
use crate::{index, schema};

/// Whether recall and projection have what the records say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexState {
    /// They do.
    Ok,
    /// They don't: the full-text index lacks or has too many rows, or work was given up.
    Degraded,
    /// Operations or cleanups are open, so nobody can say.
    Uncertain,
}

impl IndexState {
    /// Wire text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Uncertain => "uncertain",
        }
    }
}

/// How the ledger stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Schema version of the file.
    pub schema: i64,
    /// Records by state, such as `applied`; states without a record are left out.
    pub records: BTreeMap<String, u64>,
    /// Operations by state.
    pub operations: BTreeMap<String, u64>,
    /// Forgotten memories by cleanup state.
    pub cleanups: BTreeMap<String, u64>,
    /// Scopes that hold or held a memory.
    pub scopes: u64,
    /// Memories with open work that was not tried yet.
    pub pending: u64,
    /// Memories with open work that failed and is tried again.
    pub retry: u64,
    /// When the earliest of both is due, milliseconds of the callers' clock.
    pub next_due_ms: Option<i64>,
    /// Memories whose work was given up.
    pub dead_letters: u64,
    /// Whether recall and projection have what the records say.
    pub index: IndexState,
}

impl Ledger {
    /// Counts over the whole file, and whether index and records agree.
    pub fn status(&self) -> Result<Status, StoreError> {
        let tx = self.db.unchecked_transaction()?;
        let number = |sql: &str| tx.query_row(sql, [], |row| count(row, 0));
        let pending = number("SELECT count(*) FROM retry_queue WHERE attempts = 0")?;
        let retry = number("SELECT count(*) FROM retry_queue WHERE attempts > 0")?;
        let dead_letters = number("SELECT count(*) FROM dead_letter")?;
        let open = number(
            "SELECT count(*) FROM memory_operation WHERE state IN ('pending', 'dispatched', 'uncertain')",
        )?;
        let apart = index::apart(&tx)?;
        let index = match (apart + dead_letters, open + pending + retry) {
            (0, 0) => IndexState::Ok,
            (0, _) => IndexState::Uncertain,
            _ => IndexState::Degraded,
        };
        Ok(Status {
            schema: schema::version(),
            records: by(&tx, "memory_record", "state")?,
            operations: by(&tx, "memory_operation", "state")?,
            cleanups: by(&tx, "memory_record", "cleanup")?,
            scopes: number("SELECT count(*) FROM memory_scope")?,
            pending,
            retry,
            next_due_ms: self.next_due()?,
            dead_letters,
            index,
        })
    }
}

fn by(db: &Connection, table: &str, column: &str) -> Result<BTreeMap<String, u64>, StoreError> {
    let sql = format!(
        "SELECT {column}, count(*) FROM {table} WHERE {column} IS NOT NULL GROUP BY {column} ORDER BY {column}"
    );
    let mut statement = db.prepare(&sql)?;
    let pairs = statement.query_map([], |row| Ok((row.get(0)?, count(row, 1)?)))?;
    Ok(pairs.collect::<Result<_, _>>()?)
}
