//! An operation with a projection: every way a call can go wrong ends in exactly one outcome.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod support;

use agentspine_memory::{
    Cleanup, Forgotten, IndexState, Key, Ledger, Name, NewMemory, Predicate, Projecting, Reconciled, Related,
    Relation, RememberError, Settled, State,
};
use support::shelf::{Call, Shelf, Wrong};
use support::{House, id, memory, on_disk, scope};

const NOW: i64 = 1_700_000_000_000;

/// A house whose memories are projected.
fn projected() -> (House, Shelf) {
    let mut house = House::new();
    house.ledger.project(Projecting::On);
    let shelf = Shelf::new(house.dir.path(), NOW);
    (house, shelf)
}

fn related(title: &str, relations: Vec<Relation>) -> NewMemory {
    NewMemory { relations, ..memory(title, "The proxy listens on 8080.") }
}

fn to_session() -> Relation {
    Relation { predicate: Predicate::DerivedFrom, object: Related::Session(id("session:1")) }
}

/// Reconciles at the time after a pause.
fn reconcile(shelf: &Shelf, ledger: &mut Ledger, pause_ms: i64) -> Reconciled {
    shelf.now_ms.set(shelf.now_ms.get() + pause_ms);
    ledger.reconcile(Some(shelf), shelf.now_ms.get()).unwrap()
}

fn remember(house: &mut House, new: &NewMemory) -> agentspine_gate::Id {
    house.ledger.remember(new, &scope()).unwrap().memory_id
}

fn open(remaining: u64) -> Reconciled {
    Reconciled { checked: 1, unresolved: 1, remaining, ..Reconciled::default() }
}

fn states(house: &House) -> (Vec<String>, Vec<String>) {
    let status = house.ledger.status().unwrap();
    (status.operations.into_keys().collect(), status.records.into_keys().collect())
}

#[test]
fn a_memory_is_recalled_once_its_projection_was_read_back() {
    let (mut house, shelf) = projected();
    let new = related("port", vec![to_session()]);
    let remembered = house.ledger.remember(&new, &scope()).unwrap();
    assert_eq!(remembered.settled, Settled::Uncertain);
    assert_eq!(house.recall("proxy port?"), Vec::<String>::new());
    assert_eq!(house.ledger.next_due(), Ok(Some(NOW)));
    let expected = Reconciled { checked: 1, applied: 1, ..Reconciled::default() };
    assert_eq!(reconcile(&shelf, &mut house.ledger, 0), expected);
    assert_eq!(house.recall("proxy port?"), ["port"]);
    let (name, session) =
        (Name::memory(&scope(), &remembered.memory_id), Name::session(&scope(), &id("session:1")));
    assert_eq!(shelf.keys(), [format!("({name}, derived-from, {session})"), name.to_string()]);
    assert_eq!(house.ledger.next_due(), Ok(None));
    assert_eq!(house.ledger.remember(&new, &scope()).unwrap().settled, Settled::Replayed);
    assert_eq!(house.ledger.status().unwrap().index, IndexState::Ok);
}

#[test]
fn a_failure_before_dispatch_is_retried_after_1_5_and_30_seconds_and_then_a_dead_letter() {
    let (mut house, shelf) = projected();
    let new = memory("port", "The proxy listens on 8080.");
    remember(&mut house, &new);
    shelf.fail(|_, _| Some(Wrong::Unreached));
    let mut due = Vec::new();
    for pause in [0, 1000, 5000] {
        assert_eq!(reconcile(&shelf, &mut house.ledger, pause), open(1));
        // Not a moment too early.
        due.push(house.ledger.next_due().unwrap().unwrap() - shelf.now_ms.get());
        let early = house.ledger.next_due().unwrap().unwrap() - 1;
        assert_eq!(house.ledger.reconcile(Some(&shelf), early).unwrap().checked, 0);
    }
    assert_eq!(due, [1000, 5000, 30_000]);
    assert_eq!(states(&house), (vec!["pending".to_owned()], vec!["pending".to_owned()]));
    assert_eq!(reconcile(&shelf, &mut house.ledger, 30_000), open(0));
    assert_eq!(states(&house), (vec!["failed".to_owned()], vec!["failed".to_owned()]));
    let status = house.ledger.status().unwrap();
    assert_eq!((status.dead_letters, status.index, status.next_due_ms), (1, IndexState::Degraded, None));
    shelf.heal();
    assert_eq!(house.ledger.revive(shelf.now_ms.get()), Ok(1));
    assert_eq!(reconcile(&shelf, &mut house.ledger, 0).applied, 1);
    assert_eq!(house.recall("proxy port?"), ["port"]);
}

