//! The vault keeps its promises: once only, over threads and processes; nothing lost, nothing doubled.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agentspine_gate::journal::{
    ChainReport, Consumption, INCIDENTS_PER_RECEIPT_MAX, JOURNAL_KEEP_MS, Limits, Pruned, ReceiptState,
    Reset, ResetRules, RowKind, Signed, Vault,
};
use agentspine_gate::receipt::canonical;
use agentspine_gate::seams::Rng;
use agentspine_gate::state_dir::StateDir;
use agentspine_gate::{Detail, Digest, Field, ReceiptId};
use common::{Home, WALL_MS, claims, id, issue, issue_in, receipt, signed_body, spend};
use serde_json::{Value, json};

fn issue_as(vault: &mut Vault, n: u8) {
    issue(vault, receipt(n));
}

fn chain(home: &Home) -> ChainReport {
    let report = home.vault().verify_chain().unwrap();
    assert_eq!((report.ok, report.first_bad, report.problem.as_deref()), (true, None, None));
    report
}

#[test]
fn a_receipt_is_consumed_once_and_a_second_attempt_is_an_incident() {
    let home = Home::new();
    let mut vault = home.vault();
    assert_eq!(issue(&mut vault, receipt(1)), 1);
    assert_eq!(spend(&mut vault, receipt(1), "d1"), Ok(2));
    assert_eq!(spend(&mut vault, receipt(1), "d2"), Err(Detail::Consumed));
    let record = vault.record(receipt(1)).unwrap().unwrap();
    assert_eq!(record.refused.first().unwrap().body, json!({ "incident": "second-consumption" }));
    assert_eq!(record.consumed.unwrap().body, json!({ "requestDigest": "00" }));
    drop(vault);
    let report = chain(&home);
    assert_eq!((report.rows, report.consumed, report.head_seq, report.anchored_seq), (3, 1, 3, 2));
}

#[test]
fn a_loop_of_second_attempts_cannot_fill_the_journal() {
    let home = Home::new();
    let mut vault = home.vault();
    issue(&mut vault, receipt(1));
    spend(&mut vault, receipt(1), "d").unwrap();
    for _ in 0..100 {
        assert_eq!(spend(&mut vault, receipt(1), "d"), Err(Detail::Consumed));
    }
    assert_eq!(usize::try_from(vault.verify_chain().unwrap().rows).unwrap(), 2 + INCIDENTS_PER_RECEIPT_MAX);
}

#[test]
fn a_delivery_is_consumed_once_for_ever_but_only_within_its_host_and_session() {
    let home = Home::new();
    let mut vault = home.vault();
    (1..=4).for_each(|n| issue_as(&mut vault, n));
    let mut attempt = |n, host, session, delivery| {
        let (session, delivery, body) = (id(session), id(delivery), json!({}));
        let spent =
            Consumption { receipt: receipt(n), host, session: &session, delivery: &delivery, body: &body };
        vault.consume_by_test_door(&spent).map(drop).map_err(|refusal| refusal.detail)
    };
    assert_eq!(attempt(1, "claude", "s", "d"), Ok(()));
    assert_eq!(attempt(2, "claude", "s", "d"), Err(Detail::Replay));
    assert_eq!(attempt(2, "codex", "s", "d"), Ok(()));
    assert_eq!(attempt(3, "claude", "t", "d"), Ok(()));
    assert_eq!(attempt(4, "claude", "s", "e"), Ok(()));
}

#[test]
fn void_unknown_and_foreign_receipts_are_not_consumed() {
    let home = Home::new();
    let mut vault = home.vault();
    issue(&mut vault, receipt(1));
    vault.append(RowKind::Void, Some(receipt(1)), &json!({ "reason": "changed" })).unwrap();
    assert_eq!(spend(&mut vault, receipt(1), "d"), Err(Detail::Expired));
    assert_eq!(spend(&mut vault, receipt(9), "d"), Err(Detail::Mismatch(Field::Journal)));
    // None of that used the delivery up.
    issue(&mut vault, receipt(2));
    assert_eq!(spend(&mut vault, receipt(2), "d"), Ok(4));
}

