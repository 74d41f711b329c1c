//! The whole index from the records: after a migration, and after a change of how terms are made.

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};

use super::postings::{Batch, append};
use super::record::{COLUMNS, Record};
use super::{Place, Posting, Terms, WORDS_VERSION, slots};

/// Rows that are written together: enough to write a common term seldom, few enough for memory.
const BATCH_ROWS: usize = 8192;

/// Makes the index anew where it was written with another way of making terms.
pub(crate) fn renew(db: &mut Connection) -> rusqlite::Result<()> {
    if is_current(db)? {
        return Ok(());
    }
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have been first.
    if !is_current(&tx)? {
        rebuild(&tx)?;
    }
    tx.commit()
}

fn is_current(db: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT words FROM memory_index";
    let found = db.prepare_cached(sql)?.query_row([], |row| row.get::<_, i64>(0)).optional()?;
    // A newer build's way is left alone: its terms are better than none.
    Ok(found.is_some_and(|found| found >= WORDS_VERSION))
}

/// Empties the index and fills it from every applied record, in the caller's transaction.
pub(crate) fn rebuild(db: &Connection) -> rusqlite::Result<()> {
    db.execute_batch(
        "DELETE FROM memory_posting; DELETE FROM memory_fresh; DELETE FROM memory_slots; DELETE FROM memory_line;",
    )?;
    let sql =
        format!("SELECT r.row, {COLUMNS} FROM memory_record r WHERE r.state = 'applied' ORDER BY r.row");
    let mut statement = db.prepare(&sql)?;
    let mut rows = statement.query([])?;
    let mut batch = Pending { scope_no: 0, rows: 0, batch: Batch::new() };
    let mut words = db.prepare("UPDATE memory_record SET words = ? WHERE row = ?")?;
    while let Some(row) = rows.next()? {
        let place = Place::of(row.get(0)?);
        let record = Record::of(row, 1)?;
        let terms = record.text.terms();
        slots::add(db, place, &terms, record.line.as_ref())?;
        words.execute((terms.words, place.row()))?;
        batch.add(db, place, terms)?;
    }
    batch.write(db)?;
    db.execute(
        "UPDATE memory_scope SET words = (SELECT coalesce(sum(words), 0) FROM memory_record r
             WHERE r.scope_no = memory_scope.no AND r.state = 'applied')",
        [],
    )?;
    db.execute("INSERT OR REPLACE INTO memory_index (one, words) VALUES (1, ?)", [WORDS_VERSION])?;
    Ok(())
}

/// Rows of one scope that are not written yet.
struct Pending {
    scope_no: i64,
    rows: usize,
    batch: Batch,
}

impl Pending {
    fn add(&mut self, db: &Connection, place: Place, terms: Terms) -> rusqlite::Result<()> {
        if place.scope_no != self.scope_no || self.rows >= BATCH_ROWS {
            self.write(db)?;
        }
        (self.scope_no, self.rows) = (place.scope_no, self.rows + 1);
        for (term, fields) in terms.of {
            self.batch.entry(term).or_default().push(Posting { offset: place.offset, fields });
        }
        Ok(())
    }

    fn write(&mut self, db: &Connection) -> rusqlite::Result<()> {
        append(db, self.scope_no, &std::mem::take(&mut self.batch))?;
        self.rows = 0;
        Ok(())
    }
}
