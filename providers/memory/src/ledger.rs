//! The ledger's file: opening it, and what may go wrong with it.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction};

use crate::{index, schema};

/// How long a writer waits for another process before it gives up.
pub const BUSY_MS_MAX: u64 = 5000;
/// How often the end of an interrupted read is tried; one interrupt spoils one try.
const ROLLBACKS_MAX: u32 = 1000;
/// Pause between two tries of what SQLite does not wait for itself.
const RETRY_MS: u64 = 5;

/// Why a ledger could not be opened.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Written by a newer build; nothing was changed.
    #[error("the memory ledger has schema {found}, this build knows {supported}: update agentspine")]
    Newer {
        /// Schema of the file.
        found: i64,
        /// Newest schema of this build.
        supported: i64,
    },
    /// Another program's database, or no database at all; nothing was changed.
    #[error("the file at the ledger's place is not a memory ledger: move it away")]
    NotALedger,
    /// The file cannot be created or opened.
    #[error("the memory ledger cannot be opened: {0}")]
    Io(io::ErrorKind),
    /// SQLite refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// SQLite refused a read or a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Another process held the ledger for the whole busy timeout.
    #[error("the memory ledger is busy")]
    Busy,
    /// The reader was interrupted by its deadline.
    #[error("the memory ledger was interrupted")]
    Interrupted,
    /// Anything else, by SQLite's primary result code. The text is left out: it can quote values.
    #[error("the memory ledger failed ({0:?})")]
    Sqlite(ErrorCode),
    /// A stored value is not what the schema says.
    #[error("the memory ledger holds a value it cannot hold")]
    Corrupt,
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy,
            Some(ErrorCode::OperationInterrupted) => Self::Interrupted,
            Some(code) => Self::Sqlite(code),
            None => Self::Corrupt,
        }
    }
}

impl From<rusqlite::Error> for OpenError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::NotALedger,
            _ => Self::Store(error.into()),
        }
    }
}

/// An open ledger: one connection, used by one thread at a time.
pub struct Ledger {
    pub(crate) db: Connection,
    pub(crate) projecting: Projecting,
    /// Set by an [`Interrupter`], taken back when the next read begins.
    stop: Arc<AtomicBool>,
    /// Names this connection in claims.
    pub(crate) owner: String,
}

/// Ends the read that a [`Ledger`] is busy with; harmless when there is none.
pub struct Interrupter {
    statement: rusqlite::InterruptHandle,
    stop: Arc<AtomicBool>,
}

impl Interrupter {
    /// Makes the running read fail with [`StoreError::Interrupted`].
    pub fn interrupt(&self) {
        self.stop.store(true, Ordering::Release);
        self.statement.interrupt();
    }
}

/// One read of several statements, all of the same moment, that an [`Interrupter`] ends between two of them too.
pub(crate) struct Reading<'a> {
    pub(crate) tx: Transaction<'a>,
    stop: &'a AtomicBool,
}

impl Drop for Reading<'_> {
    /// An interrupt can also hit the end of the transaction, which would then stay open and hold up every later one.
    fn drop(&mut self) {
        for _ in 0..ROLLBACKS_MAX {
            if self.tx.is_autocommit() {
                break;
            }
            // Interrupted again, or done: the next round sees which.
            let _ = self.tx.execute_batch("ROLLBACK");
        }
    }
}

impl Reading<'_> {
    /// An error once the read was interrupted.
    pub(crate) fn go_on(&self) -> Result<(), StoreError> {
        if self.stop.load(Ordering::Acquire) { Err(StoreError::Interrupted) } else { Ok(()) }
    }
}

/// Whether the memories of a ledger are also projected outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Projecting {
    /// The ledger is all there is: a memory is applied with its commit.
    #[default]
    Off,
    /// A commit is the intent; a memory is applied once reconcile has read it back from the projection.
    On,
}

impl Ledger {
    /// Opens the ledger at `path`, creating it 0600 where nothing stands there. Its directory must exist.
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let path = real(path)?;
        create(&path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX
            | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        let mut db = Connection::open_with_flags(path, flags)?;
        db.busy_timeout(Duration::from_millis(BUSY_MS_MAX))?;
        configure(&db)?;
        schema::migrate(&mut db)?;
        index::renew(&mut db)?;
        let owner = db.query_row("SELECT lower(hex(randomblob(16)))", [], |row| row.get(0))?;
        Ok(Self { db, projecting: Projecting::Off, owner, stop: Arc::default() })
    }

    /// Says whether what is remembered from now on is projected.
    pub fn project(&mut self, projecting: Projecting) {
        self.projecting = projecting;
    }

    /// A handle that ends a running read from another thread.
    pub fn interrupter(&self) -> Interrupter {
        Interrupter { statement: self.db.get_interrupt_handle(), stop: Arc::clone(&self.stop) }
    }

    /// Begins a read.
    pub(crate) fn reading(&self) -> Result<Reading<'_>, StoreError> {
        self.stop.store(false, Ordering::Release);
        Ok(Reading { tx: self.db.unchecked_transaction()?, stop: &self.stop })
    }
}

/// A column that counts something.
pub(crate) fn count(row: &rusqlite::Row<'_>, at: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(at)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(at, value))
}

/// The path with the links of its directory resolved; `SQLITE_OPEN_NOFOLLOW` would refuse those too.
fn real(path: &Path) -> Result<PathBuf, OpenError> {
    let name = path.file_name().ok_or(OpenError::Io(io::ErrorKind::InvalidInput))?;
    let dir = path.parent().ok_or(OpenError::Io(io::ErrorKind::InvalidInput))?;
    let dir = dir.canonicalize().map_err(|e| OpenError::Io(e.kind()))?;
    Ok(dir.join(name))
}

/// Creates the file 0600 before SQLite opens it: SQLite gives its -wal and -shm files the same mode.
fn create(path: &Path) -> Result<(), OpenError> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(OpenError::Io(error.kind())),
    }
}

fn configure(db: &Connection) -> Result<(), OpenError> {
    // Before any pragma writes to a file that is not ours; in one transaction, because others may be making the file.
    schema::identify(&*db.unchecked_transaction()?)?;
    write_ahead(db)?;
    // A memory lost to a power cut is remembered again; NORMAL keeps the file consistent and costs no fsync a write.
    db.execute_batch(
        "PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON;
         PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0; PRAGMA recursive_triggers = ON;
         PRAGMA temp_store = MEMORY;",
    )?;
    // A kept statement is not compiled again for each value it is given.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Switches the file to a write-ahead log. The busy timeout does not hold for that, so it is tried again here.
fn write_ahead(db: &Connection) -> Result<(), OpenError> {
    for _ in 0..BUSY_MS_MAX / RETRY_MS {
        let switched = db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).map_err(StoreError::from);
        match switched {
            Err(StoreError::Busy) => std::thread::sleep(Duration::from_millis(RETRY_MS)),
            other => return Ok(other?),
        }
    }
    Err(StoreError::Busy.into())
}
