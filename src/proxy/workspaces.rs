//! The registry of workspaces, `<state>/proxy.json`: each secret stands for a directory, a host and an identity.
//!
//! [`Registry::ensure`] is how `run`, `env` and `proxy` get a workspace, [`Registry::find`] how the daemon tells whose
//! request it holds. The file is read anew when another process has replaced it, and changed under a lock, whole.
//! Invariants: a secret is compared by digest in constant time and never printed; a file that others could have read or
//! written finds nobody. What nobody used for 90 days is dropped.

mod error;
mod file;
#[cfg(test)]
mod tests;

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentspine_gate::Digest;
use agentspine_gate::ids::hex;
use agentspine_gate::instructions::HostHomes;
use agentspine_gate::private;
use agentspine_gate::seams::Seams;
use agentspine_gate::state_dir::StateDir;
use agentspine_gate::turn::{Host, Identity, Injection, InstructionHost};
use serde::{Deserialize, Serialize};
use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};
use zeroize::Zeroizing;

pub(crate) use error::RegistryError;
use file::Stored;

use crate::config::Secret;
use crate::system;

/// Length of a secret in bytes: 128 random bits, 32 hexadecimal digits.
const SECRET_BYTES: usize = 16;
/// Days after its last use on which a workspace is dropped.
const UNUSED_DAYS_MAX: u32 = 90;
/// Most workspaces; those unused longest go first.
const WORKSPACES_MAX: usize = 512;
/// How long a change waits for another one, milliseconds.
const LOCK_WAIT_MS: u32 = 5000;
/// Milliseconds of a day.
const DAY_MS: i64 = 86_400_000;

/// A server that requests are sent on to, by the name of its key in `[proxy]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Upstream {
    /// Anthropic's API.
    Anthropic,
    /// `OpenAI`'s API.
    OpenAi,
    /// The API that a ChatGPT login of Codex uses.
    ChatGpt,
}

/// Which upstreams a workspace's requests may go to: the dialect of a request picks one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Upstreams {
    /// Anthropic's dialect only: Claude Code.
    Anthropic,
    /// `OpenAI`'s dialects only, with an API key: Codex.
    OpenAi,
    /// `OpenAI`'s dialects only, with a ChatGPT login: Codex.
    ChatGpt,
    /// Anthropic and `OpenAI`, by dialect: any other client.
    #[serde(rename = "by-dialect")]
    ByDialect,
}

impl Upstreams {
    /// Where a request in Anthropic's dialect goes.
    pub(crate) fn anthropic(self) -> Option<Upstream> {
        match self {
            Self::Anthropic | Self::ByDialect => Some(Upstream::Anthropic),
            Self::OpenAi | Self::ChatGpt => None,
        }
    }

    /// Where a request in one of `OpenAI`'s dialects goes.
    pub(crate) fn openai(self) -> Option<Upstream> {
        match self {
            Self::OpenAi | Self::ByDialect => Some(Upstream::OpenAi),
            Self::ChatGpt => Some(Upstream::ChatGpt),
            Self::Anthropic => None,
        }
    }
}

/// What a secret stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binding {
    /// The working directory, canonical.
    pub dir: PathBuf,
    /// The client.
    pub host: Host,
    /// Whose instruction files are mandatory.
    pub instruction_host: InstructionHost,
    /// Who asks.
    pub identity: Identity,
    /// Where the hosts keep their files, as the person who started the client sees them.
    pub homes: HostHomes,
    /// Where requests go.
    pub upstreams: Upstreams,
}

/// A binding and the secret that stands for it.
#[derive(Debug, Clone)]
pub(crate) struct Workspace {
    /// 32 lower-case hexadecimal digits.
    pub secret: Secret,
    /// What it stands for.
    pub binding: Binding,
    /// Whether its calls may add text to their conversations.
    pub injection: Injection,
}

/// A workspace in memory.
#[derive(Clone)]
struct Known {
    workspace: Arc<Workspace>,
    digest: Digest,
    /// Day of its last use, counted from the Unix epoch.
    used: u32,
}

