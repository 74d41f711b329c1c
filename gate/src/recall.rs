//! Retrieval as data: the query a provider gets, the result it may give, the outcome the gate binds.
//! Running providers is the work of `agentspine-recall`.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::failure::{Detail, Refusal};
use crate::ids::{Digest, Id};
use crate::policy::Provider;
use crate::screen::{neutralise, screen};
use crate::strict_json;

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

/// The first scope keys, which every item must have: agent, user, tenant.
const MANDATORY_SCOPE_KEYS: usize = 3;

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
    /// What else is known of it, such as `decision, explicit, 2026-11-30`; empty for providers that say no more.
    pub about: String,
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
    /// What came close, best first: for the person's eyes, never for the model.
    pub left_out: Vec<LeftOut>,
}

/// Something a provider found and did not give.
#[derive(Clone, PartialEq, Eq)]
pub struct LeftOut {
    /// Identity at its provider.
    pub id: Id,
    /// Its title; never printed by the gate.
    pub title: String,
    /// Why it was left out.
    pub why: String,
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

impl Outcome {
    /// How the provider stands, given whether its failure blocks the turn.
    pub fn status(&self, required: bool) -> Status {
        match &self.result {
            Ok(answer) if answer.items.is_empty() => Status::Empty,
            Ok(_) => Status::Loaded,
            Err(_) if required => Status::Failed,
            Err(_) => Status::FailedOptional,
        }
    }

    /// Detail of the failure, such as `timeout`.
    pub fn reason(&self) -> Option<String> {
        self.result.as_ref().err().map(|failure| failure.detail.to_string())
    }

    /// Items that passed the screen; none of a failed provider.
    pub fn items(&self) -> &[Item] {
        self.result.as_ref().map_or(&[], |answer| &answer.items)
    }
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

impl Query {
    /// Computes and sets [`Self::query_digest`]: SHA-256 of the RFC 8785 bytes of all other fields. `queryText` of a v2
    /// query is not among them; `promptDigest` covers it.
    pub fn sealed(mut self) -> Result<Self, Refusal> {
        let unsealed = || {
            Refusal::new(
                Detail::Malformed,
                "A retrieval query could not be written.",
                "Report this as a defect.",
            )
        };
        let Ok(Value::Object(mut fields)) = serde_json::to_value(&self) else { return Err(unsealed()) };
        fields.remove("queryDigest");
        let bytes = serde_json_canonicalizer::to_vec(&fields).map_err(|_| unsealed())?;
        self.query_digest = Digest::of(&bytes);
        Ok(self)
    }

