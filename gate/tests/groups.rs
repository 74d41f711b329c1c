//! Calls that are issued and spent together: one commit and one anchor for all, and still a receipt of its own for each.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::collections::HashSet;
use std::sync::{Arc, Barrier};

use agentspine_gate::journal::ReceiptState;
use agentspine_gate::receipt::{Prepared, Receipt};
use agentspine_gate::turn::TurnRequest;
use agentspine_gate::{CallOutcome, Composed, Detail, Field, Gate, ReceiptId, Refusal, admit};
use common::desk::Desk;
use common::id;

/// Calls of a group as they are before they are spent.
struct Group {
    requests: Vec<TurnRequest>,
    composed: Vec<Composed>,
    receipts: Vec<Receipt<Prepared>>,
}

impl Group {
    fn issue(desk: &mut Desk, requests: Vec<TurnRequest>, outcomes: &[(ReceiptId, CallOutcome)]) -> Self {
        let composed: Vec<_> = requests.iter().map(|request| desk.compose(request).unwrap()).collect();
        let issued = desk.gate.issue_all(&composed.iter().collect::<Vec<_>>(), &mut outcomes.to_vec());
        Self { requests, composed, receipts: issued.into_iter().map(Result::unwrap).collect() }
    }

    fn of(desk: &mut Desk, calls: usize) -> Self {
        let requests = (0..calls).map(|n| desk.request(&format!("prompt {n}"))).collect();
        Self::issue(desk, requests, &[])
    }

    fn ids(&self) -> Vec<ReceiptId> {
        self.receipts.iter().map(Receipt::id).collect()
    }

    /// Spends all of them and admits their bodies; what came of each.
    fn spend(self, gate: &mut Gate) -> Vec<Result<ReceiptId, Detail>> {
        let Self { requests, composed, receipts } = self;
        let offers = receipts.into_iter().zip(composed.iter().zip(&requests));
        let offers = offers.map(|(receipt, (composed, request))| (receipt, composed, request)).collect();
        let consumed = gate.consume_all(offers);
        let admitted = consumed.into_iter().zip(composed).map(|(receipt, composed)| {
            receipt.and_then(|receipt| admit(receipt, composed)).map(|admitted| admitted.receipt())
        });
        admitted.map(|done| done.map_err(|refusal: Refusal| refusal.detail)).collect()
    }
}

fn states(gate: &mut Gate, ids: &[ReceiptId]) -> Vec<ReceiptState> {
    ids.iter().map(|id| gate.vault().record(*id).unwrap().unwrap().state).collect()
}

#[test]
fn calls_that_are_spent_together_have_a_consumed_row_each_and_one_anchor() {
    let mut desk = Desk::new();
    let group = Group::of(&mut desk, 8);
    let ids = group.ids();
    assert_eq!(group.spend(&mut desk.gate), ids.iter().map(|id| Ok(*id)).collect::<Vec<_>>());
    let report = desk.gate.vault().verify_chain().unwrap();
    assert!(report.ok, "{report:?}");
    assert_eq!((report.rows, report.consumed, report.head_seq, report.anchored_seq), (16, 8, 16, 16));
    let rows: HashSet<u64> =
        ids.iter().map(|id| desk.gate.vault().record(*id).unwrap().unwrap().consumed.unwrap().seq).collect();
    assert_eq!(rows.len(), 8);
}

/// A call whose receipt would be longer than any may be.
fn endless(desk: &mut Desk, request: &TurnRequest) -> Composed {
    let plan = desk.plan(request).unwrap();
    let outcomes = plan.queries().iter().map(|planned| {
        // Nearly all of them are left out, and a receipt names what is left out.
        let many =
            (0..6000).map(|n| common::desk::item(&format!("{n}-{}", "x".repeat(200)), &format!("claim {n}")));
        common::desk::empty(planned, &many.collect::<Vec<_>>())
    });
    let (outcomes, draft) = (outcomes.collect::<Vec<_>>(), desk.draft(&request.prompt));
    desk.gate.compose(plan, &outcomes, &draft, &desk.spans).unwrap()
}