impl Known {
    fn new(workspace: Workspace, used: u32) -> Self {
        let digest = Digest::of(workspace.secret.expose().as_bytes());
        Self { workspace: Arc::new(workspace), digest, used }
    }
}

/// What the file says.
#[derive(Clone, Default)]
struct Contents {
    port: Option<u16>,
    workspaces: Vec<Known>,
}

/// Which file was read: device, inode, size, times of change in nanoseconds. `None`: there was none.
type Seen = Option<(u64, u64, u64, i64, i64, i64, i64)>;

/// The registry of one state directory. Shared by all requests of the daemon.
pub(crate) struct Registry {
    path: PathBuf,
    seams: Seams,
    read: Mutex<(Seen, Arc<Contents>)>,
    /// Boot time of the last request of a known workspace, milliseconds.
    asked_ms: AtomicU64,
}

impl Registry {
    /// The registry of a state directory.
    pub(crate) fn of(dir: &StateDir) -> Result<Self, RegistryError> {
        Self::open(dir.root().join("proxy.json"))
    }

    /// The registry at `<state>/proxy.json`. A missing file is an empty registry; one that is unfit is an error.
    pub(crate) fn open(path: PathBuf) -> Result<Self, RegistryError> {
        Self::with(path, system::seams())
    }

    fn with(path: PathBuf, seams: Seams) -> Result<Self, RegistryError> {
        let asked_ms = AtomicU64::new(seams.clock.boottime_ms());
        let read = Mutex::new((seen(&path), Arc::new(file::read(&path)?)));
        Ok(Self { path, seams, read, asked_ms })
    }

    /// Whose secret this is. Looks at every entry, whatever it finds, so that time tells nothing.
    pub(crate) fn find(&self, secret: &str) -> Option<Arc<Workspace>> {
        let contents = self.contents().ok()?;
        let wanted = Digest::of(secret.as_bytes());
        let mut at = u64::MAX;
        for (index, known) in (0u64..).zip(&contents.workspaces) {
            let same: Choice = known.digest.0.ct_eq(&wanted.0);
            at.conditional_assign(&index, same);
        }
        let found = contents.workspaces.get(usize::try_from(at).ok()?)?;
        self.asked_ms.store(self.seams.clock.boottime_ms(), Ordering::Relaxed);
        if found.used < self.today() {
            // Keeps it from being dropped; a registry that is busy or full is asked again with the next request.
            let _ = self.change(0, |contents, today| contents.touch(&wanted, today));
        }
        Some(Arc::clone(&found.workspace))
    }

    /// The workspace of a binding: the one there is, else a new one with a fresh secret.
    pub(crate) fn ensure(&self, binding: Binding) -> Result<Arc<Workspace>, RegistryError> {
        if binding.dir.to_str().is_none() {
            return Err(RegistryError::Directory);
        }
        let fresh = self.draw()?;
        self.change(LOCK_WAIT_MS, |contents, today| contents.ensure(binding, fresh, today))
    }

    /// Pauses injection for every client of a directory, or ends the pause; how many workspaces that are.
    pub(crate) fn set_injection(&self, dir: &Path, injection: Injection) -> Result<usize, RegistryError> {
        self.change(LOCK_WAIT_MS, |contents, _| contents.set_injection(dir, injection))
    }

    /// All workspaces.
    pub(crate) fn all(&self) -> Result<Vec<Arc<Workspace>>, RegistryError> {
        Ok(self.contents()?.workspaces.iter().map(|known| Arc::clone(&known.workspace)).collect())
    }

    /// Drops a workspace: its secret is nobody's from now on.
    pub(crate) fn forget(&self, secret: &str) -> Result<(), RegistryError> {
        let digest = Digest::of(secret.as_bytes());
        self.change(LOCK_WAIT_MS, |contents, _| contents.workspaces.retain(|known| known.digest != digest))
    }

    /// The port that the daemon used last.
    pub(crate) fn port(&self) -> Result<Option<u16>, RegistryError> {
        Ok(self.contents()?.port)
    }

