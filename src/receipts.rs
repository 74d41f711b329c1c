//! What people see of the journal's receipts, the same in every place that shows them.
//!
//! [`call`] is one line, [`detail`] everything a receipt binds, [`reason`] what a refusal's code means, [`live`] the journal
//! read while others write it. Nothing here writes, and no text of a conversation is shown but by [`live::Live::whole`].

pub(crate) mod call;
pub(crate) mod detail;
pub(crate) mod live;
mod reason;

use agentspine_gate::journal::{LIST_MAX, ReceiptRecord, Vault};
use agentspine_gate::{ReceiptId, Refusal};
use serde_json::Value;

/// A bound field, or one of the row that recorded a refusal; null where neither has it.
pub(crate) fn claim(record: &ReceiptRecord, name: &str) -> Value {
    let bound = record.issued.as_ref().and_then(|issued| issued.body.get("claims")?.get(name));
    let refused = || record.refused.first().and_then(|refused| refused.body.get(name));
    bound.or_else(refused).cloned().unwrap_or(Value::Null)
}

/// Every receipt of the journal that `wanted` picks.
pub(crate) fn matching(
    vault: &mut Vault,
    wanted: impl Fn(&ReceiptRecord) -> bool,
) -> Result<Vec<ReceiptId>, Refusal> {
    let mut found = Vec::new();
    let mut before = None;
    loop {
        let page = vault.list(LIST_MAX, before, None)?;
        found.extend(page.iter().filter(|record| wanted(record)).map(|record| record.id));
        before = page.last().map(|record| record.first_seq);
        if page.len() < usize::try_from(LIST_MAX).unwrap_or(usize::MAX) {
            return Ok(found);
        }
    }
}

/// When its first row was written, wall milliseconds.
pub(crate) fn written(record: &ReceiptRecord) -> i64 {
    record.issued.as_ref().or(record.refused.first()).map_or(0, |entry| entry.at_ms)
}

/// `code/detail` of what kept the receipt from its call, or the name of an incident.
pub(crate) fn refusal_key(record: &ReceiptRecord) -> Option<String> {
    let text = |body: &Value, name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
    if let Some(void) = &record.void {
        return text(&void.body, "reason");
    }
    let body = &record.refused.first()?.body;
    match (text(body, "code"), text(body, "detail")) {
        (Some(code), Some(detail)) => Some(format!("{code}/{detail}")),
        _ => text(body, "incident"),
    }
}

/// Wall milliseconds as local time of day.
pub(crate) fn time_of_day(at_ms: i64) -> String {
    local(at_ms).map_or_else(String::new, |at| at.strftime("%H:%M:%S").to_string())
}

/// The same where it was today, else the day.
fn time_or_day(at_ms: i64, now_ms: i64) -> String {
    let (at, now) = (local(at_ms), local(now_ms));
    match (at, now) {
        (Some(at), Some(now)) if at.date() != now.date() => at.strftime("%b %d").to_string(),
        _ => time_of_day(at_ms),
    }
}

fn local(at_ms: i64) -> Option<jiff::ZonedDateTime> {
    Some(jiff::Timestamp::from_millisecond(at_ms).ok()?.to_zoned_datetime(jiff::tz::TimeZone::system()))
}
