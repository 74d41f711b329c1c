//! Sessions from the command line.

use agentspine_gate::Digest;
use rusqlite::{Connection, params};
use serde_json::json;

use crate::support::live::Live;
use crate::support::vault::receipt;
use crate::support::{Home, Run};

fn store(home: &Home) -> Connection {
    Connection::open(home.state().join("conversations.sqlite")).unwrap()
}

/// A session with one event, as the chat would leave it. The store must exist.
pub fn insert(home: &Home, id: &str, project: &str, at: i64) {
    let store = store(home);
    let cwd = home.project();
    let cwd = cwd.to_str().unwrap();
    store
        .execute(
            "INSERT INTO session(id, created_at, project_id, cwd, host, instruction_host, title) VALUES (?1, ?2, ?3, ?4, 'agentspine', 'claude', NULL)",
            params![id, at, project, cwd],
        )
        .unwrap();
    let body = json!({"text": "canary prompt"}).to_string();
    store.execute("INSERT INTO event VALUES (?1, 1, 'prompt', ?2, ?3)", params![id, at, body]).unwrap();
}

/// Injected text of a receipt.
pub fn insert_span(home: &Home, id: &str, n: u8, text: &str) {
    let place = Digest::of(text.as_bytes()).to_hex();
    let values = params![id, place, receipt(n).to_hex(), text];
    store(home).execute("INSERT INTO span VALUES (?1, ?2, ?3, ?4, 0)", values).unwrap();
}

