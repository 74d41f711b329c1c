//! The receipts pane's questions, answered by the journal.

use std::collections::BTreeMap;

use agentspine_gate::journal::{ReceiptRecord, ReceiptState};
use agentspine_gate::receipt::claims::Claims;
use agentspine_gate::remember::RememberScope;
use agentspine_gate::{Id, ReceiptId};
use agentspine_tui::{self as data, AppEvent, Level, ReceiptDetail, ReceiptRow, Verdict};
use serde_json::Value;

use super::rules;
use crate::desk::Desk;

/// Receipts a list shows.
const LISTED_MAX: u32 = 200;

/// Which turn of the chat a receipt belongs to.
pub(super) type Turns = BTreeMap<ReceiptId, u64>;

/// What the pane wants to know, or to have done.
pub(super) enum Wanted {
    /// The session's receipts, newest first.
    List(Turns),
    /// One receipt's line.
    Row(ReceiptId, Turns),
    /// The line of a receipt whose call is under way: spent, and its outcome is still to come.
    Running(ReceiptId, Turns),
    /// One receipt, whole.
    One(String),
    /// Whether one receipt, the chain and the anchor hold.
    Verdict(String),
    /// The Must-Remember candidates of this scope.
    Rules(RememberScope),
    /// Activate one of them.
    Confirm(String, RememberScope),
}

/// Asks the desk; a refusal becomes a notice.
pub(super) async fn answer(desk: &Desk, session: Id, wanted: Wanted) -> Vec<AppEvent> {
    let answered = match wanted {
        Wanted::List(turns) => list(desk, session, &turns).await,
        Wanted::Row(id, turns) => one_row(desk, id, &turns).await.map(shown),
        Wanted::Running(id, turns) => one_row(desk, id, &turns).await.map(|row| shown(row.map(running))),
        Wanted::One(id) => one(desk, &id).await,
        Wanted::Verdict(id) => verdict(desk, id).await,
        Wanted::Rules(scope) => rules::waiting(desk, scope).await,
        Wanted::Confirm(id, scope) => rules::confirm(desk, id, scope).await,
    };
    answered.unwrap_or_else(|text| vec![AppEvent::Notice { level: Level::Bad, text }])
}

async fn list(desk: &Desk, session: Id, turns: &Turns) -> Result<Vec<AppEvent>, String> {
    let records = desk.ask(move |at| at.gate.vault().list(LISTED_MAX, None, Some(session.as_str()))).await;
    let records = records.map_err(|refusal| refusal.to_string())?;
    Ok(vec![AppEvent::Receipts(records.iter().map(|record| row(record, turns)).collect())])
}

async fn one_row(desk: &Desk, id: ReceiptId, turns: &Turns) -> Result<Option<ReceiptRow>, String> {
    let record =
        desk.ask(move |at| at.gate.vault().record(id)).await.map_err(|refusal| refusal.to_string())?;
    Ok(record.map(|record| row(&record, turns)))
}

fn shown(row: Option<ReceiptRow>) -> Vec<AppEvent> {
    row.map(AppEvent::Receipt).into_iter().collect()
}

/// The journal cannot tell a call under way from one whose process died; this process can.
fn running(row: ReceiptRow) -> ReceiptRow {
    match row.state {
        data::ReceiptState::OutcomeUnknown => {
            ReceiptRow { state: data::ReceiptState::Consumed, call: "running".to_owned(), ..row }
        }
        _ => row,
    }
}

async fn one(desk: &Desk, id: &str) -> Result<Vec<AppEvent>, String> {
    let id = ReceiptId::parse(id).ok_or("There is no such receipt.")?;
    let record =
        desk.ask(move |at| at.gate.vault().record(id)).await.map_err(|refusal| refusal.to_string())?;
    let record = record.ok_or("There is no such receipt.")?;
    Ok(vec![AppEvent::ReceiptDetail(detail(&record))])
}

async fn verdict(desk: &Desk, id: String) -> Result<Vec<AppEvent>, String> {
    let report = desk.ask(|at| at.gate.vault().verify_chain()).await;
    let verdict = match report {
        Ok(report) if report.ok => {
            Verdict { ok: true, text: format!("signature and chain ok, {} rows, anchor ok", report.rows) }
        }
        Ok(report) => Verdict {
            ok: false,
            text: report.problem.unwrap_or_else(|| "the chain does not hold".to_owned()),
        },
        Err(refusal) => Verdict { ok: false, text: refusal.to_string() },
    };
    Ok(vec![AppEvent::Verified { id, verdict }])
}

fn row(record: &ReceiptRecord, turns: &Turns) -> ReceiptRow {
    let claims = record.issued.as_ref().and_then(|issued| issued.body.get("claims"));
    let refused = record.refused.first().map(|entry| &entry.body);
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let length =
        |name: &str| claims.and_then(|claims| claims.get(name)).and_then(Value::as_array).map_or(0, Vec::len);
    let kind =
        claims.and_then(|claims| claims.get("kind")).or_else(|| refused.and_then(|body| body.get("kind")));
    let at_ms = record.issued.as_ref().or(record.refused.first()).map_or(0, |entry| entry.at_ms);
    ReceiptRow {
        id: record.id.to_hex(),
        short: record.id.short(),
        turn: turns.get(&record.id).copied(),
        kind: text(kind),
        state: state(record.state),
        at: time_of_day(at_ms),
        recall: recalled(claims),
        files: length("documents").to_string(),
        call: call(record),
    }
}

fn recalled(claims: Option<&Value>) -> u32 {
    let providers = claims.and_then(|claims| claims.get("providers")).and_then(Value::as_array);
    let items = providers.into_iter().flatten().filter_map(|provider| provider.get("injected")?.as_array());
    u32::try_from(items.map(Vec::len).sum::<usize>()).unwrap_or(u32::MAX)
}

/// What became of the call, or why there was none.
fn call(record: &ReceiptRecord) -> String {
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

fn state(state: ReceiptState) -> data::ReceiptState {
    match state {
        ReceiptState::Prepared => data::ReceiptState::Prepared,
        ReceiptState::Consumed => data::ReceiptState::Consumed,
        ReceiptState::Void => data::ReceiptState::Void,
        ReceiptState::Refused => data::ReceiptState::Refused,
        ReceiptState::Expired => data::ReceiptState::Expired,
        ReceiptState::SpentOutcomeUnknown => data::ReceiptState::OutcomeUnknown,
    }
}

fn detail(record: &ReceiptRecord) -> ReceiptDetail {
    let body =
        record.issued.as_ref().or(record.refused.first()).map(|entry| entry.body.clone()).unwrap_or_default();
    let mut fields =
        vec![("state".to_owned(), record.state.as_str().to_owned()), ("call".to_owned(), call(record))];
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

fn time_of_day(at_ms: i64) -> String {
    let at = jiff::Timestamp::from_millisecond(at_ms)
        .ok()
        .map(|at| at.to_zoned_datetime(jiff::tz::TimeZone::system()));
    at.map_or_else(String::new, |at| at.strftime("%H:%M:%S").to_string())
}
