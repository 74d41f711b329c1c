//! The real file system behind the [`Fs`] seam.
//!
//! Map: [`OsFs`] answers the seam; `open_below` opens without following a link in any component; `read_handle`
//! judges and reads the handle, never the path.
//! Invariants: nothing is opened for writing; no open blocks on a FIFO; bytes come from exactly one handle, which is
//! a regular file of a real file system and did not change while it was read.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, openat};
use rustix::io::Errno;

use crate::ids::Digest;
use crate::seams::{Fs, Identity, Kind, ReadError, ReadFile, is_absent};

/// Opens tried again while a rename races with the kernel's walk (`EAGAIN`, openat2(2)).
const OPEN_TRIES_MAX: usize = 32;

/// Files of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsFs;

impl Fs for OsFs {
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        #[cfg(target_os = "linux")]
        if is_without_links(path) {
            // As std does: without doubled separators and dots.
            return Ok(path.components().collect());
        }
        std::fs::canonicalize(path)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        match std::fs::symlink_metadata(path) {
            Ok(meta) => Ok(Some(kind_of(meta.file_type()))),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn entries(&self, dir: &Path, limit: usize) -> io::Result<Vec<(OsString, Kind)>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(dir)? {
            let entry = entry?;
            if found.len() == limit {
                return Err(io::Error::from(io::ErrorKind::FileTooLarge));
            }
            found.push((entry.file_name(), kind_of(entry.file_type()?)));
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(found)
    }

    fn link_text(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::read_link(path)
    }

    /// `root` must be canonical: a link in it is refused like a link below it.
    fn read(&self, root: &Path, relative: &Path, limit: u64) -> Result<ReadFile, ReadError> {
        let plain = relative.components().all(|c| matches!(c, Component::Normal(_)));
        if !plain || relative.as_os_str().is_empty() || !root.is_absolute() {
            return Err(ReadError::OutOfScope);
        }
        let handle = open_below(root, relative, OFlags::RDONLY)?;
        let (file, stat) = read_handle(handle, limit)?;
        match open_below(root, relative, PROBE) {
            Ok(again) if same_file(&fstat(&again).map_err(io::Error::from)?, &stat) => Ok(file),
            Ok(_) | Err(ReadError::Absent | ReadError::Link) => Err(ReadError::Replaced),
            Err(error) => Err(error),
        }
    }
}

fn kind_of(kind: std::fs::FileType) -> Kind {
    if kind.is_symlink() {
        Kind::Link
    } else if kind.is_dir() {
        Kind::Dir
    } else if kind.is_file() {
        Kind::File
    } else {
        Kind::Other
    }
}

/// Flags that open a path only to look at it.
#[cfg(target_os = "linux")]
const PROBE: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
const PROBE: OFlags = OFlags::RDONLY;

const NEVER_FOLLOW: OFlags =
    OFlags::NOFOLLOW.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

/// Opens `root` and then `relative` below it, no link anywhere on the way.
fn open_below(root: &Path, relative: &Path, access: OFlags) -> Result<OwnedFd, ReadError> {
    #[cfg(target_os = "linux")]
    match open_by_kernel(root, relative, access) {
        // An old kernel, or a sandbox that filters the call: the same walk, component by component.
        Err(Errno::NOSYS | Errno::PERM) => {}
        other => return other.map_err(refused),
    }
    open_by_component(root, relative, access).map_err(refused)
}

/// Whether an absolute path without `..` stands, and over no link: then it is its own real path. One walk of the kernel's
/// instead of a question for each component.
#[cfg(target_os = "linux")]
fn is_without_links(path: &Path) -> bool {
    use rustix::fs::ResolveFlags;
    let plain = |part| matches!(part, Component::RootDir | Component::Normal(_));
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    path.is_absolute()
        && path.components().all(plain)
        && open_again(CWD, path, flags, ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS).is_ok()
}

#[cfg(target_os = "linux")]
fn open_by_kernel(root: &Path, relative: &Path, access: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::ResolveFlags;
    let no_links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // O_PATH takes no other flags than these.
    let leaf = if access.contains(OFlags::PATH) { access | OFlags::CLOEXEC } else { access | NEVER_FOLLOW };
    // In one walk from the top: no component of either part may be a link, and the names below the root are plain, so
    // that none leads out of it.
    open_again(CWD, &root.join(relative), leaf, no_links)
}

#[cfg(target_os = "linux")]
fn open_again(
    at: impl std::os::fd::AsFd,
    path: &Path,
    flags: OFlags,
    resolve: rustix::fs::ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let mut last = Errno::AGAIN;
    for _ in 0..OPEN_TRIES_MAX {
        match rustix::fs::openat2(&at, path, flags, Mode::empty(), resolve) {
            Err(error @ (Errno::AGAIN | Errno::INTR)) => last = error,
            other => return other,
        }
    }
    Err(last)
}

fn open_by_component(root: &Path, relative: &Path, access: OFlags) -> Result<OwnedFd, Errno> {
    let directory = PROBE | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = openat(CWD, "/", directory, Mode::empty())?;
    let names = root.components().filter(|c| !matches!(c, Component::RootDir));
    let mut names = names.chain(relative.components()).peekable();
    while let Some(name) = names.next() {
        let flags = if names.peek().is_some() { directory } else { access | NEVER_FOLLOW };
        at = openat(&at, name.as_os_str(), flags, Mode::empty()).map_err(|error| match error {
            // With O_DIRECTORY | O_NOFOLLOW Linux says "not a directory" for a link too.
            Errno::NOTDIR if is_link(&at, name) => Errno::LOOP,
            other => other,
        })?;
    }
    Ok(at)
}

fn is_link(at: &OwnedFd, name: Component<'_>) -> bool {
    rustix::fs::statat(at, name.as_os_str(), rustix::fs::AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

/// The kernel's word as a read error.
fn refused(error: Errno) -> ReadError {
    match error {
        Errno::LOOP | Errno::MLINK => ReadError::Link,
        Errno::NOENT | Errno::NOTDIR => ReadError::Absent,
        Errno::XDEV => ReadError::OutOfScope,
        Errno::AGAIN => ReadError::Replaced,
        // What open says of a socket, and of a device without a driver.
        Errno::NXIO | Errno::NODEV | Errno::OPNOTSUPP => ReadError::NotRegular,
        other => ReadError::Io(other.into()),
    }
}

/// Judges the handle, reads at most one byte more than the limit, judges it again.
fn read_handle(handle: OwnedFd, limit: u64) -> Result<(ReadFile, Stat), ReadError> {
    let before = fstat(&handle).map_err(io::Error::from)?;
    if FileType::from_raw_mode(before.st_mode) != FileType::RegularFile || is_pseudo(&handle)? {
        return Err(ReadError::NotRegular);
    }
    if size(&before) > limit {
        return Err(ReadError::TooLarge { limit });
    }
    let mut bytes = Vec::with_capacity(usize::try_from(size(&before)).unwrap_or(0).saturating_add(1));
    let mut file = File::from(handle);
    (&mut file).take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    let read = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if read > limit {
        return Err(ReadError::TooLarge { limit });
    }
    let after = fstat(&file).map_err(io::Error::from)?;
    if identity_text(&before) != identity_text(&after) || size(&after) != read {
        return Err(ReadError::Changed);
    }
    let identity = Identity(Digest::of(identity_text(&after).as_bytes()));
    Ok((ReadFile { bytes, identity }, after))
}

fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(u64::MAX)
}

fn same_file(a: &Stat, b: &Stat) -> bool {
    (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
}

/// Decimal dev, ino, size, mtime ns, ctime ns joined by NUL.
fn identity_text(stat: &Stat) -> String {
    let ns = |seconds: i128, rest: i128| seconds * 1_000_000_000 + rest;
    let mtime = ns(stat.st_mtime.into(), stat.st_mtime_nsec.into());
    let ctime = ns(stat.st_ctime.into(), stat.st_ctime_nsec.into());
    format!("{}\0{}\0{}\0{mtime}\0{ctime}", stat.st_dev, stat.st_ino, stat.st_size)
}

/// Kernel interfaces that look like files: reading them may block, has effects, or never ends. Magic numbers of
/// linux/magic.h.
#[cfg(target_os = "linux")]
const PSEUDO_FILE_SYSTEMS: [u64; 16] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0x6265_6570, // configfs
    0xcafe_4a11, // bpf
    0x6165_676c, // pstore
    0xde5e_81e4, // efivarfs
    0xf97c_ff8c, // selinuxfs
    0x4249_4e4d, // binfmt_misc
    0x6573_5543, // fusectl
    0x1980_0202, // mqueue
    0x1cd1,      // devpts
];

#[cfg(target_os = "linux")]
fn is_pseudo(handle: &OwnedFd) -> Result<bool, ReadError> {
    let magic = rustix::fs::fstatfs(handle).map_err(io::Error::from)?.f_type;
    // 32-bit systems sign-extend the number.
    Ok(u64::try_from(magic).is_ok_and(|magic| PSEUDO_FILE_SYSTEMS.contains(&(magic & 0xffff_ffff))))
}

#[cfg(not(target_os = "linux"))]
#[allow(clippy::unnecessary_wraps)] // the Linux twin asks the kernel
fn is_pseudo(_handle: &OwnedFd) -> Result<bool, ReadError> {
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Both ways of opening must refuse the same things: the second one runs only on old kernels and other systems.
    #[test]
    fn the_walk_by_component_refuses_what_the_kernel_refuses() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        std::fs::create_dir(root.join("d")).unwrap();
        std::fs::write(root.join("d/file"), "text").unwrap();
        symlink("file", root.join("d/link")).unwrap();
        symlink("d", root.join("door")).unwrap();
        let ways = [
            open_by_component,
            #[cfg(target_os = "linux")]
            open_by_kernel,
        ];
        for open in ways {
            let open = |root: &Path, relative: &str| {
                open(root, Path::new(relative), OFlags::RDONLY).map_err(refused)
            };
            let mut text = String::new();
            File::from(open(&root, "d/file").unwrap()).read_to_string(&mut text).unwrap();
            assert_eq!(text, "text");
            assert!(matches!(open(&root, "d/link"), Err(ReadError::Link)));
            assert!(matches!(open(&root, "door/file"), Err(ReadError::Link)));
            assert!(matches!(open(&root.join("door"), "file"), Err(ReadError::Link)));
            assert!(matches!(open(&root, "d/none"), Err(ReadError::Absent)));
            assert!(matches!(open(&root, "d/file/x"), Err(ReadError::Absent)));
            assert!(matches!(open(&root.join("none"), "file"), Err(ReadError::Absent)));
        }
    }
}
