//! `config.toml`: its keys, and errors that name the key and the line.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use agentspine_gate::Id;
use agentspine_gate::turn::InstructionHost;
use rustix::fs::OFlags;
use serde::Deserialize;

use super::compaction::CompactionTable;
use crate::report::Failure;

/// Largest configuration file, bytes.
const CONFIG_BYTES_MAX: u64 = 256 * 1024;
/// Everybody may write.
const WORLD_WRITABLE: u32 = 0o002;

/// The whole file. Every key is optional; an unknown one is an error.
#[derive(Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ConfigFile {
    pub identity: IdentityTable,
    pub instruction_host: Option<InstructionHost>,
    pub model: Option<String>,
    pub api_key_command: Option<Vec<String>>,
    pub http: HttpTable,
    pub proxy: ProxyTable,
    pub compaction: CompactionTable,
    pub ui: UiTable,
    /// Read apart: what is wrong in it disables memory and nothing else.
    pub memory: Option<toml::Value>,
}

/// `[identity]`.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub(super) struct IdentityTable {
    pub agent: Option<Id>,
    pub persona: Option<Id>,
    pub user: Option<Id>,
    pub tenant: Option<Id>,
    pub profile: Option<Id>,
}

/// `[http]`.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub(super) struct HttpTable {
    pub proxy: Option<String>,
    pub ca_file: Option<PathBuf>,
    pub allow_plain: bool,
}

/// `[proxy]`.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ProxyTable {
    pub listen: Option<SocketAddr>,
    pub anthropic: Option<String>,
    pub openai: Option<String>,
    pub chatgpt: Option<String>,
}

/// `[ui]`.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub(super) struct UiTable {
    pub ascii: bool,
}

/// Reads and parses the file; a missing one is an empty one.
pub(super) fn read(path: &Path) -> Result<ConfigFile, Failure> {
    let text = match open(path) {
        Ok(file) => text_of(path, file)?,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(ConfigFile::default()),
        Err(cause) => return Err(unusable(path, &format!("cannot be read: {}", cause.kind()))),
    };
    parse(path, &text)
}

/// Non-blocking, so that a FIFO at this path cannot hang the start.
fn open(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default();
    File::options().read(true).custom_flags(flags).open(path)
}

fn text_of(path: &Path, file: File) -> Result<String, Failure> {
    let meta =
        file.metadata().map_err(|cause| unusable(path, &format!("cannot be read: {}", cause.kind())))?;
    if !meta.is_file() {
        return Err(unusable(path, "is not a regular file"));
    }
    // It may name a command to run, so nobody else may have written it.
    let owner_ok = meta.uid() == rustix::process::getuid().as_raw() || meta.uid() == 0;
    if !owner_ok || meta.mode() & WORLD_WRITABLE != 0 {
        return Err(unusable(path, "can be written by others: make it yours and run chmod 600 on it"));
    }
    let mut text = String::new();
    match file.take(CONFIG_BYTES_MAX + 1).read_to_string(&mut text) {
        Ok(_) if text.len() as u64 <= CONFIG_BYTES_MAX => Ok(text),
        Ok(_) => Err(unusable(path, &format!("is larger than {CONFIG_BYTES_MAX} bytes"))),
        Err(cause) => Err(unusable(path, &format!("cannot be read: {}", cause.kind()))),
    }
}

/// Puts `instruction_host` before everything else in the file, making the file where it is missing; one that names a
/// host already stays as it is.
pub(super) fn keep_instruction_host(path: &Path, host: InstructionHost) -> Result<(), Failure> {
    let text = match open(path) {
        Ok(file) => text_of(path, file)?,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => String::new(),
        Err(cause) => return Err(unusable(path, &format!("cannot be read: {}", cause.kind()))),
    };
    if parse(path, &text)?.instruction_host.is_some() {
        return Ok(());
    }
    let text = format!("instruction_host = \"{}\"\n{text}", host.as_str());
    replace(path, &text).map_err(|cause| unusable(path, &format!("cannot be written: {}", cause.kind())))
}

/// The whole new file or the old one, never a part.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Parses the text; an error says `file:line`, the key and what is allowed there.
pub(super) fn parse(path: &Path, text: &str) -> Result<ConfigFile, Failure> {
    toml::from_str(text).map_err(|cause| {
        let before = cause.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let message = cause.message().lines().next().unwrap_or("not TOML").to_owned();
        Failure::usage(
            format!("{}:{line}: {message}", path.display()),
            "Correct that line; the README lists every key",
        )
    })
}

fn unusable(path: &Path, what: &str) -> Failure {
    Failure::usage(
        format!("{} {what}", path.display()),
        "Correct the file or move it away; every key in it is optional",
    )
}