#[test]
fn repeating_a_failed_operation_tries_it_again_and_makes_no_second_record() {
    let (mut house, shelf) = projected();
    let new = memory("port", "The proxy listens on 8080.");
    let first = remember(&mut house, &new);
    shelf.fail(|_, _| Some(Wrong::Unreached));
    for pause in [0, 1000, 5000, 30_000] {
        reconcile(&shelf, &mut house.ledger, pause);
    }
    shelf.heal();
    let again = house.ledger.remember(&new, &scope()).unwrap();
    assert_eq!((again.settled, again.memory_id), (Settled::Uncertain, first));
    reconcile(&shelf, &mut house.ledger, 0);
    assert_eq!((shelf.keys().len(), house.recall("proxy port?").len()), (1, 1));
    assert_eq!(house.ledger.status().unwrap().dead_letters, 0);
}

#[test]
fn a_write_whose_answer_is_lost_is_settled_by_an_exact_read_and_not_written_again() {
    let (mut house, shelf) = projected();
    remember(&mut house, &memory("port", "The proxy listens on 8080."));
    // The write lands, its answer and the read-back are lost.
    let mut written = false;
    shelf.fail(move |call, _| {
        written |= call == Call::Write;
        written.then_some(Wrong::AnswerLost)
    });
    assert_eq!(reconcile(&shelf, &mut house.ledger, 0), open(1));
    assert_eq!(states(&house), (vec!["uncertain".to_owned()], vec!["uncertain".to_owned()]));
    assert_eq!(house.ledger.status().unwrap().index, IndexState::Uncertain);
    assert_eq!(house.recall("proxy port?"), Vec::<String>::new());
    shelf.heal();
    shelf.calls.borrow_mut().clear();
    assert_eq!(reconcile(&shelf, &mut house.ledger, 1000).applied, 1);
    assert_eq!(*shelf.calls.borrow(), [Call::Read]);
    assert_eq!(house.recall("proxy port?"), ["port"]);
}

#[test]
fn a_write_that_was_acknowledged_and_did_not_happen_is_no_receipt() {
    let (mut house, shelf) = projected();
    remember(&mut house, &memory("port", "The proxy listens on 8080."));
    shelf.fail(|call, _| (call == Call::Write).then_some(Wrong::Lies));
    assert_eq!(reconcile(&shelf, &mut house.ledger, 0), open(1));
    assert_eq!(house.recall("proxy port?"), Vec::<String>::new());
    shelf.heal();
    assert_eq!(reconcile(&shelf, &mut house.ledger, 1000).applied, 1);
}

#[test]
fn an_uncertain_operation_that_never_clears_up_stays_uncertain_as_a_dead_letter() {
    let (mut house, shelf) = projected();
    remember(&mut house, &memory("port", "The proxy listens on 8080."));
    shelf.fail(|call, _| (call == Call::Write).then_some(Wrong::Dropped));
    for pause in [0, 1000, 5000, 30_000] {
        reconcile(&shelf, &mut house.ledger, pause);
    }
    assert_eq!(states(&house), (vec!["uncertain".to_owned()], vec!["uncertain".to_owned()]));
    assert_eq!(house.ledger.status().unwrap().dead_letters, 1);
}

