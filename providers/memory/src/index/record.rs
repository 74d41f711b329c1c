//! What of a record is indexed: its text, and where it stands among others of its session.

use rusqlite::{Connection, OptionalExtension as _, Row};

use super::terms::Text;
use crate::record::Trust;

/// Columns that [`Record::of`] reads, from `memory_record r`.
pub(super) const COLUMNS: &str = "r.title, r.summary, r.tags, r.subject, r.created_at, r.trust, r.source,
    (SELECT min(o.from_seq) FROM memory_operation o WHERE o.memory_id = r.memory_id AND o.source = r.source)";

/// An applied record.
pub(super) struct Record {
    pub(super) text: Text,
    pub(super) line: Option<Line>,
}

/// Where a memory stands among others of its session; only what was derived from one has neighbours.
pub(super) struct Line {
    pub(super) source: String,
    pub(super) seq: i64,
}

impl Record {
    /// The record of a row; `None` where it has no text any more.
    pub(super) fn read(db: &Connection, row: i64) -> rusqlite::Result<Option<Self>> {
        let sql = format!("SELECT {COLUMNS} FROM memory_record r WHERE r.row = ? AND r.title IS NOT NULL");
        db.prepare_cached(&sql)?.query_row([row], |row| Self::of(row, 0)).optional()
    }

    /// From [`COLUMNS`], the first at `at`.
    pub(super) fn of(row: &Row<'_>, at: usize) -> rusqlite::Result<Self> {
        let text = Text {
            title: row.get(at)?,
            summary: row.get(at + 1)?,
            tags: row.get(at + 2)?,
            subject: row.get(at + 3)?,
            created_at_ms: row.get(at + 4)?,
        };
        let (trust, source) = (row.get::<_, String>(at + 5)?, row.get(at + 6)?);
        let seq: Option<i64> = row.get(at + 7)?;
        let line = seq.filter(|_| trust == Trust::Derived.as_str()).map(|seq| Line { source, seq });
        Ok(Self { text, line })
    }
}