#[test]
fn an_issued_row_must_carry_its_own_receipt_signed_with_the_current_key() {
    let home = Home::new();
    let mut vault = home.vault();
    let good = signed_body(&mut vault, &claims(receipt(1), "s"));
    let mut forged = good.clone();
    forged["claims"]["sessionId"] = json!("t");
    let refused = |vault: &mut Vault, id, body: &Value| {
        vault.append(RowKind::Issued, Some(id), body).unwrap_err().detail
    };
    assert_eq!(refused(&mut vault, receipt(1), &forged), Detail::Mac);
    assert_eq!(refused(&mut vault, receipt(2), &good), Detail::Mac);
    assert_eq!(refused(&mut vault, receipt(1), &json!({})), Detail::Mac);
    assert_eq!(
        vault.append(RowKind::Consumed, Some(receipt(1)), &good).unwrap_err().detail,
        Detail::JournalIo
    );
    assert_eq!(vault.append(RowKind::Issued, Some(receipt(1)), &good), Ok(1));
}

#[test]
fn every_flipped_bit_and_every_other_length_of_signed_claims_is_refused() {
    let home = Home::new();
    let mut vault = home.vault();
    let bytes = canonical::to_bytes(&claims(receipt(1), "s")).unwrap();
    let signed = vault.sign(&bytes).unwrap();
    assert_eq!(vault.verify(&signed, &bytes), Ok(()));
    let refused = |signed: &Signed, claims: &[u8]| {
        assert_eq!(vault.verify(signed, claims).unwrap_err().detail, Detail::Mac);
        assert!(vault.verify_row(signed, claims, 1).is_err());
    };
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        refused(&signed, &flipped);
    }
    for bit in 0..256 {
        let mut mac = signed.mac;
        mac.0[bit / 8] ^= 1 << (bit % 8);
        refused(&Signed { mac, ..signed.clone() }, &bytes);
    }
    (0..bytes.len()).for_each(|len| refused(&signed, &bytes[..len]));
    (1..=64).for_each(|more| refused(&signed, &[bytes.as_slice(), &vec![b' '; more]].concat()));
    refused(&signed, &vec![b'x'; 10 * 1024 * 1024]);
    refused(&Signed { kid: "0000000000000000".to_owned(), ..signed.clone() }, &bytes);
}

