//! One receipt, whole: what a person asks of it first, then every bound field.

use agentspine_gate::journal::{ReceiptRecord, ReceiptState};
use agentspine_gate::receipt::claims::Claims;
use agentspine_tui::ReceiptDetail;
use agentspine_tui::watch::{CallDetail, CallState, Injected};
use serde_json::Value;

use super::call::{state, status, took_ms};
use super::reason::meaning;
use super::{claim, refusal_key};

/// What became of the call, or why there was none.
pub(crate) fn became(record: &ReceiptRecord) -> String {
    let word =
        |body: &Value, name: &str| body.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    if let Some(outcome) = &record.outcome {
        let status = outcome.body.get("status").and_then(Value::as_u64).map(|status| format!(" {status}"));
        return format!("{}{}", word(&outcome.body, "outcome"), status.unwrap_or_default());
    }
    match (record.state, record.refused.first()) {
        (ReceiptState::SpentOutcomeUnknown, _) => "outcome unknown".to_owned(),
        (_, Some(refused)) => format!("{}/{}", word(&refused.body, "code"), word(&refused.body, "detail")),
        _ => "not sent".to_owned(),
    }
}

/// Every bound field, as fields and as JSON.
pub(crate) fn detail(record: &ReceiptRecord) -> ReceiptDetail {
    let body =
        record.issued.as_ref().or(record.refused.first()).map(|entry| entry.body.clone()).unwrap_or_default();
    let mut fields =
        vec![("state".to_owned(), record.state.as_str().to_owned()), ("call".to_owned(), became(record))];
    flatten("", &readable(&body), &mut fields);
    let json = serde_json::to_string_pretty(&body).unwrap_or_default();
    ReceiptDetail { id: record.id.to_hex(), fields, verify: None, json }
}

/// What a person asks of a receipt first.
const FIRST: [&str; 9] = [
    "createdAt",
    "expiresAt",
    "kind",
    "model",
    "endpoint",
    "promptDigest",
    "requestDigest",
    "briefingDigest",
    "policyRevision",
];

/// The claims, what is asked for first on top and the rest as declared; else the whole body.
fn readable(body: &Value) -> Value {
    let claims = body.get("claims").and_then(|claims| serde_json::from_value::<Claims>(claims.clone()).ok());
    let Some(Value::Object(mut claims)) = claims.and_then(|claims| serde_json::to_value(claims).ok()) else {
        return body.clone();
    };
    let first =
        FIRST.iter().filter_map(|name| claims.shift_remove(*name).map(|value| ((*name).to_owned(), value)));
    let mut ordered: serde_json::Map<String, Value> = first.collect();
    ordered.append(&mut claims);
    Value::Object(ordered)
}

/// Every bound field as one line, nested names joined by dots.
fn flatten(name: &str, value: &Value, out: &mut Vec<(String, String)>) {
    let join = |inner: &str| if name.is_empty() { inner.to_owned() } else { format!("{name}.{inner}") };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, value)| flatten(&join(key), value, out)),
        Value::Array(items) if items.is_empty() => out.push((name.to_owned(), "none".to_owned())),
        Value::Array(items) => {
            for (n, value) in items.iter().enumerate() {
                flatten(&join(&(n + 1).to_string()), value, out);
            }
        }
        Value::String(text) => out.push((name.to_owned(), text.clone())),
        Value::Null => out.push((name.to_owned(), "–".to_owned())),
        Value::Bool(_) | Value::Number(_) => out.push((name.to_owned(), value.to_string())),
    }
}

/// Label and value of what a person asks first; an empty label goes on with the one above.
pub(crate) fn summary(record: &ReceiptRecord, sort: Option<&str>, now_ms: i64) -> Vec<(String, String)> {
    let mut out = vec![("state", standing(record, now_ms))];
    let key = refusal_key(record).unwrap_or_default();
    if let Some((what, next)) = meaning(&key) {
        out.extend([("why", format!("{key}: {what}")), ("next", next.to_owned())]);
    } else if !key.is_empty() {
        out.push(("why", key));
    }
    let text = |name: &str| claim(record, name).as_str().unwrap_or_default().to_owned();
    let kind = sort.map_or_else(|| text("kind"), |sort| format!("{} ({sort})", text("kind")));
    out.push(("call", format!("{kind} · {} · {}", text("host"), text("sessionId"))));
    out.extend(Some(("model", text("model"))).filter(|(_, model)| !model.is_empty()));
    let host = format!("{}:", text("instructionHost"));
    out.extend(listed("files", &claim(record, "documents"), |doc| document(doc, &host)));
    out.extend(listed("rules", &claim(record, "mustRemember"), rule));
    out.extend(listed("recall", &claim(record, "providers"), provider));
    out.into_iter().map(|(label, value)| (label.to_owned(), value)).collect()
}

