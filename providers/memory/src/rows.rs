//! Rows of records: taking a row number of a scope, and going in and out of what recall sees.

use agentspine_gate::Id;
use rusqlite::{Connection, params};

use crate::index::{self, ROW_BITS};
use crate::operation::State;
use crate::provenance::number;
use crate::record::{MemoryScope, NewMemory};
use crate::text::Screened;

/// Keeps a record that recall does not see yet; its row number.
pub(crate) fn insert(
    db: &Connection,
    new: &NewMemory,
    text: &Screened,
    scope: &MemoryScope,
    memory: (&Id, State),
    again: u64,
) -> rusqlite::Result<i64> {
    let (scope_no, row) = next_row(db, scope)?;
    let (id, state) = memory;
    db.prepare_cached(
        "INSERT INTO memory_record (row, scope_no, memory_id, revision, state, kind, trust, title, summary, tags, subject,
                                    source, words, created_at, changed_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 0, ?13, ?13)",
    )?
    .execute(params![
        row,
        scope_no,
        id.as_str(),
        number(again.saturating_add(1)),
        state.of_record(),
        new.kind.as_str(),
        new.trust.as_str(),
        text.title,
        text.summary,
        text.tags.join("\n"),
        text.subject,
        new.origin.source.as_str(),
        new.created_at_ms,
    ])?;
    Ok(row)
}

/// Takes the next row number of a scope, making the scope on first use.
fn next_row(db: &Connection, scope: &MemoryScope) -> rusqlite::Result<(i64, i64)> {
    db.prepare_cached(
        "INSERT INTO memory_scope (no, digest, tenant_id, user_id, project_id, group_id, last_row)
         SELECT n, ?1, ?2, ?3, ?4, ?5, n << ?6 FROM (SELECT coalesce(max(no), 0) + 1 AS n FROM memory_scope)
         WHERE true ON CONFLICT (digest) DO NOTHING",
    )?
    .execute(params![
        scope.digest().to_hex(),
        scope.tenant_id.as_str(),
        scope.user_id.as_str(),
        scope.project_id.as_ref().map(Id::as_str),
        scope.group_id.as_ref().map(Id::as_str),
        ROW_BITS,
    ])?;
    db.prepare_cached(
        "UPDATE memory_scope SET last_row = last_row + 1 WHERE digest = ?1 RETURNING no, last_row",
    )?
    .query_row([scope.digest().to_hex()], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Makes an applied record findable and counts it in its scope, in the caller's transaction, once its operation is there.
pub(crate) fn publish(db: &Connection, row: i64) -> rusqlite::Result<()> {
    let words = index::add(db, row)?;
    db.prepare_cached("UPDATE memory_record SET words = ? WHERE row = ?")?.execute(params![words, row])?;
    db.prepare_cached("UPDATE memory_scope SET records = records + 1, words = words + ? WHERE no = ? >> 32")?
        .execute(params![words, row])?;
    Ok(())
}

/// Takes a published record out of what recall sees, in the caller's transaction.
pub(crate) fn withdraw(db: &Connection, row: i64) -> rusqlite::Result<()> {
    index::remove(db, row)?;
    let sql = "UPDATE memory_scope SET records = records - 1,
                      words = words - (SELECT words FROM memory_record WHERE row = ?1) WHERE no = ?1 >> 32";
    db.prepare_cached(sql)?.execute([row])?;
    Ok(())
}
