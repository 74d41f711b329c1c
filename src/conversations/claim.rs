//! One process a session: two that answer into one log would mix its turns.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use agentspine_gate::{Digest, Id};

use super::{ConversationsError, Result};

/// A session that this process works on. Dropping it, or the end of the process, gives it up.
pub(crate) struct Claim {
    path: PathBuf,
    file: File,
}

impl Claim {
    /// Claims a session by a lock file in `dir`; `None` where another process has it.
    pub(crate) fn take(dir: &Path, session: &Id) -> Result<Option<Self>> {
        let failed = |cause: io::Error| ConversationsError::File(cause.kind());
        // Ids may hold slashes and colons.
        let path = dir.join(format!("session-{}.lock", Digest::of(session.as_str().as_bytes()).to_hex()));
        loop {
            let options = File::options().write(true).create(true).truncate(false).mode(0o600).clone();
            let file = options.open(&path).map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(cause)) => return Err(failed(cause)),
            }
            let claim = Self { path: path.clone(), file };
            // Its last owner may have removed the file between our opening and our locking it.
            if claim.is_named().map_err(failed)? {
                return Ok(Some(claim));
            }
        }
    }

    fn is_named(&self) -> io::Result<bool> {
        let held = self.file.metadata()?;
        match std::fs::metadata(&self.path) {
            Ok(named) => Ok((named.dev(), named.ino()) == (held.dev(), held.ino())),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(cause) => Err(cause),
        }
    }
}

impl Drop for Claim {
    /// Removes the file while it is still locked, so that nobody else's is removed; a leftover harms nobody.
    fn drop(&mut self) {
        if self.is_named().unwrap_or(false) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}
