//! After a forget the text is in no raw byte of the ledger, whatever pages it went through before.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod support;

use agentspine_memory::{Cleanup, Forgotten, IndexState, Ledger, NewMemory, Provenance, SessionSource};
use support::{House, id, memory, on_disk, scope};

/// Deterministic numbers: the same test each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % n
    }
}

const FILLER: [&str; 8] = ["anchor", "journal", "keyring", "proxy", "ledger", "policy", "receipt", "span"];

/// Letters that say the number: words with digits in them are split, these are not.
fn canary(n: usize) -> String {
    let letters: String = format!("{n:04}").chars().map(|c| char::from(b'a' + (c as u8 - b'0'))).collect();
    format!("zq{letters}qz")
}

fn stuffed(n: usize, dice: &mut Dice) -> NewMemory {
    let canary = canary(n);
    let mut summary = format!("The {canary} holds.");
    for _ in 0..dice.below(400) {
        summary.push(' ');
        summary.push_str(FILLER[dice.below(8)]);
    }
    summary.truncate(4000);
    NewMemory { tags: vec![canary.clone()], subject: Some(canary.clone()), ..memory(&canary, &summary) }
}

fn raw(house: &House) -> Vec<u8> {
    let files = std::fs::read_dir(house.dir.path()).unwrap();
    files.flat_map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect()
}

/// The canaries that stand in any byte of any file.
fn found(house: &House, numbers: impl Iterator<Item = usize>) -> Vec<usize> {
    let raw = raw(house);
    let mut starts = std::collections::HashSet::new();
    for window in raw.windows(8) {
        if window.starts_with(b"zq") && window.ends_with(b"qz") {
            starts.insert(window.to_vec());
        }
    }
    numbers.filter(|n| starts.contains(canary(*n).as_bytes())).collect()
}

#[test]
fn pages_that_were_split_merged_and_freed_hold_no_forgotten_text() {
    const MEMORIES: usize = 300;
    let mut house = House::new();
    let mut dice = Dice(7);
    let mut kept = Vec::new();
    for n in 0..MEMORIES {
        let new = stuffed(n, &mut dice);
        kept.push((n, house.ledger.remember(&new, &scope()).unwrap().memory_id));
        // In between some go, so that pages are used again.
        if n % 3 == 0 {
            let (_, gone) = kept.remove(dice.below(kept.len()));
            house.ledger.forget(&scope(), &gone, 1).unwrap();
        }
    }
    let alive = |kept: &[(usize, _)]| kept.iter().map(|(n, _)| *n).collect::<Vec<_>>();
    let mut expected = alive(&kept);
    expected.sort_unstable();
    assert_eq!(found(&house, 0..MEMORIES), expected);
    while !kept.is_empty() {
        for _ in 0..kept.len().min(70) {
            let (_, gone) = kept.remove(dice.below(kept.len()));
            let done = Forgotten::Now(Cleanup::ActiveShelfCleanupComplete);
            assert_eq!(house.ledger.forget(&scope(), &gone, 1), Ok(done));
        }
        let mut expected = alive(&kept);
        expected.sort_unstable();
        assert_eq!(found(&house, 0..MEMORIES), expected);
    }
    assert_eq!(house.ledger.status().unwrap().index, IndexState::Ok);
}

#[test]
fn words_of_the_index_and_words_of_the_host_are_erased_too() {
    let mut house = House::new();
    let mut new = memory("title", "The wallabies hopped over Känguruhs and 袋鼠很多.");
    new.tags = vec!["wombatword".to_owned()];
    new.subject = Some("Numbatword".to_owned());
    new.origin.range_key = "call-bilbyword".to_owned();
    let session = SessionSource {
        created_at_ms: 1,
        cwd: "/home/echidnaword/work".to_owned(),
        persistence: id("conversations"),
        revision: 9,
        parent: None,
        seed_length: 0,
        turn: Some(2),
    };
    new.provenance = Provenance { session: Some(session), ..Provenance::default() };
    let words = ["allab", "nguruh", "ombat", "umbat", "ilbyword", "chidnaword", "袋鼠"];
    let gone = house.ledger.remember(&new, &scope()).unwrap().memory_id;
    for word in words {
        assert!(on_disk(house.dir.path(), word), "{word} was never there: this tests nothing");
    }
    house.ledger.forget(&scope(), &gone, 1).unwrap();
    for word in words {
        assert!(!on_disk(house.dir.path(), word), "{word}");
    }
}