#[test]
fn another_payload_under_our_name_is_a_conflict_that_nobody_overwrites_or_removes() {
    let (mut house, shelf) = projected();
    let new = memory("port", "The proxy listens on 8080.");
    let memory = remember(&mut house, &new);
    let key = Key::Record(Name::memory(&scope(), &memory));
    shelf.squat(&key, "somebody else's");
    let expected = Reconciled { checked: 1, conflicts: 1, ..Reconciled::default() };
    assert_eq!(reconcile(&shelf, &mut house.ledger, 0), expected);
    assert_eq!(house.recall("proxy port?"), Vec::<String>::new());
    assert_eq!(house.ledger.remember(&new, &scope()), Err(RememberError::Conflict));
    assert_eq!(shelf.contents(), [format!("{} = somebody else's", support::shelf::text(&key))]);
    // Nothing was ever written by us, so nothing of ours stands outside.
    let done = Forgotten::Now(Cleanup::ActiveShelfCleanupComplete);
    assert_eq!(house.ledger.forget(&scope(), &memory, NOW), Ok(done));
    assert_eq!(shelf.contents().len(), 1);
}

#[test]
fn uncertain_and_failed_relations_are_retried_apart_and_keep_nothing_else_back() {
    let (mut house, shelf) = projected();
    let other = remember(&mut house, &memory("anchor", "The anchor is raised after the commit."));
    let supersedes = Relation { predicate: Predicate::Supersedes, object: Related::Memory(other) };
    remember(&mut house, &related("port", vec![to_session(), supersedes]));
    shelf.fail(|call, key| match key {
        Key::Relation(triple) if triple.predicate == Predicate::DerivedFrom && call == Call::Write => {
            Some(Wrong::Dropped)
        }
        _ => None,
    });
    let expected =
        Reconciled { checked: 2, applied: 1, unresolved: 1, remaining: 1, ..Reconciled::default() };
    assert_eq!(reconcile(&shelf, &mut house.ledger, 0), expected);
    assert_eq!((house.recall("proxy port?"), shelf.keys().len()), (vec!["port".to_owned()], 3));
    shelf.heal();
    assert_eq!(reconcile(&shelf, &mut house.ledger, 1000).applied, 1);
    assert_eq!(shelf.keys().len(), 4);
}

#[test]
fn a_relation_needs_a_memory_of_the_same_scope_that_was_not_forgotten() {
    let (mut house, _) = projected();
    let elsewhere = agentspine_memory::MemoryScope { user_id: id("somebody"), ..scope() };
    let theirs = house.ledger.remember(&memory("theirs", "text"), &elsewhere).unwrap().memory_id;
    let gone = remember(&mut house, &memory("gone", "text"));
    house.ledger.forget(&scope(), &gone, NOW).unwrap();
    for object in [theirs, gone, id("memory:unknown")] {
        let relation = Relation { predicate: Predicate::RelatesTo, object: Related::Memory(object) };
        let refused = house.ledger.remember(&related("port", vec![relation]), &scope());
        assert_eq!(refused, Err(RememberError::Unrelated));
    }
    let nine = house.ledger.remember(&related("port", vec![to_session(); 9]), &scope());
    assert_eq!(nine, Err(RememberError::TooLong { field: "list of relations", limit: 8, unit: "relations" }));
}

#[test]
fn forgetting_removes_relations_then_the_record_and_verifies_both() {
    let (mut house, shelf) = projected();
    let target = remember(&mut house, &memory("quokkaword", "The anchor is raised after the commit."));
    let from = Relation { predicate: Predicate::DependsOn, object: Related::Memory(target.clone()) };
    remember(&mut house, &related("port", vec![from]));
    reconcile(&shelf, &mut house.ledger, 0);
    assert_eq!(shelf.keys().len(), 3);
    assert_eq!(house.ledger.forget(&scope(), &target, NOW), Ok(Forgotten::Now(Cleanup::CleanupPending)));
    assert!(!on_disk(house.dir.path(), "quokkaword"));
    shelf.calls.borrow_mut().clear();
    let expected = Reconciled { checked: 1, cleanups: 1, ..Reconciled::default() };
    assert_eq!(reconcile(&shelf, &mut house.ledger, 0), expected);
    let (read, remove) = (Call::Read, Call::Remove);
    assert_eq!(*shelf.calls.borrow(), [read, remove, read, read, remove, read]);
    assert_eq!(shelf.keys().len(), 1);
    let before = Forgotten::Before(Cleanup::ActiveShelfCleanupComplete);
    assert_eq!(house.ledger.forget(&scope(), &target, NOW), Ok(before));
}

