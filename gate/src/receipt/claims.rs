//! What a receipt binds, schema `agentspine.receipt/v1`. Holds digests, ids and sizes; never text.
//!
//! Fields stand in the order of their wire names, which is RFC 8785's: claims are then written in one go.

use serde::{Deserialize, Serialize};

use crate::ids::{Digest, Id, ReceiptId};
use crate::instructions::Layer;
use crate::recall::Status;
use crate::turn::CallKind;

/// Schema of a receipt.
pub const RECEIPT_SCHEMA: &str = "agentspine.receipt/v1";
/// The contract a receipt is issued under.
pub const CONTRACT: &str = "agentspine.preflight/v2";

/// How a bound text reaches the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// This call's span holds it.
    Injected,
    /// An earlier span of the conversation holds it.
    Replayed,
    /// The host's own slot holds it, as the host renders it.
    Present,
    /// Bound, but not in this request: it appeared after the conversation's last turn.
    Unverified,
}

/// Anything unusual about a bound document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DocumentNote {
    /// The host would cut or drop it; here it is whole.
    CutByHost,
    /// Reached through a link that local policy allows.
    SymlinkAllowed,
}

/// One mandatory document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BoundDocument {
    /// File size.
    pub bytes: u64,
    /// Different from what the conversation had before this call.
    pub changed_since_parent: bool,
    /// Display id.
    pub id: String,
    /// Of device, inode, size and times.
    pub identity: Digest,
    /// Anything unusual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<DocumentNote>,
    /// Of the host's rendering, where it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rendered_sha256: Option<Digest>,
    /// Layer.
    pub scope: Layer,
    /// Of the file bytes.
    pub sha256: Digest,
    /// The receipt whose span holds it, where `state` is `replayed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span: Option<ReceiptId>,
    /// How it reaches the model.
    pub state: Delivery,
}

/// Which budget the injected documents fell under.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BoundBudget {
    /// Hard limit.
    pub hard_limit_bytes: u64,
    /// `standard` or `<host>-required-overflow`.
    pub mode: String,
    /// Bytes above the standard limit.
    pub overflow_bytes: u64,
    /// Standard limit.
    pub standard_bytes: u64,
    /// Bytes of documents this call injects.
    pub used_bytes: u64,
}

/// One active Must-Remember entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BoundRemember {
    /// Keyed checksum of the claim.
    pub checksum: Digest,
    /// Entry id.
    pub id: Id,
    /// How it reaches the model.
    pub state: Delivery,
    /// Version.
    pub version: u64,
}

/// One recalled item.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundItem {
    /// Item id.
    pub id: Id,
    /// Its revision.
    pub revision: Id,
}

/// One provider's part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BoundProvider {
    /// Provider id.
    pub id: Id,
    /// Items this call's span holds.
    pub injected: Vec<BoundItem>,
    /// Wall time it took.
    pub latency_ms: u64,
    /// Ids cut by the recall budget or as near-duplicates.
    pub left_out: Vec<Id>,
    /// Query it answered.
    pub query_digest: Digest,
    /// Detail of the failure, such as `timeout`; null where there is none.
    pub reason: Option<String>,
    /// Items refused by the screen, plus what the provider says it rejected.
    pub rejected: u64,
    /// Items an earlier span already holds.
    pub replayed: Vec<BoundItem>,
    /// How it stands.
    pub status: Status,
}

/// Everything a receipt binds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claims {
    /// Identity.
    pub agent_id: Id,
    /// Identity of the boot that issued it.
    pub boot: String,
    /// SHA-256 of the injected text with its marks; null where nothing is injected.
    pub briefing_digest: Option<Digest>,
    /// SHA-256 of the client's own body, before injection.
    pub client_body_digest: Digest,
    /// [`CONTRACT`].
    pub contract: String,
    /// Wall time, RFC 3339 UTC, for people.
    pub created_at: String,
    /// SHA-256 of the canonical working directory.
    pub cwd_digest: Digest,
    /// Unique per (host, session) for ever.
    pub delivery_id: Id,
    /// Mandatory documents in the host's order.
    pub documents: Vec<BoundDocument>,
    /// Where the body goes.
    pub endpoint: String,
    /// Wall time, RFC 3339 UTC, for people.
    pub expires_at: String,
    /// Scope.
    pub group_id: Option<Id>,
    /// Door.
    pub host: String,
    /// 128 random bits, drawn at bind.
    pub id: ReceiptId,
    /// Budget of injected documents.
    pub instruction_budget: BoundBudget,
    /// Whose documents.
    pub instruction_host: String,
    /// `CLOCK_BOOTTIME` at issue, milliseconds.
    pub issued_boottime_ms: u64,
    /// Journal this receipt belongs to.
    pub journal_id: String,
    /// Signing key; a hint.
    pub kid: String,
    /// Kind of call.
    pub kind: CallKind,
    /// Model name as sent.
    pub model: String,
    /// Active entries.
    pub must_remember: Vec<BoundRemember>,
    /// The conversation's last consumed turn, for a continuation.
    pub parent: Option<ReceiptId>,
    /// The person had paused injection: what this call lacks was left out on their word.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// Identity.
    pub persona_id: Option<Id>,
    /// Digest of the matching profile.
    pub policy_profile_digest: Option<Digest>,
    /// Revision of the policy file, 0 where there is none.
    pub policy_revision: u64,
    /// Identity.
    pub profile_id: Id,
    /// Scope.
    pub project_id: Id,
    /// SHA-256 of the human text; null for side and subagent calls.
    pub prompt_digest: Option<Digest>,
    /// Providers of this call.
    pub providers: Vec<BoundProvider>,
    /// How far the Must-Remember store had come; 0 in receipts that did not bind it yet.
    #[serde(default)]
    pub remember_revision: u64,
    /// Earlier spans replayed in this body, by receipt, in order.
    pub replayed_spans: Vec<ReceiptId>,
    /// SHA-256 of the exact body to be sent.
    pub request_digest: Digest,
    /// An earlier call with the same body.
    pub retry_of: Option<ReceiptId>,
    /// [`RECEIPT_SCHEMA`].
    pub schema: String,
    /// Scope.
    pub session_id: Id,
    /// Scope.
    pub task_id: Option<Id>,
    /// Identity.
    pub tenant_id: Id,
    /// Identity.
    pub user_id: Id,
    /// Display ids this call's span withdraws.
    pub withdrawn: Vec<String>,
}
