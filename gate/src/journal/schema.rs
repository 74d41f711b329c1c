//! The journal's file: connection, settings, schema.
//!
//! Invariants: every setting is read back; the stored schema is exactly ours, so a dropped trigger is seen at open; the
//! file is made 0600 before SQLite sees it (its -wal and -shm inherit that) and never opened here by other means
//! (closing such a handle would drop the process's POSIX locks).

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::{Limits, fault};
use crate::failure::Refusal;
use crate::ids::unhex;

/// "aspj" in the file header.
const APPLICATION_ID: i64 = 0x6173_706A;
/// Version of the schema below.
const USER_VERSION: i64 = 1;
/// First SQLite without the WAL-reset bug (3.7.0 to 3.51.2).
const SQLITE_MIN: i32 = 3_051_003;

/// `rows` is the journal. `session` is what the list of one session needs; a consumed row's delivery also stands in
/// `deliveries`, which pruning never touches. A row may go only once a checkpoint names it as pruned.
const DDL: &str = "
CREATE TABLE meta (one INTEGER PRIMARY KEY CHECK (one = 1), journal_id TEXT NOT NULL) STRICT;
CREATE TABLE rows (
  seq INTEGER PRIMARY KEY,
  kind TEXT NOT NULL CHECK (kind IN ('issued', 'consumed', 'void', 'refused', 'outcome', 'key', 'checkpoint')),
  receipt BLOB CHECK (length(receipt) = 16),
  body TEXT NOT NULL,
  prev BLOB NOT NULL CHECK (length(prev) = 32),
  mac BLOB NOT NULL CHECK (length(mac) = 32),
  kid TEXT NOT NULL,
  session TEXT AS (coalesce(json_extract(body, '$.body.claims.sessionId'), json_extract(body, '$.body.sessionId')))
) STRICT;
CREATE TABLE deliveries (
  digest BLOB PRIMARY KEY CHECK (length(digest) = 16), seq INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX issued_once ON rows (receipt) WHERE kind = 'issued';
CREATE UNIQUE INDEX consumed_once ON rows (receipt) WHERE kind = 'consumed';
CREATE INDEX by_receipt ON rows (receipt, seq);
CREATE INDEX by_session ON rows (session, seq) WHERE kind IN ('issued', 'refused');
CREATE INDEX checkpoints ON rows (seq) WHERE kind = 'checkpoint';
CREATE TRIGGER rows_append BEFORE INSERT ON rows
  WHEN NEW.seq IS NOT (SELECT coalesce(max(seq), 0) + 1 FROM rows) OR (NEW.kind IN ('issued', 'consumed')
    AND EXISTS (SELECT 1 FROM rows WHERE receipt = NEW.receipt AND kind = NEW.kind))
  BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER rows_keep BEFORE UPDATE ON rows BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER rows_prune BEFORE DELETE ON rows
  WHEN NOT EXISTS (SELECT 1 FROM rows WHERE kind = 'checkpoint' AND OLD.seq < json_extract(body, '$.body.prunedBefore'))
  BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER deliveries_append BEFORE INSERT ON deliveries
  WHEN EXISTS (SELECT 1 FROM deliveries WHERE digest = NEW.digest) BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER deliveries_keep BEFORE UPDATE ON deliveries BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER deliveries_stay BEFORE DELETE ON deliveries BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER meta_keep BEFORE UPDATE ON meta BEGIN SELECT raise(ABORT, 'append-only'); END;
CREATE TRIGGER meta_stay BEFORE DELETE ON meta BEGIN SELECT raise(ABORT, 'append-only'); END;
";

/// Compiled statements kept: more than there are.
const STATEMENTS_KEPT: usize = 64;

/// What a connection may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Read and append.
    Write,
    /// Look only.
    Read,
}

