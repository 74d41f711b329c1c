//! The rooms a command needs, opened the same way for all of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentspine_gate::Refusal;
use agentspine_gate::journal::Vault;
use agentspine_gate::seams::Seams;
use agentspine_gate::state_dir::StateDir;

use crate::config::Config;
use crate::conversations::Conversations;
use crate::report::Failure;
use crate::system;

/// State directory and seams.
pub(super) struct Rooms {
    /// The state directory.
    pub dir: StateDir,
    /// Time, randomness, files.
    pub seams: Seams,
}

impl Rooms {
    /// Opens the state directory, making it where it is missing.
    pub(super) fn open(config: &Config) -> Result<Self, Failure> {
        let project = working_directory(None).ok().and_then(|cwd| project_root(&cwd, &config.homes.home));
        let dir = StateDir::open(&config.state_dir, project.as_deref())?;
        Ok(Self { dir, seams: system::seams()? })
    }

    /// Keyring, journal and anchor.
    pub(super) fn vault(&self) -> Result<Vault, Refusal> {
        Vault::open(&self.dir, &self.seams)
    }

    /// Sessions.
    pub(super) fn conversations(&self) -> Result<Conversations, Failure> {
        Ok(Conversations::open(&self.dir.conversations_db())?)
    }
}

/// The canonical directory a command works in: the named one, else the current one.
pub(super) fn working_directory(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let found = match named {
        Some(dir) => dir.canonicalize(),
        None => std::env::current_dir().and_then(|dir| dir.canonicalize()),
    };
    match found {
        Ok(dir) if dir.is_dir() => Ok(dir),
        Ok(_) => Err(Failure::usage("the working directory is not a directory", "Name one with --cwd DIR")),
        Err(cause) => Err(Failure::usage(
            format!("the working directory cannot be used: {}", cause.kind()),
            "Change to one that exists, or name one with --cwd DIR",
        )),
    }
}

/// The repository a directory lies in. A repository that is the home directory itself or holds it (dotfiles) is no
/// project in this sense: everything a person owns would lie inside it, the default state directory too.
pub(crate) fn project_root(cwd: &Path, home: &Path) -> Option<PathBuf> {
    let home = home.canonicalize().unwrap_or_else(|_| home.to_owned());
    let found = cwd.ancestors().find(|dir| dir.join(".git").symlink_metadata().is_ok())?;
    if home.starts_with(found) { None } else { Some(found.to_owned()) }
}
