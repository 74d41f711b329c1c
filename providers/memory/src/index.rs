//! The inverted index beside the records: what is written to it with a record, and taken from it.
//!
//! * `record`: what of a record is indexed;
//! * `terms`: the text of a memory as terms with the fields they stand in;
//! * `postings`: terms to rows, and the newest rows that are not there yet;
//! * `slots`: length and neighbours of every row;
//! * `rebuild`: the whole index from the records.
//!
//! Invariants: every change is in the transaction that changes the record; a row has a slot exactly while its record is
//! applied; a memory's terms stand in its own postings only (a neighbour's text is followed by its slot when somebody
//! asks), so that taking a memory out leaves nothing of it with others.
//!
//! **Why our own.** Measured with the same made-up memories (24 words and a title, 111,100 in one file, scopes of 100 to
//! 100,000), neighbours included, and questions of nine words; wall time on a two-core machine that was not idle:
//!
//! | | p95 of 10,000 in scope | of 100,000 | one more memory | size | LoCoMo R@5 |
//! |---|---|---|---|---|---|
//! | FTS5, six weighted columns, a range of rows | 9.6 ms | 67 ms | in the record's transaction | 184 MB | 0.63 |
//! | tantivy, six weighted fields | 1.1 ms | 2.8 ms | a commit and files of its own, 9 ms | 30 MB | 0.57 |
//! | this | 2.1 to 5.5 ms | 7.8 to 9.3 ms | in the record's transaction | 205 MB with the records | 0.69 |
//!
//! (R@5 of the first two: the study that this recall was built by.) tantivy is the fastest, but sums its fields' scores
//! where BM25F sums their terms, changes in another transaction than the record, and copies a neighbour's text, as FTS5
//! does, into every neighbour: a forgotten memory would have to be taken out of four others. Here a fresh process has
//! nothing to load: a question reads the postings it names and the slots of its scope. Opening takes under 1 ms, the
//! first question of 100,000 memories 16 ms.

mod postings;
mod rebuild;
mod record;
mod slots;
mod terms;

use rusqlite::{Connection, params};

pub(crate) use postings::{Posting, fresh, postings};
pub(crate) use rebuild::renew;
use record::Record;
pub(crate) use slots::{Slot, Slots};
use terms::Terms;
pub(crate) use terms::{DATE, Field, Fields};

/// Which way of making terms this build has. Raise it with every change of `words` or `terms` that an existing index
/// does not have; the index is then made anew at the next open.
pub(crate) const WORDS_VERSION: i64 = 1;
/// Bits of a row number that count within a scope; the rest is the scope's number.
pub(crate) const ROW_BITS: u32 = 32;
/// Bits of a row number that are its place in a block.
const BLOCK_BITS: u32 = 8;
/// Newest rows of a scope that wait before they move to the postings together.
const FRESH_ROWS: u32 = 64;

/// A row number, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) scope_no: i64,
    /// From 1, in the order of remembering.
    pub(crate) offset: u32,
}

impl Place {
    pub(crate) fn of(row: i64) -> Self {
        let offset = u32::try_from(row & i64::from(u32::MAX)).unwrap_or(u32::MAX);
        Self { scope_no: row >> ROW_BITS, offset }
    }

    pub(crate) fn row(self) -> i64 {
        (self.scope_no << ROW_BITS) | i64::from(self.offset)
    }
}

/// The block of an offset, and its place there.
fn block(offset: u32) -> (u32, u8) {
    let [place, ..] = offset.to_le_bytes();
    (offset >> BLOCK_BITS, place)
}

/// Makes the applied record of this row findable, in the caller's transaction; how many words it has.
pub(crate) fn add(db: &Connection, row: i64) -> rusqlite::Result<i64> {
    let Some(record) = Record::read(db, row)? else { return Ok(0) };
    let place = Place::of(row);
    let terms = record.text.terms();
    postings::add_fresh(db, row, &terms)?;
    slots::add(db, place, &terms, record.line.as_ref())?;
    postings::settle(db, place.scope_no)?;
    Ok(terms.words)
}

/// Takes the record of this row out, in the caller's transaction, while the record still has its text.
pub(crate) fn remove(db: &Connection, row: i64) -> rusqlite::Result<()> {
    let place = Place::of(row);
    let Some(slot) = slots::take(db, place)? else { return Ok(()) };
    let sql = "DELETE FROM memory_fresh WHERE row = ?";
    if db.prepare_cached(sql)?.execute([row])? > 0 {
        return Ok(());
    }
    let terms = Record::read(db, row)?.map(|record| record.text.terms()).unwrap_or_default();
    let removed = postings::remove(db, place, &terms)?;
    // Terms that this build would not make of the text stand in the index: look at every one.
    if removed != usize::from(slot.terms) {
        postings::sweep(db, place)?;
    }
    Ok(())
}

/// How many rows index and applied records disagree about.
pub(crate) fn apart(db: &Connection) -> rusqlite::Result<u64> {
    let mut statement = db.prepare("SELECT row FROM memory_record WHERE state = 'applied' ORDER BY row")?;
    let rows = statement.query_map([], |row| row.get::<_, i64>(0))?.collect::<Result<Vec<_>, _>>()?;
    let found = slots::rows(db)?;
    let missing = rows.iter().filter(|row| found.binary_search(row).is_err()).count();
    let left = found.iter().filter(|row| rows.binary_search(row).is_err()).count();
    let sql = "SELECT count(*) FROM memory_fresh f WHERE NOT EXISTS
                   (SELECT 1 FROM memory_record r WHERE r.row = f.row AND r.state = 'applied')";
    let fresh = db.query_row(sql, params![], |row| crate::ledger::count(row, 0))?;
    Ok(u64::try_from(missing + left).unwrap_or(u64::MAX).saturating_add(fresh))
}
