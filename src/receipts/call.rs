//! One call as one line: facts of its receipt's rows, never text.

use agentspine_gate::journal::{ReceiptRecord, ReceiptState, Sighting};
use agentspine_tui::watch::{CallRow, CallState};
use serde_json::Value;

use super::{claim, refusal_key, time_or_day, written};

/// How long after its receipt was spent a call without an outcome may well be under way, milliseconds: ten minutes, the
/// longest that a model client waits.
pub(crate) const UNDERWAY_MS: i64 = 10 * 60 * 1000;
/// Digits of an id in a list: enough to name one receipt to `receipts show`.
const SHORT_DIGITS: usize = 8;

/// The line of what a follower saw at `now_ms`.
pub(crate) fn row(sighting: &Sighting, sort: Option<String>, now_ms: i64) -> CallRow {
    match sighting {
        Sighting::Holds(record) => of(record, sort, now_ms),
        Sighting::Broken { seq, receipt } => broken(*seq, receipt.map(agentspine_gate::ReceiptId::to_hex)),
    }
}

fn of(record: &ReceiptRecord, sort: Option<String>, now_ms: i64) -> CallRow {
    let text = |name: &str| claim(record, name).as_str().unwrap_or_default().to_owned();
    let id = record.id.to_hex();
    CallRow {
        short: short(&id),
        id,
        at: time_or_day(written(record), now_ms),
        host: text("host"),
        kind: text("kind"),
        sort,
        model: text("model"),
        session: text("sessionId"),
        state: state(record, now_ms),
        status: status(record),
        files: bound(record, "documents"),
        rules: bound(record, "mustRemember"),
        recalled: recalled(&claim(record, "providers")),
        failed: failed(&claim(record, "providers")),
        took_ms: took_ms(record),
        reason: refusal_key(record).unwrap_or_default(),
    }
}

/// A row that does not verify says nothing that may be believed, but that it is there.
fn broken(seq: u64, id: Option<String>) -> CallRow {
    let id = id.unwrap_or_else(|| format!("row-{seq}"));
    let none = String::new;
    CallRow {
        short: short(&id),
        id,
        at: none(),
        host: none(),
        kind: none(),
        sort: None,
        model: none(),
        session: none(),
        state: CallState::Broken,
        status: None,
        files: 0,
        rules: 0,
        recalled: 0,
        failed: 0,
        took_ms: None,
        reason: format!("row {seq} is missing or altered"),
    }
}

/// The digits that a list shows of an id.
pub(crate) fn short(id: &str) -> String {
    id.chars().take(SHORT_DIGITS).collect()
}

/// How a call stands. The journal alone cannot tell a call under way from one whose process died.
pub(crate) fn state(record: &ReceiptRecord, now_ms: i64) -> CallState {
    match record.state {
        ReceiptState::Prepared => CallState::Prepared,
        ReceiptState::Void => CallState::Void,
        ReceiptState::Refused => CallState::Refused,
        ReceiptState::Expired => CallState::Expired,
        ReceiptState::Consumed => ended(outcome(record).unwrap_or_default()),
        ReceiptState::SpentOutcomeUnknown => {
            let spent = record.consumed.as_ref().map_or(0, |entry| entry.at_ms);
            let young = now_ms.saturating_sub(spent) < UNDERWAY_MS;
            if young { CallState::Underway } else { CallState::Unknown }
        }
    }
}

/// The recorded outcome's word.
pub(crate) fn outcome(record: &ReceiptRecord) -> Option<&str> {
    record.outcome.as_ref()?.body.get("outcome")?.as_str()
}

fn ended(outcome: &str) -> CallState {
    match outcome {
        "answered" => CallState::Answered,
        "failed" => CallState::Failed,
        "cut" => CallState::Cut,
        "interrupted" => CallState::Interrupted,
        "not-sent" => CallState::NotSent,
        _ => CallState::Unknown,
    }
}

/// HTTP status of a failed call.
pub(crate) fn status(record: &ReceiptRecord) -> Option<u16> {
    let status = record.outcome.as_ref()?.body.get("status")?.as_u64()?;
    u16::try_from(status).ok()
}

/// From the spending to the outcome, as the clock on the wall had it.
pub(crate) fn took_ms(record: &ReceiptRecord) -> Option<u64> {
    let (spent, ended) = (record.consumed.as_ref()?.at_ms, record.outcome.as_ref()?.at_ms);
    u64::try_from(ended.saturating_sub(spent)).ok()
}

fn bound(record: &ReceiptRecord, list: &str) -> u32 {
    count(claim(record, list).as_array().map_or(0, Vec::len))
}

/// Entries that this call injected.
pub(crate) fn recalled(providers: &Value) -> u32 {
    let items = each(providers).filter_map(|provider| provider.get("injected")?.as_array());
    count(items.map(Vec::len).sum())
}

/// Providers that failed.
pub(crate) fn failed(providers: &Value) -> u32 {
    let status = |provider: &&Value| provider.get("status").and_then(Value::as_str).map(str::to_owned);
    count(each(providers).filter(|p| status(p).is_some_and(|status| status.starts_with("failed"))).count())
}

fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
