//! Private files: made 0600, opened without following links, judged by their handle, read and replaced whole, locked,
//! told apart. Keyring, anchor, journal, policy and Must-Remember all stand on these, and the proxy's registry.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, OFlags};
use zeroize::Zeroizing;

/// Pause between two tries at a lock, milliseconds.
const LOCK_PAUSE_MS: u32 = 2;
/// Where a default `<state>` lies below the home directory.
const DEFAULT_BELOW_HOME: &str = ".local/state/agentspine";

/// A path as advice on the person's own terminal shows it: `~/…` below a default state directory, else as it is.
pub(crate) fn shown(path: &Path) -> String {
    let text = path.display().to_string();
    text.find(DEFAULT_BELOW_HOME)
        .and_then(|at| text.get(at..))
        .map_or(text.clone(), |tail| format!("~/{tail}"))
}

/// Which file stands at a path: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stands {
    dev: u64,
    ino: u64,
}

impl Stands {
    /// What stands at `path` itself; `None` where nothing does.
    pub(crate) fn at(path: &Path) -> io::Result<Option<Self>> {
        match path.symlink_metadata() {
            Ok(meta) => Ok(Some(Self::of(&meta))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The file behind this metadata.
    pub(crate) fn of(meta: &std::fs::Metadata) -> Self {
        Self { dev: meta.dev(), ino: meta.ino() }
    }
}

/// What is wrong with a private file.
#[derive(Debug)]
pub enum Unfit {
    /// Nothing stands there.
    Absent,
    /// A link, a directory or something else than a regular file.
    NotRegular,
    /// Its mode is not 0600.
    Mode,
    /// Another user's.
    Owner,
    /// More bytes than are read.
    TooLarge,
    /// The system refused.
    Io(io::Error),
}

impl From<io::Error> for Unfit {
    fn from(e: io::Error) -> Self {
        match e.kind() {
            io::ErrorKind::NotFound => Self::Absent,
            // What O_NOFOLLOW says of a link.
            _ if e.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => Self::NotRegular,
            // What opening a directory for writing says.
            io::ErrorKind::IsADirectory => Self::NotRegular,
            _ => Self::Io(e),
        }
    }
}

/// Judges metadata the way ssh judges a key: regular, ours, exactly 0600.
fn judge(meta: Metadata) -> Result<Metadata, Unfit> {
    if !meta.file_type().is_file() {
        Err(Unfit::NotRegular)
    } else if meta.uid() != rustix::process::geteuid().as_raw() {
        Err(Unfit::Owner)
    } else if meta.mode() & 0o7777 != 0o600 {
        Err(Unfit::Mode)
    } else {
        Ok(meta)
    }
}

/// Judges a database without opening it: closing such a handle would drop the locks of this process's connections
/// (fcntl locks belong to the process).
pub(crate) fn judge_unopened(path: &Path) -> Result<Metadata, Unfit> {
    judge(path.symlink_metadata()?)
}

/// Opens a private file without following a link or waiting for a FIFO, and judges the handle.
pub fn open_private(path: &Path, write: bool) -> Result<File, Unfit> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let flags = i32::try_from(flags).unwrap_or_default();
    let file = OpenOptions::new().read(true).write(write).custom_flags(flags).open(path)?;
    judge(file.metadata()?)?;
    Ok(file)
}

/// The whole of a private file of at most `bytes_max`, wiped when dropped, and the metadata of its handle.
pub fn read_private(path: &Path, bytes_max: u64) -> Result<(Zeroizing<Vec<u8>>, Metadata), Unfit> {
    let file = open_private(path, false)?;
    let meta = file.metadata()?;
    // Room for all of it: a vector that grows leaves copies that nobody wipes.
    let room = usize::try_from(bytes_max.min(meta.len())).unwrap_or_default().saturating_add(1);
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max { Err(Unfit::TooLarge) } else { Ok((bytes, meta)) }
}

/// Old file or new file, never a part: written aside, synced, renamed, the directory synced. The caller holds the lock
/// under which the file is changed. Returns the new file.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let aside = path.with_extension("json.new");
    // Left behind by a crash, under the same lock.
    match std::fs::remove_file(&aside) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = create_private(&aside)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&aside, path)?;
    sync_dir(path.parent().unwrap_or(path))?;
    Ok(file)
}

/// The file whose lock guards a change to the file at `path`: the same name with the extension `lock`.
pub fn lock_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path.with_extension("lock"))
}

/// Makes a new private file; an existing one is an error.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Makes the names in a directory durable.
pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

/// An exclusive lock on a file or directory handle; freed when dropped.
pub struct Held<'a>(&'a File);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // An unlock that fails leaves the lock to the handle's end, which is late but safe.
        let _ = rustix::fs::flock(self.0, FlockOperation::Unlock);
    }
}

/// Takes the exclusive lock of a handle; `None` after `wait_ms` in vain. Polls, so a stuck holder cannot hang us.
pub fn lock(file: &File, wait_ms: u32) -> io::Result<Option<Held<'_>>> {
    for _ in 0..=wait_ms / LOCK_PAUSE_MS {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Some(Held(file))),
            Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
        std::thread::sleep(std::time::Duration::from_millis(u64::from(LOCK_PAUSE_MS)));
    }
    Ok(None)
}
