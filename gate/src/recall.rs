//! Retrieval as data: the query a provider gets, the result it may give, the outcome the gate binds.
//! Running providers is the work of `agentspine-recall`.

use serde::Serialize;

use crate::failure::{Detail, Refusal};
use crate::ids::{Digest, Id};
use crate::policy::Provider;

/// Schema of a query, version 1: digests only.
pub const QUERY_SCHEMA_V1: &str = "agentspine.retrieval-query/v1";
/// Schema of a query, version 2: with `queryText`, only where the local profile says `sendPrompt`.
pub const QUERY_SCHEMA_V2: &str = "agentspine.retrieval-query/v2";
/// Schema of a result.
pub const RESULT_SCHEMA: &str = "agentspine.retrieval-result/v1";
/// Most items in one result.
pub const ITEMS_MAX: usize = 128;
/// Longest claim, bytes.
pub const CLAIM_BYTES_MAX: usize = 4096;
/// Longest `whyLoaded`, bytes.
pub const WHY_BYTES_MAX: usize = 512;
/// Largest result document, bytes.
pub const RESULT_BYTES_MAX: usize = 1024 * 1024;

/// `agentspine.retrieval-query/v1`, in wire order. `queryDigest` = SHA-256 of the RFC 8785 bytes of all other fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Query {
    /// [`QUERY_SCHEMA_V1`].
    pub schema: &'static str,
    /// The provider asked.
    pub provider_id: Id,
    /// Scope.
    pub agent_id: Id,
    /// Scope.
    pub persona_id: Option<Id>,
    /// Scope.
    pub user_id: Id,
    /// Scope.
    pub tenant_id: Id,
    /// Through which door.
    pub host: String,
    /// Scope.
    pub profile_id: Id,
    /// Scope.
    pub session_id: Id,
    /// Scope.
    pub project_id: Id,
    /// Scope.
    pub group_id: Option<Id>,
    /// Scope.
    pub task_id: Option<Id>,
    /// SHA-256 of the canonical working directory.
    pub cwd_digest: Digest,
    /// SHA-256 of the human text.
    pub prompt_digest: Digest,
    /// Always `current-effective-truth`.
    pub requested: &'static str,
    /// Digest of everything above.
    pub query_digest: Digest,
}

/// One provider to run for this turn.
#[derive(Clone)]
pub struct Planned {
    /// From the local profile, or the embedded default.
    pub provider: Provider,
    /// What it is asked.
    pub query: Query,
    /// The human text, for in-process providers and for `sendPrompt`; never printed.
    pub prompt: String,
    /// min(timeoutMs, its class), in milliseconds.
    pub deadline_ms: u64,
}

/// A valid, screened item. Its scope was checked against the query when it was parsed.
#[derive(Clone, PartialEq)]
pub struct Item {
    /// Identity at its provider.
    pub id: Id,
    /// Revision at its provider.
    pub revision: Id,
    /// The recalled text.
    pub claim: String,
    /// Where the provider has it from.
    pub source: Id,
    /// `current` or `effective`.
    pub validity: Validity,
    /// 0 to 1.
    pub confidence: f64,
    /// Why it was loaded.
    pub why_loaded: String,
}

/// Whether an item is simply current or effective by a rule of its provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// Current.
    Current,
    /// Effective.
    Effective,
}

/// A verified success.
#[derive(Clone, PartialEq)]
pub struct Answer {
    /// Items that passed the screen, in the provider's order.
    pub items: Vec<Item>,
    /// Ids of well-formed items the screen left out.
    pub screened_out: Vec<Id>,
    /// What the provider says it rejected itself.
    pub rejected: u64,
}

/// Why a provider gave no answer. The message never holds provider output.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProviderFailure {
    /// A detail of the `provider-failed` family.
    pub detail: Detail,
    /// One sentence.
    pub message: String,
}

/// What came of one planned provider.
#[derive(Clone)]
pub struct Outcome {
    /// Which provider.
    pub provider_id: Id,
    /// Digest of the query it was asked.
    pub query_digest: Digest,
    /// Wall time it took.
    pub latency_ms: u64,
    /// Answer or failure.
    pub result: Result<Answer, ProviderFailure>,
}

/// How a provider stands in receipt, pane and status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// At least one item.
    Loaded,
    /// A verified success without a match.
    Empty,
    /// Failed and required: the turn is blocked.
    Failed,
    /// Failed, but optional.
    FailedOptional,
}

/// Parses and validates one result document against the query it must answer: exactly one JSON object, echoes, limits,
/// scope. A malformed item or a wrong scope fails the whole result; an item that fails the screen is left out and counted.
pub fn parse_result(bytes: &[u8], query: &Query) -> Result<Answer, ProviderFailure> {
    let _ = (bytes, query);
    todo!()
}

impl Query {
    /// Computes and sets [`Self::query_digest`].
    pub fn sealed(self) -> Result<Self, Refusal> {
        todo!()
    }
}
