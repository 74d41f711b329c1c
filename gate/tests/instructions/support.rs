//! A machine of its own for each test: home, managed directory, and a file system that ends at the temporary root.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use agentspine_gate::instructions::{HostHomes, Snapshot, listing, snapshot};
use agentspine_gate::os_fs::OsFs;
use agentspine_gate::seams::{Fs, Kind, ReadError, ReadFile};
use agentspine_gate::turn::InstructionHost;
use agentspine_gate::{Id, Refusal, instructions};

/// A temporary machine. `home` is the person's home, `managed` Claude's managed directory.
pub(crate) struct Machine {
    _dir: tempfile::TempDir,
    pub(crate) root: PathBuf,
    pub(crate) allowed: Vec<PathBuf>,
}

impl Machine {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("home/proj/.git")).unwrap();
        Self { _dir: dir, root, allowed: Vec::new() }
    }

    /// With files, each holding its own path unless text is given after `=`.
    pub(crate) fn with(files: &[&str]) -> Self {
        let machine = Self::new();
        for file in files {
            match file.split_once('=') {
                Some((path, text)) => machine.write(path, text),
                None => machine.write(file, format!("text of {file}\n")),
            };
        }
        machine
    }

    pub(crate) fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    pub(crate) fn write(&self, relative: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn link(&self, target: impl AsRef<Path>, relative: &str) -> PathBuf {
        let path = self.path(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, &path).unwrap();
        path
    }

    pub(crate) fn homes(&self) -> HostHomes {
        HostHomes {
            home: self.path("home"),
            claude_config_dir: None,
            codex_home: None,
            claude_managed_dir: Some(self.path("managed")),
        }
    }

    pub(crate) fn fs(&self) -> Jail<OsFs> {
        Jail { root: self.root.clone(), inner: OsFs }
    }

    pub(crate) fn claude(&self, cwd: &str) -> Result<Snapshot, Refusal> {
        self.snapshot_on(&self.fs(), InstructionHost::Claude, cwd)
    }

    pub(crate) fn codex(&self, cwd: &str) -> Result<Snapshot, Refusal> {
        self.snapshot_on(&self.fs(), InstructionHost::Codex, cwd)
    }

    pub(crate) fn listing(&self, host: InstructionHost, cwd: &str) -> Snapshot {
        listing(&self.fs(), host, &self.homes(), &self.path(cwd), &self.allowed).unwrap()
    }

    pub(crate) fn snapshot_on(
        &self,
        fs: &dyn Fs,
        host: InstructionHost,
        cwd: &str,
    ) -> Result<Snapshot, Refusal> {
        snapshot(fs, host, &self.homes(), &self.path(cwd), &self.allowed)
    }

    pub(crate) fn project_id(&self, cwd: &str) -> Id {
        instructions::project_id(&self.fs(), &self.path(cwd))
    }
}

/// Mandatory ids in order.
pub(crate) fn mandatory(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.documents.iter().map(|document| document.id.as_str()).collect()
}

/// `ID | STATE | REASON` of everything listed that is not plainly mandatory.
pub(crate) fn others(snapshot: &Snapshot) -> Vec<String> {
    let wire = |listed: &instructions::Listed| serde_json::to_value(listed.state).unwrap();
    let rows = snapshot.listed.iter().filter(|listed| wire(listed) != "mandatory");
    rows.map(|listed| format!("{} | {} | {}", listed.id, wire(listed).as_str().unwrap(), listed.reason))
        .collect()
}

/// The refusal's key, message and advice.
pub(crate) fn refused(outcome: Result<Snapshot, Refusal>) -> (String, String, String) {
    let refusal = outcome.expect_err("this snapshot must be refused");
    (refusal.key(), refusal.message, refusal.advice)
}

/// A file system in which nothing exists outside a root, so that the real machine's files play no part.
pub(crate) struct Jail<F> {
    pub(crate) root: PathBuf,
    pub(crate) inner: F,
}

impl<F: Fs> Fs for Jail<F> {
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        let outside = !path.starts_with(&self.root) && !self.root.starts_with(path);
        if outside { Err(io::ErrorKind::NotFound.into()) } else { self.inner.canonicalize(path) }
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        let outside = !path.starts_with(&self.root) && !self.root.starts_with(path);
        if outside { Ok(None) } else { self.inner.kind(path) }
    }

    fn entries(&self, dir: &Path, limit: usize) -> io::Result<Vec<(OsString, Kind)>> {
        self.inner.entries(dir, limit)
    }

    fn link_text(&self, path: &Path) -> io::Result<PathBuf> {
        self.inner.link_text(path)
    }

    fn read(&self, root: &Path, relative: &Path, limit: u64) -> Result<ReadFile, ReadError> {
        self.inner.read(root, relative, limit)
    }
}

/// Answers reads and looks at one path with an error, everything else as the real file system.
pub(crate) struct Broken<'e> {
    pub(crate) path: PathBuf,
    pub(crate) kind: Option<io::ErrorKind>,
    pub(crate) read: Option<&'e (dyn Fn() -> ReadError + Send + Sync)>,
}

impl Fs for Broken<'_> {
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        OsFs.canonicalize(path)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        match self.kind {
            Some(kind) if path == self.path => Err(kind.into()),
            _ => OsFs.kind(path),
        }
    }

    fn entries(&self, dir: &Path, limit: usize) -> io::Result<Vec<(OsString, Kind)>> {
        match self.kind {
            Some(kind) if dir == self.path => Err(kind.into()),
            _ => OsFs.entries(dir, limit),
        }
    }

    fn link_text(&self, path: &Path) -> io::Result<PathBuf> {
        OsFs.link_text(path)
    }

    fn read(&self, root: &Path, relative: &Path, limit: u64) -> Result<ReadFile, ReadError> {
        match self.read {
            Some(error) if root.join(relative) == self.path => Err(error()),
            _ => OsFs.read(root, relative, limit),
        }
    }
}
