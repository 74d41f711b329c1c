//! The law of the house, checked from outside: what a server received, and what the receipts say, are the same story.
//!
//! Nothing private is opened: `receipts list`, `receipts show` and `receipts verify` on one side, the raw bodies a real
//! server recorded on the other.

use std::collections::BTreeMap;

use agentspine_gate::Digest;
use serde_json::Value;

use super::fake_model::Recorded;
use super::served::Served;
use super::{Home, bulk};

/// One receipt as `receipts show --json` prints it.
pub struct Shown(pub Value);

impl Shown {
    pub fn id(&self) -> &str {
        self.0["id"].as_str().unwrap()
    }

    pub fn state(&self) -> &str {
        self.0["state"].as_str().unwrap()
    }

    pub fn claims(&self) -> &Value {
        &self.0["issued"]["body"]["claims"]
    }

    pub fn text(&self, claim: &str) -> &str {
        self.claims()[claim].as_str().unwrap_or_default()
    }

    pub fn is_consumed(&self) -> bool {
        !self.0["consumed"].is_null()
    }

    /// What became of the call; empty where nobody recorded it.
    pub fn outcome(&self) -> &str {
        self.0["outcome"]["body"]["outcome"].as_str().unwrap_or_default()
    }

    /// State of each bound document.
    pub fn documents(&self) -> Vec<(&str, &str)> {
        let documents = self.claims()["documents"].as_array().unwrap();
        documents.iter().map(|doc| (doc["id"].as_str().unwrap(), doc["state"].as_str().unwrap())).collect()
    }
}

/// Checks the whole law; every receipt, oldest first. Calls to endpoints of none of `servers` count as unreceived.
pub fn law(home: &Home, servers: &[&Served]) -> Vec<Shown> {
    let named: Vec<(&Served, &str)> = servers.iter().map(|server| (*server, server.base())).collect();
    law_of(home, &named)
}

/// The law where the server is a forward proxy to `base`.
pub fn law_through(home: &Home, proxy: &Served, base: &str) -> Vec<Shown> {
    law_of(home, &[(proxy, base)])
}

fn law_of(home: &Home, named: &[(&Served, &str)]) -> Vec<Shown> {
    let servers: Vec<&Served> = named.iter().map(|(server, _)| *server).collect();
    let servers = servers.as_slice();
    let receipts = receipts(home);
    let verified = home.json(&["receipts", "verify", "--json"]);
    assert_eq!(verified["ok"], true, "{verified}");
    let consumed = receipts.iter().filter(|receipt| receipt.is_consumed()).count();
    assert_eq!(verified["consumed"], consumed);
    every_request_has_its_receipt(&receipts, named);
    every_body_holds_its_spans(&receipts, servers);
    for request in servers.iter().flat_map(|server| server.requests()) {
        every_tool_result_follows_its_call(&request.json());
    }
    receipts
}

/// The law behind a proxy to `base`: each request has a consumed receipt of its own, and holds every span that this
/// receipt names, once, and each mandatory document in some way. The receipts in order of arrival.
pub fn law_behind(home: &Home, base: &str, requests: &[Recorded]) -> Vec<Shown> {
    let verified = home.json(&["receipts", "verify", "--json"]);
    assert_eq!(verified["ok"], true, "{verified}");
    let all = bulk::receipts(home);
    let (pairs, unsent) = bulk::pairs(&all, base, requests);
    for receipt in unsent {
        let outcome = receipt.outcome();
        assert!(may_be_unsent(receipt), "{} was never received, and says {outcome:?}", receipt.id());
    }
    let briefings: BTreeMap<&str, &str> = all.iter().map(|r| (r.id(), r.text("briefingDigest"))).collect();
    for (request, receipt) in requests.iter().zip(&pairs) {
        let ours = request.headers.iter().any(|(name, _)| name.starts_with("x-agentspine"));
        assert!(!ours && !request.target.starts_with("/w/"), "what is ours went out: {request:?}");
        let texts = texts(&request.json());
        let replayed = holds_its_spans(receipt, &texts, &briefings);
        let framed = texts.iter().filter(|text| briefings.values().any(|span| span == text)).count();
        let named = replayed.len() + usize::from(!receipt.text("briefingDigest").is_empty());
        assert_eq!(framed, named, "spans in {} that its receipt does not name", receipt.id());
        every_document_is_there(receipt, &replayed);
    }
    pairs.into_iter().map(|receipt| Shown(receipt.0.clone())).collect()
}

