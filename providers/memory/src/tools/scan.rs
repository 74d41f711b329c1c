//! Every record of a scope, page by page: what forgetting and export need, where a ranking would leave some out.

use agentspine_gate::Id;
use rusqlite::{Row, params};

use crate::ledger::{Ledger, StoreError};
use crate::record::{Kind, MemoryScope, Trust};
use crate::search::Entry;

/// Records read at once.
const PAGE: i64 = 500;

/// A record that was not forgotten, with everything a person gave it.
pub(crate) struct Stored {
    row: i64,
    pub(crate) entry: Entry,
    pub(crate) tags: Vec<String>,
}

/// Calls `see` with each record of exactly this scope, oldest first.
pub(crate) fn each(
    ledger: &Ledger,
    scope: &MemoryScope,
    mut see: impl FnMut(Stored),
) -> Result<(), StoreError> {
    let mut after = i64::MIN;
    loop {
        let page = page(ledger, scope, after)?;
        let Some(last) = page.last().map(|stored| stored.row) else { return Ok(()) };
        after = last;
        page.into_iter().for_each(&mut see);
    }
}

fn page(ledger: &Ledger, scope: &MemoryScope, after: i64) -> Result<Vec<Stored>, StoreError> {
    let mut select = ledger.db.prepare_cached(
        "SELECT r.row, r.memory_id, r.revision, r.kind, r.trust, r.title, r.summary, r.source, r.created_at, r.tags
         FROM memory_scope s CROSS JOIN memory_record r ON r.row BETWEEN s.no << 32 AND (s.no << 32) | 0xffffffff
         WHERE s.digest = ?1 AND r.row > ?2 AND r.state <> 'tombstoned' ORDER BY r.row LIMIT ?3",
    )?;
    let mut rows = select.query(params![scope.digest().to_hex(), after, PAGE])?;
    let mut page = Vec::new();
    while let Some(row) = rows.next()? {
        page.push(stored(row)?);
    }
    Ok(page)
}

fn stored(row: &Row<'_>) -> Result<Stored, StoreError> {
    let id = |at: usize| Id::new(row.get::<_, String>(at)?).map_err(|_| StoreError::Corrupt);
    let (kind, trust): (String, String) = (row.get(3)?, row.get(4)?);
    let tags: String = row.get(9)?;
    Ok(Stored {
        row: row.get(0)?,
        entry: Entry {
            memory_id: id(1)?,
            revision: crate::ledger::count(row, 2)?,
            kind: Kind::parse(&kind).map_err(|_| StoreError::Corrupt)?,
            title: row.get(5)?,
            summary: row.get(6)?,
            trust: Trust::ALL.into_iter().find(|one| one.as_str() == trust).ok_or(StoreError::Corrupt)?,
            source: id(7)?,
            created_at_ms: row.get(8)?,
        },
        tags: tags.lines().filter(|tag| !tag.is_empty()).map(str::to_owned).collect(),
    })
}
