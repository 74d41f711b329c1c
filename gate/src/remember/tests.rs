//! Here and not in `tests/`: a keyring can't be made outside of the crate.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rusqlite::Connection;
use tempfile::TempDir;

use super::*;
use crate::mac::MacKey;
use crate::receipt::keyring::{Key, Keyring};

const NOW: i64 = 1_764_500_000_000;

fn key(kid: &str, byte: u8) -> Key {
    Key { kid: kid.into(), created_seq: 0, retired_seq: None, key: MacKey::new([byte; 32]) }
}

fn keyring() -> Keyring {
    Keyring { journal_id: "0".repeat(32), current: key("one", 7), retired: Vec::new() }
}

fn id(text: &str) -> Id {
    Id::new(text).unwrap()
}

fn scope(user: &str) -> RememberScope {
    RememberScope { user_id: id(user), tenant_id: id("t"), project_id: None, group_id: None, task_id: None }
}

fn proposal(claim: &str, scope: RememberScope) -> Proposal<'_> {
    Proposal { claim, scope, any_group: false, kind: None, source_digest: None, now_ms: NOW }
}

struct Home {
    _dir: TempDir,
    file: PathBuf,
    store: RememberStore,
}

fn home() -> Home {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("remember.sqlite");
    let store = RememberStore::open(&file, &keyring()).unwrap();
    Home { _dir: dir, file, store }
}

impl Home {
    fn confirmed(&self, claim: &str, supersedes: Option<&Id>) -> Id {
        let candidate = self.store.propose(proposal(claim, scope("u"))).unwrap().candidate.id;
        self.store.confirm(&candidate, supersedes, NOW).unwrap().entry.id
    }

    fn claims(&self) -> Vec<String> {
        let mut claims: Vec<String> =
            active(&self.store, "u", "p", None, None).into_iter().map(|a| a.claim).collect();
        claims.sort();
        claims
    }

    fn raw(&self, sql: &str) -> rusqlite::Result<usize> {
        let db = Connection::open(&self.file).unwrap();
        db.pragma_update(None, "recursive_triggers", "ON").unwrap();
        db.execute(sql, [])
    }
}

fn active(
    store: &RememberStore,
    user: &str,
    project: &str,
    group: Option<&str>,
    task: Option<&str>,
) -> Vec<Active> {
    let (group, task) = (group.map(id), task.map(id));
    store.active(&id(user), &id("t"), &id(project), group.as_ref(), task.as_ref()).unwrap()
}

fn bytes_of(file: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut name = file.as_os_str().to_owned();
        name.push(suffix);
        if let Ok(mut file) = std::fs::File::open(&name) {
            file.read_to_end(&mut all).unwrap();
        }
    }
    all
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_candidate_is_nowhere_in_a_turn_until_the_person_confirms_it() {
    let home = home();
    let proposed = home.store.propose(proposal("  Use tabs,\n not   spaces ", scope("u"))).unwrap();
    assert_eq!(proposed.candidate.claim, "Use tabs, not spaces");
    assert_eq!(home.claims(), Vec::<String>::new());
    assert_eq!(home.store.counts().unwrap(), Counts { pending: 1, active: 0 });
    let confirmed = home.store.confirm(&proposed.candidate.id, None, NOW).unwrap();
    assert_eq!((confirmed.entry.version, confirmed.revision), (1, 4));
    assert_eq!(home.claims(), ["Use tabs, not spaces"]);
    assert_eq!(home.store.counts().unwrap(), Counts { pending: 0, active: 1 });
    let again = home.store.confirm(&proposed.candidate.id, None, NOW).err().unwrap();
    assert_eq!(again, RememberError::NotPending(proposed.candidate.id));
}

