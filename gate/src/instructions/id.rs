//! Display ids and short paths: what people and receipts see instead of an absolute path.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::screen::is_invisible;

/// A directory in which documents are found, and how it is named.
///
/// `project` is the checkout's root (else the working directory itself), `ancestor-N` a directory N levels above it;
/// directories below the root keep `project` and go into the rest of the id.
#[derive(Debug, Clone)]
pub(super) struct Base {
    /// Canonical directory; documents are opened below it.
    pub(super) root: PathBuf,
    label: String,
    prefix: PathBuf,
}

impl Base {
    /// The managed or user directory.
    pub(super) fn named(root: PathBuf, label: &str) -> Self {
        Self { root, label: label.to_owned(), prefix: PathBuf::new() }
    }

    /// A directory on the way to the working directory, named as seen from the project's root.
    pub(super) fn of_directory(dir: &Path, project: &Path) -> Self {
        if let Ok(prefix) = dir.strip_prefix(project) {
            return Self { root: dir.to_owned(), label: "project".to_owned(), prefix: prefix.to_owned() };
        }
        let levels = project.components().count().saturating_sub(dir.components().count());
        Self { root: dir.to_owned(), label: format!("ancestor-{levels}"), prefix: PathBuf::new() }
    }

    /// The part of a display id after `host:`.
    pub(super) fn id(&self, relative: &Path) -> String {
        format!("{}/{}", self.label, shown(&self.prefix.join(relative)))
    }
}

/// A path as one line of text: control, bidirectional and invisible characters, backslashes and bytes that are not
/// UTF-8 are escaped, so that two different paths never look or compare equal.
pub(super) fn shown(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    let plain = |byte: &u8| matches!(byte, b' '..=b'~') && *byte != b'\\';
    if let Some(text) = path.to_str().filter(|_| bytes.iter().all(plain)) {
        return text.to_owned();
    }
    let mut text = String::new();
    for chunk in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                c if c.is_control() || is_invisible(c) || "\u{2028}\u{2029}".contains(c) => {
                    text.extend(c.escape_unicode());
                }
                c => text.push(c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// A path for the person's own terminal: `~/...` below the home directory.
pub(super) fn short(path: &Path, home: &Path) -> String {
    match path.strip_prefix(home) {
        Ok(rest) if !home.as_os_str().is_empty() => format!("~/{}", shown(rest)),
        _ => shown(path),
    }
}