/// Every receipt, oldest first.
pub fn receipts(home: &Home) -> Vec<Shown> {
    let listed = home.json(&["receipts", "list", "--json", "--limit", "1000"]);
    let ids = listed["receipts"].as_array().unwrap().iter().rev().map(|row| row["id"].as_str().unwrap());
    ids.map(|id| Shown(home.json(&["receipts", "show", id, "--json"]))).collect()
}

/// By request digest: no more requests than consumed receipts, and each receipt without a request says so.
fn every_request_has_its_receipt(receipts: &[Shown], servers: &[(&Served, &str)]) {
    let mut open: BTreeMap<String, Vec<&Shown>> = BTreeMap::new();
    for receipt in
        receipts.iter().filter(|receipt| receipt.is_consumed() && receipt.text("endpoint") != "demo:")
    {
        let (issued, spent) = (&receipt.0["issued"]["seq"], &receipt.0["consumed"]["seq"]);
        assert!(issued.as_u64() < spent.as_u64(), "issued before it was consumed");
        assert_eq!(receipt.0["consumed"]["body"]["requestDigest"], receipt.claims()["requestDigest"]);
        open.entry(receipt.text("requestDigest").to_owned()).or_default().push(receipt);
    }
    for (server, base) in servers {
        for request in server.requests() {
            assert_eq!(request.method, "POST");
            let digest = Digest::of(&request.body).to_hex();
            let waiting = open.get_mut(&digest).unwrap_or_else(|| panic!("no receipt binds {digest}"));
            let here = |receipt: &&Shown| receipt.text("endpoint") == format!("{base}{}", request.path);
            // Receipts of equal bodies are told apart by their outcome: one that says "not sent" is taken last.
            let sent = waiting.iter().position(|receipt| here(receipt) && !may_be_unsent(receipt));
            let taken = sent.or_else(|| {
                waiting.iter().position(|receipt| here(receipt) && receipt.outcome() != "not-sent")
            });
            waiting.remove(taken.unwrap_or_else(|| panic!("one request more than receipts for {digest}")));
        }
    }
    for receipt in open.values().flatten() {
        assert!(
            may_be_unsent(receipt),
            "{} was never received, and says {:?}",
            receipt.id(),
            receipt.outcome()
        );
    }
}

fn may_be_unsent(receipt: &Shown) -> bool {
    matches!(receipt.outcome(), "" | "not-sent" | "unknown")
}

/// Every span that a receipt names, and its prompt, stand in its body, exactly once, byte for byte.
fn every_body_holds_its_spans(receipts: &[Shown], servers: &[&Served]) {
    let briefings: BTreeMap<&str, &str> =
        receipts.iter().map(|r| (r.id(), r.text("briefingDigest"))).collect();
    for request in servers.iter().flat_map(|server| server.requests()) {
        let digest = Digest::of(&request.body).to_hex();
        let texts = texts(&request.json());
        for receipt in receipts.iter().filter(|r| r.is_consumed() && r.text("requestDigest") == digest) {
            let replayed = holds_its_spans(receipt, &texts, &briefings);
            let prompt = receipt.text("promptDigest");
            // A side call speaks for nobody, and what appeared since the last turn is not in it.
            let side = receipt.text("kind") == "side";
            assert!(
                texts.iter().any(|text| text == prompt) != side,
                "the prompt of {} is not in its body",
                receipt.id()
            );
            if side {
                assert!(
                    receipt.claims()["promptDigest"].is_null() && receipt.text("briefingDigest").is_empty()
                );
                every_document_is_there(receipt, &replayed);
            } else {
                every_document_is_delivered(receipt, &replayed);
            }
        }
    }
}

/// The receipts whose spans are replayed; each stands in the body once, and so does the call's own.
fn holds_its_spans<'r>(
    receipt: &'r Shown,
    texts: &[String],
    briefings: &BTreeMap<&str, &str>,
) -> Vec<&'r str> {
    let replayed = receipt.claims()["replayedSpans"].as_array().unwrap();
    let replayed: Vec<&str> = replayed.iter().map(|id| id.as_str().unwrap()).collect();
    let own = Some(receipt.text("briefingDigest")).filter(|own| !own.is_empty());
    for span in replayed.iter().map(|id| briefings[id]).chain(own) {
        let count = texts.iter().filter(|text| *text == span).count();
        assert_eq!(count, 1, "span {span} of {}", receipt.id());
    }
    replayed
}

/// Behind a proxy a document may stand in the host's own slot; a side call adds nothing, and a call that goes on with a
/// turn may lack what appeared since.
fn every_document_is_there(receipt: &Shown, replayed: &[&str]) {
    for document in receipt.claims()["documents"].as_array().unwrap() {
        let lenient = matches!(receipt.text("kind"), "side" | "continuation");
        match document["state"].as_str().unwrap() {
            "present" => {}
            "unverified" if lenient => {}
            "injected" => assert_ne!(receipt.text("briefingDigest"), "", "{document}"),
            "replayed" => assert!(replayed.contains(&document["span"].as_str().unwrap()), "{document}"),
            other => panic!("{other}: {document}"),
        }
    }
}