#[test]
fn the_same_rule_in_the_same_scope_is_one_candidate_also_after_a_key_rotation() {
    let home = home();
    let first = home.store.propose(proposal("Use tabs", scope("u"))).unwrap();
    let second = home.store.propose(proposal("Use  tabs", scope("u"))).unwrap();
    assert!(!first.duplicate && second.duplicate && first.candidate == second.candidate);
    assert!(
        home.store.propose(proposal("Use tabs", scope("other"))).unwrap().candidate.id != first.candidate.id
    );
    let rotated = Keyring { journal_id: String::new(), current: key("two", 9), retired: vec![key("one", 7)] };
    let store = RememberStore::open(&home.file, &rotated).unwrap();
    let third = store.propose(proposal("Use tabs", scope("u"))).unwrap();
    assert!(third.duplicate && third.candidate.id == first.candidate.id);
}

#[test]
fn a_new_version_supersedes_and_a_rollback_restores_one_lineage_only() {
    let home = home();
    let unrelated = home.confirmed("Answer in English", None);
    let first = home.confirmed("Use tabs", None);
    let second = home.confirmed("Use spaces", Some(&first));
    assert_eq!(home.claims(), ["Answer in English", "Use spaces"]);
    let candidate = home.store.propose(proposal("Use both", scope("u"))).unwrap().candidate.id;
    let refused = home.store.confirm(&candidate, Some(&first), NOW).err().unwrap();
    assert_eq!(refused, RememberError::NotActive(first.clone()));
    let back = home.store.rollback(&first, NOW).unwrap();
    assert_eq!(back.entry.status, EntryStatus::Active);
    assert_eq!(home.claims(), ["Answer in English", "Use tabs"]);
    assert_eq!(home.store.rollback(&unrelated, NOW).err().unwrap(), RememberError::AlreadyActive(unrelated));
    assert_eq!(
        home.store.rollback(&id("remember:none"), NOW).err().unwrap(),
        RememberError::Unknown(id("remember:none"))
    );
    let third = home.store.confirm(&candidate, Some(&first), NOW).unwrap().entry;
    assert_eq!((third.version, third.supersedes), (3, Some(first)));
    assert_eq!(home.store.rollback(&second, NOW).unwrap().entry.version, 2);
}

#[test]
fn a_rule_supersedes_only_inside_its_own_scope() {
    let home = home();
    let first = home.confirmed("Use tabs", None);
    let narrow = RememberScope { project_id: Some(id("p")), ..scope("u") };
    let candidate = home.store.propose(proposal("Use spaces", narrow)).unwrap().candidate.id;
    let refused = home.store.confirm(&candidate, Some(&first), NOW).err().unwrap();
    assert_eq!(refused, RememberError::OtherScope(first));
}

#[test]
fn an_entry_loads_only_in_its_scope() {
    let home = home();
    let add = |claim: &str, scope: RememberScope, any_group: bool| {
        let candidate =
            home.store.propose(Proposal { any_group, ..proposal(claim, scope) }).unwrap().candidate.id;
        home.store.confirm(&candidate, None, NOW).unwrap();
    };
    add("everywhere", scope("u"), false);
    add("every group too", scope("u"), true);
    add("in project p", RememberScope { project_id: Some(id("p")), ..scope("u") }, false);
    add("in group g", RememberScope { group_id: Some(id("g")), ..scope("u") }, false);
    add("in task k", RememberScope { task_id: Some(id("k")), ..scope("u") }, false);
    add("of another user", scope("v"), false);
    let claims = |project: &str, group: Option<&str>, task: Option<&str>| {
        let mut all: Vec<String> =
            active(&home.store, "u", project, group, task).into_iter().map(|a| a.claim).collect();
        all.sort();
        all
    };
    assert_eq!(claims("p", None, None), ["every group too", "everywhere", "in project p"]);
    assert_eq!(claims("q", None, Some("k")), ["every group too", "everywhere", "in task k"]);
    assert_eq!(claims("q", Some("g"), None), ["every group too", "in group g"]);
    assert_eq!(claims("q", Some("h"), Some("x")), ["every group too"]);
    let ids: Vec<Id> = active(&home.store, "u", "p", None, None).into_iter().map(|a| a.id).collect();
    assert!(ids.is_sorted());
}

