//! The rooms a command needs, opened the same way for all of them.

use std::path::{Path, PathBuf};

use agentspine_gate::Refusal;
use agentspine_gate::journal::Vault;
use agentspine_gate::policy::{InstructionBudget, Policy, PolicyStore};
use agentspine_gate::remember::RememberStore;
use agentspine_gate::seams::Seams;
use agentspine_gate::state_dir::StateDir;
use agentspine_gate::turn::{Host, InstructionHost};

use crate::config::Config;
use crate::conversations::Conversations;
use crate::receipts::live::Place;
use crate::report::Failure;
use crate::system;

/// State directory and seams.
pub(crate) struct Rooms {
    /// The state directory.
    pub dir: StateDir,
    /// Time, randomness, files.
    pub seams: Seams,
}

impl Rooms {
    /// Opens the state directory, making it where it is missing.
    pub(super) fn open(config: &Config) -> Result<Self, Failure> {
        let Place { root, project } = place(config);
        let dir = StateDir::open(root, project.as_deref())?;
        Ok(Self { dir, seams: system::seams() })
    }

    /// Keyring, journal and anchor.
    pub(crate) fn vault(&self) -> Result<Vault, Refusal> {
        Vault::open(&self.dir, &self.seams)
    }

    /// Must-Remember.
    pub(crate) fn remember(&self) -> Result<RememberStore, Refusal> {
        RememberStore::open(&self.dir.remember(), self.vault()?.keyring())
    }

    /// The local policy.
    pub(super) fn policy(&self) -> PolicyStore {
        PolicyStore::new(&self.dir.gate_dir())
    }

    /// Sessions.
    pub(crate) fn conversations(&self) -> Result<Conversations, Failure> {
        Ok(Conversations::open(&self.dir.conversations_db())?)
    }
}

/// Where the journal is looked for, without opening anything.
pub(super) fn place(config: &Config) -> Place {
    let project = working_directory(None).ok().and_then(|cwd| config.project_root(&cwd));
    Place { root: config.state_dir.clone(), project }
}

/// What the local policy says about instruction files for this identity.
pub(super) struct InstructionRules {
    /// Accepted link targets.
    pub links: Vec<PathBuf>,
    /// Limits.
    pub budget: InstructionBudget,
}

impl InstructionRules {
    /// From the profile that matches the chat's door; the host's defaults where none does.
    pub(super) fn of(policy: &Policy, config: &Config, host: InstructionHost) -> Result<Self, Refusal> {
        let profile = policy.select(&config.identity, Host::Agentspine)?;
        let budget = profile.and_then(|profile| profile.instruction_budget);
        Ok(Self {
            links: profile.map(|profile| profile.allowed_symlink_targets.clone()).unwrap_or_default(),
            budget: budget.unwrap_or_else(|| InstructionBudget::default_for(host)),
        })
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
