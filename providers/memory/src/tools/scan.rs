//! Every record of a scope, page by page: forgetting needs also those whose outcome is open, and leaves none out.

use rusqlite::params;

use crate::entry::{COLUMNS, COLUMNS_LEN, Entry};
use crate::ledger::{Ledger, StoreError};
use crate::record::MemoryScope;

/// Records read at once.
const PAGE: i64 = 500;

/// Calls `see` with each record of exactly this scope that was not forgotten, oldest first.
pub(crate) fn each(
    ledger: &Ledger,
    scope: &MemoryScope,
    mut see: impl FnMut(Entry),
) -> Result<(), StoreError> {
    let mut after = i64::MIN;
    loop {
        let (page, last) = page(ledger, scope, after)?;
        if page.is_empty() {
            return Ok(());
        }
        after = last;
        page.into_iter().for_each(&mut see);
    }
}

fn page(ledger: &Ledger, scope: &MemoryScope, after: i64) -> Result<(Vec<Entry>, i64), StoreError> {
    let mut select = ledger.db.prepare_cached(&format!(
        "SELECT {COLUMNS}, r.row FROM memory_scope s
         CROSS JOIN memory_record r ON r.row BETWEEN s.no << 32 AND (s.no << 32) | 0xffffffff
         WHERE s.digest = ?1 AND r.row > ?2 AND r.state <> 'tombstoned' ORDER BY r.row LIMIT ?3"
    ))?;
    let mut rows = select.query(params![scope.digest().to_hex(), after, PAGE])?;
    let (mut page, mut last) = (Vec::new(), after);
    while let Some(row) = rows.next()? {
        page.push(Entry::read(row)?);
        last = row.get(COLUMNS_LEN)?;
    }
    Ok((page, last))
}
