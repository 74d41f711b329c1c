//! What the gate is handed: time, randomness, files. It owns none of them.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::ids::Digest;

/// Time. Validity uses boot time only; wall time is for people.
pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn wall_ms(&self) -> i64;
    /// Milliseconds of `CLOCK_BOOTTIME`: counts suspend, never steps.
    fn boottime_ms(&self) -> u64;
    /// Identity of this boot, 32 to 36 characters of lower-case hex and dashes.
    fn boot_id(&self) -> String;
}

/// Unpredictable bytes.
pub trait Rng: Send + Sync {
    /// Fills the slice or fails; never partly.
    fn fill(&self, out: &mut [u8]) -> io::Result<()>;
}

/// What a directory entry is, without following a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Regular file.
    File,
    /// Directory.
    Dir,
    /// Symbolic link.
    Link,
    /// FIFO, socket or device.
    Other,
}

/// What identifies a file beyond its content. Digest of decimal dev, ino, size, mtime ns, ctime ns joined by NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity(pub Digest);

/// A file read once: the bytes hashed are the bytes used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadFile {
    /// The whole content.
    pub bytes: Vec<u8>,
    /// Identity of the handle the bytes came from.
    pub identity: Identity,
}

/// Why a safe read refused.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Nothing stands at the path.
    #[error("no such file")]
    Absent,
    /// A component below the root is a symbolic link.
    #[error("a symbolic link stands in the path")]
    Link,
    /// Not a regular file, or on a pseudo file system.
    #[error("not a regular file")]
    NotRegular,
    /// More than `limit` bytes.
    #[error("larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// Another file stands at the path than the one read.
    #[error("replaced while it was read")]
    Replaced,
    /// The file changed while it was read.
    #[error("changed while it was read")]
    Changed,
    /// The path leaves its root.
    #[error("outside its directory")]
    OutOfScope,
    /// The system refused.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
}

/// Whether a path can name nothing at all: missing, below a file, or not a possible name.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, InvalidInput, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | InvalidFilename | InvalidInput)
}

/// Files the gate reads but does not own: instruction files and the host's own settings.
pub trait Fs: Send + Sync {
    /// The real path: links resolved, absolute.
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf>;
    /// What stands at the path itself; `None` where nothing does.
    fn kind(&self, path: &Path) -> io::Result<Option<Kind>>;
    /// Names and kinds in a directory, at most `limit`, sorted by bytes. More than `limit` is an error of kind
    /// [`io::ErrorKind::FileTooLarge`].
    fn entries(&self, dir: &Path, limit: usize) -> io::Result<Vec<(std::ffi::OsString, Kind)>>;
    /// Text of a link.
    fn link_text(&self, path: &Path) -> io::Result<PathBuf>;
    /// Reads the regular file `relative` below the canonical directory `root`: no link in `root` or in any component
    /// below it, opened without following and without blocking, judged by the handle, at most `limit` bytes, identity
    /// checked again by path.
    fn read(&self, root: &Path, relative: &Path, limit: u64) -> Result<ReadFile, ReadError>;
}

/// The three seams in one hand.
#[derive(Clone)]
pub struct Seams {
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub rng: Arc<dyn Rng>,
    /// Files.
    pub fs: Arc<dyn Fs>,
}