#[test]
fn a_value_has_one_form_and_an_integer_no_double_can_hold_has_none() {
    let value: Value = serde_json::from_str("{\"b\": {\"c\": true}, \"a\": [1.0, \"\\u00e9\", -0]}").unwrap();
    assert_eq!(canonical::to_bytes(&value).unwrap(), r#"{"a":[1,"é",0],"b":{"c":true}}"#.as_bytes());
    assert_eq!(canonical::to_bytes(&u64::MAX), Err(canonical::CanonicalError::Integer));
}

#[test]
fn records_show_what_became_of_each_receipt_newest_first() {
    let home = Home::new();
    let mut vault = home.vault();
    for n in 1..=5 {
        issue_in(&mut vault, receipt(n), if n % 2 == 0 { "even" } else { "odd" });
    }
    spend(&mut vault, receipt(1), "d1").unwrap();
    spend(&mut vault, receipt(2), "d2").unwrap();
    vault.append(RowKind::Outcome, Some(receipt(2)), &json!({ "status": 200 })).unwrap();
    vault.append(RowKind::Void, Some(receipt(3)), &json!({})).unwrap();
    vault.append(RowKind::Refused, Some(receipt(4)), &json!({ "detail": "changed" })).unwrap();
    vault.append(RowKind::Refused, Some(receipt(6)), &json!({ "sessionId": "even" })).unwrap();
    let states =
        |vault: &mut Vault, limit, before, session: Option<&str>| -> Vec<(ReceiptId, ReceiptState)> {
            vault
                .list(limit, before, session)
                .unwrap()
                .into_iter()
                .map(|record| (record.id, record.state))
                .collect()
        };
    let all = [
        (receipt(6), ReceiptState::Refused),
        (receipt(5), ReceiptState::Prepared),
        (receipt(4), ReceiptState::Refused),
        (receipt(3), ReceiptState::Void),
        (receipt(2), ReceiptState::Consumed),
        (receipt(1), ReceiptState::SpentOutcomeUnknown),
    ];
    assert_eq!(states(&mut vault, 10, None, None), all);
    assert_eq!(states(&mut vault, 2, None, None), all[..2]);
    let before = vault.list(2, None, None).unwrap().last().unwrap().first_seq;
    assert_eq!(states(&mut vault, 10, Some(before), None), all[2..]);
    assert_eq!(states(&mut vault, 10, None, Some("even")), [all[0], all[2], all[4]]);
    home.clock.boottime.fetch_add(60_001, Ordering::SeqCst);
    assert_eq!(vault.record(receipt(5)).unwrap().unwrap().state, ReceiptState::Expired);
    assert_eq!(vault.record(receipt(7)).unwrap(), None);
}

#[test]
fn a_stuck_writer_makes_the_journal_busy_and_not_broken() {
    let home = Home::new();
    let mut vault = home.vault_with(Limits { busy_ms: 20, ..Limits::default() });
    issue(&mut vault, receipt(1));
    let raw = home.raw();
    raw.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert_eq!(spend(&mut vault, receipt(1), "d"), Err(Detail::JournalBusy));
    // Looking is not writing.
    assert!(home.vault().verify_chain().unwrap().ok);
    raw.execute_batch("ROLLBACK").unwrap();
    assert_eq!(spend(&mut vault, receipt(1), "d"), Ok(2));
}

#[test]
fn a_full_disk_refuses_ends_the_handle_and_recovers_when_space_returns() {
    let home = Home::new();
    let mut vault = home.vault();
    (1..=200).for_each(|n| issue_as(&mut vault, n));
    drop(vault);
    let pages: u32 = home.raw().query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    for room in 0..4 {
        let mut vault = home.vault_with(Limits { pages_max: pages + room, ..Limits::default() });
        // A consumption may still fit, so loop until one fails.
        let fails = (1..=200).find_map(|n| {
            spend(&mut vault, receipt(n), &format!("{room}-{n}")).err().filter(|e| *e != Detail::Consumed)
        });
        assert_eq!(fails, Some(Detail::JournalIo));
        assert_eq!(spend(&mut vault, receipt(200), "late"), Err(Detail::JournalIo));
    }
    let before = chain(&home);
    assert_eq!(spend(&mut home.vault(), receipt(200), "late"), Ok(before.head_seq + 1));
    assert_eq!(chain(&home).consumed, before.consumed + 1);
}

#[test]
fn several_handles_append_in_turn_to_one_chain() {
    let home = Home::new();
    let mut vaults = [home.vault(), home.vault(), home.vault()];
    for n in 1..=60 {
        let vault = &mut vaults[usize::from(n) % 3];
        issue(vault, receipt(n));
        spend(&mut vaults[usize::from(n + 1) % 3], receipt(n), &format!("d{n}")).unwrap();
    }
    assert_eq!((chain(&home).rows, chain(&home).consumed), (120, 60));
}

#[test]
fn after_a_rotation_the_old_key_verifies_old_rows_and_spends_nothing() {
    let home = Home::new();
    let (mut vault, mut other) = (home.vault(), home.vault());
    issue(&mut other, receipt(1));
    issue(&mut other, receipt(2));
    spend(&mut other, receipt(2), "d2").unwrap();
    let bytes = canonical::to_bytes(&claims(receipt(1), "s")).unwrap();
    let old = other.sign(&bytes).unwrap();
    let kid = vault.rotate_key().unwrap();
    assert_eq!(vault.keyring().current().kid, kid);
    assert_eq!(vault.verify(&old, &bytes).unwrap_err().detail, Detail::Mac);
    assert_eq!(vault.verify_row(&old, &bytes, 3), Ok(()));
    assert_eq!(vault.verify_row(&old, &bytes, 4).unwrap_err().detail, Detail::Mac);
    // Another handle, which has not heard of it, learns of it before it spends or signs.
    assert_eq!(spend(&mut other, receipt(1), "d1"), Err(Detail::Mac));
    issue(&mut other, receipt(3));
    assert_eq!(spend(&mut other, receipt(3), "d3"), Ok(6));
    vault.rotate_key().unwrap();
    issue(&mut other, receipt(4));
    assert_eq!(spend(&mut vault, receipt(4), "d4"), Ok(9));
    assert_eq!(chain(&home).rows, 9);
}

#[test]
fn rotations_and_prunings_in_the_middle_of_other_work_disturb_nobody() {
    let home = Home::new();
    drop(home.vault());
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let home = &home;
            scope.spawn(move || {
                let mut vault = home.vault();
                for n in worker * 20..worker * 20 + 20 {
                    // A key may change between signing and issuing, and between issuing and spending: said, never broken.
                    let body = signed_body(&mut vault, &claims(receipt(n), "s"));
                    let issued = vault
                        .append(RowKind::Issued, Some(receipt(n)), &body)
                        .map_err(|refusal| refusal.detail);
                    let spent = issued.and_then(|_| spend(&mut vault, receipt(n), &format!("d{n}")));
                    // And here every row counts as old: an issued one may be pruned before it is spent.
                    let said = [Detail::Mac, Detail::Mismatch(Field::Journal)];
                    assert!(
                        spent.as_ref().map_or_else(|detail| said.contains(detail), |_| true),
                        "{spent:?}"
                    );
                    assert!(vault.record(receipt(n)).is_ok());
                }
            });
        }
        let home = &home;
        scope.spawn(move || {
            let mut vault = home.vault();
            for _ in 0..20 {
                vault.rotate_key().unwrap();
                assert_eq!(vault.verify_chain().unwrap().problem, None);
            }
        });
        scope.spawn(move || {
            for _ in 0..20 {
                assert_eq!(home.vault().verify_chain().unwrap().problem, None);
                home.vault().prune(WALL_MS + JOURNAL_KEEP_MS + 1).unwrap();
            }
        });
    });
    chain(&home);
}

