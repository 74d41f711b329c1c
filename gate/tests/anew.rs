//! Starting anew: what a reset and a key rotation leave of rules and conversations.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use agentspine_gate::journal::{Reset, ResetRules, Vault};
use agentspine_gate::receipt::claims::Delivery;
use agentspine_gate::{Detail, Gate};
use common::desk::{Desk, remember};

const RULE: &str = "Never push on Fridays.";

fn reset(desk: &mut Desk) -> Reset {
    let done = Vault::reset(&desk.home.dir, &desk.home.seams).unwrap();
    desk.gate = desk.open().unwrap();
    done
}

#[test]
fn confirmed_rules_still_apply_after_a_reset_and_after_a_second_one() {
    let mut desk = Desk::new();
    let rule = remember(&mut desk, RULE);
    for round in 0..2 {
        let done = reset(&mut desk);
        assert_eq!(done.rules, ResetRules::Kept);
        assert!(done.aside.join("keyring.json").exists());
        assert_eq!(desk.gate.remember().list().unwrap().entries.len(), 1 + round);
        // A rule that the newest key signs, so that the next reset has two keys to keep.
        remember(&mut desk, &format!("Write British English, {round}."));
        let (claims, body) = desk.turn("hello");
        assert!(body.contains(RULE) && claims.must_remember.iter().any(|entry| entry.id == rule));
        desk.start_over();
    }
}

#[test]
fn a_key_kept_for_rules_signs_and_verifies_nothing_else() {
    let mut desk = Desk::new();
    remember(&mut desk, RULE);
    let mut vault = desk.home.vault();
    let old = vault.sign(b"claims").unwrap();
    reset(&mut desk);
    let vault = desk.gate.vault();
    assert!(vault.keyring().by_kid(&old.kid).is_some());
    assert_ne!(vault.keyring().current().kid, old.kid);
    assert_eq!(vault.verify(&old, b"claims").unwrap_err().detail, Detail::Mac);
    for seq in 0..3 {
        assert_eq!(vault.verify_row(&old, b"claims", seq).unwrap_err().detail, Detail::Mac);
    }
}

#[test]
fn without_a_readable_key_the_rules_go_aside_and_the_gate_opens_without_any() {
    type Spoil = fn(&Desk);
    let spoils: [Spoil; 3] = [
        |desk| desk.home.remove("keyring.json"),
        |desk| desk.home.write("keyring.json", b"{}"),
        |desk| desk.home.write("remember.sqlite", b"no database at all, and long enough to be seen as none"),
    ];
    for spoil in spoils {
        let mut desk = Desk::new();
        remember(&mut desk, RULE);
        // Nothing of it stays open meanwhile.
        desk.gate = Desk::new().gate;
        spoil(&desk);
        let spoiled = desk.home.read("remember.sqlite");
        let done = reset(&mut desk);
        assert_eq!(done.rules, ResetRules::SetAside);
        assert!(desk.gate.remember().list().unwrap().entries.is_empty());
        assert_eq!(std::fs::read(done.aside.join("remember.sqlite")).unwrap(), spoiled);
        let (claims, body) = desk.turn("hello");
        assert!(claims.must_remember.is_empty() && !body.contains(RULE));
        remember(&mut desk, RULE);
        assert!(desk.turn("again").1.contains(RULE));
    }
}

#[test]
fn rules_of_another_keyring_go_aside_too() {
    let mut desk = Desk::new();
    remember(&mut desk, RULE);
    for name in ["keyring.json", "journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm", "anchor"] {
        desk.home.remove(name);
    }
    // All three pieces gone is a first start, and its new key knows no rule.
    let mut gate = desk.open().unwrap();
    assert_eq!(gate.remember().list().err().unwrap().detail, Detail::RememberCorrupt);
    drop(gate);
    assert_eq!(reset(&mut desk).rules, ResetRules::SetAside);
    desk.turn("hello");
}

#[test]
fn a_reset_that_was_cut_short_refuses_until_it_is_repeated_and_then_keeps_the_rules() {
    let mut desk = Desk::new();
    remember(&mut desk, RULE);
    // What stands while a reset is under way: the old keyring, no journal, no anchor.
    for name in ["journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm", "anchor"] {
        desk.home.remove(name);
    }
    assert_eq!(desk.open().err().unwrap().detail, Detail::JournalMissing);
    assert_eq!(reset(&mut desk).rules, ResetRules::Kept);
    assert!(desk.turn("hello").1.contains(RULE));
}

#[test]
fn an_old_conversation_goes_on_after_a_reset_with_every_document_injected_anew() {
    let mut desk = Desk::new();
    remember(&mut desk, RULE);
    let (first, _) = desk.turn("one");
    desk.turn("two");
    reset(&mut desk);
    let (third, body) = desk.turn("three");
    assert_eq!((third.replayed_spans.len(), third.documents[0].state), (0, Delivery::Injected));
    assert_eq!(third.must_remember[0].state, Delivery::Injected);
    assert_eq!((body.matches("CANARY-INSTRUCTION").count(), body.matches(RULE).count()), (1, 1));
    assert!(desk.gate.vault().record(first.id).unwrap().is_none());
    let (fourth, body) = desk.turn("four");
    assert_eq!((fourth.replayed_spans, fourth.documents[0].span), (vec![third.id], Some(third.id)));
    assert_eq!(body.matches("CANARY-INSTRUCTION").count(), 1);
}

#[test]
fn a_rotation_changes_no_rule_and_other_processes_follow_it() {
    let mut desk = Desk::new();
    let old = remember(&mut desk, RULE);
    desk.turn("one");
    // Another process rotates the key and confirms a rule, signed with the new one.
    let mut other = desk.open().unwrap();
    other.vault().rotate_key().unwrap();
    let mut other = Desk { gate: desk.open().unwrap(), ..Desk::new() };
    let new = remember(&mut other, "Write British English.");
    let (second, body) = desk.turn("two");
    let ids: Vec<_> = second.must_remember.iter().map(|entry| (&entry.id, entry.state)).collect();
    let mut expected = [(&old, Delivery::Replayed), (&new, Delivery::Injected)];
    expected.sort_by_key(|(id, _)| *id);
    assert_eq!(ids, expected);
    assert!(body.contains("British"));
    desk.gate = Gate::open(desk.home.dir.clone(), desk.home.seams.clone()).unwrap();
    assert_eq!(desk.turn("three").0.must_remember.len(), 2);
}