#[test]
fn an_external_delete_that_fails_is_retried_counted_and_in_the_end_uncertain() {
    let (mut house, shelf) = projected();
    let memory = remember(&mut house, &memory("port", "The proxy listens on 8080."));
    reconcile(&shelf, &mut house.ledger, 0);
    shelf.fail(|call, _| (call == Call::Remove).then_some(Wrong::Lies));
    assert_eq!(house.ledger.forget(&scope(), &memory, NOW), Ok(Forgotten::Now(Cleanup::CleanupPending)));
    for pause in [0, 1000, 5000] {
        assert_eq!(reconcile(&shelf, &mut house.ledger, pause), open(1));
        let counted = house.ledger.status().unwrap();
        assert_eq!((counted.cleanups.get("cleanup-pending"), counted.retry), (Some(&1), 1));
    }
    assert_eq!(reconcile(&shelf, &mut house.ledger, 30_000), open(0));
    let before = |house: &mut House| house.ledger.forget(&scope(), &memory, NOW).unwrap();
    assert_eq!(before(&mut house), Forgotten::Before(Cleanup::CleanupUncertain));
    shelf.heal();
    house.ledger.revive(shelf.now_ms.get()).unwrap();
    assert_eq!(reconcile(&shelf, &mut house.ledger, 0).cleanups, 1);
    assert_eq!(before(&mut house), Forgotten::Before(Cleanup::ActiveShelfCleanupComplete));
    assert_eq!(shelf.keys(), Vec::<String>::new());
}

#[test]
fn what_somebody_else_wrote_over_our_record_is_left_alone_and_the_cleanup_uncertain() {
    let (mut house, shelf) = projected();
    let memory = remember(&mut house, &memory("port", "The proxy listens on 8080."));
    reconcile(&shelf, &mut house.ledger, 0);
    shelf.squat(&Key::Record(Name::memory(&scope(), &memory)), "edited by hand");
    house.ledger.forget(&scope(), &memory, NOW).unwrap();
    assert_eq!(reconcile(&shelf, &mut house.ledger, 0).cleanups, 1);
    let before = Forgotten::Before(Cleanup::CleanupUncertain);
    assert_eq!(house.ledger.forget(&scope(), &memory, NOW), Ok(before));
    assert_eq!(shelf.keys().len(), 1);
}

#[test]
fn without_a_projection_what_stands_outside_is_unknown_until_there_is_one_again() {
    let (mut house, shelf) = projected();
    let memory = remember(&mut house, &memory("port", "The proxy listens on 8080."));
    reconcile(&shelf, &mut house.ledger, 0);
    house.ledger.forget(&scope(), &memory, NOW).unwrap();
    assert_eq!(house.ledger.reconcile(None, NOW).unwrap().cleanups, 1);
    let before = |house: &mut House| house.ledger.forget(&scope(), &memory, NOW).unwrap();
    assert_eq!(before(&mut house), Forgotten::Before(Cleanup::ExternalRetentionUnknown));
    assert_eq!(reconcile(&shelf, &mut house.ledger, 0).cleanups, 1);
    assert_eq!(before(&mut house), Forgotten::Before(Cleanup::ActiveShelfCleanupComplete));
}

#[test]
fn without_a_projection_what_waits_is_applied_here() {
    let (mut house, _) = projected();
    remember(&mut house, &related("port", vec![to_session()]));
    let expected = Reconciled { checked: 1, applied: 1, ..Reconciled::default() };
    assert_eq!(house.ledger.reconcile(None, NOW), Ok(expected));
    assert_eq!(house.recall("proxy port?"), ["port"]);
    assert_eq!(house.ledger.status().unwrap().index, IndexState::Ok);
}