#[test]
fn pruning_keeps_the_chain_and_every_delivery() {
    let home = Home::new();
    let mut vault = home.vault();
    for n in 1..=3 {
        issue(&mut vault, receipt(n));
        spend(&mut vault, receipt(n), &format!("d{n}")).unwrap();
    }
    assert_eq!(vault.prune(WALL_MS + JOURNAL_KEEP_MS), Ok(None));
    home.clock.wall.fetch_add(JOURNAL_KEEP_MS + 1, Ordering::SeqCst);
    issue(&mut vault, receipt(4));
    // The anchored row, the sixth, stays although it is old.
    assert_eq!(vault.prune(WALL_MS + JOURNAL_KEEP_MS + 1), Ok(Some(Pruned { rows: 5, before: 6 })));
    assert_eq!(vault.prune(WALL_MS + JOURNAL_KEEP_MS + 1), Ok(Some(Pruned { rows: 1, before: 7 })));
    let report = chain(&home);
    assert_eq!((report.first_seq, report.rows, report.head_seq, report.anchored_seq), (7, 3, 9, 9));
    assert_eq!(vault.record(receipt(1)).unwrap(), None);
    assert_eq!(spend(&mut vault, receipt(1), "new"), Err(Detail::Mismatch(Field::Journal)));
    assert_eq!(spend(&mut vault, receipt(4), "d1"), Err(Detail::Replay));
    assert_eq!(spend(&mut vault, receipt(4), "d4"), Ok(10));
    // A clock that jumps ten years takes history, but makes nothing spendable.
    vault.prune(WALL_MS + 40 * JOURNAL_KEEP_MS).unwrap().unwrap();
    assert_eq!(spend(&mut vault, receipt(4), "d5"), Err(Detail::Mismatch(Field::Journal)));
    issue(&mut vault, receipt(5));
    assert_eq!(spend(&mut vault, receipt(5), "d4"), Err(Detail::Replay));
    drop(vault);
    chain(&home);
}