#[test]
fn a_call_that_cannot_be_issued_fails_no_other_of_its_group_and_no_outcome_is_lost() {
    let mut desk = Desk::new();
    let (earlier, _) = desk.turn("earlier");
    let requests = [desk.request("one"), desk.request("endless"), desk.request("three")];
    let composed = [
        desk.compose(&requests[0]).unwrap(),
        endless(&mut desk, &requests[1]),
        desk.compose(&requests[2]).unwrap(),
    ];
    let mut outcomes = vec![(earlier.id, CallOutcome::Answered)];
    let issued = desk.gate.issue_all(&composed.iter().collect::<Vec<_>>(), &mut outcomes);
    let issued: Vec<_> =
        issued.into_iter().map(|issued| issued.map(drop).map_err(|why| why.detail)).collect();
    assert_eq!(issued, [Ok(()), Err(Detail::JournalIo), Ok(())]);
    assert!(outcomes.is_empty());
    let kept = desk.gate.vault().record(earlier.id).unwrap().unwrap().outcome;
    assert_eq!(kept.unwrap().body["outcome"], "answered");
}

#[test]
fn outcomes_that_could_not_be_written_with_a_group_are_given_back() {
    let mut desk = Desk::new();
    let (earlier, _) = desk.turn("earlier");
    let request = desk.request("one");
    let composed = desk.compose(&request).unwrap();
    std::fs::remove_file(desk.home.dir.journal()).unwrap();
    let mut outcomes = vec![(earlier.id, CallOutcome::Answered)];
    assert!(desk.gate.issue_all(&[&composed], &mut outcomes)[0].is_err());
    assert_eq!(outcomes, [(earlier.id, CallOutcome::Answered)]);
}

#[test]
fn a_call_that_is_refused_fails_no_other_of_its_group_and_leaves_nothing_spent() {
    let mut desk = Desk::new();
    let mut group = Group::of(&mut desk, 5);
    let ids = group.ids();
    group.requests[1].prompt = "another prompt".to_owned();
    group.requests[2].delivery_id = id("another-delivery");
    // Given up before it is spent.
    let body = serde_json::json!({ "reason": "cancelled" });
    desk.gate.vault().append(agentspine_gate::journal::RowKind::Void, Some(ids[3]), &body).unwrap();
    assert_eq!(
        group.spend(&mut desk.gate),
        [
            Ok(ids[0]),
            Err(Detail::Mismatch(Field::Prompt)),
            Err(Detail::Mismatch(Field::Delivery)),
            Err(Detail::Expired),
            Ok(ids[4])
        ]
    );
    let (spent, refused) = (ReceiptState::SpentOutcomeUnknown, ReceiptState::Refused);
    let expected = [spent, refused, refused, refused, spent];
    assert_eq!(states(&mut desk.gate, &ids), expected);
    let report = desk.gate.vault().verify_chain().unwrap();
    assert_eq!((report.ok, report.consumed), (true, 2));
}

#[test]
fn one_delivery_is_spent_once_within_a_group_too() {
    let mut desk = Desk::new();
    let request = desk.request("hello");
    let group = Group::issue(&mut desk, vec![request.clone(), request.clone(), request], &[]);
    let first = group.ids()[0];
    assert_eq!(group.spend(&mut desk.gate), [Ok(first), Err(Detail::Replay), Err(Detail::Replay)]);
    let report = desk.gate.vault().verify_chain().unwrap();
    assert_eq!((report.ok, report.consumed), (true, 1));
}

#[test]
fn a_file_that_changes_after_a_group_was_issued_refuses_every_call_of_it() {
    let mut desk = Desk::new();
    let group = Group::of(&mut desk, 3);
    let ids = group.ids();
    desk.write("CLAUDE.local.md", "A new rule.\n");
    assert_eq!(group.spend(&mut desk.gate), [Err(Detail::Changed); 3]);
    assert_eq!(states(&mut desk.gate, &ids), [ReceiptState::Refused; 3]);
    assert!(Group::of(&mut desk, 1).spend(&mut desk.gate)[0].is_ok());
}