/// Opens the journal's file, which must exist, and sets and reads back every setting.
pub(super) fn connect(path: &Path, limits: Limits, access: Access) -> Result<Connection, Refusal> {
    if rusqlite::version_number() < SQLITE_MIN {
        return Err(fault::io(format!("SQLite {} is too old for the receipt journal", rusqlite::version())));
    }
    let mode = match access {
        Access::Write => OpenFlags::SQLITE_OPEN_READ_WRITE,
        Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
    };
    let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let open = || -> rusqlite::Result<(Connection, bool)> {
        let conn = Connection::open_with_flags(path, flags)?;
        let set = settle(&conn, limits, access)?;
        Ok((conn, set))
    };
    match open().map_err(|e| fault::sql(&e))? {
        (conn, true) => Ok(conn),
        (_, false) => Err(fault::io("the receipt journal does not take its settings")),
    }
}

fn settle(conn: &Connection, limits: Limits, access: Access) -> rusqlite::Result<bool> {
    conn.busy_timeout(Duration::from_millis(u64::from(limits.busy_ms)))?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    let mut set = conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    // A process that outlives a reset would else remove, by name, the -wal of the journal that took its place.
    set &= conn.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    set &= !conn.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    // A kept statement is not compiled again for each value it is given.
    set &= conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    if access == Access::Write {
        set &= conn.pragma_update_and_check(None, "journal_mode", "WAL", |row| {
            Ok(row.get::<_, String>(0)? == "wal")
        })?;
    }
    let settings: [(&str, i64); 7] = [
        ("synchronous", 2),
        ("foreign_keys", 1),
        ("recursive_triggers", 1),
        ("trusted_schema", 0),
        ("cell_size_check", 1),
        ("temp_store", 2),
        ("max_page_count", i64::from(limits.pages_max)),
    ];
    for (name, value) in settings {
        conn.pragma_update(None, name, value)?;
        set &= pragma(conn, name)? == value;
    }
    conn.pragma_update_and_check(None, "mmap_size", 0, |_| Ok(()))?;
    Ok(set)
}

fn pragma(conn: &Connection, name: &str) -> rusqlite::Result<i64> {
    conn.pragma_query_value(None, name, |row| row.get(0))
}

/// Writes the schema into an empty file. `false` where something stands in it already.
pub(super) fn create(conn: &Connection, journal_id: &str) -> Result<bool, Refusal> {
    let make = || -> rusqlite::Result<bool> {
        let tx = rusqlite::Transaction::new_unchecked(conn, TransactionBehavior::Immediate)?;
        let objects: i64 = tx.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
        if objects > 0 {
            return Ok(false);
        }
        tx.pragma_update(None, "application_id", APPLICATION_ID)?;
        tx.pragma_update(None, "user_version", USER_VERSION)?;
        tx.execute_batch(DDL)?;
        tx.execute("INSERT INTO meta VALUES (1, ?1)", [journal_id])?;
        tx.commit().map(|()| true)
    };
    make().map_err(|e| fault::sql(&e))
}

/// Checks that the file is a journal of ours with our schema; returns its id.
pub(super) fn journal_id(conn: &Connection) -> Result<String, Refusal> {
    let sql = |e: rusqlite::Error| fault::sql(&e);
    if pragma(conn, "application_id").map_err(sql)? != APPLICATION_ID {
        return Err(fault::rolled_back("the journal's file is not a receipt journal"));
    }
    if pragma(conn, "user_version").map_err(sql)? != USER_VERSION {
        return Err(fault::rolled_back("the receipt journal is of another version of agentspine"));
    }
    let ours = Connection::open_in_memory().and_then(|fresh| {
        fresh.execute_batch(DDL)?;
        Ok(objects(&fresh)? == objects(conn)?)
    });
    if !ours.map_err(sql)? {
        return Err(fault::rolled_back("the receipt journal's tables or guards were changed"));
    }
    let id: String = conn.query_row("SELECT journal_id FROM meta", [], |row| row.get(0)).map_err(sql)?;
    let well = unhex(&id).is_some_and(|bytes| bytes.len() == 16);
    if well { Ok(id) } else { Err(fault::rolled_back("the receipt journal has no id")) }
}

fn objects(conn: &Connection) -> rusqlite::Result<Vec<(String, String, Option<String>)>> {
    let mut stored = conn.prepare("SELECT type, name, sql FROM sqlite_schema ORDER BY type, name")?;
    let rows = stored.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    rows.collect()
}
