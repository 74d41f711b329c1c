//! A file of the first schema keeps its memories through the migrations.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod support;

use std::path::Path;

use agentspine_gate::Digest;
use agentspine_memory::{
    Cleanup, Forgotten, Kind, Ledger, MemoryScope, NewMemory, Origin, Provenance, RememberError, Settled,
    Source, Trust,
};
use support::{id, memory, scope};

/// The first schema as it was released.
const V1: &str = include_str!("support/v1.sql");

/// What the first release computed, computed here anew: an id of an old file must be found by a new build.
fn v1_operation(scope: &MemoryScope, origin: &Origin, kind: Kind) -> String {
    let range = Digest::of(origin.range_key.as_bytes()).to_hex();
    let (from, through) = (origin.from_seq.to_string(), origin.through_seq.to_string());
    let scope = scope.digest().to_hex();
    let fields = ["operation v1", &scope, origin.source.as_str(), &from, &through, &range];
    Digest::of([&fields[..], &[kind.as_str(), origin.extractor.as_str()]].concat().join("\0").as_bytes())
        .to_hex()
}

fn v1_payload(new: &NewMemory) -> String {
    let mut bytes = Vec::new();
    for field in [new.trust.as_str(), &new.title, &new.summary] {
        bytes.extend_from_slice(&(field.len() as u64).to_be_bytes());
        bytes.extend_from_slice(field.as_bytes());
    }
    Digest::of(&bytes).to_hex()
}

fn old() -> NewMemory {
    NewMemory {
        kind: Kind::Preference,
        origin: Origin {
            source: id("session:old"),
            from_seq: 3,
            through_seq: 7,
            range_key: "call-1".to_owned(),
            extractor: id("memory-tool/v1"),
        },
        ..memory("editor", "She edits with helix.")
    }
}

/// A file with one applied and one forgotten memory.
fn v1_file(path: &Path) {
    let db = rusqlite::Connection::open(path).unwrap();
    db.execute_batch(V1).unwrap();
    let (scope, new) = (scope(), old());
    db.execute(
        "INSERT INTO memory_scope (no, digest, tenant_id, user_id, project_id, last_row, records, words)
         VALUES (1, ?, 't', 'u', 'project:p', (1 << 32) + 2, 1, 4)",
        [scope.digest().to_hex()],
    )
    .unwrap();
    let operation = v1_operation(&scope, &new.origin, new.kind);
    let memory = format!("memory:{}", &operation[..32]);
    db.execute(
        "INSERT INTO memory_record (row, scope_no, memory_id, state, kind, trust, title, summary, tags, source, words,
                                    created_at, changed_at)
         VALUES ((1 << 32) + 1, 1, ?, 'applied', 'preference', 'explicit', 'editor', 'She edits with helix.', '',
                 'session:old', 4, 5, 5)",
        [&memory],
    )
    .unwrap();
    db.execute(
        "INSERT INTO memory_fts (rowid, title, body, tags) VALUES ((1 << 32) + 1, 'editor', 'edit helix', '')",
        [],
    )
    .unwrap();
    db.execute(
        "INSERT INTO memory_operation VALUES (?, ?, 'applied', ?, 'session:old', 3, 7, 'call-1', 'memory-tool/v1', 5)",
        [&operation, &memory, &v1_payload(&new)],
    )
    .unwrap();
    db.execute_batch(
        "INSERT INTO memory_record (row, scope_no, memory_id, state, cleanup, kind, trust, source, words, created_at,
                                    changed_at)
         VALUES ((1 << 32) + 2, 1, 'memory:gone', 'tombstoned', 'active-shelf-cleanup-complete', 'decision', 'explicit',
                 'cli', 0, 6, 9);
         INSERT INTO memory_operation VALUES ('gone', 'memory:gone', 'applied', NULL, 'cli', 0, 0, '', 'memory-cli/v1', 6);",
    )
    .unwrap();
}

#[test]
fn a_file_of_the_first_schema_keeps_and_recalls_its_memories() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("memory.sqlite");
    v1_file(&path);
    let mut ledger = Ledger::open(&path).unwrap();
    let entries = ledger.records(&scope(), None, 10).unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(
        (entries[0].title.as_str(), entries[0].created_at_ms, &entries[0].subject),
        ("editor", 5, &None)
    );
    let recalled = ledger.recall(&scope(), "does she use the helix editor?", 5).unwrap();
    assert_eq!(recalled[0].entry, entries[0]);
    let from = ledger.source(&scope(), &entries[0].memory_id).unwrap();
    assert_eq!(from, Some(Source { origin: old().origin, provenance: Provenance::default() }));

    let again = ledger.remember(&old(), &scope()).unwrap();
    assert_eq!((again.settled, &again.memory_id), (Settled::Replayed, &entries[0].memory_id));
    let other = NewMemory { summary: "She edits with vi.".to_owned(), ..old() };
    assert_eq!(ledger.remember(&other, &scope()), Err(RememberError::Conflict));

    let done = Cleanup::ActiveShelfCleanupComplete;
    assert_eq!(ledger.forget(&scope(), &id("memory:gone"), 10), Ok(Forgotten::Before(done)));
    assert_eq!(ledger.forget(&scope(), &again.memory_id, 10), Ok(Forgotten::Now(done)));
    assert_eq!(ledger.remember(&old(), &scope()).unwrap().settled, Settled::Forgotten);
    let status = ledger.status().unwrap();
    assert_eq!(status.cleanups, [("active-shelf-cleanup-complete".to_owned(), 2)].into());
}

#[test]
fn processes_that_upgrade_a_file_at_once_all_succeed_and_lose_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("memory.sqlite");
    v1_file(&path);
    std::thread::scope(|threads| {
        let openers: Vec<_> = (0..8).map(|_| threads.spawn(|| Ledger::open(&path).map(drop))).collect();
        for opener in openers {
            opener.join().unwrap().unwrap();
        }
    });
    let mut ledger = Ledger::open(&path).unwrap();
    assert_eq!(ledger.records(&scope(), None, 10).unwrap().len(), 1);
    let derived = NewMemory { trust: Trust::Derived, ..memory("shell", "She uses fish.") };
    assert_eq!(ledger.remember(&derived, &scope()).unwrap().settled, Settled::Applied);
}
