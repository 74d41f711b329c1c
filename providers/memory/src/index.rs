//! The full-text index beside the records: what is written to it with a record, and taken from it.

use rusqlite::{Connection, params};

use crate::ledger::count;
use crate::words;

/// The text of one memory as terms, made before the transaction begins.
pub(crate) struct Terms {
    title: String,
    body: String,
    tags: String,
    /// Words over all fields: the memory's length for ranking.
    pub(crate) words: i64,
}

impl Terms {
    pub(crate) fn of(title: &str, summary: &str, tags: &[String]) -> Self {
        let (title, title_words) = words::index(title);
        let (body, body_words) = words::index(summary);
        let (tags, tag_words) = words::index(&tags.join("\n"));
        let words = i64::try_from(title_words + body_words + tag_words).unwrap_or(i64::MAX);
        Self { title, body, tags, words }
    }
}

/// Makes the record of this row findable, in the caller's transaction.
pub(crate) fn add(db: &Connection, row: i64, terms: &Terms) -> rusqlite::Result<()> {
    db.prepare_cached("INSERT INTO memory_fts (rowid, title, body, tags) VALUES (?, ?, ?, ?)")?
        .execute(params![row, terms.title, terms.body, terms.tags])?;
    Ok(())
}

/// Takes the record of this row out, in the caller's transaction.
pub(crate) fn remove(db: &Connection, row: i64) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM memory_fts WHERE rowid = ?")?.execute([row])?;
    Ok(())
}

/// How many rows index and applied records disagree about.
pub(crate) fn apart(db: &Connection) -> rusqlite::Result<u64> {
    let apart = "SELECT (SELECT count(*) FROM memory_record r WHERE state = 'applied'
                         AND NOT EXISTS (SELECT 1 FROM memory_fts_docsize d WHERE d.id = r.row))
                      + (SELECT count(*) FROM memory_fts_docsize d
                         WHERE NOT EXISTS (SELECT 1 FROM memory_record r WHERE r.row = d.id AND r.state = 'applied'))";
    db.query_row(apart, [], |row| count(row, 0))
}
