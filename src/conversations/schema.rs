//! The file: how it is opened, and what its schema refuses by itself.

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::{ConversationsError, Result};

/// `agsc`: marks the file as ours.
pub(super) const APPLICATION_ID: i64 = 0x6167_7363;
/// How long a writer waits for another process.
const BUSY: Duration = Duration::from_secs(5);

/// Compiled statements kept: more than there are.
const STATEMENTS_KEPT: usize = 64;

/// Steps from one schema to the next; `user_version` counts those done.
const MIGRATIONS: [&str; 2] = [V1, V2];

/// Events can only be appended, with the next number, to a session that exists, and go only with their session.
pub(super) const V1: &str = "
CREATE TABLE session(
    id TEXT PRIMARY KEY, created_at INTEGER NOT NULL, project_id TEXT NOT NULL, cwd TEXT NOT NULL,
    host TEXT NOT NULL, instruction_host TEXT NOT NULL, title TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX session_by_project ON session(project_id);
CREATE TRIGGER session_fixed BEFORE UPDATE OF id, created_at, project_id, cwd, host, instruction_host ON session
BEGIN SELECT RAISE(ABORT, 'a session is fixed'); END;
CREATE TRIGGER session_once BEFORE INSERT ON session WHEN EXISTS (SELECT 1 FROM session WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'the session exists'); END;

CREATE TABLE event(
    session_id TEXT NOT NULL REFERENCES session(id) DEFERRABLE INITIALLY DEFERRED,
    seq INTEGER NOT NULL, kind TEXT NOT NULL, at INTEGER NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (session_id, seq)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER event_next BEFORE INSERT ON event
WHEN NEW.seq <> (SELECT coalesce(max(seq), 0) + 1 FROM event WHERE session_id = NEW.session_id)
BEGIN SELECT RAISE(ABORT, 'not the next event'); END;
CREATE TRIGGER event_fixed BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'an event is fixed'); END;
CREATE TRIGGER event_kept BEFORE DELETE ON event WHEN EXISTS (SELECT 1 FROM session WHERE id = OLD.session_id)
BEGIN SELECT RAISE(ABORT, 'an event goes only with its session'); END;

CREATE TABLE span(
    session_id TEXT NOT NULL REFERENCES session(id) DEFERRABLE INITIALLY DEFERRED,
    place TEXT NOT NULL, receipt_id TEXT NOT NULL, text TEXT NOT NULL, last_used INTEGER NOT NULL,
    UNIQUE (session_id, place)
) STRICT;
CREATE INDEX span_by_receipt ON span(receipt_id);
CREATE TRIGGER span_fixed BEFORE UPDATE OF session_id, place, receipt_id, text ON span
BEGIN SELECT RAISE(ABORT, 'a span is fixed'); END;
CREATE TRIGGER span_once BEFORE INSERT ON span
WHEN EXISTS (SELECT 1 FROM span WHERE session_id = NEW.session_id AND place = NEW.place)
BEGIN SELECT RAISE(ABORT, 'the place is taken'); END;

CREATE TABLE draft(session_id TEXT PRIMARY KEY, text TEXT NOT NULL) STRICT, WITHOUT ROWID;
";

/// Forks name their parent, how many of its events they began with, and the session whose id their places begin with.
/// A redacted session keeps its events without their text and takes no more.
const V2: &str = "
ALTER TABLE session ADD COLUMN parent TEXT;
ALTER TABLE session ADD COLUMN seed INTEGER NOT NULL DEFAULT 0;
ALTER TABLE session ADD COLUMN root TEXT;
ALTER TABLE session ADD COLUMN redacted_at INTEGER;
DROP TRIGGER session_fixed;
CREATE TRIGGER session_fixed
BEFORE UPDATE OF id, created_at, project_id, cwd, host, instruction_host, parent, seed, root ON session
BEGIN SELECT RAISE(ABORT, 'a session is fixed'); END;
CREATE TRIGGER session_redacted BEFORE UPDATE OF redacted_at ON session WHEN OLD.redacted_at IS NOT NULL
BEGIN SELECT RAISE(ABORT, 'a session stays redacted'); END;

DROP TRIGGER event_fixed;
CREATE TRIGGER event_fixed BEFORE UPDATE ON event
WHEN NEW.session_id <> OLD.session_id OR NEW.seq <> OLD.seq OR NEW.kind <> OLD.kind OR NEW.at <> OLD.at
  OR NOT EXISTS (SELECT 1 FROM session WHERE id = OLD.session_id AND redacted_at IS NOT NULL)
BEGIN SELECT RAISE(ABORT, 'an event is fixed'); END;
CREATE TRIGGER event_redacted BEFORE INSERT ON event
WHEN EXISTS (SELECT 1 FROM session WHERE id = NEW.session_id AND redacted_at IS NOT NULL)
BEGIN SELECT RAISE(ABORT, 'a redacted session takes no event'); END;
CREATE INDEX event_summary ON event(session_id, seq) WHERE kind = 'compaction/summary';
";

/// Opens or creates the file and brings its schema up to date.
pub(super) fn open(path: &Path) -> Result<Connection> {
    let _alone = alone(path)?;
    create_private(path)?;
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let mut connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    known_version(&connection)?;
    configure(&connection)?;
    migrate(&mut connection)?;
    Ok(connection)
}

/// Waits until no other process is opening the store: one that looks at a half made file takes it for another program's,
/// and SQLite does not wait for a lock while it switches to the write-ahead log. Freed when dropped.
fn alone(path: &Path) -> Result<File> {
    let file = |cause: io::Error| ConversationsError::File(cause.kind());
    let options = File::options().write(true).create(true).truncate(false).mode(0o600).to_owned();
    let lock = options.open(path.with_extension("lock")).map_err(file)?;
    lock.lock().map_err(file)?;
    Ok(lock)
}

/// Opens the file for reading, making and changing nothing; `None` where it is missing or empty.
pub(super) fn look(path: &Path) -> Result<Option<Connection>> {
    if !path.exists() {
        return Ok(None);
    }
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    // The last to close would else write the log back and remove it.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    Ok((known_version(&connection)? > 0).then_some(connection))
}

/// SQLite would create the file with the umask's mode, and its `-wal` and `-shm` copy that mode.
fn create_private(path: &Path) -> Result<()> {
    match File::options().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(cause) => Err(ConversationsError::File(cause.kind())),
    }
}

