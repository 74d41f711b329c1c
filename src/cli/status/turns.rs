//! Last turns, read from the journal.

use std::collections::BTreeSet;

use agentspine_gate::journal::{ReceiptRecord, ReceiptState};
use serde_json::{Value, json};

use crate::receipts::{claim, refusal_key, written};

/// Most sessions in the status.
const SESSIONS_MAX: usize = 50;

/// Whether the record is a person's turn, or one refused before its kind was recorded.
pub(super) fn is_turn(record: &ReceiptRecord) -> bool {
    claim(record, "kind").as_str().is_none_or(|kind| kind == "turn")
}

/// The last turn of each session, newest first.
pub(super) fn by_session(records: &[ReceiptRecord]) -> Vec<Value> {
    let mut seen = BTreeSet::new();
    let turns = records.iter().filter(|record| is_turn(record));
    let named = turns.filter_map(|record| Some((claim(record, "sessionId").as_str()?.to_owned(), record)));
    let last = named.filter(|(session, _)| seen.insert(session.clone()));
    last.take(SESSIONS_MAX)
        .map(|(session, record)| {
            let mut turn = shape(record);
            turn["sessionId"] = json!(session);
            turn
        })
        .collect()
}

/// `ready`, `consumed` or `blocked` with the fields the earlier implementation had, and what it could not say: `void`,
/// `expired` and `spent-outcome-unknown`.
pub(super) fn shape(record: &ReceiptRecord) -> Value {
    let at = written(record);
    let iso = jiff::Timestamp::from_millisecond(at).map(|at| at.to_string()).unwrap_or_default();
    if let (ReceiptState::Refused | ReceiptState::Void, Some(key)) = (record.state, refusal_key(record)) {
        let (code, detail) = key.split_once('/').unwrap_or((&key, ""));
        return json!({
            "status": "blocked", "code": code, "detail": detail, "receiptId": record.id, "at": iso, "atMs": at,
            "host": claim(record, "host"), "deliveryDigest": claim(record, "deliveryDigest"), "authority": "diagnostic-only",
        });
    }
    json!({
        "status": word(record.state), "receiptId": record.id, "at": iso, "atMs": at, "host": claim(record, "host"),
        "instructionHost": claim(record, "instructionHost"), "instructionFiles": documents(record), "recall": recall(record),
        "cwdDigest": claim(record, "cwdDigest"), "authority": "diagnostic-only",
    })
}

fn word(state: ReceiptState) -> &'static str {
    match state {
        ReceiptState::Prepared => "ready",
        ReceiptState::Refused => "blocked",
        ReceiptState::Consumed
        | ReceiptState::Void
        | ReceiptState::Expired
        | ReceiptState::SpentOutcomeUnknown => state.as_str(),
    }
}

fn documents(record: &ReceiptRecord) -> usize {
    claim(record, "documents").as_array().map_or(0, Vec::len)
}

fn recall(record: &ReceiptRecord) -> Vec<Value> {
    let one = |provider: &Value| json!({"providerId": provider["id"], "status": provider["status"], "rejected": provider["rejected"]});
    claim(record, "providers")
        .as_array()
        .map(|providers| providers.iter().map(one).collect())
        .unwrap_or_default()
}
