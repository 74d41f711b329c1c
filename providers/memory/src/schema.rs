//! Migrations: idempotent, each in one immediate transaction, and a newer schema is left alone.

use rusqlite::{Connection, TransactionBehavior};

use crate::ledger::OpenError;

mod v2;
mod v3;
mod v4;

/// `AMem` in ASCII: tells our file from any other SQLite file.
pub(crate) const APPLICATION_ID: i64 = 0x414d_656d;

/// One step for each version; the index of a step + 1 is the version it leads to. The index of version 3 is filled by
/// `index::renew`, which finds it empty.
const MIGRATIONS: &[&str] = &[V1, v2::V2, v3::V3, v4::PREVIEWS];

/// A scope owns the row numbers `no << 32 ..= no << 32 | 0xffff_ffff`, in the records and in the index alike: a range
/// of row numbers is a hard predicate that FTS5 can use, while `scope = ?` would read every match of the whole file.
const V1: &str = "
CREATE TABLE memory_scope (
    no        INTEGER PRIMARY KEY,
    digest    TEXT NOT NULL UNIQUE,
    tenant_id TEXT NOT NULL,
    user_id   TEXT NOT NULL,
    project_id TEXT,
    group_id  TEXT,
    last_row  INTEGER NOT NULL,
    records   INTEGER NOT NULL DEFAULT 0 CHECK (records >= 0),
    words     INTEGER NOT NULL DEFAULT 0 CHECK (words >= 0)
) STRICT;

CREATE TABLE memory_record (
    row        INTEGER PRIMARY KEY,
    scope_no   INTEGER NOT NULL REFERENCES memory_scope (no),
    memory_id  TEXT NOT NULL UNIQUE,
    revision   INTEGER NOT NULL DEFAULT 1,
    state      TEXT NOT NULL CHECK (state IN ('pending', 'applied', 'uncertain', 'conflict', 'tombstoned', 'failed')),
    cleanup    TEXT CHECK (cleanup IN ('tombstoned', 'cleanup-pending', 'active-shelf-cleanup-complete',
                                       'cleanup-uncertain', 'external-retention-unknown')),
    kind       TEXT NOT NULL CHECK (kind IN ('decision', 'preference', 'work-unit')),
    trust      TEXT NOT NULL CHECK (trust IN ('explicit', 'derived')),
    title      TEXT,
    summary    TEXT,
    tags       TEXT,
    source     TEXT NOT NULL,
    words      INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    CHECK (row >> 32 = scope_no),
    CHECK ((state = 'tombstoned') = (title IS NULL)),
    CHECK ((title IS NULL) = (summary IS NULL) AND (title IS NULL) = (tags IS NULL)),
    CHECK ((state = 'tombstoned') = (cleanup IS NOT NULL))
) STRICT;

CREATE TABLE memory_operation (
    operation_id   TEXT PRIMARY KEY,
    memory_id      TEXT NOT NULL REFERENCES memory_record (memory_id),
    state          TEXT NOT NULL CHECK (state IN ('pending', 'dispatched', 'applied', 'uncertain', 'conflict', 'failed')),
    payload_digest TEXT,
    source         TEXT NOT NULL,
    from_seq       INTEGER NOT NULL,
    through_seq    INTEGER NOT NULL,
    range_key      TEXT NOT NULL,
    extractor      TEXT NOT NULL,
    created_at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX memory_operation_by_memory ON memory_operation (memory_id);

-- Holds terms that `words` made, never raw text; rows have the numbers of their records.
CREATE VIRTUAL TABLE memory_fts USING fts5 (title, body, tags, tokenize = 'unicode61 remove_diacritics 0');
INSERT INTO memory_fts (memory_fts, rank) VALUES ('secure-delete', 1);
";

/// The schema version this build writes.
pub(crate) fn version() -> i64 {
    i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX)
}

/// The version of the file. Refuses files that are not ours or newer than this build; changes nothing. Needs a transaction.
pub(crate) fn identify(db: &Connection) -> Result<usize, OpenError> {
    let found: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    let owner: i64 = db.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    let tables: i64 = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let fresh = owner == 0 && found == 0 && tables == 0;
    match usize::try_from(found) {
        Ok(_) if !fresh && owner != APPLICATION_ID => Err(OpenError::NotALedger),
        Ok(_) if found > version() => Err(OpenError::Newer { found, supported: version() }),
        Ok(done) => Ok(done),
        Err(_) => Err(OpenError::NotALedger),
    }
}

/// Brings the file to [`version`]. Several processes may do so at once: the first wins, the others find it done.
pub(crate) fn migrate(db: &mut Connection) -> Result<(), OpenError> {
    if identify(&*db.unchecked_transaction()?)? == MIGRATIONS.len() {
        return Ok(());
    }
    let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let done = identify(&tx)?;
    for step in MIGRATIONS.iter().skip(done) {
        tx.execute_batch(step)?;
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.pragma_update(None, "user_version", version())?;
    tx.commit()?;
    Ok(())
}
