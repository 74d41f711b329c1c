//! Which checkout a directory belongs to, and the id that every worktree of one repository shares.

use std::path::{Path, PathBuf};

use crate::ids::{Digest, Id};
use crate::seams::{Fs, Kind};

/// Largest `.git` file, `commondir` or `gitdir` file, bytes: one path.
const POINTER_BYTES_MAX: u64 = 8192;

/// A directory that holds `.git`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Checkout {
    /// The nearest directory at or above the working directory with an entry `.git`.
    pub(super) root: PathBuf,
    /// Root of the main worktree; for a bare repository the repository itself; else `root`.
    pub(super) main: PathBuf,
}

/// `project:` + 20 hex digits of the SHA-256 of the canonical root of the main worktree (else of `cwd`).
///
/// Layout: gitrepository-layout(5). A `.git` file counts only where the repository points back at it, so a downloaded
/// directory cannot claim to be a worktree of somebody's repository and be taken for that project.
pub(super) fn id(fs: &dyn Fs, cwd: &Path) -> Id {
    let cwd = fs.canonicalize(cwd).unwrap_or_else(|_| cwd.to_owned());
    let root = checkout(fs, &cwd).map_or(cwd, |checkout| checkout.main);
    Id::of_project(Digest::of(root.as_os_str().as_encoded_bytes()))
}

/// The checkout of a canonical directory, if it is in one.
pub(super) fn checkout(fs: &dyn Fs, cwd: &Path) -> Option<Checkout> {
    let mut kinds = cwd.ancestors().map(|dir| (dir, fs.kind(&dir.join(".git")).ok().flatten()));
    let (root, kind) = kinds.find_map(|(dir, kind)| kind.map(|kind| (dir.to_owned(), kind)))?;
    let main = if kind == Kind::File { main_worktree(fs, &root) } else { None };
    Some(Checkout { main: main.unwrap_or_else(|| root.clone()), root })
}

fn main_worktree(fs: &dyn Fs, root: &Path) -> Option<PathBuf> {
    let text = pointer(fs, root, ".git")?;
    let git_dir = fs.canonicalize(&root.join(text.strip_prefix("gitdir:")?.trim_start())).ok()?;
    let back = git_dir.join(pointer(fs, &git_dir, "gitdir")?);
    if fs.canonicalize(&back).ok()? != root.join(".git") {
        return None;
    }
    let common = fs.canonicalize(&git_dir.join(pointer(fs, &git_dir, "commondir")?)).ok()?;
    match common.file_name() {
        Some(name) if name == ".git" => common.parent().map(Path::to_owned),
        _ => Some(common),
    }
}

/// The one line of a small file; git ends it with a newline, and a path may hold blanks.
fn pointer(fs: &dyn Fs, dir: &Path, name: &str) -> Option<String> {
    let file = fs.read(dir, Path::new(name), POINTER_BYTES_MAX).ok()?;
    let text = String::from_utf8(file.bytes).ok()?;
    Some(text.trim_end_matches(['\n', '\r']).to_owned())
}