    /// The document a provider reads: absent ids are null. The text of the prompt goes out only in a v2 query, whatever
    /// is passed here.
    pub fn to_wire(&self, query_text: Option<&str>) -> Vec<u8> {
        let mut document = json!(self);
        if let Some(text) = query_text.filter(|_| self.schema == QUERY_SCHEMA_V2) {
            document["queryText"] = json!(text);
        }
        document.to_string().into_bytes()
    }
}

/// Parses and validates one result document against the query it must answer: exactly one JSON object, echoes, limits,
/// scope. A malformed item or a wrong scope fails the whole result; an item that fails the screen is left out and counted.
///
/// Keys that the schema does not know are ignored on the result and on items, as the earlier implementation did; in a
/// scope they are malformed, because nothing could compare them. `rejected` may be absent (0). Messages name item
/// numbers and fields, never values.
pub fn parse_result(bytes: &[u8], query: &Query) -> Result<Answer, ProviderFailure> {
    parse_answer(bytes, query).map_err(|(detail, why)| ProviderFailure {
        detail,
        message: format!("Provider {} answered, but {why}.", query.provider_id),
    })
}

type Faulty<T> = Result<T, (Detail, String)>;

fn malformed<T>(why: impl Into<String>) -> Faulty<T> {
    Err((Detail::Malformed, why.into()))
}

fn parse_answer(bytes: &[u8], query: &Query) -> Faulty<Answer> {
    if bytes.len() > RESULT_BYTES_MAX {
        return malformed(format!("its result is larger than {RESULT_BYTES_MAX} bytes"));
    }
    let Ok(Value::Object(result)) = strict_json::parse(bytes) else {
        return malformed("its output is not exactly one JSON object without duplicate keys");
    };
    let digest = query.query_digest.to_hex();
    for (key, expected) in [
        ("schema", RESULT_SCHEMA),
        ("providerId", query.provider_id.as_str()),
        ("queryDigest", digest.as_str()),
    ] {
        if result.get(key).and_then(Value::as_str) != Some(expected) {
            return Err((Detail::Echo, format!("its {key} is not the one it was asked with")));
        }
    }
    if result.get("status").and_then(Value::as_str) != Some("ok") {
        return malformed("its status is not \"ok\"");
    }
    let rejected = match result.get("rejected") {
        None => 0,
        Some(count) => count.as_u64().map_or_else(|| malformed("its rejected is not a whole number"), Ok)?,
    };
    let items = result.get("items").and_then(Value::as_array).filter(|items| items.len() <= ITEMS_MAX);
    let Some(items) = items else {
        return malformed(format!("its items are not a list of at most {ITEMS_MAX}"));
    };
    let mut answer = Answer {
        items: Vec::with_capacity(items.len()),
        screened_out: Vec::new(),
        rejected,
        left_out: Vec::new(),
    };
    for (n, item) in items.iter().enumerate() {
        let item = parse_item(item, query).map_err(|(detail, why)| (detail, format!("item {n} {why}")))?;
        let texts = [
            item.claim.as_str(),
            &item.why_loaded,
            item.id.as_str(),
            item.revision.as_str(),
            item.source.as_str(),
        ];
        if texts.iter().all(|text| screen(text).is_ok()) {
            answer.items.push(item);
        } else {
            answer.screened_out.push(shown_id(item.id, n));
        }
    }
    Ok(answer)
}

/// Receipts name the items left out; an id that is itself secret-shaped is replaced by its position.
fn shown_id(id: Id, n: usize) -> Id {
    match screen(id.as_str()) {
        Ok(()) => id,
        Err(_) => Id::new(format!("screened:{n}")).unwrap_or(id),
    }
}

fn parse_item(item: &Value, query: &Query) -> Faulty<Item> {
    let Some(item) = item.as_object() else { return malformed("is not an object") };
    check_scope(item.get("scope"), query)?;
    let id = |key: &str| {
        let id = item.get(key).and_then(Value::as_str).and_then(|text| Id::new(text).ok());
        id.map_or_else(|| malformed(format!("has no valid {key}")), Ok)
    };
    let revision = match item.get("revision").and_then(Value::as_u64).filter(|n| *n > 0) {
        Some(n) => Id::new(n.to_string()).or_else(|_| malformed("has no valid revision"))?,
        None => id("revision")?,
    };
    let validity = match item.get("validity").and_then(Value::as_str) {
        Some("current") => Validity::Current,
        Some("effective") => Validity::Effective,
        _ => return malformed("is neither current nor effective"),
    };
    let confidence = item.get("confidence").and_then(Value::as_f64).filter(|n| (0.0..=1.0).contains(n));
    Ok(Item {
        id: id("id")?,
        revision,
        claim: text(item, "claim", CLAIM_BYTES_MAX)?,
        source: id("source")?,
        validity,
        confidence: confidence.map_or_else(|| malformed("has no confidence from 0 to 1"), Ok)?,
        about: String::new(),
        why_loaded: text(item, "whyLoaded", WHY_BYTES_MAX)?,
    })
}

/// Text that is not blank, also not after invisible characters are taken away; at most `max` bytes as received.
fn text(item: &Map<String, Value>, key: &str, max: usize) -> Faulty<String> {
    let text = item.get(key).and_then(Value::as_str).filter(|text| text.len() <= max);
    match text.filter(|text| !neutralise(text).trim().is_empty()) {
        Some(text) => Ok(text.trim().to_owned()),
        None => malformed(format!("has no {key} of 1 to {max} bytes")),
    }
}

/// Agent, user and tenant must equal the query's; each other key is absent, null or equal.
fn check_scope(scope: Option<&Value>, query: &Query) -> Faulty<()> {
    let Some(scope) = scope.and_then(Value::as_object) else { return malformed("has no scope") };
    let expected = [
        ("agentId", Some(&query.agent_id)),
        ("userId", Some(&query.user_id)),
        ("tenantId", Some(&query.tenant_id)),
        ("personaId", query.persona_id.as_ref()),
        ("profileId", Some(&query.profile_id)),
        ("sessionId", Some(&query.session_id)),
        ("projectId", Some(&query.project_id)),
        ("groupId", query.group_id.as_ref()),
        ("taskId", query.task_id.as_ref()),
    ];
    if !scope.keys().all(|key| expected.iter().any(|(known, _)| key == known)) {
        return malformed("has an unknown key in its scope");
    }
    for (n, (key, asked)) in expected.into_iter().enumerate() {
        match scope.get(key) {
            None | Some(Value::Null) if n >= MANDATORY_SCOPE_KEYS => {}
            None | Some(Value::Null) => {
                return Err((Detail::OutOfTenant, format!("has no {key} in its scope")));
            }
            Some(Value::String(got)) if asked.is_some_and(|asked| asked.as_str() == got) => {}
            Some(Value::String(_)) => return Err((Detail::OutOfTenant, format!("is of another {key}"))),
            Some(_) => return malformed(format!("has a {key} in its scope that is not text")),
        }
    }
    Ok(())
}
