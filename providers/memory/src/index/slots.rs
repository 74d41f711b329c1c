//! Length and neighbours of every row, 256 rows a block.

use rusqlite::{Connection, OptionalExtension as _, params};

use super::record::Line;
use super::{BLOCK_BITS, Place, ROW_BITS, Terms, block};

/// Bytes of one slot.
const SLOT_BYTES: usize = 12;
/// Rows of one block.
const BLOCK_ROWS: usize = 1 << BLOCK_BITS;

/// What ranking needs of a row besides its terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Slot {
    /// Its length; 0 = there is no such row.
    pub(crate) words: u16,
    /// Its different terms.
    pub(crate) terms: u16,
    /// Offset of the memory before it in its session, and after it; 0 = none.
    pub(crate) before: u32,
    pub(crate) after: u32,
}

impl Slot {
    fn read([w0, w1, t0, t1, b0, b1, b2, b3, a0, a1, a2, a3]: [u8; SLOT_BYTES]) -> Self {
        Self {
            words: u16::from_le_bytes([w0, w1]),
            terms: u16::from_le_bytes([t0, t1]),
            before: u32::from_le_bytes([b0, b1, b2, b3]),
            after: u32::from_le_bytes([a0, a1, a2, a3]),
        }
    }

    fn bytes(self) -> [u8; SLOT_BYTES] {
        let ([w0, w1], [t0, t1]) = (self.words.to_le_bytes(), self.terms.to_le_bytes());
        let ([b0, b1, b2, b3], [a0, a1, a2, a3]) = (self.before.to_le_bytes(), self.after.to_le_bytes());
        [w0, w1, t0, t1, b0, b1, b2, b3, a0, a1, a2, a3]
    }
}

/// The slots of one scope, by offset.
pub(crate) struct Slots(Vec<Slot>);

impl Slots {
    /// All slots of a scope up to an offset.
    pub(crate) fn load(db: &Connection, scope_no: i64, last: u32) -> rusqlite::Result<Self> {
        let first = scope_no << (ROW_BITS - BLOCK_BITS);
        let sql =
            "SELECT block - ?1, slots FROM memory_slots WHERE block BETWEEN ?1 AND ?1 + ?2 ORDER BY block";
        let mut statement = db.prepare_cached(sql)?;
        let mut rows = statement.query(params![first, block(last).0])?;
        let mut slots = Vec::new();
        while let Some(row) = rows.next()? {
            let number = usize::try_from(row.get::<_, u32>(0)?).unwrap_or(usize::MAX);
            slots.resize(number.saturating_mul(BLOCK_ROWS), Slot::default());
            let (chunks, _) = row.get_ref(1)?.as_blob()?.as_chunks();
            slots.extend(chunks.iter().map(|bytes| Slot::read(*bytes)));
        }
        Ok(Self(slots))
    }

    pub(crate) fn get(&self, offset: u32) -> Slot {
        usize::try_from(offset).ok().and_then(|at| self.0.get(at)).copied().unwrap_or_default()
    }
}

/// Every row that has a slot, ascending.
pub(super) fn rows(db: &Connection) -> rusqlite::Result<Vec<i64>> {
    let mut statement = db.prepare("SELECT block, slots FROM memory_slots ORDER BY block")?;
    let mut blocks = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = blocks.next()? {
        let first = row.get::<_, i64>(0)? << BLOCK_BITS;
        let (chunks, _) = row.get_ref(1)?.as_blob()?.as_chunks();
        let taken = (first..).zip(chunks).filter(|(_, bytes)| Slot::read(**bytes).words > 0);
        found.extend(taken.map(|(row, _)| row));
    }
    Ok(found)
}

/// Gives a row its slot, between its neighbours in the line of its session.
pub(super) fn add(db: &Connection, place: Place, terms: &Terms, line: Option<&Line>) -> rusqlite::Result<()> {
    let (before, after) = line.map_or(Ok((0, 0)), |line| join(db, place, line))?;
    let slot = Slot { words: terms.length(), terms: terms.number(), before, after };
    change(db, place, |found| *found = slot)?;
    link(db, place, (before, place.offset), (place.offset, after))
}

/// Puts a row into the line of its session: the offsets before and after it.
fn join(db: &Connection, place: Place, line: &Line) -> rusqlite::Result<(u32, u32)> {
    let key = params![place.scope_no, line.source, line.seq, place.row()];
    let neighbour = |sql: &str| -> rusqlite::Result<u32> {
        let row = db.prepare_cached(sql)?.query_row(key, |row| row.get(0)).optional()?;
        Ok(row.map_or(0, |row| Place::of(row).offset))
    };
    let before = neighbour(
        "SELECT row FROM memory_line WHERE scope_no = ? AND source = ? AND (seq, row) < (?, ?)
         ORDER BY seq DESC, row DESC LIMIT 1",
    )?;
    let after = neighbour(
        "SELECT row FROM memory_line WHERE scope_no = ? AND source = ? AND (seq, row) > (?, ?)
         ORDER BY seq, row LIMIT 1",
    )?;
    db.prepare_cached("INSERT INTO memory_line (scope_no, source, seq, row) VALUES (?, ?, ?, ?)")?
        .execute(key)?;
    Ok((before, after))
}

/// Clears a row's slot and joins its neighbours; what stood there.
pub(super) fn take(db: &Connection, place: Place) -> rusqlite::Result<Option<Slot>> {
    let slot = change(db, place, |found| *found = Slot::default())?;
    if slot.words == 0 {
        return Ok(None);
    }
    link(db, place, (slot.before, slot.after), (slot.before, slot.after))?;
    let sql = "DELETE FROM memory_line WHERE scope_no = ?1 AND source = (SELECT source FROM memory_record WHERE row = ?2)
               AND row = ?2";
    db.prepare_cached(sql)?.execute(params![place.scope_no, place.row()])?;
    Ok(Some(slot))
}

/// Says to the first of `follow` that the second follows it, and to the second of `precede` that the first precedes it.
fn link(db: &Connection, place: Place, follow: (u32, u32), precede: (u32, u32)) -> rusqlite::Result<()> {
    let ((before, follows), (precedes, after)) = (follow, precede);
    if before > 0 {
        change(db, Place { offset: before, ..place }, |slot| slot.after = follows)?;
    }
    if after > 0 {
        change(db, Place { offset: after, ..place }, |slot| slot.before = precedes)?;
    }
    Ok(())
}

/// Changes a slot; what it was.
fn change(db: &Connection, place: Place, change: impl FnOnce(&mut Slot)) -> rusqlite::Result<Slot> {
    let sql = "SELECT slots FROM memory_slots WHERE block = ?";
    let key = place.row() >> BLOCK_BITS;
    let found = db.prepare_cached(sql)?.query_row([key], |row| row.get::<_, Vec<u8>>(0)).optional()?;
    let mut bytes = found.unwrap_or_default();
    let at = usize::from(block(place.offset).1) * SLOT_BYTES;
    if bytes.len() < at + SLOT_BYTES {
        bytes.resize(at + SLOT_BYTES, 0);
    }
    let Some(stored) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) else {
        return Ok(Slot::default());
    };
    let earlier = Slot::read(*stored);
    let mut slot = earlier;
    change(&mut slot);
    *stored = slot.bytes();
    let sql = "INSERT OR REPLACE INTO memory_slots (block, slots) VALUES (?, ?)";
    db.prepare_cached(sql)?.execute(params![key, bytes])?;
    Ok(earlier)
}
