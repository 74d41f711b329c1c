//! Who follows the journal sees every call as it happens, changes nothing, and holds nobody up.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::sync::atomic::Ordering;

use agentspine_gate::journal::{Follow, Limits, ReceiptState, RowKind, Sighting, Vault};
use agentspine_gate::state_dir::StateDir;
use agentspine_gate::{Detail, ReceiptId};
use common::{Home, issue, issue_in, receipt, spend};
use serde_json::json;

fn follow(home: &Home) -> Follow {
    Follow::open(&home.dir, &home.seams).unwrap().unwrap()
}

/// Receipt and state of what holds; sequence and receipt of what does not.
#[derive(Debug, PartialEq)]
enum Saw {
    Holds(ReceiptId, ReceiptState),
    Broken(u64, Option<ReceiptId>),
}

fn saw(sightings: Vec<Sighting>) -> Vec<Saw> {
    let short = |sighting| match sighting {
        Sighting::Holds(record) => Saw::Holds(record.id, record.state),
        Sighting::Broken { seq, receipt } => Saw::Broken(seq, receipt),
    };
    sightings.into_iter().map(short).collect()
}

/// Every file of the state directory with its bytes, but for SQLite's shared memory of readers' marks.
fn files(home: &Home) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for folder in [home.dir.root().to_owned(), home.dir.gate_dir()] {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let name = entry.path().display().to_string();
            if entry.path().is_file() && !name.ends_with("-shm") {
                found.push((name, std::fs::read(entry.path()).unwrap()));
            }
        }
    }
    found.sort();
    found
}

#[test]
fn before_the_first_start_there_is_nothing_to_follow_and_nothing_is_made() {
    let home = Home::new();
    assert!(Follow::open(&home.dir, &home.seams).unwrap().is_none());
    assert!(!home.dir.journal().exists());
    let nowhere = home.spare("elsewhere/agentspine");
    assert!(StateDir::find(&nowhere, None).unwrap().is_none());
    assert!(!nowhere.exists() && !home.spare("elsewhere").exists());
    assert_eq!(StateDir::find(home.dir.root(), None).unwrap().unwrap().root(), home.dir.root());
    let inside = StateDir::find(home.dir.root(), home.dir.root().parent()).err().unwrap();
    assert_eq!(inside.detail, Detail::StateDir);
}

#[test]
fn each_call_is_told_as_it_stands_once_for_each_time_somebody_wrote() {
    let home = Home::new();
    let mut vault = home.vault();
    issue(&mut vault, receipt(1));
    spend(&mut vault, receipt(1), "d1").unwrap();
    let mut follow = follow(&home);
    let spent = Saw::Holds(receipt(1), ReceiptState::SpentOutcomeUnknown);
    assert_eq!(saw(follow.newest(10, None).unwrap()), [spent]);
    assert_eq!(saw(follow.news().unwrap()), []);

    vault.append(RowKind::Outcome, Some(receipt(1)), &json!({"outcome": "answered"})).unwrap();
    issue(&mut vault, receipt(2));
    assert_eq!(
        saw(follow.news().unwrap()),
        [Saw::Holds(receipt(1), ReceiptState::Consumed), Saw::Holds(receipt(2), ReceiptState::Prepared)]
    );
    vault.append(RowKind::Void, Some(receipt(2)), &json!({"reason": "cancelled"})).unwrap();
    vault.append(RowKind::Refused, Some(receipt(2)), &json!({"code": "provider-failed"})).unwrap();
    assert_eq!(saw(follow.news().unwrap()), [Saw::Holds(receipt(2), ReceiptState::Refused)]);
    assert_eq!(saw(follow.news().unwrap()), []);
    assert!(follow.verify_chain().unwrap().ok);
}

#[test]
fn the_newest_are_listed_oldest_first_and_of_one_session_alone_where_it_is_named() {
    let home = Home::new();
    let mut vault = home.vault();
    for n in 1..=4 {
        issue_in(&mut vault, receipt(n), if n == 2 { "other" } else { "s" });
    }
    let mut follow = follow(&home);
    let prepared = |n| Saw::Holds(receipt(n), ReceiptState::Prepared);
    assert_eq!(saw(follow.newest(2, None).unwrap()), [prepared(3), prepared(4)]);
    assert_eq!(saw(follow.newest(9, Some("other")).unwrap()), [prepared(2)]);
    home.clock.boottime.fetch_add(60_001, Ordering::SeqCst);
    let aged = follow.sight(receipt(4)).unwrap().into_iter().collect();
    assert_eq!(saw(aged), [Saw::Holds(receipt(4), ReceiptState::Expired)]);
    assert_eq!(follow.sight(receipt(9)).unwrap(), None);
}

#[test]
fn following_changes_no_byte_of_the_state_and_no_writer_waits_for_it() {
    let home = Home::new();
    let mut vault = home.vault_with(Limits { busy_ms: 0, ..Limits::default() });
    issue(&mut vault, receipt(1));
    let before = files(&home);
    let mut follow = follow(&home);
    follow.newest(10, None).unwrap();
    follow.news().unwrap();
    follow.verify_chain().unwrap();
    assert_eq!(files(&home), before);
    for n in 2..40 {
        issue(&mut vault, receipt(n));
        assert!(spend(&mut vault, receipt(n), &format!("d{n}")).is_ok());
        assert_eq!(follow.news().unwrap().len(), 1);
    }
}

#[test]
fn a_row_altered_or_taken_away_behind_the_guards_is_told_and_what_follows_still_is() {
    let home = Home::new();
    let mut vault = home.vault();
    let mut follow = follow(&home);
    for n in 1..=5 {
        issue(&mut vault, receipt(n));
    }
    let raw = home.raw();
    raw.execute_batch(
        "DROP TRIGGER rows_keep; DROP TRIGGER rows_prune;
         UPDATE rows SET body = replace(body, 'expiresAt', 'expiredAt') WHERE seq = 2; DELETE FROM rows WHERE seq = 4;",
    )
    .unwrap();
    assert_eq!(
        saw(follow.news().unwrap()),
        [
            Saw::Broken(2, Some(receipt(2))),
            Saw::Broken(4, None),
            Saw::Holds(receipt(1), ReceiptState::Prepared),
            Saw::Holds(receipt(3), ReceiptState::Prepared),
            Saw::Holds(receipt(5), ReceiptState::Prepared),
        ]
    );
    assert_eq!(saw(follow.newest(10, None).unwrap()).get(1), Some(&Saw::Broken(2, Some(receipt(2)))));
}

#[test]
fn a_journal_that_lost_its_end_or_was_reset_is_not_followed_on() {
    let home = Home::new();
    let mut vault = home.vault();
    issue(&mut vault, receipt(1));
    issue(&mut vault, receipt(2));
    let mut cut = follow(&home);
    cut.newest(10, None).unwrap();
    home.raw().execute_batch("DROP TRIGGER rows_prune; DELETE FROM rows WHERE seq = 2;").unwrap();
    assert_eq!(cut.news().unwrap_err().detail, Detail::JournalRolledBack);

    let home = Home::new();
    issue(&mut home.vault(), receipt(1));
    let mut moved = follow(&home);
    moved.newest(10, None).unwrap();
    Vault::reset(&home.dir, &home.seams).unwrap();
    assert_eq!(moved.news().unwrap_err().detail, Detail::JournalRolledBack);
    assert_eq!(saw(follow(&home).newest(10, None).unwrap()), []);
}
