//! Receipts, state and status from the command line.

use agentspine_gate::journal::RowKind;
use serde_json::json;

use crate::support::Home;
use crate::support::vault::{self, answered, receipt};

#[test]
fn an_empty_home_verifies_with_nothing_in_it() {
    let home = Home::new();
    assert!(home.ok(&["state", "check"]).contains("nothing here yet"));
    assert_eq!(home.ok(&["receipts", "verify"]), "0 consumed receipts, chain ok (0 rows), anchor ok\n");
    assert_eq!(home.ok(&["receipts", "list"]), "no receipts yet\n");
    assert_eq!(
        home.json(&["receipts", "list", "--json"]),
        json!({"schema": "agentspine.receipts/v1", "receipts": []})
    );
}

#[test]
fn a_spent_receipt_is_listed_shown_with_every_bound_field_and_verified() {
    let home = Home::new();
    answered(&home, 0xab, "remember:1");
    assert_eq!(home.ok(&["receipts", "verify"]), "1 consumed receipt, chain ok (3 rows), anchor ok\n");
    let listed = home.ok(&["receipts", "list"]);
    let row: Vec<&str> = listed.lines().nth(1).unwrap().split_whitespace().take(5).collect();
    assert_eq!(row, ["abababab", "consumed", "turn", "demo", "s-171"]);
    let shown = home.ok(&["receipts", "show", "abab"]);
    for field in [
        "documents.0.id",
        "claude:project/CLAUDE.md",
        "mustRemember.0.state",
        "instructionHost",
        "issuedBoottimeMs",
    ] {
        assert!(shown.contains(field), "{field}\n{shown}");
    }
    let document = home.json(&["receipts", "show", "abababab", "--json"]);
    assert_eq!(document["id"], json!("ab".repeat(16)));
    assert_eq!(document["issued"]["body"]["claims"]["sessionId"], "s-171");
    assert_eq!(document["outcome"]["body"], json!({"outcome": "answered"}));
}