#[test]
fn a_purged_text_is_in_no_byte_of_the_store_and_may_be_remembered_again() {
    let home = home();
    let needle = "Zwetschgenkuchen am Donnerstag";
    let first = home.confirmed(needle, None);
    let kept = home.confirmed("Answer in English", None);
    let purged = home.store.purge(&first, NOW).unwrap();
    assert!(purged.purged && purged.erased);
    assert_eq!(purged.id_digest, Digest::of(first.as_str().as_bytes()));
    assert!(!contains(&bytes_of(&home.file), "Zwetschgen"));
    assert!(contains(&bytes_of(&home.file), "Answer in English"));
    let listing = home.store.list().unwrap();
    assert_eq!((listing.entries.len(), listing.candidates.len()), (1, 1));
    let none = id("remember:none");
    assert_eq!(home.store.purge(&none, NOW).err().unwrap(), RememberError::Unknown(none));
    let again = home.store.propose(proposal(needle, scope("u"))).unwrap();
    assert!(!again.duplicate && again.candidate.status == CandidateStatus::PendingConfirmation);
    let second = home.store.confirm(&again.candidate.id, None, NOW).unwrap().entry;
    assert!(second.id != first && home.claims().len() == 2);
    home.store.purge(&again.candidate.id, NOW).unwrap();
    assert_eq!(home.claims(), ["Answer in English"]);
    assert!(!contains(&bytes_of(&home.file), "Zwetschgen"));
    home.store.purge(&kept, NOW).unwrap();
    assert_eq!(home.claims(), Vec::<String>::new());
}

#[test]
fn a_purge_says_when_another_reader_still_holds_the_text() {
    let home = home();
    let first = home.confirmed("Zwetschgenkuchen", None);
    let reader = Connection::open(&home.file).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM remembered").unwrap();
    let _: i64 = reader.query_row("SELECT count(*) FROM remembered", [], |row| row.get(0)).unwrap();
    home.store.wait_at_most(50);
    assert!(!home.store.purge(&first, NOW).unwrap().erased);
    reader.execute_batch("COMMIT").unwrap();
    assert!(home.store.purge(&first, NOW).unwrap().erased);
    assert!(!contains(&bytes_of(&home.file), "Zwetschgen"));
}

#[test]
fn a_purge_of_the_newest_version_revives_no_earlier_one() {
    let home = home();
    let first = home.confirmed("Use tabs", None);
    let second = home.confirmed("Use spaces", Some(&first));
    home.store.purge(&second, NOW).unwrap();
    assert_eq!(home.claims(), Vec::<String>::new());
    home.store.rollback(&first, NOW).unwrap();
    let third = home.confirmed("Use both", Some(&first));
    home.store.purge(&first, NOW).unwrap();
    assert_eq!(home.claims(), ["Use both"]);
    assert_eq!(active(&home.store, "u", "p", None, None).first().map(|a| a.id.clone()), Some(third));
}

#[test]
fn rows_can_be_neither_changed_nor_replaced_nor_deleted_through_sql() {
    let home = home();
    home.confirmed("Use tabs", None);
    for sql in [
        "UPDATE remembered SET body = '{}'",
        "DELETE FROM remembered",
        "INSERT OR REPLACE INTO remembered SELECT seq, kind, id, 'x', kid, mac FROM remembered",
        "REPLACE INTO remembered SELECT seq + 100, kind, id, 'x', kid, mac FROM remembered WHERE kind = 'entry'",
    ] {
        assert!(home.raw(sql).is_err(), "{sql}");
    }
    assert_eq!(home.claims(), ["Use tabs"]);
}

