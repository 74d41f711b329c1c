//! Terms to rows: blocks of two-byte postings, and the newest rows before they are moved there.

use std::collections::{BTreeMap, HashMap};

use rusqlite::{Connection, OptionalExtension as _, params};

use super::{FRESH_ROWS, Fields, Place, ROW_BITS, Terms, block};

/// One row that has a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Posting {
    pub(crate) offset: u32,
    pub(crate) fields: Fields,
}

/// Many rows by term, ascending.
pub(super) type Batch = BTreeMap<String, Vec<Posting>>;

/// Every posting of a term in a scope but those of the newest rows, appended to `found`.
pub(crate) fn postings(
    db: &Connection,
    scope_no: i64,
    term: &str,
    found: &mut Vec<Posting>,
) -> rusqlite::Result<()> {
    let sql = "SELECT block, postings FROM memory_posting WHERE scope_no = ? AND term = ? ORDER BY block";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(params![scope_no, term])?;
    while let Some(row) = rows.next()? {
        let first = row.get::<_, u32>(0)? << super::BLOCK_BITS;
        let pairs = row.get_ref(1)?.as_blob()?;
        found.extend(
            pairs.as_chunks().0.iter().map(|[place, fields]| Posting {
                offset: first | u32::from(*place),
                fields: Fields(*fields),
            }),
        );
    }
    Ok(())
}

/// Postings of the newest rows of a scope, of the terms that somebody asks for.
pub(crate) fn fresh(
    db: &Connection,
    scope_no: i64,
    is_asked: impl Fn(&str) -> bool,
) -> rusqlite::Result<HashMap<String, Vec<Posting>>> {
    let mut found: HashMap<String, Vec<Posting>> = HashMap::new();
    each_fresh(db, scope_no, |term, posting| {
        if is_asked(term) {
            found.entry(term.to_owned()).or_default().push(posting);
        }
    })?;
    Ok(found)
}

/// Stores a row's terms as: length of the term (two bytes), term, fields.
pub(super) fn add_fresh(db: &Connection, row: i64, terms: &Terms) -> rusqlite::Result<()> {
    let mut bytes = Vec::new();
    for (term, fields) in &terms.of {
        let length = u16::try_from(term.len()).unwrap_or(u16::MAX);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(term.as_bytes());
        bytes.push(fields.0);
    }
    db.prepare_cached("INSERT INTO memory_fresh (row, terms) VALUES (?, ?)")?.execute(params![row, bytes])?;
    Ok(())
}

fn each_fresh(db: &Connection, scope_no: i64, mut each: impl FnMut(&str, Posting)) -> rusqlite::Result<()> {
    let sql = "SELECT row, terms FROM memory_fresh WHERE row BETWEEN ?1 << ?2 AND ((?1 + 1) << ?2) - 1 ORDER BY row";
    let mut statement = db.prepare_cached(sql)?;
    let mut rows = statement.query(params![scope_no, ROW_BITS])?;
    while let Some(row) = rows.next()? {
        let offset = Place::of(row.get(0)?).offset;
        let mut bytes = row.get_ref(1)?.as_blob()?;
        while let Some((length, rest)) = bytes.split_first_chunk() {
            let Some((term, rest)) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length))) else {
                break;
            };
            let Some((fields, rest)) = rest.split_first() else { break };
            if let Ok(term) = std::str::from_utf8(term) {
                each(term, Posting { offset, fields: Fields(*fields) });
            }
            bytes = rest;
        }
    }
    Ok(())
}

/// Moves the newest rows of a scope to the postings once there are [`FRESH_ROWS`].
pub(super) fn settle(db: &Connection, scope_no: i64) -> rusqlite::Result<()> {
    let sql = "SELECT count(*) FROM memory_fresh WHERE row BETWEEN ?1 << ?2 AND ((?1 + 1) << ?2) - 1";
    let waiting: u32 = db.prepare_cached(sql)?.query_row(params![scope_no, ROW_BITS], |row| row.get(0))?;
    if waiting < FRESH_ROWS { Ok(()) } else { move_fresh(db, scope_no) }
}