#[test]
fn sessions_are_listed_and_deleted_only_with_the_confirmation() {
    let home = Home::new();
    assert_eq!(home.ok(&["sessions", "list"]), "no sessions yet\n");
    insert(&home, "s-old", "project:a", 1_000);
    insert(&home, "s-new", "project:a", 2_000);
    let listed = home.json(&["sessions", "list", "--json"]);
    let ids: Vec<_> =
        listed["sessions"].as_array().unwrap().iter().map(|one| one["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["s-new", "s-old"]);
    let table = home.ok(&["sessions", "list", "--limit", "1"]);
    assert!(
        table.contains("s-new") && !table.contains("s-old") && table.contains("~/src/project"),
        "{table}"
    );

    let asked = home.run(&["sessions", "delete", "s-old"]);
    assert_eq!(asked.code, 2);
    assert!(asked.err.contains("next: agentspine sessions delete s-old --confirm"), "{}", asked.err);
    home.ok(&["sessions", "delete", "s-old", "--confirm"]);
    assert_eq!(home.run(&["sessions", "delete", "s-old", "--confirm"]).code, 1);
    home.ok(&["sessions", "delete", "s-new", "--confirm"]);
    for (name, bytes) in home.state_files() {
        assert!(!bytes.windows(6).any(|window| window == b"canary"), "{name}");
    }
}

/// Where in the state directory a text lies.
fn holding(home: &Home, text: &str) -> Vec<String> {
    let holds = |bytes: &[u8]| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    home.state_files().into_iter().filter(|(_, bytes)| holds(bytes)).map(|(name, _)| name).collect()
}

fn chat(home: &Home, args: &[&str]) -> Run {
    Run::of(home.chat("demo", args).output().unwrap())
}

#[test]
fn a_session_is_called_by_its_first_words_until_the_person_names_it() {
    let home = Home::new();
    let secret = format!("ghp_{}", "R4k9sQ2vXz7LmN1bT8wYc3UaD6eFgH5jKpO0");
    chat(
        &home,
        &[
            "--session",
            "s-1",
            "-p",
            "Paint the boiler\n<b>green</b> \u{202e}and tell me how it went afterwards, please",
        ],
    );
    chat(&home, &["--session", "s-2", "-p", &format!("Use {secret} for the upload")]);
    chat(&home, &["--session", "s-3", "-p", &"请把锅炉漆成绿色".repeat(8)]);
    let blocked = home.run(&["chat", "--model", "demo", "--session", "s-4", "-p", "Never sent"]);
    assert_eq!(blocked.code, 10);
    let title = |id: &str| {
        let listed = home.json(&["sessions", "list", "--json"]);
        let all = listed["sessions"].as_array().unwrap();
        all.iter().find(|one| one["id"] == id).map(|one| one["title"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(title("s-1").unwrap(), "Paint the boiler (b>green(/b> and tell me how it…");
    assert_eq!(title("s-2").unwrap(), "Use [redacted] for the upload");
    assert_eq!(title("s-3").unwrap().chars().count(), 48);
    assert_eq!(title("s-4"), None);
    let flags = ["chat", "--instruction-host", "claude", "--model", "demo", "--plain", "--session", "s-5"];
    home.run_with_stdin(&flags, &format!("{}\nThe first that was sent\n", "x".repeat(1024 * 1024 + 1)));
    assert_eq!(title("s-5").unwrap(), "The first that was sent");
    chat(&home, &["--resume", "s-1", "-p", "Other words"]);
    assert!(title("s-1").unwrap().starts_with("Paint"));
    home.ok(&["sessions", "rename", "s-1", "The \u{1b}[31mboiler"]);
    assert_eq!(title("s-1").unwrap(), "The [31mboiler");
    assert!(home.ok(&["sessions", "list"]).contains("The [31mboiler"));
    assert_eq!(home.run(&["sessions", "rename", "s-none", "x"]).code, 1);
    assert_eq!(home.run(&["sessions", "rename", "s-1", "  "]).code, 2);
    assert_eq!(home.run(&["sessions", "rename", "s-1", &"x".repeat(201)]).code, 1);
}

#[test]
fn a_redacted_session_keeps_its_receipts_and_not_one_word() {
    let home = Home::new();
    home.write("src/project/CLAUDE.md", "The rule is canaryrule.\n");
    chat(&home, &["--session", "s-1", "-p", "canaryprompt one"]);
    let large = format!("canaryprompt two {}", "canaryprompt ".repeat(4000));
    chat(&home, &["--resume", "s-1", "-p", &large]);
    chat(&home, &["--session", "s-other", "-p", "other words"]);
    for text in ["canaryprompt", "canaryrule"] {
        assert!(!holding(&home, text).is_empty());
    }
    let asked = home.run(&["sessions", "redact", "s-1"]);
    assert_eq!(asked.code, 2);
    assert!(asked.err.contains("next: agentspine sessions redact s-1 --confirm"), "{}", asked.err);
    let before = home.json(&["receipts", "list", "--json"]);
    let done = home.json(&["sessions", "redact", "s-1", "--confirm", "--json"]);
    assert_eq!((&done["redacted"], &done["events"]), (&json!("s-1"), &json!(6)));
    assert_eq!(holding(&home, "canaryprompt"), Vec::<String>::new());
    // The other session was told the same rule.
    home.ok(&["sessions", "delete", "s-other", "--confirm"]);
    assert_eq!(holding(&home, "canaryrule"), Vec::<String>::new());

    assert_eq!(home.json(&["receipts", "list", "--json"]), before);
    assert_eq!(home.json(&["receipts", "verify", "--json"])["ok"], true);
    let listed = home.json(&["sessions", "list", "--json"]);
    assert!(listed["sessions"][0]["redactedAt"].as_i64().unwrap() > 0, "{listed}");
    assert!(home.ok(&["sessions", "list"]).contains("(redacted)"));
    let resumed = chat(&home, &["--resume", "s-1", "-p", "go on"]);
    assert!(resumed.code == 2 && resumed.err.contains("was redacted"), "{}", resumed.err);
    assert_eq!(chat(&home, &["--continue", "-p", "go on"]).code, 2);
    let named = chat(&home, &["--session", "s-1", "-p", "go on"]);
    assert_eq!(named.code, 13, "{}", named.err);
    assert_eq!(home.run(&["sessions", "fork", "s-1"]).code, 1);
    assert_eq!(home.json(&["sessions", "redact", "s-1", "--confirm", "--json"])["events"], 6, "again");
    home.ok(&["sessions", "delete", "s-1", "--confirm"]);
}

#[test]
fn a_redaction_names_the_forks_that_keep_their_copies_and_waits_for_nobody() {
    let home = Home::new();
    chat(&home, &["--session", "s-1", "-p", "canaryprompt"]);
    let child =
        home.json(&["sessions", "fork", "s-1", "--json"])["session"]["id"].as_str().unwrap().to_owned();
    let mut live = Live::start(&mut home.chat("demo", &["--resume", "s-1", "--plain"]));
    live.send("another");
    live.until("choose a model");
    let open = home.run(&["sessions", "redact", "s-1", "--confirm"]);
    assert!(open.code == 1 && open.err.contains("open in another agentspine"), "{}", open.err);
    live.close_stdin();
    live.end();
    let asked = home.run(&["sessions", "redact", "s-1"]);
    assert!(asked.err.contains(&child), "{}", asked.err);
    let done = home.ok(&["sessions", "redact", "s-1", "--confirm"]);
    assert!(done.contains(&child), "{done}");
    assert_eq!(chat(&home, &["--resume", &child, "-p", "go on"]).code, 0);
    assert!(!holding(&home, "canaryprompt").is_empty());
    home.ok(&["sessions", "redact", &child, "--confirm"]);
    assert_eq!(holding(&home, "canaryprompt"), Vec::<String>::new());
}

#[test]
fn what_another_program_said_is_not_ours_to_redact_or_fork() {
    let home = Home::new();
    home.ok(&["sessions", "list"]);
    insert(&home, "s-1", "project:a", 1);
    store(&home)
        .execute(
            "INSERT INTO session(id, created_at, project_id, cwd, host, instruction_host) \
             VALUES ('s-claude', 1, 'project:a', '/', 'claude', 'claude')",
            [],
        )
        .unwrap();
    for args in [&["sessions", "redact", "s-claude", "--confirm"][..], &["sessions", "fork", "s-claude"]] {
        let run = home.run(args);
        assert!(run.code == 1 && run.err.contains("another program"), "{}", run.err);
    }
}
