//! Receipts by the thousand: read through the gate's own vault, one process instead of one for each receipt.

use std::collections::HashMap;

use agentspine_gate::journal::ReceiptRecord;
use agentspine_gate::{Digest, ReceiptId};
use serde_json::{Value, json};

use super::fake_model::Recorded;
use super::law::Shown;
use super::{Home, vault};

/// Receipts of one page.
const PAGE: u32 = 500;

/// Every receipt, oldest first, each verified by the vault.
pub fn receipts(home: &Home) -> Vec<Shown> {
    let mut vault = vault::open(home);
    let mut found: Vec<Shown> = Vec::new();
    let mut before = None;
    loop {
        let page = vault.list(PAGE, before, None).unwrap();
        let Some(last) = page.last() else { break };
        before = Some(last.first_seq);
        found.extend(page.iter().map(shown));
    }
    found.reverse();
    found
}

fn shown(record: &ReceiptRecord) -> Shown {
    let entry = |entry: &Option<agentspine_gate::journal::Entry>| {
        entry.as_ref().map_or(Value::Null, |entry| json!({ "seq": entry.seq, "body": entry.body }))
    };
    Shown(json!({
        "id": record.id.to_string(), "issued": entry(&record.issued), "consumed": entry(&record.consumed),
        "void": entry(&record.void), "outcome": entry(&record.outcome), "refused": record.refused.len(),
    }))
}

/// Consumed receipts by the digest of the body that each binds. No delivery twice, no consumption before its issue.
pub fn by_request(receipts: &[Shown]) -> HashMap<String, Vec<&Shown>> {
    let mut deliveries = std::collections::HashSet::new();
    let mut open: HashMap<String, Vec<&Shown>> = HashMap::new();
    for receipt in receipts.iter().filter(|receipt| receipt.is_consumed()) {
        assert!(receipt.0["issued"]["seq"].as_u64() < receipt.0["consumed"]["seq"].as_u64(), "issued first");
        assert!(deliveries.insert(receipt.text("deliveryId").to_owned()), "a delivery twice");
        open.entry(receipt.text("requestDigest").to_owned()).or_default().push(receipt);
    }
    open
}

/// The law behind a proxy: each request that `base` received has its own consumed receipt. The pairs in order of
/// arrival, and the consumed receipts that no request came of.
pub fn pairs<'r>(
    receipts: &'r [Shown],
    base: &str,
    requests: &[Recorded],
) -> (Vec<&'r Shown>, Vec<&'r Shown>) {
    let mut open = by_request(receipts);
    let mut pairs = Vec::new();
    for request in requests {
        let digest = Digest::of(&request.body).to_hex();
        let endpoint = format!("{base}{}", request.target);
        let waiting = open.get_mut(&digest).unwrap_or_else(|| panic!("no receipt binds {digest}"));
        // Of equal bodies, one that says "not sent" is never the one that came.
        let fits = |receipt: &&Shown| receipt.text("endpoint") == endpoint && receipt.outcome() != "not-sent";
        let at =
            waiting.iter().position(fits).unwrap_or_else(|| panic!("more requests than receipts: {digest}"));
        pairs.push(waiting.remove(at));
    }
    (pairs, open.into_values().flatten().collect())
}

/// Id of a receipt as its claims write it.
pub fn id(text: &str) -> Option<ReceiptId> {
    serde_json::from_value(json!(text)).ok()
}