/// A call of which a row does not verify: nothing it says may be believed.
pub(crate) fn unverified(id: &str) -> CallDetail {
    let summary = [
        ("state", CallState::Broken.word()),
        ("why", "A row of it is missing or altered; what the others say is not shown."),
        ("next", "agentspine state check"),
    ];
    CallDetail {
        summary: summary.map(|(label, value)| (label.to_owned(), value.to_owned())).into(),
        injected: Injected::Nothing("Unknown.".to_owned()),
        receipt: ReceiptDetail { id: id.to_owned(), fields: Vec::new(), verify: None, json: String::new() },
    }
}

/// The state in words, and how long the call took.
fn standing(record: &ReceiptRecord, now_ms: i64) -> String {
    let state = state(record, now_ms);
    let words = match (state, status(record)) {
        (CallState::Unknown, _) => "spent, outcome unknown".to_owned(),
        (CallState::Underway, _) => "spent, no outcome yet".to_owned(),
        (_, Some(status)) => format!("{} ({status})", state.word()),
        _ => state.word().to_owned(),
    };
    took_ms(record).map_or(words.clone(), |took| format!("{words} · took {took} ms"))
}

fn listed(label: &'static str, list: &Value, line: impl Fn(&Value) -> String) -> Vec<(&'static str, String)> {
    let lines = list.as_array().into_iter().flatten().map(line);
    lines.enumerate().map(|(n, line)| (if n == 0 { label } else { "" }, line)).collect()
}

fn word(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn number(value: &Value, name: &str) -> u64 {
    value.get(name).and_then(Value::as_u64).unwrap_or_default()
}

/// How it reaches the model, then its name without the host's, which is the same for all.
fn document(doc: &Value, host: &str) -> String {
    let id = word(doc, "id");
    let changed = doc.get("changedSinceParent").and_then(Value::as_bool) == Some(true);
    let notes = [if changed { "changed".to_owned() } else { String::new() }, word(doc, "note")];
    let notes = notes.into_iter().filter(|note| !note.is_empty());
    let name = id.strip_prefix(host).unwrap_or(&id).to_owned();
    placed(&word(doc, "state"), &std::iter::once(name).chain(notes).collect::<Vec<_>>())
}

/// A state in a column of its own, a name, and what else there is to say.
fn placed(state: &str, what: &[String]) -> String {
    let (name, more) = what.split_first().map_or(("", [].as_slice()), |(name, more)| (name.as_str(), more));
    let more = if more.is_empty() { String::new() } else { format!(" · {}", more.join(", ")) };
    format!("{state:<8} {name}{more}")
}

fn rule(rule: &Value) -> String {
    let mut id = word(rule, "id");
    if id.len() > RULE_CHARS {
        id = format!("{}…", id.chars().take(RULE_CHARS).collect::<String>());
    }
    let version = Some(number(rule, "version")).filter(|version| *version > 1);
    let what: Vec<String> = std::iter::once(id).chain(version.map(|n| format!("v{n}"))).collect();
    placed(&word(rule, "state"), &what)
}

/// Characters of a rule's id in the summary: kind and first digits.
const RULE_CHARS: usize = 17;

fn provider(provider: &Value) -> String {
    let items = |name: &str| provider.get(name).and_then(Value::as_array).map_or(0, Vec::len);
    let counts = [("injected", "items"), ("replayed", "replayed"), ("leftOut", "left out")];
    let counts = counts.into_iter().map(|(name, what)| (items(name), what)).filter(|(n, _)| *n > 0);
    let counts = counts.map(|(n, what)| format!("{n} {what}"));
    let reason = Some(word(provider, "reason")).filter(|reason| !reason.is_empty());
    let took = format!("{} ms", number(provider, "latencyMs"));
    let what = std::iter::once(word(provider, "id")).chain(reason).chain(counts).chain([took]);
    placed(&word(provider, "status"), &what.collect::<Vec<_>>())
}
