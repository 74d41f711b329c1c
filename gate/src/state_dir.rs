//! The state directory: 0700, ours, outside every project, not on a network file system.
//!
//! Map: [`StateDir::open`] is the door, [`StateDir::find`] the one for those who only look; the rest are paths below it. Invariants: the directory and each folder
//! in it are real directories of this user that nobody else may enter, and the path holds no symbolic link (SQLite
//! refuses those too). Nothing outside it is ever written.

use std::fs::{DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::failure::{Detail, Refusal};
use crate::private::shown;

/// `<state>`, opened and judged. Cloning it copies paths only.
#[derive(Debug, Clone)]
pub struct StateDir {
    root: PathBuf,
}

impl StateDir {
    /// Opens `root`, making it and its folders (0700) where they are missing.
    ///
    /// `project_root` is the project of the working directory: a state directory inside it is refused, because what
    /// a project can write must not decide about calls. Refuses with [`Detail::StateDir`].
    pub fn open(root: impl Into<PathBuf>, project_root: Option<&Path>) -> Result<Self, Refusal> {
        let root: PathBuf = root.into();
        well_placed(&root, project_root)?;
        if let Some(parent) = root.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(parent).map_err(|e| unusable(&root, &e))?;
        }
        private_dir(&root)?;
        let root = root.canonicalize().map_err(|e| unusable(&root, &e))?;
        local_fs(&root)?;
        let dir = Self { root };
        for folder in [dir.gate_dir(), dir.run_dir(), dir.log_dir()] {
            private_dir(&folder)?;
        }
        Ok(dir)
    }

    /// Opens `root` where it stands already, for those who only look: nothing is made. `None` where it, or a folder in it,
    /// is missing. Refuses as [`Self::open`] does.
    pub fn find(root: impl Into<PathBuf>, project_root: Option<&Path>) -> Result<Option<Self>, Refusal> {
        let root: PathBuf = root.into();
        well_placed(&root, project_root)?;
        let Some(meta) = standing(&root)? else { return Ok(None) };
        judge(&root, &meta)?;
        let root = root.canonicalize().map_err(|e| unusable(&root, &e))?;
        local_fs(&root)?;
        let dir = Self { root };
        for folder in [dir.gate_dir(), dir.run_dir(), dir.log_dir()] {
            let Some(meta) = standing(&folder)? else { return Ok(None) };
            judge(&folder, &meta)?;
        }
        Ok(Some(dir))
    }

    /// The directory itself, links resolved.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `gate/`: everything the gate decides by.
    pub fn gate_dir(&self) -> PathBuf {
        self.root.join("gate")
    }

    /// `gate/keyring.json`.
    pub fn keyring(&self) -> PathBuf {
        self.gate_dir().join("keyring.json")
    }

    /// `gate/journal.sqlite`.
    pub fn journal(&self) -> PathBuf {
        self.gate_dir().join("journal.sqlite")
    }

    /// `gate/anchor`.
    pub fn anchor(&self) -> PathBuf {
        self.gate_dir().join("anchor")
    }

    /// `gate/remember.sqlite`.
    pub fn remember(&self) -> PathBuf {
        self.gate_dir().join("remember.sqlite")
    }

    /// `gate/policy.json`.
    pub fn policy(&self) -> PathBuf {
        self.gate_dir().join("policy.json")
    }

    /// `memory.sqlite`.
    pub fn memory_db(&self) -> PathBuf {
        self.root.join("memory.sqlite")
    }

    /// `conversations.sqlite`.
    pub fn conversations_db(&self) -> PathBuf {
        self.root.join("conversations.sqlite")
    }

    /// `run/`: sockets and process files.
    pub fn run_dir(&self) -> PathBuf {
        self.root.join("run")
    }

    /// `log/`.
    pub fn log_dir(&self) -> PathBuf {
        self.root.join("log")
    }
}

/// Absolute, and outside the project.
fn well_placed(root: &Path, project_root: Option<&Path>) -> Result<(), Refusal> {
    if !root.is_absolute() {
        return Err(refuse(
            "the state directory is not an absolute path",
            "Set AGENTSPINE_STATE_DIR to an absolute path.",
        ));
    }
    project_root.map_or(Ok(()), |project| outside(root, project))
}

/// Makes the directory 0700 where it is missing, then judges what stands there.
fn private_dir(path: &Path) -> Result<(), Refusal> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(unusable(path, &e)),
        _ => {}
    }
    judge(path, &path.symlink_metadata().map_err(|e| unusable(path, &e))?)
}

