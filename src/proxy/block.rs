//! Answers of our own in the error form of the client's dialect, so that it posts once and shows the reason.
//!
//! Statuses, headers and wording as measured on the real clients (contract section 9, proxy.md 4.3).

use agentspine_gate::screen::redact;
use agentspine_gate::{Detail, ReceiptId, Refusal};
use agentspine_model::ModelError;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::headers::RECEIPT;
use super::refused::Refused;

/// Machine-readable reason: `CODE/DETAIL`.
const BLOCK: HeaderName = HeaderName::from_static("agentspine-block");
const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");
const REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest message, characters.
const MESSAGE_CHARS_MAX: usize = 1200;

/// Wordings on which Claude Code starts a recovery of its own (proxy.md 4.3), and what says the same without them.
const AVOIDED: [(&str, &str); 7] = [
    ("prompt is too long", "text is over its limit"),
    ("context", "surroundings"),
    ("thinking", "reasoning"),
    ("signature", "seal"),
    ("role 'system'", "the system role"),
    ("tool_use ids", "tool ids"),
    ("capability_rejected:", "capability rejected,"),
];

/// The form of a dialect's errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Envelope {
    /// `{"type":"error","error":{…},"request_id":…}`.
    Anthropic,
    /// `{"error":{…}}`, chat completions and Responses alike.
    OpenAi,
}

impl Envelope {
    /// The form a client expects that nothing else is known of.
    pub(super) fn guess(path: &str, headers: &HeaderMap) -> Self {
        let anthropic = path.contains("/messages") || headers.contains_key("anthropic-version");
        if anthropic { Self::Anthropic } else { Self::OpenAi }
    }

    /// The status that each dialect's clients take as final and show (424 makes Codex post six times, 400 makes Claude
    /// Code post six times).
    pub(crate) fn block_status(self) -> StatusCode {
        match self {
            Self::Anthropic => StatusCode::FAILED_DEPENDENCY,
            Self::OpenAi => StatusCode::BAD_REQUEST,
        }
    }
}

/// An answer of our own, whole.
pub(super) struct Answer {
    /// Status.
    pub status: StatusCode,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Vec<u8>,
}

/// A refusal of the gate.
pub(super) fn blocked(envelope: Envelope, refusal: &Refusal, fresh: &str) -> Answer {
    let id = request_id(refusal.receipt, fresh);
    let said = format!("agentspine blocked this call: {}", sentence(&refusal.message, refusal.receipt));
    let told = Told {
        kind: "invalid_request_error",
        code: "agentspine_preflight_blocked",
        message: message(&format!("{said} Nothing was sent. Next: {}", refusal.advice)),
    };
    let mut headers = common(envelope, &id, refusal.receipt);
    final_word(&mut headers, &refusal.key());
    told.answer(envelope, envelope.block_status(), headers, &id)
}

/// A request that the server turned away.
pub(super) fn refused(envelope: Envelope, why: Refused, fresh: &str) -> Answer {
    let said = format!("agentspine refused this request: {} Nothing was sent.", why.message());
    own(envelope, why.status(envelope), why.word(), &format!("{said} Next: {}", why.advice()), fresh)
}

/// A body that is no request of its dialect.
pub(super) fn unreadable(envelope: Envelope, why: &str, fresh: &str) -> Answer {
    let said = format!("agentspine blocked this call: {}", sentence(why, None));
    let next = "Nothing was sent. Next: check the client, or report it as a bug";
    own(envelope, envelope.block_status(), "unreadable", &format!("{said} {next}"), fresh)
}

fn own(envelope: Envelope, status: StatusCode, word: &str, text: &str, fresh: &str) -> Answer {
    let id = request_id(None, fresh);
    let told =
        Told { kind: kind(envelope, status), code: "agentspine_request_refused", message: message(text) };
    let mut headers = common(envelope, &id, None);
    final_word(&mut headers, &format!("proxy-refused/{word}"));
    told.answer(envelope, status, headers, &id)
}

