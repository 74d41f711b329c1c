//! The law of the house where a real client speaks through the proxy: what the API received, and what the receipts say,
//! are the same story.

use std::collections::BTreeMap;

use agentspine_gate::Digest;

use super::Desk;
use super::api::Seen;
use crate::support::law::{Shown, receipts};

/// Checks the whole law; every request with a prompt, with the receipt that was consumed for it, in order of arrival.
pub fn law(desk: &Desk) -> Vec<(Seen, Shown)> {
    let verified = desk.home.json(&["receipts", "verify", "--json"]);
    assert_eq!(verified["ok"], true, "{verified}");
    let mut open: BTreeMap<String, Vec<Shown>> = BTreeMap::new();
    for receipt in receipts(&desk.home).into_iter().filter(Shown::is_consumed) {
        open.entry(receipt.text("requestDigest").to_owned()).or_default().push(receipt);
    }
    let pairs: Vec<(Seen, Shown)> =
        desk.api.prompts().into_iter().map(|seen| take(desk, &mut open, seen)).collect();
    let left: Vec<&str> = open.values().flatten().map(Shown::id).collect();
    assert_eq!(left, Vec::<&str>::new(), "consumed, and no request came");
    for (seen, receipt) in &pairs {
        assert_eq!(
            receipt.outcome(),
            if seen.status == 200 { "answered" } else { "failed" },
            "{}",
            receipt.id()
        );
        splices(seen, receipt);
        documents(receipt);
    }
    pairs
}

fn take(desk: &Desk, open: &mut BTreeMap<String, Vec<Shown>>, seen: Seen) -> (Seen, Shown) {
    let digest = Digest::of(&seen.request.body).to_hex();
    let waiting = open.get_mut(&digest).filter(|waiting| !waiting.is_empty());
    let receipt = waiting.unwrap_or_else(|| panic!("no consumed receipt binds {digest}")).remove(0);
    let endpoint = receipt.text("endpoint").split('?').next().unwrap().to_owned();
    assert_eq!(endpoint, format!("{}{}", desk.api.base(), seen.request.path));
    (seen, receipt)
}

/// Every mandatory document is in the request, one way or another.
fn documents(receipt: &Shown) {
    // A side call gets nothing new: what it does not hold stays unverified.
    let side = receipt.text("kind") == "side";
    for (id, state) in receipt.documents() {
        let fine = ["present", "injected", "replayed"].contains(&state) || side && state == "unverified";
        assert!(fine, "{id} is {state} in a {}", receipt.text("kind"));
    }
}

/// Without what was inserted, the body is the client's, to the byte.
fn splices(seen: &Seen, receipt: &Shown) {
    let body = std::str::from_utf8(&seen.request.body).unwrap();
    let wanted = receipt.text("clientBodyDigest");
    let found =
        stripped(body).into_iter().any(|candidate| Digest::of(candidate.as_bytes()).to_hex() == wanted);
    assert!(found, "the body of {} ({}) is not the client's plus spans", receipt.id(), receipt.text("kind"));
    let spans = receipt.claims()["replayedSpans"].as_array().map_or(0, Vec::len);
    let own = usize::from(!receipt.text("briefingDigest").is_empty());
    assert_eq!(body.matches(OPENING).count().min(1), (spans + own).min(1), "spans in {}", receipt.id());
}

/// How every inserted block begins, escaped as in a body.
const OPENING: &str = "\"text\":\"<agentspine-";

/// The body without its inserted blocks. A block that stood alone with the client's may have been a string before:
/// both readings of each such place.
fn stripped(body: &str) -> Vec<String> {
    let Some(at) = body.find(OPENING) else { return vec![body.to_owned()] };
    let from = body[..at].rfind(",{").expect("a block before it");
    let text = at + "\"text\":".len();
    let end = text + string_end(&body[text..]);
    assert!(body[end..].starts_with('}'), "an inserted block holds its text last");
    let without = format!("{}{}", &body[..from], &body[end + 1..]);
    let mut readings = stripped(&without);
    let opening = "[{\"type\":\"text\",\"text\":";
    if let Some(wrap) = body[..from].rfind(opening) {
        let string = wrap + opening.len();
        let string_end = string + string_end(&body[string..]);
        if string_end + 1 == from && body[end + 1..].starts_with(']') {
            let unwrapped = format!("{}{}{}", &body[..wrap], &body[string..string_end], &body[end + 2..]);
            readings.extend(stripped(&unwrapped));
        }
    }
    readings
}

/// Length of the JSON string that begins here, with its quotes.
fn string_end(json: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in json.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    panic!("a string without end")
}

/// How often the body says this, over all its texts.
pub fn said(seen: &Seen, text: &str) -> usize {
    fn count(value: &serde_json::Value, text: &str) -> usize {
        match value {
            serde_json::Value::String(whole) => whole.matches(text).count(),
            serde_json::Value::Array(items) => items.iter().map(|item| count(item, text)).sum(),
            serde_json::Value::Object(members) => members.values().map(|member| count(member, text)).sum(),
            _ => 0,
        }
    }
    count(&seen.json(), text)
}
