//! A Must-Remember store that is not the one the last receipt was issued over.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use agentspine_gate::Detail;
use common::WALL_MS;
use common::desk::{Desk, remember};

/// What happens to the store, given an old copy of it.
type Loss = fn(&std::path::Path, &std::path::Path);

#[test]
fn a_must_remember_store_that_was_lost_or_emptied_or_put_back_refuses_the_call() {
    let mut desk = Desk::new();
    remember(&mut desk, "Write British English.");
    desk.turn("one");
    let dir = desk.home.dir.gate_dir();
    let whole = |name: &str| ["", "-wal", "-shm"].map(|end| dir.join(format!("{name}{end}")));
    let old = rusqlite::Connection::open(desk.home.dir.remember()).unwrap();
    old.execute("VACUUM INTO ?1", [dir.join("old.sqlite").to_str().unwrap()]).unwrap();
    drop(old);
    remember(&mut desk, "Never push on Fridays.");
    desk.turn("two");

    let losses: [Loss; 3] = [
        |_, _| {},
        |_, store| drop(std::fs::File::create(store).unwrap()),
        |old, store| assert!(std::fs::copy(old, store).unwrap() > 0),
    ];
    for lose in losses {
        for file in whole("remember.sqlite") {
            let _ = std::fs::remove_file(file);
        }
        lose(&dir.join("old.sqlite"), &desk.home.dir.remember());
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        let _ = std::fs::set_permissions(desk.home.dir.remember(), mode);
        desk.gate = desk.open().unwrap();
        let request = desk.request("three");
        assert_eq!(desk.plan(&request).err().unwrap().detail, Detail::RememberCorrupt);
    }
}

#[test]
fn a_purged_or_rolled_back_rule_is_no_lost_store() {
    let mut desk = Desk::new();
    let rule = remember(&mut desk, "Write British English.");
    desk.turn("one");
    desk.gate.remember().purge(&rule, WALL_MS).unwrap();
    desk.gate = desk.open().unwrap();
    assert!(desk.turn("two").0.must_remember.is_empty());
}