/// No answer from the upstream. Not a block: the client may well try again, with a receipt of its own.
pub(super) fn failed(
    envelope: Envelope,
    receipt: Option<ReceiptId>,
    error: &ModelError,
    fresh: &str,
) -> Answer {
    let id = request_id(receipt, fresh);
    let status = StatusCode::BAD_GATEWAY;
    let text = format!(
        "agentspine could not get an answer from the model's server: {}",
        sentence(&error.to_string(), receipt)
    );
    let told = Told {
        kind: kind(envelope, status),
        code: "agentspine_upstream_failed",
        message: message(&format!("{text} Next: try again; if it stays so: agentspine doctor")),
    };
    told.answer(envelope, status, common(envelope, &id, receipt), &id)
}

/// The dialect's own word for a status.
fn kind(envelope: Envelope, status: StatusCode) -> &'static str {
    match (envelope, status) {
        (Envelope::Anthropic, StatusCode::FORBIDDEN) => "permission_error",
        (Envelope::Anthropic, StatusCode::NOT_FOUND) => "not_found_error",
        (Envelope::Anthropic, StatusCode::PAYLOAD_TOO_LARGE) => "request_too_large",
        (Envelope::Anthropic, status) if status.is_server_error() => "api_error",
        (Envelope::OpenAi, status) if status.is_server_error() => "server_error",
        _ => "invalid_request_error",
    }
}

struct Told {
    kind: &'static str,
    code: &'static str,
    message: String,
}

impl Told {
    fn answer(self, envelope: Envelope, status: StatusCode, headers: HeaderMap, id: &str) -> Answer {
        Answer { status, headers, body: self.json(envelope, id).to_string().into_bytes() }
    }

    fn json(self, envelope: Envelope, id: &str) -> Value {
        let Self { kind, code, message } = self;
        match envelope {
            Envelope::Anthropic => json!({
                "type": "error",
                "error": {"type": kind, "message": message, "details": {"error_code": code}},
                "request_id": id,
            }),
            Envelope::OpenAi => {
                json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
            }
        }
    }
}

fn common(envelope: Envelope, id: &str, receipt: Option<ReceiptId>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    put(&mut headers, REQUEST_ID, id);
    if envelope == Envelope::OpenAi {
        put(&mut headers, X_REQUEST_ID, id);
    }
    if let Some(receipt) = receipt {
        put(&mut headers, RECEIPT, &receipt.to_string());
    }
    headers
}

/// Asking again would give the same answer.
fn final_word(headers: &mut HeaderMap, reason: &str) {
    headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
    put(headers, BLOCK, reason);
}

/// Sets a header to one of our own ids or words, all of them ASCII.
pub(super) fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

fn request_id(receipt: Option<ReceiptId>, fresh: &str) -> String {
    receipt.map_or_else(|| format!("req_as_{fresh}"), |receipt| format!("req_as_{receipt}"))
}

/// A message as a sentence with its full stop, the receipt before it.
fn sentence(message: &str, receipt: Option<ReceiptId>) -> String {
    let text = message.trim().trim_end_matches('.');
    let receipt = receipt.map(|id| format!(" (receipt {id})")).unwrap_or_default();
    format!("{text}{receipt}.")
}

/// One line without keys and without words that mean something else to a client.
fn message(text: &str) -> String {
    let (text, _) = redact(text);
    let line: Vec<&str> =
        text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty()).collect();
    let line = AVOIDED.iter().fold(line.join(" "), |line, (avoided, said)| replace(&line, avoided, said));
    line.chars().take(MESSAGE_CHARS_MAX).collect()
}

/// Replaces whatever its case.
fn replace(text: &str, wanted: &str, by: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let mut out = String::with_capacity(text.len());
    let mut rest = 0;
    for (at, found) in lower.match_indices(wanted) {
        // Lower case of ASCII moves no byte, so positions agree.
        out.push_str(text.get(rest..at).unwrap_or_default());
        out.push_str(by);
        rest = at + found.len();
    }
    out.push_str(text.get(rest..).unwrap_or_default());
    out
}

/// The part of a detail that names no number, for counters.
pub(super) fn label(detail: Detail) -> String {
    detail.to_string().split('(').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_one_line_without_wordings_that_clients_act_upon() {
        let text = "The Signature of\nthe context:\tTHINKING, prompt is too long, role 'system', tool_use ids, capability_rejected: x";
        let said = message(text);
        assert_eq!(
            said,
            "The seal of the surroundings: reasoning, text is over its limit, the system role, tool ids, capability rejected, x"
        );
    }
}
