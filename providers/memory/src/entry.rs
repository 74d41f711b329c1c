//! A memory as it is read from the ledger, and the list of all of a scope.

use std::fmt;

use agentspine_gate::Id;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rusqlite::{OptionalExtension as _, Row, params};

use crate::ledger::{Ledger, StoreError, count};
use crate::record::{Kind, MemoryScope, Trust};

/// Most memories of one page of [`Ledger::records`].
pub const RECORDS_MAX: usize = 1000;

/// Columns of `memory_record r` that [`Entry::read`] reads, in its order.
pub(crate) const COLUMNS: &str = "r.memory_id, r.revision, r.kind, r.trust, r.title, r.summary, r.source, r.created_at, \
                                  r.tags, r.subject";
/// How many those are.
pub(crate) const COLUMNS_LEN: usize = 10;

/// A memory.
#[derive(Clone, PartialEq)]
pub struct Entry {
    /// Its id.
    pub memory_id: Id,
    /// Its version, from 1: how often the same operation was remembered anew after a forget.
    pub revision: u64,
    /// Its kind.
    pub kind: Kind,
    /// Title.
    pub title: String,
    /// Summary.
    pub summary: String,
    /// Tags.
    pub tags: Vec<String>,
    /// Who or what it is about.
    pub subject: Option<String>,
    /// Who stands behind it.
    pub trust: Trust,
    /// Session or command it came from.
    pub source: Id,
    /// Milliseconds since the Unix epoch.
    pub created_at_ms: i64,
}

impl fmt::Debug for Entry {
    /// Without the text: memories never reach debug output.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("memory_id", &self.memory_id)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

impl Entry {
    /// Reads [`COLUMNS`], which stand first in the row.
    pub(crate) fn read(row: &Row<'_>) -> Result<Self, StoreError> {
        let text = |at: usize| row.get::<_, String>(at);
        let id = |at: usize| Id::new(text(at)?).map_err(|_| StoreError::Corrupt);
        let trust = text(3)?;
        let tags: String = text(8)?;
        Ok(Self {
            memory_id: id(0)?,
            revision: count(row, 1)?,
            kind: Kind::parse(&text(2)?).map_err(|_| StoreError::Corrupt)?,
            trust: Trust::ALL.into_iter().find(|t| t.as_str() == trust).ok_or(StoreError::Corrupt)?,
            title: text(4)?,
            summary: text(5)?,
            source: id(6)?,
            created_at_ms: row.get(7)?,
            tags: tags.split('\n').filter(|tag| !tag.is_empty()).map(str::to_owned).collect(),
            subject: row.get(9)?,
        })
    }
}

impl Entry {
    /// The day it was made, such as `2026-11-30`, in UTC, so that every machine writes the same.
    pub fn day(&self) -> String {
        let at = Timestamp::from_millisecond(self.created_at_ms).unwrap_or_default();
        TimeZone::UTC.to_datetime(at).date().to_string()
    }
}

impl Ledger {
    /// One applied memory of exactly this scope.
    pub fn record(&self, scope: &MemoryScope, id: &Id) -> Result<Option<Entry>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM memory_record r JOIN memory_scope s ON s.no = r.scope_no
             WHERE r.memory_id = ? AND s.digest = ? AND r.state = 'applied'"
        );
        let mut statement = self.db.prepare_cached(&sql)?;
        let mut rows = statement.query(params![id.as_str(), scope.digest().to_hex()])?;
        rows.next()?.map(Entry::read).transpose()
    }

    /// Those of these ids, of any scope, that this ledger knows and that no recall may return any more.
    pub fn gone(&self, ids: &[Id]) -> Result<Vec<Id>, StoreError> {
        let sql = "SELECT 1 FROM memory_record WHERE memory_id = ? AND state <> 'applied'";
        let mut statement = self.db.prepare_cached(sql)?;
        let gone = ids.iter().map(|id| Ok((id, statement.exists([id.as_str()])?)));
        let gone = gone.collect::<Result<Vec<_>, StoreError>>()?;
        Ok(gone.into_iter().filter(|(_, gone)| *gone).map(|(id, _)| id.clone()).collect())
    }

    /// The applied memories of exactly this scope, oldest first, at most `limit` and [`RECORDS_MAX`]: for an export.
    ///
    /// The next page begins after the last id of this one; an `after` that is no memory of this scope, not even a
    /// forgotten one, gives nothing.
    pub fn records(
        &self,
        scope: &MemoryScope,
        after: Option<&Id>,
        limit: usize,
    ) -> Result<Vec<Entry>, StoreError> {
        let tx = self.db.unchecked_transaction()?;
        let sql = "SELECT no << 32, (no << 32) | 0xffffffff FROM memory_scope WHERE digest = ?";
        let digest = scope.digest().to_hex();
        let span = tx.query_row(sql, [&digest], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)));
        let Some((mut first, last)) = span.optional()? else { return Ok(Vec::new()) };
        if let Some(after) = after {
            let sql = "SELECT row FROM memory_record WHERE memory_id = ? AND row BETWEEN ? AND ?";
            let row = tx.query_row(sql, params![after.as_str(), first, last], |row| row.get::<_, i64>(0));
            let Some(row) = row.optional()? else { return Ok(Vec::new()) };
            first = row + 1;
        }
        let sql = format!(
            "SELECT {COLUMNS} FROM memory_record r
             WHERE r.row BETWEEN ? AND ? AND r.state = 'applied' ORDER BY r.row LIMIT ?"
        );
        let limit = i64::try_from(limit.min(RECORDS_MAX)).unwrap_or(0);
        let mut statement = tx.prepare_cached(&sql)?;
        let mut rows = statement.query(params![first, last, limit])?;
        let mut entries = Vec::new();
        while let Some(row) = rows.next()? {
            entries.push(Entry::read(row)?);
        }
        Ok(entries)
    }
}