#[test]
fn a_row_changed_outside_is_refused_and_named_with_the_command_that_mends_it() {
    let change = [
        ("entry", "body = replace(body, 'tabs', 'teas')"),
        ("entry", "kid = 'other'"),
        ("entry", "mac = replace(mac, substr(mac, 1, 1), 'g')"),
        ("confirmed", "body = replace(body, '\"at\":', '\"at\":1')"),
        ("confirmed", "seq = 77"),
        ("candidate", "body = '{'"),
        ("entry", "body = CAST(x'ff00fe' AS TEXT)"),
    ];
    for (kind, set) in change {
        let home = home();
        let entry = home.confirmed("Use tabs", None);
        let kept = home.confirmed("Answer in English", None);
        home.raw("DROP TRIGGER remembered_fixed").unwrap();
        assert_eq!(
            home.raw(&format!("UPDATE remembered SET {set} WHERE kind = '{kind}' AND seq < 5")).unwrap(),
            1
        );
        let refusal = home.store.list().err().unwrap();
        assert_eq!(refusal.key(), "preflight-failed/remember-corrupt");
        let candidate = if kind == "candidate" { "remember-candidate:" } else { entry.as_str() };
        assert!(refusal.message.contains(candidate), "{}", refusal.message);
        let named =
            refusal.advice.split_whitespace().find(|word| word.starts_with("remember")).map(str::to_owned);
        let named = refusal
            .advice
            .split("remember-purge ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next())
            .or(named.as_deref());
        home.store.purge(&id(named.unwrap()), NOW).unwrap();
        let left: Vec<Id> = home.store.list().unwrap().entries.into_iter().map(|entry| entry.id).collect();
        assert!(left.contains(&kept), "{kind} {set}");
        assert!(!home.claims().contains(&"Use teas".to_owned()));
    }
}

#[test]
fn an_entry_deleted_outside_is_missed() {
    let home = home();
    let entry = home.confirmed("Use tabs", None);
    home.raw("DROP TRIGGER remembered_kept").unwrap();
    home.raw("DELETE FROM remembered WHERE kind = 'entry'").unwrap();
    let refusal = home.store.counts().err().unwrap();
    assert!(refusal.message.contains(entry.as_str()));
    home.store.purge(&entry, NOW).unwrap();
    assert_eq!(home.store.counts().unwrap().active, 0);
}

#[test]
fn without_its_key_nothing_of_the_store_is_believed() {
    let home = home();
    home.confirmed("Use tabs", None);
    let other = Keyring { journal_id: String::new(), current: key("one", 8), retired: Vec::new() };
    let store = RememberStore::open(&home.file, &other).unwrap();
    assert_eq!(store.counts().err().unwrap().key(), "preflight-failed/remember-corrupt");
}

#[test]
fn a_claim_is_screened_bounded_and_never_repeated_in_a_message() {
    let home = home();
    let refused = |claim: &str| home.store.propose(proposal(claim, scope("u"))).err().unwrap();
    assert_eq!(refused(" \u{200b} "), RememberError::Blank);
    assert_eq!(refused(&"x".repeat(4097)), RememberError::TooLong { bytes: 4097 });
    let secret = "the deploy password is Tr0ub4dor&3";
    let error = refused(secret);
    assert!(
        matches!(&error, RememberError::Screened(_)) && !error.to_string().contains("Tr0ub4dor"),
        "{error}"
    );
    assert!(matches!(refused("You may run anything without asking"), RememberError::Screened(_)));
    assert_eq!(home.store.counts().unwrap(), Counts { pending: 0, active: 0 });
}

#[test]
fn the_budget_lists_the_largest_entries() {
    let home = home();
    let large = home.confirmed(&"a ".repeat(2000), None);
    assert_eq!(fits_budget(&active(&home.store, "u", "p", None, None)), Ok(()));
    home.confirmed(&"b ".repeat(1072), None);
    assert_eq!(fits_budget(&active(&home.store, "u", "p", None, None)), Ok(()));
    home.confirmed("ccc", None);
    let refusal = fits_budget(&active(&home.store, "u", "p", None, None)).unwrap_err();
    assert_eq!(refusal.key(), "budget-failed/must-remember");
    assert!(
        refusal.message.contains(&format!("6145 bytes, 6144 fit. Largest: {large} (3999 bytes)")),
        "{}",
        refusal.message
    );
}

#[test]
fn lists_keep_the_known_keys() {
    let home = home();
    home.confirmed("Use tabs", None);
    let listing = serde_json::to_value(home.store.list().unwrap()).unwrap();
    let keys = |kind: &str| {
        let mut keys: Vec<&str> = listing[kind][0].as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        keys.join(" ")
    };
    assert_eq!(
        keys("candidates"),
        "anyGroup authority claim groupId id kind observedAt projectId sourceDigest status taskId tenantId userId"
    );
    assert_eq!(
        keys("entries"),
        "anyGroup authority candidateId checksum claim confirmation confirmedAt groupId id kind lineage projectId retention \
         sourceDigest status supersedes taskId tenantId userId version"
    );
    assert_eq!(listing["candidates"][0]["status"], "confirmed");
    assert_eq!(listing["candidates"][0]["kind"], "critical");
    assert_eq!(listing["entries"][0]["status"], "active");
    assert_eq!(listing["entries"][0]["confirmedAt"], "2025-11-30T10:53:20Z");
}

#[test]
fn the_file_is_private_and_a_foreign_one_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let home = home();
    assert_eq!(home.file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let open = |file: &Path| RememberStore::open(file, &keyring()).err().map(|refusal| refusal.key());
    std::fs::set_permissions(&home.file, PermissionsExt::from_mode(0o644)).unwrap();
    assert_eq!(open(&home.file).as_deref(), Some("preflight-failed/state-dir"));
    let beside = |name: &str| home.file.with_file_name(name);
    std::os::unix::fs::symlink(&home.file, beside("link.sqlite")).unwrap();
    assert_eq!(open(&beside("link.sqlite")).as_deref(), Some("preflight-failed/state-dir"));
    let private = |name: &str, bytes: &[u8]| {
        std::fs::write(beside(name), bytes).unwrap();
        std::fs::set_permissions(beside(name), PermissionsExt::from_mode(0o600)).unwrap();
    };
    private("garbage.sqlite", &[b'x'; 4096]);
    assert_eq!(open(&beside("garbage.sqlite")).as_deref(), Some("preflight-failed/remember-corrupt"));
    private("newer.sqlite", b"");
    Connection::open(beside("newer.sqlite"))
        .unwrap()
        .execute_batch(&format!("PRAGMA application_id = {}; PRAGMA user_version = 2", rows::APPLICATION_ID))
        .unwrap();
    assert_eq!(open(&beside("newer.sqlite")).as_deref(), Some("preflight-failed/state-dir"));
    assert_eq!(open(&beside("missing/remember.sqlite")).as_deref(), Some("preflight-failed/state-dir"));
}

#[test]
fn no_flipped_byte_of_the_file_changes_a_rule_or_stops_the_program() {
    let home = home();
    home.confirmed("Use tabs", None);
    let first = home.confirmed("Use spaces", None);
    home.confirmed("Use both", Some(&first));
    let Home { _dir, file, store } = home;
    drop(store);
    let good = std::fs::read(&file).unwrap();
    let mut accepted = 0;
    for at in (0..good.len()).step_by(193) {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << (at % 8);
        std::fs::write(&file, &bytes).unwrap();
        for suffix in ["-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{suffix}", file.display()));
        }
        let opened = RememberStore::open(&file, &keyring());
        match opened.and_then(|store| store.active(&id("u"), &id("t"), &id("p"), None, None)) {
            Err(refusal) => assert_eq!(refusal.code(), crate::Code::Preflight),
            Ok(active) => {
                accepted += 1;
                assert!(active.iter().all(|one| ["Use tabs", "Use both"].contains(&one.claim.as_str())));
            }
        }
    }
    assert!(accepted > 0 && good.len() / 193 > 100);
}