#[test]
fn a_reset_keeps_the_old_files_aside_and_ends_other_handles() {
    let home = Home::new();
    let mut other = home.vault();
    issue(&mut other, receipt(1));
    let old_id = other.journal_id().to_owned();
    let Reset { aside, rules } = Vault::reset(&home.dir, &home.seams).unwrap();
    assert_eq!(rules, ResetRules::None);
    assert_eq!(aside, home.dir.gate_dir().join(format!("old-{WALL_MS}")));
    let mut kept: Vec<_> =
        aside.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    kept.sort();
    assert_eq!(
        kept,
        ["anchor", "journal.sqlite", "journal.sqlite-shm", "journal.sqlite-wal", "keyring.json"]
    );
    assert_eq!(spend(&mut other, receipt(1), "d"), Err(Detail::JournalRolledBack));
    let mut vault = home.vault();
    assert_ne!(vault.journal_id(), old_id);
    issue(&mut vault, receipt(2));
    spend(&mut vault, receipt(2), "d").unwrap();
    drop(vault);
    // The stale handle's end removes nothing of the new journal.
    drop(other);
    assert_eq!(chain(&home).consumed, 1);
    assert_ne!(Vault::reset(&home.dir, &home.seams).unwrap().aside, aside);
}

#[test]
fn check_names_each_piece_and_changes_nothing() {
    let home = Home::new();
    let mut vault = home.vault();
    issue(&mut vault, receipt(1));
    spend(&mut vault, receipt(1), "d").unwrap();
    drop(vault);
    let files = ["keyring.json", "journal.sqlite", "journal.sqlite-wal", "anchor"]
        .map(|name| (name, home.read(name)));
    let findings = Vault::check(&home.dir, &home.seams);
    let pieces: Vec<_> = findings.iter().map(|finding| (finding.piece, finding.detail)).collect();
    assert_eq!(pieces, [("keyring", None), ("journal", None), ("chain", None)]);
    for (name, bytes) in files {
        assert_eq!(Digest::of(&home.read(name)), Digest::of(&bytes), "{name}");
    }
    home.remove("anchor");
    let missing = Vault::check(&home.dir, &home.seams);
    assert_eq!(missing.last().unwrap().detail, Some(Detail::JournalMissing));
    assert!(missing.last().unwrap().advice.contains("agentspine state reset --confirm"));
    assert!(!home.dir.anchor().exists());
}

#[test]
fn a_first_start_that_a_crash_cut_short_is_completed() {
    let pieces = ["keyring.json", "journal.sqlite", "journal.sqlite-wal", "anchor"];
    // What stands after each step: file made, schema written, anchor made.
    for kept in [&pieces[1..1], &pieces[1..2], &pieces[1..3], &pieces[1..4]] {
        let home = Home::new();
        drop(home.vault());
        for name in pieces.iter().filter(|name| !kept.contains(name)) {
            home.remove(name);
        }
        home.remove("journal.sqlite-shm");
        let mut vault = home.vault();
        issue(&mut vault, receipt(1));
        spend(&mut vault, receipt(1), "d").unwrap();
    }
    let home = Home::new();
    std::os::unix::fs::OpenOptionsExt::mode(std::fs::OpenOptions::new().write(true).create_new(true), 0o600)
        .open(home.dir.journal())
        .unwrap();
    home.vault();
}

#[test]
fn a_first_start_by_many_at_once_makes_one_vault() {
    let home = Home::new();
    let ids: Vec<_> = std::thread::scope(|scope| {
        let starts: Vec<_> = (1..=16)
            .map(|n| {
                let (dir, seams) = (&home.dir, &home.seams);
                scope.spawn(move || {
                    let mut vault = Vault::open(dir, seams).unwrap();
                    issue(&mut vault, receipt(n));
                    spend(&mut vault, receipt(n), &format!("d{n}")).unwrap();
                    vault.journal_id().to_owned()
                })
            })
            .collect();
        starts.into_iter().map(|start| start.join().unwrap()).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]));
    assert_eq!(chain(&home).consumed, 16);
}

/// Randomness that fails at one call.
struct FailsAt(AtomicU64, Arc<dyn Rng>);

impl Rng for FailsAt {
    fn fill(&self, out: &mut [u8]) -> std::io::Result<()> {
        match self.0.fetch_sub(1, Ordering::SeqCst) {
            1 => Err(std::io::ErrorKind::Other.into()),
            _ => self.1.fill(out),
        }
    }
}

