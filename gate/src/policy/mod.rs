//! Local policy: which providers must answer, how large mandatory text may grow. A file outside every project.
//!
//! `parse` turns a document into a [`Profile`], `store` keeps the file, `edit` shows and makes changes; here stand the
//! types and the choice of a profile. A profile is chosen by local identity alone: no prompt, payload or project is
//! looked at in this module, and no file of the project is read.

mod edit;
mod parse;
mod store;

use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Value, json};

pub use edit::Change;
pub use parse::{PROFILE_SCHEMA, PROVIDER_SCHEMA};
pub use store::{AUTHORITY, POLICY_SCHEMA, PolicyStore};

use crate::failure::{Detail, Refusal};
use crate::ids::{Digest, Id};
use crate::turn::{Host, Identity, InstructionHost};

/// Largest policy file, bytes.
pub const POLICY_BYTES_MAX: u64 = 1024 * 1024;
/// Injected instruction bytes up to which nothing is said (contract.md 4), where no profile sets another value.
pub const STANDARD_BYTES: u64 = 8 * 1024;

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
        Self { standard_bytes: STANDARD_BYTES, hard_limit_bytes: hard }
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
        // A parsed profile always serialises; one built by hand with a non-UTF-8 path must not get a constant digest.
        serde_json_canonicalizer::to_vec(self)
            .map_or_else(|_| Digest::of(format!("{self:?}").as_bytes()), |b| Digest::of(&b))
    }

    /// The profile as commands print it and as it is stored: the document's keys plus schema and authority; a single
    /// host is plain text.
    pub fn to_json(&self) -> Value {
        let mut value = json!(self);
        if let [host] = self.host.as_slice() {
            value["host"] = json!(host);
        }
        for provider in value["providers"].as_array_mut().into_iter().flatten() {
            provider["schema"] = json!(PROVIDER_SCHEMA);
        }
        value["authority"] = json!(AUTHORITY);
        value
    }

    /// The keys on which the profile differs from a turn, with the profile's own value and the value the turn needs.
    fn differences(&self, identity: &Identity, host: Host) -> Vec<(&'static str, String, String)> {
        let one = |key, own: &Id, turn: &Id| (own != turn).then(|| (key, own.to_string(), turn.to_string()));
        let names: Vec<&str> = self.host.iter().map(Id::as_str).collect();
        let widened = json!(names.iter().copied().chain([host.as_str()]).collect::<Vec<_>>());
        let host =
            (!names.contains(&host.as_str())).then(|| ("host", names.join(", "), format!("'{widened}'")));
        let agent = one("agentId", &self.agent_id, &identity.agent_id);
        let tenant = one("tenantId", &self.tenant_id, &identity.tenant_id);
        let profile = one("profileId", &self.profile_id, &identity.profile_id);
        [agent, host, profile, tenant].into_iter().flatten().collect()
    }

    fn requires_recall(&self) -> bool {
        self.enabled && self.providers.iter().any(|provider| provider.required)
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
    /// profile, the differing field and the command to run. Where the first requires no recall and a later match
    /// does, `policy-invalid`: its required providers would be skipped.
    pub fn select(&self, identity: &Identity, host: Host) -> Result<Option<&Profile>, Refusal> {
        let fits = |profile: &&Profile| profile.enabled && profile.differences(identity, host).is_empty();
        let mut fitting = self.profiles.iter().filter(fits);
        let (found, skipped) = (fitting.next(), fitting.find(|profile| profile.requires_recall()));
        let demanding = self.profiles.iter().filter(|profile| profile.requires_recall());
        let nearest = demanding.min_by_key(|profile| profile.differences(identity, host).len());
        match (found, skipped, nearest) {
            (Some(found), Some(skipped), _) if !found.requires_recall() => Err(ambiguous(found, skipped)),
            (None, _, Some(nearest)) => Err(unmatched(nearest, identity, host)),
            (found, ..) => Ok(found),
        }
    }

    /// How many required providers stand in all profiles, disabled ones among them (as `preflight-status` counts them).
    pub fn required_providers(&self) -> usize {
        self.profiles
            .iter()
            .flat_map(|profile| &profile.providers)
            .filter(|provider| provider.required)
            .count()
    }
}

fn ambiguous(found: &Profile, skipped: &Profile) -> Refusal {
    let (found, skipped) = (&found.id, &skipped.id);
    Refusal::new(
        Detail::PolicyInvalid,
        format!(
            "Two policy profiles match this turn: with {found}, the required recall of {skipped} would be skipped."
        ),
        format!("Keep one of them: agentspine preflight-policy --remove {found} --confirm-local-policy"),
    )
}

fn unmatched(nearest: &Profile, identity: &Identity, host: Host) -> Refusal {
    let differences = nearest.differences(identity, host);
    let texts: Vec<String> = differences.iter().map(|(key, own, _)| format!("{key} ({own})")).collect();
    let message = format!(
        "No policy profile matches this turn (agentId {}, host {}, profileId {}, tenantId {}), but a profile requires \
         recall; the nearest, {}, differs in {}.",
        identity.agent_id,
        host.as_str(),
        identity.profile_id,
        identity.tenant_id,
        nearest.id,
        texts.join(" and "),
    );
    let command = |(key, _, turn): &(&str, String, String)| {
        format!(
            "`agentspine preflight-policy --set {key}={turn} --profile {} --confirm-local-policy`",
            nearest.id
        )
    };
    let commands: Vec<String> = differences.iter().map(command).collect();
    let advice = format!(
        "Make {} cover this turn with {}, or start with the identity it names (--agent, --tenant, --profile).",
        nearest.id,
        commands.join(" and "),
    );
    Refusal::new(Detail::PolicyUnmatched, message, advice)
}
