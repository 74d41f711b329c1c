//! Local policy: which providers must answer, how large mandatory text may grow. A file outside every project.

use std::path::PathBuf;

use serde::Serialize;

use crate::failure::Refusal;
use crate::ids::{Digest, Id};
use crate::turn::{Host, Identity, InstructionHost};

/// Largest policy file, bytes.
pub const POLICY_BYTES_MAX: u64 = 1024 * 1024;

/// How a provider is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Adapter {
    /// In process, over the memory ledger.
    #[serde(rename = "ledger/v1")]
    LedgerV1,
    /// One query object on stdin, one result object on stdout.
    #[serde(rename = "mnemo-command/v1")]
    MnemoCommandV1,
    /// The same with `queryText`.
    #[serde(rename = "mnemo-command/v2")]
    MnemoCommandV2,
}

/// Whether a child may use the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// As the machine allows.
    Allowed,
    /// Held by a namespace, or refused with a reason.
    None,
}

/// One provider of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Provider {
    /// Its id.
    pub id: Id,
    /// How it is reached.
    pub adapter: Adapter,
    /// Without its answer no call is made.
    pub required: bool,
    /// Must be true where `required` is.
    pub fail_closed: bool,
    /// 100 to 10,000.
    pub timeout_ms: u64,
    /// Absolute path; empty for the embedded ledger.
    pub command: PathBuf,
    /// Arguments, verbatim.
    pub args: Vec<String>,
    /// Names of environment variables handed to the child.
    pub credential_env: Vec<String>,
    /// Whether the prompt text may leave the process to it.
    pub send_prompt: bool,
    /// Pinned digest of the command file.
    pub command_sha256: Option<Digest>,
    /// Network.
    pub network: Network,
}

/// Limits for mandatory instruction text we inject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InstructionBudget {
    /// Up to here: mode `standard`.
    pub standard_bytes: u64,
    /// Above here: `budget-failed`.
    pub hard_limit_bytes: u64,
}

impl InstructionBudget {
    /// Defaults by host: claude 8 / 16 KiB, codex 8 / 32 KiB.
    pub fn default_for(host: InstructionHost) -> Self {
        let hard = match host {
            InstructionHost::Claude => 16 * 1024,
            InstructionHost::Codex => 32 * 1024,
        };
        Self { standard_bytes: 8 * 1024, hard_limit_bytes: hard }
    }
}

/// Limits for recalled text over all providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RecallBudget {
    /// Most optional entries.
    pub entries: u64,
    /// Most bytes.
    pub bytes: u64,
    /// Most tokens, estimated as bytes / 4.
    pub tokens: u64,
}

impl Default for RecallBudget {
    fn default() -> Self {
        Self { entries: 5, bytes: 12_288, tokens: 2000 }
    }
}

/// Deadlines by class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Deadlines {
    /// For required providers.
    pub required_ms: u64,
    /// For optional ones.
    pub optional_ms: u64,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { required_ms: 5000, optional_ms: 300 }
    }
}

/// One profile, chosen by identity alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// Its id.
    pub id: Id,
    /// Matches the identity's agent.
    pub agent_id: Id,
    /// Matches the door; a name or a list in the file.
    pub host: Vec<Id>,
    /// Matches the identity's profile.
    pub profile_id: Id,
    /// Matches the identity's tenant.
    pub tenant_id: Id,
    /// Off profiles match nothing.
    pub enabled: bool,
    /// Its providers.
    pub providers: Vec<Provider>,
    /// `None` = the host's default.
    pub instruction_budget: Option<InstructionBudget>,
    /// Recall over all providers.
    pub recall_budget: RecallBudget,
    /// Deadlines by class.
    pub deadlines: Deadlines,
    /// Absolute, exact link targets that are accepted.
    pub allowed_symlink_targets: Vec<PathBuf>,
    /// Whether subagent calls recall too.
    pub subagent_recall: bool,
}

impl Profile {
    /// SHA-256 of the RFC 8785 bytes of the normalised profile.
    pub fn digest(&self) -> Digest {
        todo!()
    }
}

/// The policy in force.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// 0 where no file exists.
    pub revision: u64,
    /// All profiles.
    pub profiles: Vec<Profile>,
}

impl Policy {
    /// The first enabled profile that equals the identity on agent, host, profile and tenant. `Ok(None)` where none
    /// matches and no enabled profile has a required provider; else `policy-unmatched` with this turn's ids, the nearest
    /// profile, the differing field and the command to run.
    pub fn select(&self, identity: &Identity, host: Host) -> Result<Option<&Profile>, Refusal> {
        let _ = (identity, host);
        todo!()
    }
}
