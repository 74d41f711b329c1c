//! The file behind Must-Remember: how it is made, judged and opened.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::rows;
use crate::failure::{Detail, Refusal};

/// How long a writer waits for another one, milliseconds.
const BUSY_MS: u64 = 5000;

/// Which keys signed what stands in a store.
pub(crate) enum SignedBy {
    /// Nothing stands in it, or there is none.
    Nobody,
    /// Keys of these names.
    Keys(BTreeSet<String>),
    /// Nobody can read it.
    Unreadable,
}

/// Looks without verifying anything. Refuses only while another process keeps the store locked.
pub(crate) fn signed_by(path: &Path) -> Result<SignedBy, Refusal> {
    if !path.exists() {
        return Ok(SignedBy::Nobody);
    }
    let names = || -> rusqlite::Result<BTreeSet<String>> {
        let db = connect(path)?;
        let mut select = db.prepare("SELECT DISTINCT kid FROM remembered")?;
        select.query_map([], |row| row.get(0))?.collect()
    };
    match names() {
        Ok(names) if names.is_empty() => Ok(SignedBy::Nobody),
        Ok(names) => Ok(SignedBy::Keys(names)),
        Err(e) if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Err(rows::unreadable(&e)),
        Err(_) => Ok(SignedBy::Unreadable),
    }
}

/// Waits until no other process makes the file: two first starts at once must not both make the table.
pub(super) fn alone(path: &Path) -> Result<File, Refusal> {
    let lock = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path.with_extension("lock"));
    lock.and_then(|lock| lock.lock().map(|()| lock)).map_err(|e| unusable(&e.kind().to_string()))
}

pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    db.busy_timeout(std::time::Duration::from_millis(BUSY_MS))?;
    db.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // No deleted text in temporary files, free pages or page gaps; no functions from a foreign schema.
    db.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; PRAGMA recursive_triggers = ON; \
         PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON;",
    )?;
    db.pragma_update_and_check(None, "secure_delete", "ON", |_| Ok(()))?;
    Ok(db)
}

/// Makes the file 0600 before SQLite opens it, or judges the one that stands there. A file that exists is never opened
/// here: closing it again would drop the locks of this process's other connections (fcntl locks belong to the process).
pub(super) fn own_file(path: &Path) -> Result<(), Refusal> {
    match File::options().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => return Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(unusable(&e.kind().to_string())),
    }
    let meta = path.symlink_metadata().map_err(|e| unusable(&e.kind().to_string()))?;
    if !meta.is_file() {
        return Err(unusable("it is not a regular file"));
    }
    if meta.uid() != rustix::process::geteuid().as_raw() || meta.mode() & 0o077 != 0 {
        return Err(unusable("others own it or may read it; `chmod 600` it"));
    }
    Ok(())
}

pub(super) fn unusable(why: &str) -> Refusal {
    Refusal::new(
        Detail::StateDir,
        format!(
            "The Must-Remember store (gate/remember.sqlite in the state directory) cannot be used: {why}."
        ),
        "See `agentspine state check`.",
    )
}