#[test]
fn one_memory_is_settled_at_once_by_the_host_that_remembered_it() {
    let (mut house, shelf) = projected();
    let memory = remember(&mut house, &memory("port", "The proxy listens on 8080."));
    assert_eq!(house.ledger.settle(&memory, &shelf), Ok(Some(State::Applied)));
    assert_eq!(house.recall("proxy port?"), ["port"]);
    assert_eq!(house.ledger.settle(&memory, &shelf), Ok(Some(State::Applied)));
}

#[test]
fn two_hosts_never_work_on_the_same_memory_and_a_dead_hosts_claim_ends() {
    let (mut house, shelf) = projected();
    remember(&mut house, &memory("port", "The proxy listens on 8080."));
    let path = house.path();
    let other = std::rc::Rc::new(std::cell::RefCell::new(Ledger::open(&path).unwrap()));
    let seen = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
    let (host, checked) = (other.clone(), seen.clone());
    // In the middle of every call another host reconciles too.
    *shelf.place.borrow_mut() = Box::new(move |_| {
        let inner = Shelf::new(path.parent().unwrap(), NOW);
        checked.borrow_mut().push(host.borrow_mut().reconcile(Some(&inner), NOW).unwrap().checked);
    });
    assert_eq!(reconcile(&shelf, &mut house.ledger, 0).applied, 1);
    assert_eq!(*seen.borrow(), [0; 6]);
    assert_eq!(shelf.keys().len(), 1);
}

#[test]
fn a_memory_forgotten_in_the_middle_of_its_projection_leaves_nothing_outside() {
    for at in 1..=6 {
        let (mut house, shelf) = projected();
        let memory = remember(&mut house, &memory("quokkaword", "The proxy listens on 8080."));
        let (path, forgotten) = (house.path(), memory.clone());
        *shelf.place.borrow_mut() = Box::new(move |place| {
            if place == at {
                let mut host = Ledger::open(&path).unwrap();
                assert!(matches!(host.forget(&scope(), &forgotten, NOW), Ok(Forgotten::Now(_))));
                // It may not clean up under the hands of the one that writes.
                let inner = Shelf::new(path.parent().unwrap(), NOW);
                host.reconcile(Some(&inner), NOW).unwrap();
            }
        });
        reconcile(&shelf, &mut house.ledger, 0);
        *shelf.place.borrow_mut() = Box::new(|_| ());
        reconcile(&shelf, &mut house.ledger, 60_000);
        assert_eq!(shelf.contents(), Vec::<String>::new(), "place {at}");
        assert_eq!(house.recall("proxy quokkaword"), Vec::<String>::new());
        assert!(!on_disk(house.dir.path(), "quokkaword"), "place {at}");
        let before = Forgotten::Before(Cleanup::ActiveShelfCleanupComplete);
        assert_eq!(house.ledger.forget(&scope(), &memory, NOW), Ok(before), "place {at}");
    }
}

#[test]
fn a_clock_that_was_set_back_holds_no_work_up() {
    let (mut house, shelf) = projected();
    remember(&mut house, &memory("port", "The proxy listens on 8080."));
    shelf.fail(|_, _| Some(Wrong::Unreached));
    reconcile(&shelf, &mut house.ledger, 0);
    shelf.heal();
    assert_eq!(reconcile(&shelf, &mut house.ledger, -86_400_000).applied, 1);
}

#[test]
fn a_reconcile_looks_at_100_memories_and_says_what_is_left() {
    let (mut house, shelf) = projected();
    for n in 0..120 {
        remember(&mut house, &memory(&format!("port {n}"), "The proxy listens."));
    }
    let first =
        Reconciled { checked: 100, applied: 100, remaining: 20, truncated: true, ..Reconciled::default() };
    assert_eq!(reconcile(&shelf, &mut house.ledger, 0), first);
    let second = Reconciled { checked: 20, applied: 20, ..Reconciled::default() };
    assert_eq!(reconcile(&shelf, &mut house.ledger, 0), second);
}
