//! The daemon's post: one a user. Whoever serves holds its lock, and its notice says where.
//!
//! Three lock files in `<state>/run`, all freed by the system when their process ends, however it ends:
//! `proxy.lock` is held by the daemon and holds its notice; `proxy.start` by whoever is starting one; `proxy.users` is
//! shared by every running client, and an idle daemon leaves only when it gets that one for itself.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// Pause between two tries at a lock.
const PAUSE: Duration = Duration::from_millis(5);
/// How long the post is asked for: somebody who only looks holds it for a moment.
const TAKING: Duration = Duration::from_millis(250);
/// Largest notice, bytes.
const NOTICE_BYTES_MAX: u64 = 4096;

/// What the daemon says of itself; readable by this user alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Notice {
    /// Its process id.
    pub pid: u32,
    /// Where it listens.
    pub address: SocketAddr,
    /// Its version.
    pub version: String,
    /// Random; `/healthz` answers with the same.
    pub nonce: String,
}

impl Notice {
    /// The base of every URL on it.
    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Who holds the post.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// Nobody.
    Free,
    /// Somebody who does not listen yet.
    Starting,
    /// A daemon.
    Held(Notice),
}

/// The post, taken. Given up when dropped, or with the process.
pub(crate) struct Post(File);

impl Post {
    /// Takes it; `None` where another daemon has it.
    pub(crate) fn take(run_dir: &Path) -> io::Result<Option<Self>> {
        let file = open(run_dir, "proxy.lock")?;
        let taken = wait(TAKING, || file.try_lock())?;
        if taken {
            file.set_len(0)?;
        }
        Ok(taken.then_some(Self(file)))
    }

    /// Says where the daemon listens from now on.
    pub(crate) fn announce(&mut self, notice: &Notice) -> io::Result<()> {
        let text = serde_json::to_vec(notice)?;
        self.0.set_len(0)?;
        self.0.rewind()?;
        // One write: whoever reads meanwhile finds nothing or all of it.
        self.0.write_all(&text)
    }
}

/// Looks who holds the post.
pub(crate) fn look(run_dir: &Path) -> io::Result<Stand> {
    let file = open(run_dir, "proxy.lock")?;
    match file.try_lock_shared() {
        Ok(()) => return Ok(Stand::Free),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(cause)) => return Err(cause),
    }
    let mut text = Vec::new();
    file.take(NOTICE_BYTES_MAX).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text).map_or(Stand::Starting, Stand::Held))
}

/// One after another: the right to start a daemon. `None` after `patience`.
pub(crate) fn starter(run_dir: &Path, patience: Duration) -> io::Result<Option<File>> {
    let file = open(run_dir, "proxy.start")?;
    Ok(wait(patience, || file.try_lock())?.then_some(file))
}

/// Says that a client is running, as long as the file is held. `None` after `patience`: a daemon is leaving just now.
pub(crate) fn user(run_dir: &Path, patience: Duration) -> io::Result<Option<File>> {
    let file = open(run_dir, "proxy.users")?;
    Ok(wait(patience, || file.try_lock_shared())?.then_some(file))
}

/// The right to leave: no client is running, and none starts while the file is held.
pub(crate) fn nobody_uses(run_dir: &Path) -> io::Result<Option<File>> {
    let file = open(run_dir, "proxy.users")?;
    Ok(wait(Duration::ZERO, || file.try_lock())?.then_some(file))
}

fn open(run_dir: &Path, name: &str) -> io::Result<File> {
    let options = File::options().read(true).write(true).create(true).truncate(false).mode(0o600).clone();
    options.open(run_dir.join(name))
}

/// Tries until it has the lock; false after `patience` in vain.
fn wait(patience: Duration, lock: impl Fn() -> Result<(), TryLockError>) -> io::Result<bool> {
    let begun = Instant::now();
    loop {
        match lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::WouldBlock) if begun.elapsed() >= patience => return Ok(false),
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
            Err(TryLockError::Error(cause)) => return Err(cause),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice() -> Notice {
        Notice {
            pid: 7,
            address: "127.0.0.1:4321".parse().unwrap(),
            version: "1.2.3".into(),
            nonce: "n".into(),
        }
    }

    #[test]
    fn the_post_has_one_holder_whose_notice_others_read_until_it_is_given_up() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(look(dir.path()).unwrap(), Stand::Free);
        let mut post = Post::take(dir.path()).unwrap().unwrap();
        assert_eq!(look(dir.path()).unwrap(), Stand::Starting);
        assert!(Post::take(dir.path()).unwrap().is_none());
        post.announce(&notice()).unwrap();
        assert_eq!(look(dir.path()).unwrap(), Stand::Held(notice()));
        drop(post);
        assert_eq!(look(dir.path()).unwrap(), Stand::Free);
        let again = Post::take(dir.path()).unwrap();
        assert_eq!(look(dir.path()).unwrap(), Stand::Starting);
        drop(again);
    }

    #[test]
    fn a_daemon_may_leave_only_while_no_client_runs_and_none_starts_meanwhile() {
        let dir = tempfile::tempdir().unwrap();
        let first = user(dir.path(), Duration::ZERO).unwrap().unwrap();
        let second = user(dir.path(), Duration::ZERO).unwrap().unwrap();
        drop(first);
        assert!(nobody_uses(dir.path()).unwrap().is_none());
        drop(second);
        let leaving = nobody_uses(dir.path()).unwrap().unwrap();
        assert!(user(dir.path(), Duration::ZERO).unwrap().is_none());
        drop(leaving);
        assert!(user(dir.path(), Duration::ZERO).unwrap().is_some());
    }
}