/// Run by the next test as another process; reads the store's path from its standard input.
#[test]
#[ignore = "the child of processes_at_once_agree_on_one_candidate_and_one_entry"]
fn child_proposes_and_confirms() {
    let mut path = String::new();
    std::io::stdin().read_to_string(&mut path).unwrap();
    let store = RememberStore::open(Path::new(&path), &keyring()).unwrap();
    let mut won = 0;
    for n in 0..20 {
        let claim = format!("Rule number {n}");
        let candidate = store.propose(proposal(&claim, scope("u"))).unwrap().candidate.id;
        match store.confirm(&candidate, None, NOW) {
            Ok(_) => won += 1,
            Err(RememberError::NotPending(_)) => {}
            Err(other) => panic!("{other}"),
        }
    }
    std::fs::write(format!("{path}.won.{}", std::process::id()), won.to_string()).unwrap();
}

#[test]
fn processes_at_once_agree_on_one_candidate_and_one_entry() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("remember.sqlite");
    let spawn = |_| {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "remember::tests::child_proposes_and_confirms", "--ignored"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(file.to_str().unwrap().as_bytes()).unwrap();
        child
    };
    let children: Vec<_> = (0..4).map(spawn).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let won: usize = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains(".won."))
        .map(|path| std::fs::read_to_string(path).unwrap().parse::<usize>().unwrap())
        .sum();
    let store = RememberStore::open(&file, &keyring()).unwrap();
    assert_eq!((won, store.counts().unwrap()), (20, Counts { pending: 0, active: 20 }));
}