fn known_version(connection: &Connection) -> Result<i64> {
    let known = i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX);
    let application: i64 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    match (application, found) {
        (0, 0) => Ok(0),
        (APPLICATION_ID, found) if (1..=known).contains(&found) => Ok(found),
        (APPLICATION_ID, found) if found > known => Err(ConversationsError::Newer { found, known }),
        _ => Err(ConversationsError::Foreign),
    }
}

fn configure(connection: &Connection) -> Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    // REPLACE deletes without firing delete triggers unless this is on.
    connection.pragma_update(None, "recursive_triggers", true)?;
    connection.pragma_update(None, "secure_delete", true)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    Ok(())
}

fn migrate(connection: &mut Connection) -> Result<()> {
    if known_version(connection)? == i64::try_from(MIGRATIONS.len()).unwrap_or(i64::MAX) {
        return Ok(());
    }
    let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Read again inside: another process may have been faster.
    let done = usize::try_from(known_version(&tx)?).unwrap_or(usize::MAX);
    for (step, sql) in MIGRATIONS.iter().enumerate().skip(done) {
        tx.execute_batch(sql)?;
        tx.pragma_update(None, "user_version", i64::try_from(step + 1).unwrap_or(i64::MAX))?;
    }
    tx.pragma_update(None, "application_id", APPLICATION_ID)?;
    tx.commit()?;
    Ok(())
}
