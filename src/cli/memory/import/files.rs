//! The files of an import: regular files below a folder, read without following links.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use agentspine_gate::os_fs::OsFs;
use agentspine_gate::seams::{Fs as _, Kind};
use agentspine_memory::import::{Item, Place, SourceFile, What};

use crate::report::Failure;

/// Largest file of notes, bytes.
const NOTE_BYTES_MAX: u64 = 1024 * 1024;
/// Largest single file, bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Most files of a folder, those in its folders with it.
const FILES_MAX: usize = 1000;
/// Folders below folders.
const DEPTH_MAX: usize = 4;

/// What a folder of notes holds.
#[derive(Default)]
pub(super) struct Notes {
    /// What could be read, by name.
    pub files: Vec<SourceFile>,
    /// What could not.
    pub left: Vec<Item>,
}

/// One file that the person named.
pub(super) fn file(path: &Path) -> Result<SourceFile, Failure> {
    let unusable = |why: &str| {
        Failure::usage(format!("the file cannot be imported: {why}"), "Name a readable UTF-8 text file")
    };
    let path = path.canonicalize().map_err(|error| unusable(&error.kind().to_string()))?;
    let (folder, name) = path.parent().zip(path.file_name()).ok_or_else(|| unusable("it is no file"))?;
    read(folder, Path::new(name), FILE_BYTES_MAX).map_err(|why| unusable(&why))
}

/// The Markdown files of a folder, or of one file alone.
pub(super) fn notes(path: &Path) -> Result<Notes, Failure> {
    if path.is_file() {
        return Ok(Notes { files: vec![file(path)?], left: Vec::new() });
    }
    let unusable = |why: String| {
        Failure::usage(format!("the folder cannot be imported: {why}"), "Name a folder with MEMORY.md in it")
    };
    let root = path.canonicalize().map_err(|error| unusable(error.kind().to_string()))?;
    let mut notes = Notes::default();
    notes.walk(&root, PathBuf::new(), DEPTH_MAX).map_err(unusable)?;
    if notes.files.is_empty() && notes.left.is_empty() {
        return Err(unusable("there is nothing in it".to_owned()));
    }
    Ok(notes)
}

impl Notes {
    fn walk(&mut self, root: &Path, below: PathBuf, depth: usize) -> Result<(), String> {
        let seen = self.files.len() + self.left.len();
        let entries = OsFs.entries(&root.join(&below), FILES_MAX.saturating_sub(seen));
        for (name, kind) in entries.map_err(|error| error.kind().to_string())? {
            let relative = below.join(&name);
            match kind {
                Kind::Dir if depth > 0 => self.walk(root, relative, depth - 1)?,
                Kind::Dir => self.leave(&relative, "too deep"),
                Kind::File if is_note(&name) => match read(root, &relative, NOTE_BYTES_MAX) {
                    Ok(file) => self.files.push(file),
                    Err(why) => self.leave(&relative, &why),
                },
                Kind::File => self.leave(&relative, "not a Markdown file"),
                Kind::Link => self.leave(&relative, "a link is not followed"),
                Kind::Other => self.leave(&relative, "not a regular file"),
            }
        }
        Ok(())
    }

    fn leave(&mut self, relative: &Path, why: &str) {
        let at = Place { file: relative.display().to_string(), line: 1 };
        self.left.push(Item { at, what: What::Left(why.to_owned()), ignored: Vec::new() });
    }
}

fn is_note(name: &OsString) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension.eq_ignore_ascii_case("md"))
}

fn read(root: &Path, relative: &Path, limit: u64) -> Result<SourceFile, String> {
    let read = OsFs.read(root, relative, limit).map_err(|error| error.to_string())?;
    let changed = std::fs::metadata(root.join(relative)).and_then(|meta| meta.modified()).ok();
    let changed = changed.and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    let text = String::from_utf8(read.bytes)
        .map_err(|error| format!("not UTF-8 text (byte {})", error.utf8_error().valid_up_to()))?;
    Ok(SourceFile {
        name: relative.display().to_string(),
        text,
        changed_at_ms: changed.and_then(|at| i64::try_from(at.as_millis()).ok()).unwrap_or_default(),
    })
}