fn every_document_is_delivered(receipt: &Shown, replayed: &[&str]) {
    for document in receipt.claims()["documents"].as_array().unwrap() {
        match document["state"].as_str().unwrap() {
            "injected" => assert_ne!(receipt.text("briefingDigest"), "", "{document}"),
            "replayed" => assert!(replayed.contains(&document["span"].as_str().unwrap()), "{document}"),
            other => panic!("{other}: {document}"),
        }
    }
}

/// What every vendor insists on: a call is answered by the very next message, an answer follows its call.
fn every_tool_result_follows_its_call(body: &Value) {
    let mut open: Vec<String> = Vec::new();
    let messages = body["messages"].as_array().or_else(|| body["input"].as_array()).unwrap();
    let messages = messages.iter().filter(|message| message["role"] != "system");
    for (n, message) in messages.enumerate() {
        assert!(n > 0 || message["role"] == "user", "a conversation begins with the person: {body}");
        let item = |kind: &str| message["call_id"].as_str().filter(|_| message["type"] == kind);
        let answered = message["tool_call_id"].as_str().or_else(|| item("function_call_output"));
        for id in ids(message, "tool_result", "tool_use_id").chain(answered) {
            let at = open
                .iter()
                .position(|call| call == id)
                .unwrap_or_else(|| panic!("{id} was not called: {body}"));
            open.remove(at);
        }
        // In a list of items calls stand side by side, and each answer is an item of its own.
        let beside = message["role"] == "tool" || !message["call_id"].is_null();
        assert!(open.is_empty() || beside, "calls without answers: {open:?} in {body}");
        let calls =
            message["tool_calls"].as_array().into_iter().flatten().filter_map(|call| call["id"].as_str());
        open.extend(
            ids(message, "tool_use", "id").chain(calls).chain(item("function_call")).map(str::to_owned),
        );
    }
    assert!(open.is_empty(), "calls without answers: {open:?}");
}

fn ids<'a>(message: &'a Value, kind: &'a str, member: &'a str) -> impl Iterator<Item = &'a str> {
    let blocks = message["content"].as_array().into_iter().flatten();
    blocks.filter(move |block| block["type"] == kind).filter_map(move |block| block[member].as_str())
}

/// Digests of every text a body says: whole strings, framed spans inside them, and what stands around those.
fn texts(body: &Value) -> Vec<String> {
    let mut strings = Vec::new();
    collect(body, &mut strings);
    let mut texts = Vec::new();
    for string in strings {
        let framed = framed(string);
        let cuts = framed.iter().flat_map(|(from, to)| [*from, *to]);
        let mut cuts: Vec<usize> = std::iter::once(0).chain(cuts).chain([string.len()]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let around = cuts.windows(2).map(|pair| (pair[0], pair[1])).filter(|range| !framed.contains(range));
        let around = around.map(|(from, to)| &string[from..to]).filter(|text| *text != string);
        let around = around.map(|text| text.strip_suffix("\n\n").unwrap_or(text));
        let around = around.map(|text| text.strip_prefix("\n\n").unwrap_or(text));
        let spans = framed.iter().map(|(from, to)| &string[*from..*to]).filter(|text| *text != string);
        let found = around.chain(spans).chain([string]);
        texts.extend(found.map(|text| Digest::of(text.as_bytes()).to_hex()));
    }
    texts
}

fn collect<'a>(value: &'a Value, out: &mut Vec<&'a str>) {
    match value {
        Value::String(text) => out.push(text),
        Value::Array(items) => items.iter().for_each(|item| collect(item, out)),
        Value::Object(members) => members.values().for_each(|member| collect(member, out)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Every range from an opening frame mark to a closing one.
fn framed(text: &str) -> Vec<(usize, usize)> {
    let opening = ["<agentspine-instructions mark=\"", "<agentspine-reference mark=\""];
    let starts = opening.iter().flat_map(|mark| text.match_indices(mark)).map(|(at, _)| at);
    let ends: Vec<usize> = ["</agentspine-instructions mark=\"", "</agentspine-reference mark=\""]
        .iter()
        .flat_map(|mark| text.match_indices(mark))
        .filter_map(|(at, _)| text[at..].find('>').map(|length| at + length + 1))
        .collect();
    starts.flat_map(|from| ends.iter().filter(move |to| **to > from).map(move |to| (from, *to))).collect()
}
