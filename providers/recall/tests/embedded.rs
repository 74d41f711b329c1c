//! `ledger/v1`: the memory ledger as a provider.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod support;

use std::sync::{Arc, Mutex};

use agentspine_gate::Detail;
use agentspine_gate::policy::Adapter;
use agentspine_gate::recall::{Outcome, Planned, Validity};
use agentspine_memory::{Kind, Ledger, MemoryScope, NewMemory, Origin, Provenance, Trust};
use agentspine_recall::{Providers, cancellation};
use support::{Hold, PATIENT_MS, SHORT_MS, answer, failure, id, marker, planned, providers, runtime};

fn house(memories: &[(&str, &str, &str)]) -> (tempfile::TempDir, Providers) {
    let dir = tempfile::tempdir().unwrap();
    let mut ledger = Ledger::open(&dir.path().join("memory.sqlite")).unwrap();
    for (number, (project, title, summary)) in memories.iter().enumerate() {
        let scope = MemoryScope {
            tenant_id: id("t"),
            user_id: id("u"),
            project_id: Some(id(project)),
            group_id: None,
        };
        let seq = u64::try_from(number).unwrap();
        let memory = NewMemory {
            kind: Kind::Decision,
            title: (*title).to_owned(),
            summary: (*summary).to_owned(),
            tags: Vec::new(),
            subject: None,
            trust: Trust::Explicit,
            origin: Origin {
                source: id("session:1"),
                from_seq: seq,
                through_seq: seq,
                range_key: String::new(),
                extractor: id("memory-tool/v1"),
            },
            created_at_ms: 0,
            provenance: Provenance::default(),
            relations: Vec::new(),
        };
        ledger.remember(&memory, &scope).unwrap();
    }
    let providers =
        Providers { ledger: Some(Arc::new(Mutex::new(ledger))), ..providers(dir.path(), Hold::Namespace) };
    (dir, providers)
}

fn question(prompt: &str, deadline_ms: u64) -> Planned {
    let mut plan = planned("unused", "unused", deadline_ms);
    plan.provider.id = id("ledger");
    plan.provider.adapter = Adapter::LedgerV1;
    prompt.clone_into(&mut plan.prompt);
    plan
}

fn ask(providers: &Providers, plans: Vec<Planned>) -> Vec<Outcome> {
    let (_canceller, cancelled) = cancellation();
    runtime().block_on(agentspine_recall::run(plans, providers, cancelled))
}

#[test]
fn a_prompt_recalls_memories_of_its_own_project_with_id_source_and_reason() {
    let (_dir, providers) = house(&[
        ("project:p", "receipts", "Receipts expire after 60 seconds."),
        ("project:other", "receipts", "Receipts expire after 90 seconds."),
    ]);
    let outcome = ask(&providers, vec![question("When do receipts expire?", PATIENT_MS)]).remove(0);
    assert_eq!(outcome.provider_id, id("ledger"));
    let answer = answer(&outcome);
    assert_eq!(answer.items.len(), 1);
    let item = &answer.items[0];
    assert_eq!(item.claim, "receipts: Receipts expire after 60 seconds.");
    assert_eq!((item.source.as_str(), item.revision.as_str()), ("session:1", "1"));
    assert_eq!(item.why_loaded, "matches: receipts, expire");
    assert_eq!(item.validity, Validity::Current);
    assert!(item.id.as_str().starts_with("memory:") && item.confidence > 0.35 && item.confidence <= 1.0);
}

#[test]
fn a_prompt_that_matches_nothing_is_a_verified_success() {
    let (_dir, providers) = house(&[("project:p", "receipts", "Receipts expire after 60 seconds.")]);
    let outcome = ask(&providers, vec![question("write a haiku about autumn", PATIENT_MS)]).remove(0);
    assert_eq!(answer(&outcome).items.len(), 0);
}

#[test]
fn a_claim_fits_its_limit_whatever_the_memory_holds() {
    let long = "für Receipts gilt: ".repeat(200);
    let (_dir, providers) = house(&[("project:p", &"t".repeat(200), &long)]);
    let outcome = ask(&providers, vec![question("receipts", PATIENT_MS)]).remove(0);
    let answer = answer(&outcome);
    assert!(answer.items[0].claim.len() <= 4096 && answer.items[0].claim.ends_with('…'));
}

#[test]
fn a_ledger_that_could_not_be_opened_is_a_failure_not_an_empty_answer() {
    let dir = tempfile::tempdir().unwrap();
    let providers = providers(dir.path(), Hold::Namespace);
    let outcome = ask(&providers, vec![question("receipts", PATIENT_MS)]).remove(0);
    assert_eq!(failure(&outcome).detail, Detail::Missing);
}

#[test]
fn a_ledger_that_is_busy_ends_at_the_deadline_or_at_the_cancellation() {
    let (_dir, providers) = house(&[]);
    let ledger = providers.ledger.clone().unwrap();
    let busy = ledger.lock().unwrap();
    let runtime = runtime();
    let (_canceller, cancelled) = cancellation();
    let plans = vec![question("receipts", SHORT_MS)];
    let outcomes = runtime.block_on(agentspine_recall::run(plans, &providers, cancelled));
    assert_eq!(failure(&outcomes[0]).detail, Detail::Timeout);
    let (switch, cancelled) = cancellation();
    switch.cancel();
    let plans = vec![question("receipts", PATIENT_MS)];
    let outcomes = runtime.block_on(agentspine_recall::run(plans, &providers, cancelled));
    assert_eq!(failure(&outcomes[0]).detail, Detail::Cancelled);
    drop(busy);
}

#[test]
fn a_hanging_command_does_not_hold_up_the_ledger() {
    let (_dir, providers) = house(&[("project:p", "receipts", "Receipts expire after 60 seconds.")]);
    let marker = marker();
    let plans = vec![planned("hang", &marker, SHORT_MS), question("When do receipts expire?", PATIENT_MS)];
    let outcomes = ask(&providers, plans);
    assert_eq!(failure(&outcomes[0]).detail, Detail::Timeout);
    assert_eq!(answer(&outcomes[1]).items.len(), 1);
    assert_eq!(support::survivors(&marker), Vec::<String>::new());
}

#[test]
fn recall_that_is_switched_off_is_empty_where_it_is_optional_and_fails_where_it_is_required() {
    let (_dir, mut providers) = house(&[("project:p", "receipts", "Receipts expire after 60 seconds.")]);
    providers.recall = agentspine_recall::Recall::Off;
    let mut asked = question("When do receipts expire?", PATIENT_MS);
    asked.provider.required = false;
    assert_eq!(answer(&ask(&providers, vec![asked.clone()]).remove(0)).items.len(), 0);
    asked.provider.required = true;
    let outcome = ask(&providers, vec![asked]).remove(0);
    assert_eq!(failure(&outcome).detail, Detail::NotInvoked);
}