/// What stands at a path itself; `None` where nothing does.
fn standing(path: &Path) -> Result<Option<Metadata>, Refusal> {
    match path.symlink_metadata() {
        Ok(meta) => Ok(Some(meta)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(unusable(path, &e)),
    }
}

/// A directory of this user that nobody else may enter.
fn judge(path: &Path, meta: &Metadata) -> Result<(), Refusal> {
    let at = shown(path);
    if !meta.file_type().is_dir() {
        Err(refuse(
            "a link or a file stands where the state directory belongs",
            format!("Look at it with `ls -ld {at}` and move it away."),
        ))
    } else if meta.uid() != rustix::process::geteuid().as_raw() {
        Err(refuse(
            "the state directory belongs to another user",
            format!("Look at it with `ls -ld {at}`; set AGENTSPINE_STATE_DIR to a directory of your own."),
        ))
    } else if meta.mode() & 0o777 != 0o700 {
        Err(refuse("the state directory's mode is not 0700", format!("Run `chmod 700 {at}`.")))
    } else {
        Ok(())
    }
}

/// Refuses a state directory below the project, comparing real paths of what exists of it.
fn outside(root: &Path, project: &Path) -> Result<(), Refusal> {
    let project = project.canonicalize().map_err(|e| unusable(project, &e))?;
    let real = root.ancestors().find_map(|existing| {
        let rest = root.strip_prefix(existing).ok()?;
        Some(existing.canonicalize().ok()?.join(rest))
    });
    if real.is_some_and(|real| !real.starts_with(&project)) {
        return Ok(());
    }
    Err(refuse(
        "the state directory lies inside the project",
        "Set AGENTSPINE_STATE_DIR to a directory outside the project, or start in another directory.",
    ))
}

#[cfg(target_os = "linux")]
fn local_fs(root: &Path) -> Result<(), Refusal> {
    let kind = rustix::fs::statfs(root).map_err(|e| unusable(root, &e.into()))?.f_type;
    let network = match u32::try_from(kind & 0xFFFF_FFFF).unwrap_or(u32::MAX) {
        FUSE => !local_fuse(root),
        magic => NETWORK_FS.contains(&magic),
    };
    if !network {
        return Ok(());
    }
    Err(refuse(
        "the state directory lies on a network file system, whose locks and flushes cannot be relied on",
        "Set AGENTSPINE_STATE_DIR to a directory on a local disk.",
    ))
}

#[cfg(not(target_os = "linux"))]
fn local_fs(_root: &Path) -> Result<(), Refusal> {
    Ok(())
}

/// `f_type` of FUSE (statfs(2)); what lies behind it only the mount table tells.
#[cfg(target_os = "linux")]
const FUSE: u32 = 0x6573_5546;

/// `f_type` of nfs, smb, cifs, smb2, 9p, afs, afs (kernel), ceph, coda, ncp, vboxsf, ocfs2, gfs2 (statfs(2), linux/magic.h).
#[cfg(target_os = "linux")]
const NETWORK_FS: [u32; 13] = [
    0x6969,
    0x517B,
    0xFF53_4D42,
    0xFE53_4D42,
    0x0102_1997,
    0x5346_414F,
    0x6B41_4653,
    0x00C3_6400,
    0x7375_7245,
    0x564C,
    0x786F_4256,
    0x7461_636F,
    0x0116_1970,
];

/// Whether a FUSE mount is known to be of this machine: a block device or a container's overlay.
#[cfg(target_os = "linux")]
fn local_fuse(root: &Path) -> bool {
    let Ok(dev) = root.metadata().map(|meta| meta.dev()) else { return false };
    let device = format!("{}:{}", rustix::fs::major(dev), rustix::fs::minor(dev));
    let Ok(mounts) = std::fs::read_to_string("/proc/self/mountinfo") else { return false };
    let kind = |line: &str| Some(line.split_once(" - ")?.1.split(' ').next()?.to_owned());
    mounts
        .lines()
        .filter(|line| line.split(' ').nth(2) == Some(device.as_str()))
        .filter_map(kind)
        .any(|kind| ["fuseblk", "fuse.fuse-overlayfs"].contains(&kind.as_str()))
}

fn refuse(message: impl Into<String>, advice: impl Into<String>) -> Refusal {
    Refusal::new(Detail::StateDir, message, advice)
}

fn unusable(path: &Path, e: &io::Error) -> Refusal {
    refuse(
        format!("the state directory cannot be used: {}", e.kind()),
        format!(
            "Look at it with `ls -ld {}`, or set AGENTSPINE_STATE_DIR to a directory of your own.",
            shown(path)
        ),
    )
}
