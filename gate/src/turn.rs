//! Turn binding: who asks, where, for which call. Parsed at the door, private inside.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::ids::{Digest, Id, ReceiptId};
use crate::instructions::HostHomes;

/// Largest prompt, in bytes.
pub const PROMPT_BYTES_MAX: usize = 1024 * 1024;

/// The program through whose door a call comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Host {
    /// Our own chat.
    Agentspine,
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// BLUN King.
    King,
    /// Any other client of the proxy.
    Generic,
}

impl Host {
    /// Wire text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Agentspine => "agentspine",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::King => "king",
            Self::Generic => "generic",
        }
    }
}

/// Whose instruction files are mandatory. Bound explicitly, never guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InstructionHost {
    /// Claude Code's hierarchy.
    Claude,
    /// Codex's hierarchy.
    Codex,
}

impl InstructionHost {
    /// Wire text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }
}

/// The user where none is configured.
pub const DEFAULT_USER: &str = "local-user";
/// The tenant where none is configured.
pub const DEFAULT_TENANT: &str = "local-tenant";

/// Who asks. From local configuration or flags, never from the environment, a payload or a project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// Default `host-agent:default`.
    pub agent_id: Id,
    /// Optional persona.
    pub persona_id: Option<Id>,
    /// Default `local-user`.
    pub user_id: Id,
    /// Default `local-tenant`.
    pub tenant_id: Id,
    /// Default `default`.
    pub profile_id: Id,
}

impl Identity {
    /// Whether nobody said who the person is: user and tenant have their defaults.
    pub fn is_default_person(&self) -> bool {
        (self.user_id.as_str(), self.tenant_id.as_str()) == (DEFAULT_USER, DEFAULT_TENANT)
    }
}

/// Where the call belongs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scope {
    /// One conversation.
    pub session_id: Id,
    /// One repository; see [`crate::instructions::project_id`].
    pub project_id: Id,
    /// Optional task.
    pub task_id: Option<Id>,
    /// Optional group.
    pub group_id: Option<Id>,
}

/// What kind of call this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallKind {
    /// New human text: everything runs.
    Turn,
    /// Tool results and the like: fresh snapshot, no providers, earlier spans replayed.
    Continuation,
    /// A subagent's call.
    Subagent,
    /// Title, summary, compaction, count, prewarm: nothing new injected.
    Side,
}

impl CallKind {
    /// Wire text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Continuation => "continuation",
            Self::Subagent => "subagent",
            Self::Side => "side",
        }
    }
}

/// Whether a call may add text to its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Injection {
    /// As its kind says.
    On,
    /// The person paused it here: everything is bound and verified, earlier spans are replayed, nothing is added.
    Paused,
}

/// Everything the host knows about the call it is about to make.
#[derive(Debug, Clone)]
pub struct TurnRequest {
    /// Who asks.
    pub identity: Identity,
    /// Through which door.
    pub host: Host,
    /// Whose instruction files; `None` refuses with `host-unbound`.
    pub instruction_host: Option<InstructionHost>,
    /// Where the hosts keep their files on this machine.
    pub homes: HostHomes,
    /// Where the call belongs.
    pub scope: Scope,
    /// The working directory; made canonical at bind.
    pub cwd: PathBuf,
    /// Unique per (host, session) for ever.
    pub delivery_id: Id,
    /// What kind of call.
    pub kind: CallKind,
    /// The human text of this turn, untrimmed; a subagent's task; for a continuation its turn's, or empty where the host
    /// does not know it; empty for side calls.
    pub prompt: String,
    /// For a continuation: the conversation's last consumed turn.
    pub parent: Option<ReceiptId>,
    /// The receipt of an earlier call that this one may repeat. It counts only where that receipt was consumed in this
    /// session for the same body; else this is a call of its own.
    pub retry_of: Option<ReceiptId>,
    /// Whether it may add text. From the person's own settings, never from a request.
    pub injection: Injection,
    /// SHA-256 of the host's own body, before injection.
    pub client_body_digest: Digest,
    /// Absolute URL the body goes to, or `demo:`.
    pub endpoint: String,
    /// Model name as sent.
    pub model: String,
}

/// A bound turn: canonical directory, checked prompt, id drawn. Only [`crate::Gate::bind`] makes one.
#[derive(Debug)]
pub struct Bound {
    pub(crate) request: TurnRequest,
    pub(crate) id: ReceiptId,
    pub(crate) cwd: PathBuf,
    pub(crate) cwd_digest: Digest,
    pub(crate) prompt_digest: Option<Digest>,
}

impl Bound {
    /// The id drawn for this call; a refusal carries it too.
    pub fn id(&self) -> ReceiptId {
        self.id
    }
}