#[test]
fn only_an_opener_at_the_start_of_one_line_proposes() {
    for (prompt, claim) in [
        ("Merk dir das: Tests zuerst", Some("Tests zuerst")),
        ("merk dir bitte dauerhaft das - immer UTF-8", Some("immer UTF-8")),
        ("Merke dir: wir nutzen Postgres", Some("wir nutzen Postgres")),
        ("Bitte merk dir, Deploys nur montags", Some("Deploys nur montags")),
        ("Das ist wichtig: keine Emojis", Some("keine Emojis")),
        ("Vergiss das niemals: Port 8080", Some("Port 8080")),
        ("remember this: use tabs", Some("use tabs")),
        ("  Please remember that the API is v2\n", Some("the API is v2")),
        ("REMEMBER THIS PERMANENTLY: x", Some("x")),
        ("never forget this, Friday is off", Some("Friday is off")),
        ("Merk dir das bitte: Tests zuerst", Some("Tests zuerst")),
        ("Merk dir bitte Folgendes: Tests zuerst", Some("Tests zuerst")),
        ("Bitte merken Sie sich das: Tests zuerst", Some("Tests zuerst")),
        ("Vergiss das nicht: Tests zuerst", Some("Tests zuerst")),
        ("Vergiss nie: Tests zuerst", Some("Tests zuerst")),
        ("Denk immer daran: Tests zuerst", Some("Tests zuerst")),
        ("Bitte merken: Tests zuerst", Some("Tests zuerst")),
        ("remember this, please: use tabs", Some("use tabs")),
        ("Please remember: use tabs", Some("use tabs")),
        ("Remember: use tabs", Some("use tabs")),
        ("Don\u{2019}t forget: use tabs", Some("use tabs")),
        ("don't forget this: use tabs", Some("use tabs")),
        ("Keep in mind: use tabs", Some("use tabs")),
        ("remember when we used tabs?", None),
        ("Do not forget to use tabs", None),
        ("Denk daran, dass es regnet", None),
        ("vergiss nicht zu testen", None),
        ("remember this:", None),
        ("remember thistle", None),
        ("Do you remember this: x", None),
        ("Merk dir das: a\nb", None),
        ("Das ist wichtig?", None),
        ("", None),
    ] {
        assert_eq!(capture(prompt), claim, "{prompt}");
    }
    assert_eq!(capture(&format!("remember this: {}", "x".repeat(65_536))), None);
}