fn move_fresh(db: &Connection, scope_no: i64) -> rusqlite::Result<()> {
    let mut batch = Batch::new();
    each_fresh(db, scope_no, |term, posting| match batch.get_mut(term) {
        Some(postings) => postings.push(posting),
        None => drop(batch.insert(term.to_owned(), vec![posting])),
    })?;
    append(db, scope_no, &batch)?;
    let sql = "DELETE FROM memory_fresh WHERE row BETWEEN ?1 << ?2 AND ((?1 + 1) << ?2) - 1";
    db.prepare_cached(sql)?.execute(params![scope_no, ROW_BITS])?;
    Ok(())
}

/// Adds rows that do not stand in the postings yet.
pub(super) fn append(db: &Connection, scope_no: i64, batch: &Batch) -> rusqlite::Result<()> {
    for (term, postings) in batch {
        for postings in postings.chunk_by(|a, b| block(a.offset).0 == block(b.offset).0) {
            let Some(first) = postings.first() else { continue };
            let number = block(first.offset).0;
            let mut bytes = read(db, scope_no, term, number)?.unwrap_or_default();
            bytes.extend(postings.iter().flat_map(|posting| [block(posting.offset).1, posting.fields.0]));
            write(db, scope_no, term, number, &bytes)?;
        }
    }
    Ok(())
}

fn read(db: &Connection, scope_no: i64, term: &str, block: u32) -> rusqlite::Result<Option<Vec<u8>>> {
    let sql = "SELECT postings FROM memory_posting WHERE scope_no = ? AND term = ? AND block = ?";
    db.prepare_cached(sql)?.query_row(params![scope_no, term, block], |row| row.get(0)).optional()
}

/// A block without postings is no row: nothing of the term is left then.
fn write(db: &Connection, scope_no: i64, term: &str, block: u32, bytes: &[u8]) -> rusqlite::Result<()> {
    if bytes.is_empty() {
        let sql = "DELETE FROM memory_posting WHERE scope_no = ? AND term = ? AND block = ?";
        db.prepare_cached(sql)?.execute(params![scope_no, term, block])?;
    } else {
        let sql =
            "INSERT OR REPLACE INTO memory_posting (scope_no, term, block, postings) VALUES (?, ?, ?, ?)";
        db.prepare_cached(sql)?.execute(params![scope_no, term, block, bytes])?;
    }
    Ok(())
}

/// Takes these terms of a row out; how many there were.
pub(super) fn remove(db: &Connection, place: Place, terms: &Terms) -> rusqlite::Result<usize> {
    let number = block(place.offset).0;
    let mut removed = 0;
    for term in terms.of.keys() {
        if let Some(bytes) = read(db, place.scope_no, term, number)? {
            removed += usize::from(remove_from(db, place, term, &bytes)?);
        }
    }
    Ok(removed)
}

/// Takes every posting of a row out by looking at each term of its scope.
pub(super) fn sweep(db: &Connection, place: Place) -> rusqlite::Result<()> {
    let sql = "SELECT term, postings FROM memory_posting WHERE scope_no = ? AND block = ?";
    let mut statement = db.prepare_cached(sql)?;
    let key = params![place.scope_no, block(place.offset).0];
    let found = statement.query_map(key, |row| Ok((row.get::<_, String>(0)?, row.get::<_, Vec<u8>>(1)?)))?;
    for (term, bytes) in found.collect::<Result<Vec<_>, _>>()? {
        remove_from(db, place, &term, &bytes)?;
    }
    Ok(())
}

fn remove_from(db: &Connection, place: Place, term: &str, bytes: &[u8]) -> rusqlite::Result<bool> {
    let (number, own) = block(place.offset);
    let others = bytes.as_chunks::<2>().0.iter().filter(|[at, _]| *at != own);
    let others: Vec<u8> = others.flatten().copied().collect();
    if others.len() == bytes.len() {
        return Ok(false);
    }
    write(db, place.scope_no, term, number, &others)?;
    Ok(true)
}