    /// Keeps the port for later starts.
    pub(crate) fn remember_port(&self, port: u16) -> Result<(), RegistryError> {
        self.change(LOCK_WAIT_MS, |contents, _| contents.port = Some(port))
    }

    /// How long ago the last request of a known workspace came, or this registry was opened.
    pub(crate) fn quiet_for(&self) -> Duration {
        let now = self.seams.clock.boottime_ms();
        Duration::from_millis(now.saturating_sub(self.asked_ms.load(Ordering::Relaxed)))
    }

    /// What the file says now.
    fn contents(&self) -> Result<Arc<Contents>, RegistryError> {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        // Looked at before it is read: a file that is replaced in between is read once more the next time.
        let now = seen(&self.path);
        if now != read.0 {
            *read = (now, Arc::new(file::read(&self.path)?));
        }
        Ok(Arc::clone(&read.1))
    }

    /// Reads, changes and writes the file under its lock.
    fn change<R>(
        &self,
        wait_ms: u32,
        change: impl FnOnce(&mut Contents, u32) -> R,
    ) -> Result<R, RegistryError> {
        let lock_file = private::lock_file(&self.path).map_err(RegistryError::write)?;
        let held = private::lock(&lock_file, wait_ms).map_err(RegistryError::write)?;
        let _held = held.ok_or(RegistryError::Busy)?;
        let mut contents = file::read(&self.path)?;
        let before = Stored::of(&contents).bytes()?;
        let done = change(&mut contents, self.today());
        let after = Stored::of(&contents).bytes()?;
        if before != after || seen(&self.path).is_none() {
            private::replace(&self.path, &after).map_err(RegistryError::write)?;
        }
        Ok(done)
    }

    fn draw(&self) -> Result<Secret, RegistryError> {
        let mut bytes = Zeroizing::new([0u8; SECRET_BYTES]);
        self.seams.rng.fill(&mut *bytes).map_err(|_| RegistryError::Random)?;
        Ok(Secret::new(hex(&*bytes)))
    }

    fn today(&self) -> u32 {
        u32::try_from(self.seams.clock.wall_ms() / DAY_MS).unwrap_or_default()
    }
}

impl Contents {
    fn ensure(&mut self, binding: Binding, fresh: Secret, today: u32) -> Arc<Workspace> {
        self.workspaces.retain(|known| today.saturating_sub(known.used) < UNUSED_DAYS_MAX);
        let known = self.workspaces.iter_mut().find(|known| known.workspace.binding == binding);
        if let Some(known) = known {
            known.used = known.used.max(today);
            return Arc::clone(&known.workspace);
        }
        self.workspaces.sort_by_key(|known| std::cmp::Reverse(known.used));
        self.workspaces.truncate(WORKSPACES_MAX - 1);
        // A new client in a directory that is paused is paused too.
        let paused = |known: &Known| {
            known.workspace.binding.dir == binding.dir && known.workspace.injection == Injection::Paused
        };
        let injection = if self.workspaces.iter().any(paused) { Injection::Paused } else { Injection::On };
        let known = Known::new(Workspace { secret: fresh, binding, injection }, today);
        let workspace = Arc::clone(&known.workspace);
        self.workspaces.push(known);
        workspace
    }

    fn set_injection(&mut self, dir: &Path, injection: Injection) -> usize {
        let of_dir = |known: &&mut Known| known.workspace.binding.dir == dir;
        let mut count = 0;
        for known in self.workspaces.iter_mut().filter(of_dir) {
            known.workspace = Arc::new(Workspace { injection, ..(*known.workspace).clone() });
            count += 1;
        }
        count
    }

    fn touch(&mut self, digest: &Digest, today: u32) {
        let known = self.workspaces.iter_mut().find(|known| known.digest == *digest);
        if let Some(known) = known {
            known.used = known.used.max(today);
        }
    }
}

fn seen(path: &Path) -> Seen {
    let meta = path.symlink_metadata().ok()?;
    Some((
        meta.dev(),
        meta.ino(),
        meta.size(),
        meta.mtime(),
        meta.mtime_nsec(),
        meta.ctime(),
        meta.ctime_nsec(),
    ))
}