#[test]
fn a_crash_between_the_commit_of_a_group_and_its_anchor_leaves_every_receipt_spent() {
    let mut desk = Desk::new();
    let [first, second, third] = ["one", "two", "three"].map(|prompt| desk.request(prompt));
    let before = desk.home.read("anchor");
    let group = Group::issue(&mut desk, vec![first.clone(), second], &[]);
    let ids = group.ids();
    assert!(group.spend(&mut desk.gate).iter().all(Result::is_ok));
    // As the disk is where the process dies after the commit: the anchor is the one before.
    desk.home.write("anchor", &before);
    desk.gate = desk.open().unwrap();
    assert_eq!(states(&mut desk.gate, &ids), [ReceiptState::SpentOutcomeUnknown; 2]);
    let again = Group::issue(&mut desk, vec![first, third], &[]);
    let third = again.ids()[1];
    assert_eq!(again.spend(&mut desk.gate), [Err(Detail::Replay), Ok(third)]);
    let report = desk.gate.vault().verify_chain().unwrap();
    assert_eq!((report.ok, report.consumed), (true, 3));
}

#[test]
fn a_journal_that_was_taken_away_refuses_the_whole_group() {
    let mut desk = Desk::new();
    let group = Group::of(&mut desk, 3);
    desk.home.remove("journal.sqlite");
    assert_eq!(group.spend(&mut desk.gate), [Err(Detail::JournalMissing); 3]);
}

#[test]
fn an_anchor_that_was_taken_away_admits_none_of_the_group() {
    let mut desk = Desk::new();
    let group = Group::of(&mut desk, 3);
    desk.home.remove("anchor");
    assert_eq!(group.spend(&mut desk.gate), [Err(Detail::JournalMissing); 3]);
}

#[test]
fn the_outcomes_of_earlier_calls_are_written_down_with_the_next_group() {
    let mut desk = Desk::new();
    let group = Group::of(&mut desk, 2);
    let ids = group.ids();
    assert!(group.spend(&mut desk.gate).iter().all(Result::is_ok));
    let outcomes = [(ids[0], CallOutcome::Answered), (ids[1], CallOutcome::Failed(529))];
    let requests = vec![desk.request("next")];
    let next = Group::issue(&mut desk, requests, &outcomes);
    assert_eq!(states(&mut desk.gate, &ids), [ReceiptState::Consumed; 2]);
    assert!(next.spend(&mut desk.gate)[0].is_ok());
    assert!(desk.gate.vault().verify_chain().unwrap().ok);
}

#[test]
fn groups_of_several_processes_at_one_state_spend_every_receipt_once() {
    const PROCESSES: usize = 4;
    const GROUPS: usize = 8;
    const CALLS: usize = 6;
    let desk = Desk::new();
    let start = Arc::new(Barrier::new(PROCESSES));
    let spent: Vec<ReceiptId> = std::thread::scope(|scope| {
        let work = |process: usize| {
            let (mut gate, start) = (desk.open().unwrap(), Arc::clone(&start));
            let mut mine = Desk { gate: desk.open().unwrap(), ..Desk::new() };
            mine.project.clone_from(&desk.project);
            mine.next = u32::try_from(process * 1000).unwrap();
            move || {
                start.wait();
                let mut spent = Vec::new();
                for _ in 0..GROUPS {
                    let group = Group::of(&mut mine, CALLS);
                    let done = group.spend(&mut gate);
                    spent.extend(done.into_iter().map(Result::unwrap));
                }
                spent
            }
        };
        let running: Vec<_> = (0..PROCESSES).map(|process| scope.spawn(work(process))).collect();
        running.into_iter().flat_map(|process| process.join().unwrap()).collect()
    });
    let total = PROCESSES * GROUPS * CALLS;
    assert_eq!(spent.iter().collect::<HashSet<_>>().len(), total);
    let report = desk.open().unwrap().vault().verify_chain().unwrap();
    assert!(report.ok, "{report:?}");
    assert_eq!((report.consumed, report.anchored_seq), (total as u64, report.head_seq));
}
