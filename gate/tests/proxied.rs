//! Calls of a host that shows its own instruction files and does not tell the human text again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use agentspine_gate::Detail;
use agentspine_gate::ReceiptId;
use agentspine_gate::Refusal;
use agentspine_gate::instructions::Snapshot;
use agentspine_gate::recall::Outcome;
use agentspine_gate::receipt::claims::{Claims, Delivery};
use agentspine_gate::span::{Draft, Place, Slot, Wrap};
use agentspine_gate::turn::{CallKind, Injection, TurnRequest};
use common::desk::{Desk, empty};

/// The slot of a host that read its files when `snapshot` was taken.
fn shown(snapshot: &Snapshot) -> String {
    let path = |id: &str| snapshot.listed.iter().find(|listed| listed.id == id).unwrap().path.display();
    let of = |doc: &agentspine_gate::instructions::Document| {
        format!("Contents of {} (project instructions):\n\n{}", path(&doc.id), doc.text.trim_end())
    };
    snapshot.documents.iter().map(of).collect::<Vec<_>>().join("\n\n")
}

/// One call whose host shows `slot`; a call that is not a turn does not tell the prompt.
fn call(desk: &mut Desk, request: &TurnRequest, slot: Option<&str>) -> Result<Claims, Refusal> {
    let plan = desk.plan(request)?;
    let outcomes: Vec<Outcome> = plan.queries().iter().map(|planned| empty(planned, &[])).collect();
    let fresh = shown(plan.snapshot());
    let draft = Draft { host_slots: vec![slot.unwrap_or(&fresh).to_owned()], ..desk.draft("one") };
    let composed = desk.gate.compose(plan, &outcomes, &draft, &[])?;
    let prepared = desk.gate.issue(&composed)?;
    desk.finish(composed, prepared, request).map(|(claims, _)| claims)
}

fn continuation(desk: &mut Desk, parent: ReceiptId) -> TurnRequest {
    let request = desk.request("one");
    TurnRequest { kind: CallKind::Continuation, parent: Some(parent), prompt: String::new(), ..request }
}

fn slot_of(desk: &mut Desk) -> String {
    let request = desk.request("one");
    shown(desk.plan(&request).unwrap().snapshot())
}

#[test]
fn what_the_host_shows_itself_is_present_and_not_injected() {
    let mut desk = Desk::new();
    let request = desk.request("one");
    let claims = call(&mut desk, &request, None).unwrap();
    assert_eq!(claims.documents[0].state, Delivery::Present);
    assert_eq!(claims.briefing_digest, None);
}

#[test]
fn a_continuation_whose_host_does_not_know_the_prompt_binds_its_turns() {
    let mut desk = Desk::new();
    let request = desk.request("one");
    let turn = call(&mut desk, &request, None).unwrap();
    let request = continuation(&mut desk, turn.id);
    let next = call(&mut desk, &request, None).unwrap();
    assert_eq!((next.parent, next.prompt_digest), (Some(turn.id), turn.prompt_digest));
    assert!(next.prompt_digest.is_some());
}

#[test]
fn a_document_that_changed_under_a_running_turn_is_named_and_comes_with_the_next_turn() {
    let mut desk = Desk::new();
    let old = slot_of(&mut desk);
    let request = desk.request("one");
    let turn = call(&mut desk, &request, Some(&old)).unwrap();
    desk.write("CLAUDE.md", "another rule");

    let request = continuation(&mut desk, turn.id);
    let next = call(&mut desk, &request, Some(&old)).unwrap();
    let document = &next.documents[0];
    assert_eq!((document.state, document.changed_since_parent), (Delivery::Unverified, true));

    let request = desk.request("one");
    let turn = call(&mut desk, &request, Some(&old)).unwrap();
    assert_eq!(turn.documents[0].state, Delivery::Injected);
}

#[test]
fn a_document_that_the_host_dropped_refuses_the_continuation() {
    let mut desk = Desk::new();
    let request = desk.request("one");
    let turn = call(&mut desk, &request, None).unwrap();
    for parent in [Some(turn.id), None] {
        let request = TurnRequest { parent, ..continuation(&mut desk, turn.id) };
        let refusal = call(&mut desk, &request, Some("")).unwrap_err();
        assert_eq!(refusal.detail, Detail::ConversationUnknown);
    }
}

#[test]
fn a_paused_call_adds_nothing_asks_nobody_and_says_so() {
    let mut desk = Desk::new();
    let request = TurnRequest { injection: Injection::Paused, ..desk.request("one") };
    assert!(desk.plan(&request).unwrap().queries().is_empty());
    let claims = call(&mut desk, &request, Some("")).unwrap();
    assert!(claims.paused);
    assert_eq!(claims.documents[0].state, Delivery::Unverified);
    assert_eq!(claims.briefing_digest, None);

    let request = desk.request("one");
    let claims = call(&mut desk, &request, Some("")).unwrap();
    assert_eq!((claims.paused, claims.documents[0].state), (false, Delivery::Injected));
}

#[test]
fn a_wrapped_slot_makes_a_list_of_string_content_and_nothing_where_no_span_fills_it() {
    let body = br#"{"content":"hi","n":1}"#.to_vec();
    let wrap = Wrap { at: 11, open: r#"[{"type":"text","text":"# };
    let (before, after) = (r#"},{"type":"text","text":""#, r#""}]"#);
    let slot = Slot { place: Place::start("c"), at: 15, before, after, wrap: Some(wrap) };
    let draft = Draft { body: body.clone().into(), slots: vec![slot], host_slots: Vec::new() };
    let filled = draft.splice(&[(0, "new \"text\"")]).unwrap();
    let expected = r#"{"content":[{"type":"text","text":"hi"},{"type":"text","text":"new \"text\""}],"n":1}"#;
    assert_eq!(String::from_utf8(filled).unwrap(), expected);
    assert_eq!(draft.splice(&[]).unwrap(), body);
}
