//! Sessions from the command line.

use agentspine_gate::Digest;
use rusqlite::{Connection, params};
use serde_json::json;

use crate::support::Home;
use crate::support::vault::receipt;

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
