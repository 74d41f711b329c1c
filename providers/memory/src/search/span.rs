//! A scope's rows and statistics.

use rusqlite::{Connection, OptionalExtension as _};

use super::float;
use crate::index::Place;
use crate::ledger::{StoreError, count};
use crate::record::MemoryScope;

/// A scope that holds, or held, a memory.
pub(super) struct Span {
    pub(super) scope_no: i64,
    /// Offset of its newest row.
    pub(super) last: u32,
    /// Memories in it now.
    pub(super) records: u64,
    /// Words of an average memory, at least 1.
    pub(super) average_words: f64,
}

impl Span {
    /// `None` where the scope never held a memory.
    pub(super) fn of(db: &Connection, scope: &MemoryScope) -> Result<Option<Self>, StoreError> {
        let sql = "SELECT no, last_row, records, words FROM memory_scope WHERE digest = ?";
        let span = db.prepare_cached(sql)?.query_row([scope.digest().to_hex()], |row| {
            let (records, words) = (count(row, 2)?, count(row, 3)?);
            let average_words = (float(words) / float(records.max(1))).max(1.0);
            let last = Place::of(row.get(1)?).offset;
            Ok(Self { scope_no: row.get(0)?, last, records, average_words })
        });
        Ok(span.optional()?)
    }

    /// The row number of an offset.
    pub(super) fn row(&self, offset: u32) -> i64 {
        Place { scope_no: self.scope_no, offset }.row()
    }
}
