//! The receipts pane's questions, answered by the journal.

use std::collections::BTreeMap;

use agentspine_gate::journal::{ReceiptRecord, ReceiptState};
use agentspine_gate::remember::RememberScope;
use agentspine_gate::{Id, ReceiptId};
use agentspine_tui::{self as data, AppEvent, Level, ReceiptRow, Verdict};
use serde_json::Value;

use super::rules;
use crate::desk::Desk;
use crate::receipts::call::recalled;
use crate::receipts::detail::{became, detail};
use crate::receipts::time_of_day;

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
    /// From here on the questions are about this session.
    Session(Id),
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
        // The task that asks keeps it.
        Wanted::Session(_) => Ok(Vec::new()),
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
        recall: claims.and_then(|claims| claims.get("providers")).map_or(0, recalled),
        files: length("documents").to_string(),
        call: became(record),
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
