//! Whatever is done to the journal's files: a consumed receipt stays consumed, or every call is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use agentspine_gate::Detail;
use agentspine_gate::journal::{RowKind, Vault};
use common::{Home, issue, receipt, spend};
use serde_json::json;

const JOURNAL: &str = "journal.sqlite";
const WAL: &str = "journal.sqlite-wal";
const SHM: &str = "journal.sqlite-shm";
const ANCHOR: &str = "anchor";
const KEYRING: &str = "keyring.json";

/// A home with receipts 1 and 2 issued and receipt 1 spent; nothing of it open. Closing writes no checkpoint, so the
/// files are what a kill would leave.
fn used() -> Home {
    let home = Home::new();
    let mut vault = home.vault();
    issue(&mut vault, receipt(1));
    issue(&mut vault, receipt(2));
    spend(&mut vault, receipt(1), "d1").unwrap();
    drop(vault);
    home
}

fn save(home: &Home) -> Vec<(&'static str, Vec<u8>)> {
    [JOURNAL, WAL, ANCHOR, KEYRING].map(|name| (name, home.read(name))).into()
}

fn restore(home: &Home, saved: &[(&'static str, Vec<u8>)], names: &[&str]) {
    let _ = std::fs::remove_file(home.dir.gate_dir().join(SHM));
    saved.iter().filter(|(name, _)| names.contains(name)).for_each(|(name, bytes)| home.write(name, bytes));
}

const DROP_GUARDS: &str = "DROP TRIGGER rows_keep; DROP TRIGGER rows_prune; DROP TRIGGER rows_append; DROP TRIGGER deliveries_stay;";

fn guards(home: &Home) -> Vec<String> {
    let raw = home.raw();
    let mut select = raw.prepare("SELECT sql FROM sqlite_schema WHERE type = 'trigger'").unwrap();
    select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

/// Edits rows behind the guards' back and puts the guards up again.
fn edit(home: &Home, sql: &str) {
    let sqls = guards(home);
    let raw = home.raw();
    raw.execute_batch(DROP_GUARDS).unwrap();
    raw.execute_batch(sql).unwrap();
    let missing = sqls.iter().filter(|sql| {
        ["rows_keep", "rows_prune", "rows_append", "deliveries_stay"].iter().any(|name| sql.contains(name))
    });
    missing.for_each(|sql| raw.execute_batch(sql).unwrap());
}

#[test]
fn the_schema_refuses_replace_update_and_delete() {
    let home = used();
    let raw = home.raw();
    let attacks = [
        "INSERT OR REPLACE INTO rows (seq, kind, receipt, body, prev, mac, kid) SELECT seq, 'void', receipt, body, prev, mac, kid FROM rows WHERE seq = 3",
        "INSERT OR REPLACE INTO rows (seq, kind, receipt, body, prev, mac, kid) SELECT 4, kind, receipt, body, prev, mac, kid FROM rows WHERE seq = 3",
        "INSERT INTO rows (seq, kind, receipt, body, prev, mac, kid) SELECT 9, 'void', receipt, body, prev, mac, kid FROM rows WHERE seq = 3",
        "UPDATE rows SET kind = 'void' WHERE seq = 3",
        "UPDATE OR REPLACE rows SET seq = 1 WHERE seq = 3",
        "DELETE FROM rows WHERE seq = 3",
        "DELETE FROM rows",
        "DELETE FROM deliveries",
        "UPDATE deliveries SET seq = 9",
        "INSERT OR REPLACE INTO deliveries SELECT digest, 9 FROM deliveries",
        "UPDATE meta SET journal_id = '00'",
        "DELETE FROM meta",
    ];
    for attack in attacks {
        let refused = raw.execute_batch(attack).unwrap_err().to_string();
        assert!(refused.contains("append-only"), "{attack}: {refused}");
    }
    assert!(home.vault().verify_chain().unwrap().ok);
}

#[test]
fn a_dropped_guard_is_seen_at_open() {
    let home = used();
    home.raw().execute_batch("DROP TRIGGER rows_keep").unwrap();
    assert_eq!(home.refused(), Detail::JournalRolledBack);
}

#[test]
fn a_removed_altered_or_added_row_is_caught_by_the_chain() {
    let forged = "INSERT INTO rows (seq, kind, receipt, body, prev, mac, kid) SELECT seq + 10, kind, zeroblob(16), body, mac, mac, kid FROM rows WHERE seq = 2;
        UPDATE rows SET seq = 4 WHERE seq = 12";
    let edits = [
        ("DELETE FROM rows WHERE seq = 1", 1),
        ("DELETE FROM rows WHERE seq = 2", 2),
        ("UPDATE rows SET kind = 'void' WHERE seq = 1", 1),
        ("UPDATE rows SET receipt = zeroblob(16) WHERE seq = 2", 2),
        ("UPDATE rows SET body = json_set(body, '$.at', 1) WHERE seq = 1", 1),
        ("UPDATE rows SET kid = 'x' WHERE seq = 2", 2),
        ("UPDATE rows SET prev = zeroblob(32) WHERE seq = 2", 2),
        ("UPDATE rows SET mac = zeroblob(32) WHERE seq = 1", 1),
        (forged, 4),
    ];
    for (sql, bad) in edits {
        let home = used();
        let mut live = home.vault();
        edit(&home, sql);
        let report = live.verify_chain().unwrap();
        assert_eq!((report.ok, report.first_bad), (false, Some(bad)), "{sql}");
    }
}

#[test]
fn an_edited_journal_never_lets_a_consumed_receipt_be_consumed_again() {
    let edits = [
        "DELETE FROM rows WHERE seq = 3; DELETE FROM deliveries",
        "UPDATE rows SET kind = 'outcome' WHERE seq = 3; DELETE FROM deliveries",
        "UPDATE rows SET receipt = zeroblob(16) WHERE seq = 3; DELETE FROM deliveries",
        "DELETE FROM rows WHERE seq > 0; DELETE FROM deliveries",
    ];
    for sql in edits {
        for more in [false, true] {
            let home = used();
            let mut live = home.vault();
            if more {
                // The consumption is no longer the anchored head.
                spend(&mut live, receipt(2), "d2").unwrap();
            }
            edit(&home, sql);
            let refused = spend(&mut live, receipt(1), "d1").unwrap_err();
            assert!(
                [Detail::JournalRolledBack, Detail::Mismatch(agentspine_gate::Field::Journal)]
                    .contains(&refused),
                "{sql}: {refused}"
            );
            if let Ok(mut fresh) = home.open() {
                assert_eq!(spend(&mut fresh, receipt(1), "d1"), Err(refused), "{sql}");
            }
        }
    }
}

#[test]
fn a_damaged_index_does_not_hide_a_consumption() {
    let home = used();
    let mut live = home.vault();
    let raw = home.raw();
    raw.execute_batch("DROP INDEX consumed_once; CREATE UNIQUE INDEX consumed_once ON rows (receipt) WHERE kind = 'consumed' AND seq > 9").unwrap();
    assert_eq!(spend(&mut live, receipt(1), "d9"), Err(Detail::Consumed));
    assert_eq!(home.refused(), Detail::JournalRolledBack);
}

#[test]
fn deliveries_are_bound_to_the_chain() {
    let home = used();
    let mut live = home.vault();
    edit(&home, "DELETE FROM deliveries");
    let report = live.verify_chain().unwrap();
    assert_eq!((report.ok, report.first_bad), (false, None));
    let home = used();
    let mut live = home.vault();
    home.raw().execute_batch("INSERT INTO deliveries VALUES (zeroblob(16), 2)").unwrap();
    assert!(!live.verify_chain().unwrap().ok);
}

#[test]
fn every_missing_piece_refuses_with_its_detail_and_nothing_is_made_anew() {
    let cases: [(&[&str], Detail); 8] = [
        (&[WAL], Detail::JournalRolledBack),
        (&[WAL, SHM], Detail::JournalRolledBack),
        (&[JOURNAL], Detail::JournalMissing),
        (&[JOURNAL, WAL, SHM], Detail::JournalMissing),
        (&[ANCHOR], Detail::JournalMissing),
        (&[KEYRING], Detail::KeyMissing),
        (&[KEYRING, JOURNAL], Detail::KeyMissing),
        (&[KEYRING, ANCHOR], Detail::KeyMissing),
    ];
    for (gone, detail) in cases {
        let home = used();
        for name in gone {
            home.remove(name);
        }
        for _ in 0..2 {
            assert_eq!(home.refused(), detail, "{gone:?}");
        }
        assert!(!gone.contains(&KEYRING) || !home.dir.keyring().exists());
        Vault::reset(&home.dir, &home.seams).unwrap();
        issue(&mut home.vault(), receipt(1));
    }
}

#[test]
fn a_lost_shared_memory_file_alone_harms_nothing() {
    let home = used();
    home.remove(SHM);
    assert_eq!(spend(&mut home.vault(), receipt(1), "d1"), Err(Detail::Consumed));
}

#[test]
fn an_older_copy_is_seen_unless_journal_and_anchor_come_from_one_copy() {
    let cases: [(&[&str], Option<Detail>); 5] = [
        (&[JOURNAL, WAL], Some(Detail::JournalRolledBack)),
        (&[WAL], Some(Detail::JournalRolledBack)),
        // The journal is ahead of an older anchor, as after a crash: the consumption is in it.
        (&[ANCHOR], None),
        (&[KEYRING], None),
        // The documented hole: what bounds it is the boot and the 60 seconds that the caller judges.
        (&[JOURNAL, WAL, ANCHOR], None),
    ];
    for (old, detail) in cases {
        let home = used();
        let saved = save(&home);
        spend(&mut home.vault(), receipt(2), "d2").unwrap();
        restore(&home, &saved, old);
        match detail {
            Some(detail) => assert_eq!(home.refused(), detail, "{old:?}"),
            None if old.len() == 3 => assert!(spend(&mut home.vault(), receipt(2), "d2").is_ok()),
            None => assert_eq!(spend(&mut home.vault(), receipt(2), "d2"), Err(Detail::Consumed), "{old:?}"),
        }
    }
}

#[test]
fn pieces_of_another_users_vault_are_foreign() {
    let cases: [&[&str]; 6] = [
        &[JOURNAL, WAL],
        &[ANCHOR],
        &[KEYRING],
        &[JOURNAL, WAL, ANCHOR],
        &[KEYRING, ANCHOR],
        &[JOURNAL, WAL, KEYRING],
    ];
    for swapped in cases {
        let (home, theirs) = (used(), used());
        restore(&home, &save(&theirs), swapped);
        assert_eq!(home.refused(), Detail::JournalRolledBack, "{swapped:?}");
    }
}

#[test]
fn a_running_handle_notices_what_is_taken_from_it() {
    for (name, detail) in
        [(ANCHOR, Detail::JournalMissing), (JOURNAL, Detail::JournalMissing), (KEYRING, Detail::KeyMissing)]
    {
        let home = used();
        let mut live = home.vault();
        home.remove(name);
        assert_eq!(spend(&mut live, receipt(2), "d2"), Err(detail));
    }
    let (home, theirs) = (used(), used());
    let mut live = home.vault();
    home.write(ANCHOR, &theirs.read(ANCHOR));
    assert_eq!(spend(&mut live, receipt(2), "d2"), Err(Detail::JournalRolledBack));
}

#[test]
fn a_torn_anchor_slot_leaves_the_other_and_two_leave_none() {
    let home = used();
    let whole = home.read(ANCHOR);
    let tear = |slots: &[usize]| {
        let mut torn = whole.clone();
        for slot in slots {
            torn[slot * 512 + 100..slot * 512 + 300].fill(0);
        }
        home.write(ANCHOR, &torn);
    };
    for slot in [0, 1] {
        tear(&[slot]);
        assert!(home.vault().verify_chain().unwrap().ok);
    }
    // The next consumption raises the torn slot again.
    assert_eq!(spend(&mut home.vault(), receipt(2), "d2"), Ok(4));
    assert_eq!(home.vault().verify_chain().unwrap().anchored_seq, 4);
    tear(&[0, 1]);
    assert_eq!(home.refused(), Detail::JournalRolledBack);
    home.write(ANCHOR, b"");
    assert_eq!(home.refused(), Detail::JournalRolledBack);
}

#[test]
fn a_flipped_bit_in_any_byte_of_the_higher_anchor_slot_takes_it_out() {
    let home = used();
    let whole = home.read(ANCHOR);
    let mut vault = home.vault();
    // The first raise went to the first slot.
    let json = whole.iter().position(|byte| *byte == b' ').unwrap();
    for at in 0..json {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        home.write(ANCHOR, &flipped);
        assert_eq!(vault.verify_chain().unwrap().anchored_seq, 0, "byte {at}");
    }
}

#[test]
fn a_damaged_journal_never_panics_and_never_spends_again() {
    let home = used();
    let saved = save(&home);
    let restore_all = || restore(&home, &saved, &[JOURNAL, WAL, ANCHOR, KEYRING]);
    let attempt = |what: &str| {
        if let Ok(mut vault) = home.open() {
            assert!(spend(&mut vault, receipt(1), "again").is_err(), "{what}");
        }
        restore_all();
    };
    for name in [JOURNAL, WAL] {
        let whole = home.read(name);
        // Steps that share no factor with pages or frames, so every kind of byte is met.
        for at in (0..whole.len()).step_by(whole.len() / 61) {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x41;
            home.write(name, &flipped);
            attempt(&format!("{name} flipped at {at}"));
            home.write(name, &whole[..at]);
            attempt(&format!("{name} cut at {at}"));
        }
        home.write(name, &vec![0; whole.len()]);
        attempt("zeros");
    }
    home.write(
        JOURNAL,
        b"this is not a database, but long enough to look like one: ........................................",
    );
    let refused = home.refused();
    assert!([Detail::JournalIo, Detail::JournalRolledBack].contains(&refused), "{refused}");
    restore_all();
    home.raw().execute_batch("PRAGMA user_version = 2").unwrap();
    assert_eq!(home.refused(), Detail::JournalRolledBack);
}

#[test]
fn a_link_in_place_of_the_journal_or_the_anchor_is_refused() {
    for name in [JOURNAL, ANCHOR] {
        let home = used();
        let elsewhere = home.spare(name);
        std::fs::rename(home.dir.gate_dir().join(name), &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, home.dir.gate_dir().join(name)).unwrap();
        assert_eq!(home.refused(), Detail::JournalRolledBack, "{name}");
    }
}

#[test]
fn the_files_hold_no_key_and_are_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = used();
    let mut vault = home.vault();
    vault.append(RowKind::Outcome, Some(receipt(1)), &json!({ "status": 200 })).unwrap();
    vault.rotate_key().unwrap();
    let ring: serde_json::Value = serde_json::from_slice(&home.read(KEYRING)).unwrap();
    let keys: Vec<_> =
        ring["keys"].as_array().unwrap().iter().map(|key| key["key"].as_str().unwrap().to_owned()).collect();
    assert_eq!(keys.len(), 2);
    for name in [JOURNAL, WAL, SHM, ANCHOR] {
        let bytes = home.read(name);
        for key in &keys {
            assert!(!bytes.windows(64).any(|window| window == key.as_bytes()), "{name}");
        }
        let mode = home.dir.gate_dir().join(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn a_row_before_the_beginning_of_the_journal_is_told() {
    for seq in [0, -5] {
        let home = used();
        edit(
            &home,
            &format!(
                "INSERT INTO rows (seq, kind, receipt, body, prev, mac, kid) SELECT {seq}, 'refused', NULL, body, prev, mac, kid FROM rows WHERE seq = 1"
            ),
        );
        assert_eq!(
            home.vault().verify_chain().unwrap().problem.as_deref(),
            Some("rows stand before its beginning")
        );
    }
}