#[test]
fn randomness_that_fails_at_any_call_refuses_and_the_next_try_works() {
    for nth in 1..=5 {
        let mut home = Home::new();
        let whole = home.seams.clone();
        home.seams.rng = Arc::new(FailsAt(AtomicU64::new(nth), whole.rng.clone()));
        let failed = home.open().and_then(|mut vault| vault.rotate_key());
        assert_eq!(failed.unwrap_err().detail, Detail::JournalIo, "call {nth}");
        home.seams = whole;
        let mut vault = home.vault();
        issue(&mut vault, receipt(1));
        spend(&mut vault, receipt(1), "d").unwrap();
        vault.rotate_key().unwrap();
        assert!(vault.verify_chain().unwrap().ok);
    }
}

#[test]
fn check_before_the_first_start_finds_nothing_wrong_and_makes_nothing() {
    let home = Home::new();
    assert!(Vault::check(&home.dir, &home.seams).iter().all(agentspine_gate::journal::Finding::ok));
    assert_eq!(home.dir.gate_dir().read_dir().unwrap().count(), 0);
}

#[test]
fn a_killed_process_loses_no_acknowledged_consumption_and_the_next_start_is_clean() {
    let home = Home::new();
    for round in 0..10_u8 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "spender", "--nocapture"])
            .env("VAULT_SPENDER", home.dir.root())
            .env("VAULT_FIRST", (round * 20).to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let acked: Vec<u8> = lines
            .filter_map(|line| line.rsplit_once("<ack ")?.1.strip_suffix('>')?.parse().ok())
            .take(usize::from(round) + 1)
            .collect();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(acked.len(), usize::from(round) + 1);
        let mut vault = home.vault();
        for n in acked {
            assert_eq!(spend(&mut vault, receipt(n), "again"), Err(Detail::Consumed));
        }
        assert!(vault.verify_chain().unwrap().ok);
    }
}

/// The process that the test above kills; a pass by itself.
#[test]
#[allow(clippy::disallowed_methods, clippy::print_stdout)]
fn spender() {
    let Some(root) = std::env::var_os("VAULT_SPENDER") else { return };
    let first: u8 = std::env::var("VAULT_FIRST").unwrap().parse().unwrap();
    let (_, seams) = common::seams();
    let mut vault = Vault::open(&StateDir::open(root, None).unwrap(), &seams).unwrap();
    for n in first..first + 20 {
        issue(&mut vault, receipt(n));
        spend(&mut vault, receipt(n), &format!("d{n}")).unwrap();
        println!("<ack {n}>");
    }
}

const PROCESSES: usize = 16;
const THREADS: usize = 5;
const ATTEMPTS: usize = 125;

#[test]
fn of_10_000_attempts_from_16_processes_exactly_one_consumes() {
    let home = Home::new();
    issue(&mut home.vault(), receipt(1));
    let children: Vec<_> = (0..PROCESSES)
        .map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "racer", "--nocapture", "--include-ignored"])
                .env("VAULT_RACER", home.dir.root())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    let count =
        |word: &str, outputs: &[String]| outputs.iter().map(|out| out.matches(word).count()).sum::<usize>();
    let outputs: Vec<_> = children
        .into_iter()
        .map(|child| String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap())
        .collect();
    assert_eq!(
        (count("<won>", &outputs), count("<consumed>", &outputs)),
        (1, PROCESSES * THREADS * ATTEMPTS - 1)
    );
    let report = chain(&home);
    assert_eq!((report.consumed, report.anchored_seq), (1, 2));
}

/// One of the processes of the test above; a pass by itself.
#[test]
#[allow(clippy::disallowed_methods, clippy::print_stdout)]
fn racer() {
    let Some(root) = std::env::var_os("VAULT_RACER").map(PathBuf::from) else { return };
    let race = |thread: usize| {
        let (_, seams) = common::seams();
        let mut vault = Vault::open(&StateDir::open(root.clone(), None).unwrap(), &seams).unwrap();
        for n in 0..ATTEMPTS {
            let delivery = format!("{}-{thread}-{n}", std::process::id());
            match spend(&mut vault, receipt(1), &delivery) {
                Ok(_) => println!("<won>"),
                Err(detail) => println!("<{detail}>"),
            }
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|thread| drop(scope.spawn(move || race(thread)))));
}
