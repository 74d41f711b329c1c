//! Killed hosts: whatever step of an operation a `kill -9` meets, reconcile comes to exactly one outcome.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod support;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use agentspine_gate::Id;
use agentspine_memory::retry::CLAIM_MS;
use agentspine_memory::{
    Cleanup, Forgotten, IndexState, Ledger, NewMemory, Predicate, Projecting, Related, Relation, Settled,
};
use support::shelf::{Call, Shelf};
use support::{House, id, memory, on_disk, scope};

const NOW: i64 = 1_700_000_000_000;
/// After the claim of a killed host has ended.
const LATER: i64 = NOW + CLAIM_MS + 1;

/// A word of the memory, as it stands in the records and in the index.
const CANARY: &str = "quokkaword";

/// The memory of every child: the same operation each time.
fn new() -> NewMemory {
    let session = Relation { predicate: Predicate::DerivedFrom, object: Related::Session(id("session:1")) };
    let mut new = memory(CANARY, "The quokkaword is on port 8080.");
    (new.origin.from_seq, new.origin.through_seq) = (7, 9);
    NewMemory { relations: vec![session], ..new }
}

fn child(part: &str, house: &Path, place: u32) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_one_that_is_killed", "--nocapture", "--include-ignored"])
        .env("LEDGER_PART", part)
        .env("LEDGER_HOUSE", house)
        .env("LEDGER_PLACE", place.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Lets a child run up to a place and kills it there; `false` where it was through before.
fn killed_at(part: &str, house: &Path, place: u32) -> bool {
    let mut child = child(part, house, place);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let met = lines.any(|line| line.contains("<here>"));
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert!(met || status.success(), "{part} {place}: {status}");
    met
}

/// One of the processes that are killed; a pass by itself.
#[test]
#[ignore = "a part of the other tests"]
#[allow(clippy::disallowed_methods, clippy::print_stdout)]
fn the_one_that_is_killed() {
    let Some(house) = std::env::var_os("LEDGER_HOUSE").map(std::path::PathBuf::from) else { return };
    let at: u32 = std::env::var("LEDGER_PLACE").unwrap().parse().unwrap();
    let mut ledger = Ledger::open(&house.join("memory.sqlite")).unwrap();
    let shelf = Shelf::new(&house, NOW);
    *shelf.place.borrow_mut() = Box::new(move |place| {
        if place == at {
            println!("<here>");
            loop {
                std::thread::park();
            }
        }
    });
    match std::env::var("LEDGER_PART").unwrap().as_str() {
        "write" => {
            ledger.project(Projecting::On);
            let memory = ledger.remember(&new(), &scope()).unwrap().memory_id;
            ledger.settle(&memory, &shelf).unwrap();
        }
        "forget" => {
            let memory = ledger.records(&scope(), None, 1).unwrap().remove(0).memory_id;
            ledger.forget(&scope(), &memory, NOW).unwrap();
            ledger.reconcile(Some(&shelf), NOW).unwrap();
        }
        "work" => {
            while ledger.reconcile(Some(&shelf), NOW).unwrap().remaining > 0 {
                std::thread::yield_now();
            }
            let writes = shelf.calls.borrow().iter().filter(|call| **call == Call::Write).count();
            println!("<wrote {writes}>");
        }
        "stream" => stream(&mut ledger, at),
        _ => {}
    }
}

/// Remembers and forgets until it is killed, and says what it has done.
#[allow(clippy::print_stdout)]
fn stream(ledger: &mut Ledger, from: u32) {
    for n in (u64::from(from)..).map(|n| n + 1) {
        let mut new = memory(&format!("note {n}"), &format!("Canary{n}word stays."));
        (new.origin.from_seq, new.origin.through_seq) = (n, n);
        let memory = ledger.remember(&new, &scope()).unwrap().memory_id;
        println!("<kept {n} {memory}>");
        if n % 2 == 0 {
            ledger.forget(&scope(), &memory, NOW).unwrap();
            println!("<gone {n} {memory}>");
        }
    }
}

/// Reconciles until nothing is open.
fn settled(ledger: &mut Ledger, shelf: &Shelf) {
    shelf.now_ms.set(LATER);
    while let Some(due) = ledger.next_due().unwrap() {
        shelf.now_ms.set(due.max(LATER));
        ledger.reconcile(Some(shelf), shelf.now_ms.get()).unwrap();
    }
}

#[test]
fn a_host_killed_at_any_step_of_a_projection_leaves_exactly_one_outcome() {
    let mut places = 0;
    loop {
        let mut house = House::new();
        if !killed_at("write", house.dir.path(), places + 1) {
            break;
        }
        places += 1;
        // Nothing that is not settled is recalled.
        let found = house.recall("quokkaword port?").len();
        let applied = house.ledger.status().unwrap().records.contains_key("applied");
        assert_eq!(found, usize::from(applied), "place {places}");
        let shelf = Shelf::new(house.dir.path(), NOW);
        settled(&mut house.ledger, &shelf);
        assert_eq!(house.recall("quokkaword port?"), [CANARY], "place {places}");
        assert_eq!(shelf.keys().len(), 2, "place {places}");
        let status = house.ledger.status().unwrap();
        assert_eq!((status.index, status.dead_letters), (IndexState::Ok, 0), "place {places}");
        assert_eq!(status.records, [("applied".to_owned(), 1)].into(), "place {places}");
        assert_eq!(house.ledger.remember(&new(), &scope()).unwrap().settled, Settled::Replayed);
    }
    // A read, a write and a read of the record and of its relation, before and after each.
    assert_eq!(places, 12);
}

#[test]
fn four_hosts_that_reconcile_at_once_write_every_memory_once() {
    const MEMORIES: usize = 60;
    let mut house = House::new();
    house.ledger.project(Projecting::On);
    for n in 0..MEMORIES {
        house.remember(&format!("note {n}"), "The anchor is raised after the commit.");
    }
    let shelf = Shelf::new(house.dir.path(), NOW);
    let hosts: Vec<Child> = (0..4).map(|_| child("work", house.dir.path(), 0)).collect();
    let wrote = |host: Child| {
        let said = String::from_utf8(host.wait_with_output().unwrap().stdout).unwrap();
        let number = said.split_once("<wrote ").unwrap().1.split_once('>').unwrap().0;
        number.parse::<usize>().unwrap()
    };
    assert_eq!(hosts.into_iter().map(wrote).sum::<usize>(), MEMORIES);
    assert_eq!(shelf.keys().len(), MEMORIES);
    assert_eq!(house.ledger.status().unwrap().records, [("applied".to_owned(), 60)].into());
}

#[test]
fn a_host_killed_at_any_step_of_a_forget_leaves_nothing_behind() {
    let mut places = 0;
    loop {
        let mut house = House::new();
        house.ledger.project(Projecting::On);
        let shelf = Shelf::new(house.dir.path(), NOW);
        let memory = house.ledger.remember(&new(), &scope()).unwrap().memory_id;
        house.ledger.settle(&memory, &shelf).unwrap();
        if !killed_at("forget", house.dir.path(), places + 1) {
            break;
        }
        places += 1;
        // Gone at once, also for the ledger that was open all the time.
        assert_eq!(house.recall("quokkaword port?"), Vec::<String>::new(), "place {places}");
        assert!(!on_disk(house.dir.path(), CANARY), "place {places}");
        settled(&mut house.ledger, &shelf);
        assert_eq!(shelf.contents(), Vec::<String>::new(), "place {places}");
        let done = Forgotten::Before(Cleanup::ActiveShelfCleanupComplete);
        assert_eq!(house.ledger.forget(&scope(), &memory, LATER), Ok(done), "place {places}");
        assert_eq!(house.ledger.remember(&new(), &scope()).unwrap().settled, Settled::Forgotten);
    }
    assert_eq!(places, 12);
}

#[test]
fn a_host_killed_between_tombstone_and_erasure_leaves_text_only_until_reconcile() {
    let mut house = House::new();
    let memory = house.ledger.remember(&new(), &scope()).unwrap().memory_id;
    // A reader that holds the old pages makes the child wait right there.
    let reader = rusqlite::Connection::open(house.path()).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM memory_record;").unwrap();
    let mut child = child("forget", house.dir.path(), 0);
    while !house.ledger.status().unwrap().records.contains_key("tombstoned") {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(house.recall("quokkaword port?"), Vec::<String>::new());
    assert!(on_disk(house.dir.path(), CANARY), "the child was through already: this tests nothing");
    let before = |house: &mut House| house.ledger.forget(&scope(), &memory, LATER).unwrap();
    assert_eq!(before(&mut house), Forgotten::Before(Cleanup::Tombstoned));
    drop(reader);
    assert_eq!(house.ledger.reconcile(None, LATER).unwrap().cleanups, 1);
    assert!(!on_disk(house.dir.path(), CANARY));
    assert_eq!(before(&mut house), Forgotten::Before(Cleanup::ActiveShelfCleanupComplete));
}

#[test]
fn a_host_killed_while_it_remembers_and_forgets_loses_nothing_it_acknowledged() {
    let mut house = House::new();
    let (mut kept, mut gone) = (Vec::<(String, Id)>::new(), Vec::<(String, Id)>::new());
    for round in 0..6_u32 {
        let mut child = child("stream", house.dir.path(), round * 1000);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut said = 0;
        for line in lines {
            let Some((_, said_so)) = line.rsplit_once('<') else { continue };
            let words: Vec<&str> = said_so.trim_end_matches('>').split(' ').collect();
            let of = match words.first() {
                Some(&"kept") => &mut kept,
                Some(&"gone") => &mut gone,
                _ => continue,
            };
            of.push((words[1].to_owned(), id(words[2])));
            said += 1;
            if said == 5 + round {
                break;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    house.ledger.reconcile(None, LATER).unwrap();
    let entries = house.ledger.records(&scope(), None, 1000).unwrap();
    let mut ids: Vec<&Id> = entries.iter().map(|entry| &entry.memory_id).collect();
    let all = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), all);
    for (n, memory) in &kept {
        let forgotten = !ids.contains(&memory);
        // What was forgotten right before the kill may not have been said.
        assert!(!forgotten || n.parse::<u64>().unwrap() % 2 == 0, "note {n} is lost");
        assert_eq!(on_disk(house.dir.path(), &format!("Canary{n}word")), !forgotten, "note {n}");
    }
    for (n, memory) in &gone {
        assert!(!ids.contains(&memory), "note {n} is back");
    }
    let status = house.ledger.status().unwrap();
    assert_eq!((status.index, status.pending), (IndexState::Ok, 0));
}