#[test]
fn an_ambiguous_or_unknown_id_says_so() {
    let home = Home::new();
    answered(&home, 0x11, "remember:1");
    answered(&home, 0x12, "remember:1");
    let run = home.run(&["receipts", "show", "1"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("more than one receipt begins with 1"), "{}", run.err);
    let run = home.run(&["receipts", "show", "ff"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("there is no receipt ff"), "{}", run.err);
}

#[test]
fn a_spent_receipt_without_an_outcome_is_shown_as_unknown() {
    let home = Home::new();
    let mut vault = vault::open(&home);
    vault::issue(&mut vault, 1, "remember:1");
    vault::spend(&mut vault, 1);
    drop(vault);
    assert!(home.ok(&["receipts", "list"]).contains("spent-outcome-unknown"));
}

#[test]
fn status_keeps_the_known_keys_and_tells_the_last_turn_of_each_session() {
    let home = Home::new();
    answered(&home, 1, "remember:1");
    let mut vault = vault::open(&home);
    let body = json!({"code": "provider-failed", "detail": "exit(3)", "kind": "turn", "host": "agentspine", "sessionId": "s-9"});
    vault.append(RowKind::Refused, Some(receipt(9)), &body).unwrap();
    drop(vault);
    let status = home.json(&["preflight-status", "--json"]);
    let keys: Vec<&str> = status.as_object().unwrap().keys().map(String::as_str).collect();
    let known = [
        "schema",
        "policies",
        "requiredProviders",
        "pendingMemories",
        "activeMustRemember",
        "readyReceipts",
        "status",
        "lastTurn",
        "authority",
        "sessions",
        "enforcement",
        "hostTrust",
        "pausedDirectories",
    ];
    assert_eq!(keys, known);
    assert_eq!(status["schema"], "agentspine.preflight/v2");
    assert_eq!(status["status"], "instructions-only-no-required-provider");
    assert_eq!(
        (&status["lastTurn"]["status"], &status["lastTurn"]["code"]),
        (&json!("blocked"), &json!("provider-failed"))
    );
    let sessions: Vec<_> =
        status["sessions"].as_array().unwrap().iter().map(|turn| &turn["sessionId"]).collect();
    assert_eq!(sessions, ["s-9", "s-1"]);
    assert_eq!(status["sessions"][1]["instructionFiles"], 1);
    assert_eq!(status["enforcement"]["agentspine"], "wrapper-hard");
    assert_eq!(status["enforcement"]["claude"], "not-enforced");
    assert!(home.ok(&["preflight-status"]).contains("provider-failed/exit(3)"));
}

#[test]
fn a_missing_journal_refuses_until_the_person_resets_and_nothing_is_lost() {
    let home = Home::new();
    answered(&home, 1, "remember:1");
    let gate = home.state().join("gate");
    for name in ["journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm"] {
        let _ = std::fs::remove_file(gate.join(name));
    }
    for args in [&["receipts", "verify"][..], &["preflight-status"], &["remember-list"], &["state", "check"]]
    {
        let run = home.run(args);
        assert_eq!(run.code, 13, "{args:?}: {}", run.err);
        assert!(run.err.contains("receipt-failed/journal-missing"), "{args:?}: {}", run.err);
    }
    let run = home.run(&["doctor", "--host", "claude", "--json"]);
    assert_eq!(run.code, 1);
    let doctor: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((&doctor["ok"], &doctor["preflight"]["status"]), (&json!(false), &json!("failed-closed")));
    assert!(!gate.join("journal.sqlite").exists());

    let unconfirmed = home.run(&["state", "reset"]);
    assert_eq!(unconfirmed.code, 2);
    assert!(unconfirmed.err.contains("next: agentspine state reset --confirm"), "{}", unconfirmed.err);
    let reset = home.json(&["state", "reset", "--confirm", "--json"]);
    let aside = home.path().join(reset["aside"].as_str().unwrap().strip_prefix("~/").unwrap());
    assert!(aside.join("keyring.json").exists() && aside.join("anchor").exists());
    assert_eq!(home.ok(&["receipts", "verify"]), "0 consumed receipts, chain ok (0 rows), anchor ok\n");
}

#[test]
fn a_key_others_may_read_is_refused_with_how_to_mend_it() {
    use std::os::unix::fs::PermissionsExt as _;
    let home = Home::new();
    home.ok(&["receipts", "verify"]);
    let key = home.state().join("gate/keyring.json");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let run = home.run(&["receipts", "list", "--json"]);
    assert_eq!(run.code, 13);
    assert!(run.err.contains("receipt-failed/key-mode") && run.err.contains("chmod 600"), "{}", run.err);
    let told: serde_json::Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((&told["error"]["code"], &told["error"]["exit"]), (&json!("receipt-failed"), &json!(13)));
}

#[test]
fn a_state_directory_inside_the_project_is_refused() {
    let home = Home::new();
    let inside = home.project().join("state");
    let run = crate::support::Run::of(
        home.command(&["receipts", "list"]).env("AGENTSPINE_STATE_DIR", &inside).output().unwrap(),
    );
    assert_eq!(run.code, 14);
    assert!(run.err.contains("preflight-failed/state-dir"), "{}", run.err);
    assert!(!inside.exists());
}

#[test]
fn home_itself_is_no_project_not_even_as_a_repository() {
    let home = Home::new();
    let in_home = |args: &[&str]| {
        crate::support::Run::of(home.command(args).current_dir(home.path()).output().unwrap())
    };
    let chat = in_home(&["chat", "-p", "hello", "--instruction-host", "claude", "--model", "demo"]);
    assert_eq!(chat.code, 0, "{}", chat.err);
    std::fs::create_dir(home.path().join(".git")).unwrap();
    let verified = in_home(&["receipts", "verify"]);
    assert_eq!(
        (verified.code, verified.out.as_str()),
        (0, "1 consumed receipt, chain ok (3 rows), anchor ok\n")
    );
}

#[test]
fn no_prompt_no_instruction_text_no_rule_and_no_key_reaches_journal_or_output() {
    let home = Home::new();
    home.write("src/project/CLAUDE.md", "canary-instruction\n");
    let candidate = home.json(&["remember-propose", "--claim", "The word is canary-rule"]);
    let candidate = candidate["candidate"]["id"].as_str().unwrap().to_owned();
    home.ok(&["remember-confirm", &candidate, "--confirm-local-user"]);
    let mut command =
        home.command(&["chat", "-p", "canary-prompt", "--instruction-host", "claude", "--model", "demo"]);
    command.env("ANTHROPIC_API_KEY", "canary-key-0123456789");
    let chat = crate::support::Run::of(command.output().unwrap());
    assert_eq!(chat.code, 0, "{}", chat.err);
    let id = home.json(&["receipts", "list", "--json"])["receipts"][0]["id"].as_str().unwrap().to_owned();
    let told = [
        chat.err,
        home.ok(&["receipts", "show", &id]),
        home.ok(&["preflight-status", "--json"]),
        home.ok(&["doctor", "--host", "claude", "--json"]),
    ];
    assert_eq!(told.iter().filter(|text| text.contains("canary")).count(), 0, "{told:?}");
    // What people and models say is kept in two stores and nowhere else; the key in none.
    let kept = ["conversations.sqlite", "remember.sqlite"];
    for (name, bytes) in home.state_files() {
        let holds = |word: &[u8]| bytes.windows(word.len()).any(|window| window == word);
        assert!(!holds(b"canary-key"), "{name}");
        assert!(!holds(b"canary") || kept.iter().any(|store| name.contains(store)), "{name}");
    }
}

#[test]
fn after_a_reset_confirmed_rules_apply_or_the_message_says_how_to_confirm_them_again() {
    let home = Home::new();
    let rule = ["remember-propose", "--claim", "Never push on Fridays.", "--json"];
    let candidate = home.json(&rule)["candidate"]["id"].as_str().unwrap().to_owned();
    home.ok(&["remember-confirm", &candidate, "--confirm-local-user"]);
    let reset = ["state", "reset", "--confirm"];
    assert!(home.ok(&reset).contains("your confirmed rules apply as before"));
    assert!(home.ok(&["remember-list"]).contains("Never push on Fridays."));
    std::fs::remove_file(home.state().join("gate/keyring.json")).unwrap();
    let told = home.ok(&reset);
    assert!(told.contains("agentspine remember-propose --claim TEXT"), "{told}");
    assert!(!home.ok(&["remember-list"]).contains("Never push on Fridays."));
}