#[test]
fn a_reader_that_holds_old_pages_delays_the_erasure_and_status_says_so() {
    let mut house = House::new();
    let gone = house.remember("quokkaword", "The anchor is raised after the commit.").memory_id;
    let reader = rusqlite::Connection::open(house.path()).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM memory_record;").unwrap();
    assert_eq!(house.ledger.forget(&scope(), &gone, 1), Ok(Forgotten::Now(Cleanup::Tombstoned)));
    assert_eq!(house.recall("quokkaword anchor"), Vec::<String>::new());
    let status = house.ledger.status().unwrap();
    assert_eq!((status.cleanups.get("tombstoned"), status.index), (Some(&1), IndexState::Uncertain));
    let open = house.ledger.reconcile(None, 1).unwrap();
    assert_eq!((open.checked, open.unresolved), (1, 1));
    drop(reader);
    let due = house.ledger.next_due().unwrap().unwrap();
    assert_eq!(house.ledger.reconcile(None, due).unwrap().cleanups, 1);
    assert!(!on_disk(house.dir.path(), "quokkaword"));
}

#[test]
fn nothing_returns_a_memory_once_it_is_forgotten_also_not_to_a_ledger_that_was_open_before() {
    let mut house = House::new();
    let open = Ledger::open(&house.path()).unwrap();
    let kept = house.remember("kept", "The quokkaword is on port 8080.");
    let gone = house.remember("gone", "The quokkaword is on port 9090.").memory_id;
    assert_eq!(open.search(&scope(), "quokkaword", 25).unwrap().entries.len(), 2);
    house.ledger.forget(&scope(), &gone, 1).unwrap();
    for ledger in [&open, &house.ledger] {
        let searched = ledger.search(&scope(), "quokkaword 9090", 25).unwrap();
        assert_eq!((searched.entries.len(), searched.total_in_scope), (1, 1));
        let recalled = ledger.recall(&scope(), "quokkaword port 9090?", 5).unwrap();
        assert!(recalled.iter().all(|recalled| recalled.entry.memory_id == kept.memory_id));
        let listed = ledger.records(&scope(), None, 25).unwrap();
        assert_eq!(listed.iter().map(|e| &e.memory_id).collect::<Vec<_>>(), [&kept.memory_id]);
        assert_eq!(ledger.source(&scope(), &gone), Ok(None));
    }
}

#[test]
fn a_large_ledger_is_written_anew_by_reconcile_and_not_by_the_one_who_forgets() {
    let mut house = House::new();
    let gone = house.remember("quokkaword", "The anchor is raised after the commit.").memory_id;
    let ballast = rusqlite::Connection::open(house.path()).unwrap();
    let bytes = agentspine_memory::erase::ERASE_AT_ONCE_BYTES_MAX;
    ballast.execute_batch("CREATE TABLE ballast (bytes BLOB) STRICT").unwrap();
    ballast.execute("INSERT INTO ballast VALUES (zeroblob(?))", [bytes]).unwrap();
    assert_eq!(house.ledger.forget(&scope(), &gone, 1), Ok(Forgotten::Now(Cleanup::Tombstoned)));
    assert_eq!(house.recall("quokkaword anchor"), Vec::<String>::new());
    assert_eq!(house.ledger.next_due(), Ok(Some(1)));
    assert_eq!(house.ledger.reconcile(None, 1).unwrap().cleanups, 1);
    assert!(!on_disk(house.dir.path(), "quokkaword"));
    let done = Forgotten::Before(Cleanup::ActiveShelfCleanupComplete);
    assert_eq!(house.ledger.forget(&scope(), &gone, 1), Ok(done));
}

#[test]
fn several_memories_are_forgotten_at_once_each_with_its_own_result() {
    let mut house = House::new();
    let [first, second] = ["wombatword", "numbatword"].map(|title| house.remember(title, "text").memory_id);
    let kept = house.remember("kept", "text").memory_id;
    house.ledger.forget(&scope(), &first, 1).unwrap();
    let ids = [first, second, id("memory:unknown")];
    let done = Cleanup::ActiveShelfCleanupComplete;
    let expected = vec![Forgotten::Before(done), Forgotten::Now(done), Forgotten::Unknown];
    assert_eq!(house.ledger.forget_all(&scope(), &ids, 1), Ok(expected));
    assert!(!on_disk(house.dir.path(), "numbatword"));
    assert_eq!(house.ledger.records(&scope(), None, 9).unwrap()[0].memory_id, kept);
}
