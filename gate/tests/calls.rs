//! Kinds of calls: repetitions, continuations, and drafts that have no place for what must be said.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use agentspine_gate::receipt::claims::{Claims, Delivery};
use agentspine_gate::span::Draft;
use agentspine_gate::turn::{CallKind, TurnRequest};
use agentspine_gate::{Detail, Digest, Field};
use common::desk::{Desk, empty, item, remember};
use common::{WALL_MS, id};

/// A first turn whose call failed: its prompt is being sent again.
fn failed(desk: &mut Desk) -> (Claims, TurnRequest) {
    let (first, _) = desk.turn("one");
    desk.said.pop();
    let again = TurnRequest { retry_of: Some(first.id), ..desk.request("one") };
    (first, again)
}

#[test]
fn a_repetition_after_a_file_or_a_rule_changed_is_a_turn_of_its_own() {
    type Change = fn(&mut Desk);
    let changes: [Change; 4] = [
        |desk| desk.write("CLAUDE.md", "Use spaces.\n"),
        |desk| desk.write("CLAUDE.local.md", "Mine.\n"),
        |desk| std::fs::remove_file(desk.project.join("CLAUDE.md")).unwrap(),
        |desk| drop(remember(desk, "Never push on Fridays.")),
    ];
    for change in changes {
        let mut desk = Desk::new();
        remember(&mut desk, "Write British English.");
        let (_, again) = failed(&mut desk);
        change(&mut desk);
        assert_eq!(desk.plan(&again).unwrap().queries().len(), 1);
        let composed = desk.compose(&again).unwrap();
        let claims = composed.claims();
        assert_eq!((claims.retry_of, claims.replayed_spans.len()), (None, 0));
        assert!(claims.documents.iter().all(|doc| doc.state == Delivery::Injected));
        assert!(claims.must_remember.iter().all(|entry| entry.state == Delivery::Injected));
    }
}

#[test]
fn a_repetition_whose_span_is_gone_is_refused() {
    let mut desk = Desk::new();
    let (_, again) = failed(&mut desk);
    desk.spans.clear();
    assert_eq!(desk.compose(&again).err().unwrap().detail, Detail::ConversationUnknown);
}

#[test]
fn a_draft_without_a_place_for_what_must_be_said_is_refused() {
    let mut desk = Desk::new();
    let request = desk.request("one");
    let plan = desk.plan(&request).unwrap();
    let outcomes = [empty(&plan.queries()[0], &[])];
    let draft = Draft { slots: Vec::new(), ..desk.draft("one") };
    let refusal = desk.gate.compose(plan, &outcomes, &draft, &[]).err().unwrap();
    assert_eq!(refusal.detail, Detail::Mismatch(Field::Request));
}

#[test]
fn only_a_turn_is_a_parent() {
    let mut desk = Desk::new();
    let (turn, _) = desk.turn("one");
    let side = TurnRequest { kind: CallKind::Side, ..desk.request("one") };
    let (composed, prepared) = desk.prepare(&side);
    let (side, _) = desk.finish(composed, prepared, &side).unwrap();
    assert_eq!((side.prompt_digest, side.briefing_digest), (None, None));
    for (parent, expected) in [(turn.id, Some(turn.id)), (side.id, None)] {
        let request =
            TurnRequest { kind: CallKind::Continuation, parent: Some(parent), ..desk.request("one") };
        assert_eq!(desk.compose(&request).unwrap().claims().parent, expected);
    }
}

#[test]
fn a_new_version_of_a_rule_withdraws_the_old_one_and_a_rollback_says_it_again() {
    let mut desk = Desk::new();
    let old = remember(&mut desk, "Never push on Fridays.");
    desk.turn("one");
    let new = supersede(&mut desk, "Never push on weekends.", &old);
    let (second, body) = desk.turn("two");
    assert_eq!((second.withdrawn, second.must_remember[0].version), (vec![old.to_string()], 2));
    assert!(body.contains(&format!("rule {new} (version 2): Never push on weekends.")));
    desk.gate.remember().rollback(&old, WALL_MS).unwrap();
    let (third, _) = desk.turn("three");
    assert_eq!((third.withdrawn, &third.must_remember[0].id), (vec![new.to_string()], &old));
    assert_eq!(third.must_remember[0].state, Delivery::Injected);
    let (fourth, _) = desk.turn("four");
    assert_eq!((fourth.withdrawn.len(), fourth.must_remember[0].state), (0, Delivery::Replayed));
}

fn supersede(desk: &mut Desk, claim: &str, old: &agentspine_gate::Id) -> agentspine_gate::Id {
    let scope = desk.gate.remember().list().unwrap().entries[0].scope.clone();
    let proposal = agentspine_gate::remember::Proposal {
        claim,
        scope,
        any_group: false,
        kind: None,
        source_digest: None,
        now_ms: WALL_MS,
    };
    let candidate = desk.gate.remember().propose(proposal).unwrap().candidate.id;
    desk.gate.remember().confirm(&candidate, Some(old), WALL_MS).unwrap().entry.id
}

#[test]
fn notes_that_say_the_same_are_said_once_and_notes_without_letters_are_all_said() {
    let mut desk = Desk::new();
    let request = desk.request("one");
    let plan = desk.plan(&request).unwrap();
    let items = [item("a", "Use tabs."), item("b", "use TABS!"), item("c", "→"), item("d", "←")];
    let outcomes = [empty(&plan.queries()[0], &items)];
    let draft = desk.draft("one");
    let composed = desk.gate.compose(plan, &outcomes, &draft, &[]).unwrap();
    let provider = &composed.claims().providers[0];
    let injected: Vec<_> = provider.injected.iter().map(|item| item.id.as_str()).collect();
    assert_eq!((injected, provider.left_out.clone()), (vec!["a", "c", "d"], vec![id("b")]));
}

const SPANS: usize = 150;

#[test]
fn a_conversation_of_many_spans_is_replayed_whole_after_a_restart() {
    let mut desk = Desk::new();
    // Each turn injects a new version of the file, so each has its span.
    for turn in 0..SPANS {
        desk.write("CLAUDE.md", &format!("Version {turn}.\n"));
        let request = desk.request("go on");
        let (composed, prepared) = desk.prepare(&request);
        desk.finish(composed, prepared, &request).unwrap();
        desk.said.push("go on".into());
    }
    desk.gate = desk.open().unwrap();
    let (claims, body) = desk.turn("and now?");
    assert_eq!((claims.replayed_spans.len(), claims.briefing_digest), (SPANS, None));
    assert_eq!(claims.request_digest, Digest::of(body.as_bytes()));
    assert!(body.contains("Version 0.") && body.contains("Version 149."));
}

#[test]
fn a_blank_and_an_oversized_message_are_told_apart() {
    let mut desk = Desk::new();
    let blank = desk.request(" \n");
    assert_eq!(desk.plan(&blank).err().unwrap().message, "The message is blank.");
    let long = desk.request(&"x".repeat(1024 * 1024 + 1));
    assert!(desk.plan(&long).err().unwrap().message.contains("1048577 bytes"));
}
