//! `receipts --follow` and `watch`: every call as it happens, by a reader that nobody notices.

use std::os::unix::fs::PermissionsExt;

use agentspine_gate::journal::RowKind;
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::Home;
use crate::support::live::Live;
use crate::support::terminal::{Terminal, keys};
use crate::support::vault::{self, answered, receipt};

const SIZE: (u16, u16) = (80, 24);

fn watch(home: &Home) -> Terminal {
    home.terminal(SIZE, &["watch"])
}

/// The line of the list that the cursor is on.
fn selected(terminal: &Terminal) -> String {
    terminal.text().lines().find(|line| line.starts_with('▸')).unwrap_or_default().to_owned()
}

fn ask(home: &Home, session: &str, prompt: &str) {
    let run = home.chat("demo", &["--session", session, "-p", prompt]).output().unwrap();
    assert!(run.status.success());
}

/// Puts a required provider into the policy that cannot be run.
fn require(home: &Home) {
    let command = home.write("bin/notes", "#!/bin/sh\nexit 3\n");
    std::fs::set_permissions(&command, PermissionsExt::from_mode(0o755)).unwrap();
    let profile = json!({
        "id": "local", "agentId": "host-agent:default", "host": "agentspine", "profileId": "default",
        "tenantId": "local-tenant", "enabled": true,
        "providers": [{
            "schema": "agentspine.retrieval-provider/v1", "id": "notes", "adapter": "mnemo-command/v1",
            "required": true, "failClosed": true, "timeoutMs": 5000, "command": command, "args": [], "credentialEnv": [],
        }],
    });
    let file = home.write("profile.json", &profile.to_string());
    home.ok(&["preflight-policy", file.to_str().unwrap(), "--confirm-local-policy"]);
}

#[test]
fn calls_appear_as_lines_while_another_process_chats_and_an_interrupt_ends_it() {
    let home = Home::new();
    let mut follow = Live::ask(&mut home.command(&["receipts", "--follow"]));
    ask(&home, "s-1", "canary-prompt");
    follow.until("answered");
    require(&home);
    assert_eq!(home.ask("demo", "again").code, 11);
    let lines = follow.until("provider-failed/exit(3)").to_owned();
    assert!(lines.lines().next().unwrap().starts_with("written"), "{lines}");
    let call = lines.lines().find(|line| line.contains("answered")).unwrap();
    assert!(call.contains("agentspine-demo") && call.contains("turn"), "{call}");
    follow.interrupt();
    let ended = follow.end();
    assert_eq!(ended.code, 130);
    assert_eq!(
        ended.err,
        "agentspine: nothing was sent from here yet; waiting for the first call (Ctrl+C ends)\n"
    );
}

#[test]
fn json_lines_are_rows_of_the_list_with_what_became_of_each_call() {
    let home = Home::new();
    answered(&home, 1, "remember:1");
    let mut follow =
        Live::ask(&mut home.command(&["receipts", "list", "--follow", "--json", "--limit", "1"]));
    follow.until("\n");
    let mut vault = vault::open(&home);
    vault::issue(&mut vault, 2, "remember:1");
    vault::spend(&mut vault, 2);
    follow.until("spent-outcome-unknown");
    vault.append(RowKind::Outcome, Some(receipt(2)), &json!({"outcome": "failed", "status": 529})).unwrap();
    let told = follow.until("529").to_owned();
    let rows: Vec<Value> = told.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let known = |row: &Value| (row["id"].clone(), row["outcome"].clone(), row["httpStatus"].clone());
    let id = |n: u8| json!(receipt(n));
    assert_eq!(known(rows.first().unwrap()), (id(1), json!("answered"), Value::Null));
    assert_eq!(known(rows.last().unwrap()), (id(2), json!("failed"), json!(529)));
    for row in &rows {
        assert_eq!((&row["schema"], &row["verified"]), (&json!("agentspine.receipts/v1"), &json!(true)));
        assert_eq!(
            (&row["documents"], &row["mustRemember"], &row["kind"]),
            (&json!(1), &json!(1), &json!("turn"))
        );
    }
    let listed = home.json(&["receipts", "list", "--json"]);
    assert_eq!(listed["receipts"][0]["outcome"], "failed");
    follow.interrupt();
    assert_eq!(follow.end().code, 130);
}

#[test]
fn one_session_alone_is_followed_where_it_is_named() {
    let home = Home::new();
    answered(&home, 1, "remember:1");
    answered(&home, 2, "remember:1");
    let mut follow = Live::ask(&mut home.command(&["receipts", "-f", "--json", "--session", "s-2"]));
    follow.until("\n");
    answered(&home, 3, "remember:1");
    let mut vault = vault::open(&home);
    vault.append(RowKind::Outcome, Some(receipt(2)), &json!({"outcome": "cut"})).unwrap();
    let told = follow.until("\"cut\"").to_owned();
    assert!(told.lines().all(|line| line.contains("\"s-2\"")), "{told}");
}

#[test]
fn nothing_anybody_said_is_in_what_follow_prints() {
    let home = Home::new();
    home.write("src/project/CLAUDE.md", "canary-instruction\n");
    let mut lines = Live::ask(&mut home.command(&["receipts", "--follow"]));
    let mut objects = Live::ask(&mut home.command(&["receipts", "--follow", "--json"]));
    ask(&home, "s-1", "canary-prompt");
    let told = [lines.until("answered").to_owned(), objects.until("answered").to_owned()];
    assert!(told.iter().all(|told| !told.contains("canary")), "{told:?}");
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly_also_while_nothing_happens() {
    let home = Home::new();
    answered(&home, 1, "remember:1");
    let mut follow = Live::ask(&mut home.command(&["receipts", "--follow"]));
    follow.until("answered");
    follow.close_stdout();
    let ended = follow.end();
    assert_eq!((ended.code, ended.err.as_str()), (0, ""));
}

#[test]
fn a_row_altered_behind_the_guards_is_shown_as_such() {
    let home = Home::new();
    answered(&home, 1, "remember:1");
    answered(&home, 2, "remember:1");
    let raw = rusqlite::Connection::open(home.state().join("gate/journal.sqlite")).unwrap();
    let guard: String = raw
        .query_row("SELECT sql FROM sqlite_schema WHERE name = 'rows_keep'", [], |row| row.get(0))
        .unwrap();
    raw.execute_batch(
        "DROP TRIGGER rows_keep; UPDATE rows SET body = replace(body, 'demo', 'dome') WHERE seq = 1;",
    )
    .unwrap();
    raw.execute_batch(&guard).unwrap();
    let mut follow = Live::ask(&mut home.command(&["receipts", "--follow", "--json"]));
    let told = follow.until(&receipt(2).to_hex()).to_owned();
    let row: Value = serde_json::from_str(told.lines().next().unwrap()).unwrap();
    assert_eq!((&row["verified"], &row["id"]), (&json!(false), &json!(receipt(1))));
    assert_eq!(row["problem"], "row 1 is missing or altered");
    let terminal = watch(&home);
    terminal.wait_for("not verified");
    terminal.send("k");
    terminal.wait_for("what the others say is not shown");
    terminal.send("v");
    terminal.wait_for("Does not verify: row 1 is missing, altered or wrongly signed");
}

#[test]
fn a_lost_journal_is_refused_as_everywhere_and_nothing_is_made() {
    let home = Home::new();
    answered(&home, 1, "remember:1");
    std::fs::remove_file(home.state().join("gate/journal.sqlite")).unwrap();
    let run = home.run(&["receipts", "--follow"]);
    assert_eq!(run.code, 13);
    assert!(run.err.contains("receipt-failed/journal-missing"), "{}", run.err);
    assert!(!home.state().join("gate/journal.sqlite").exists());
}

#[test]
fn a_reset_is_followed_into_the_new_journal() {
    let home = Home::new();
    answered(&home, 1, "remember:1");
    let terminal = watch(&home);
    terminal.wait_for("answered");
    home.ok(&["state", "reset", "--confirm"]);
    terminal.wait_for("No calls yet.");
    ask(&home, "s-9", "hello");
    terminal.wait_for("1 call ");
}

#[test]
fn before_the_first_call_the_watch_waits_says_what_to_do_and_makes_nothing() {
    let home = Home::new();
    let terminal = watch(&home);
    terminal.wait_for("there is no journal yet");
    terminal.wait_for("agentspine run claude");
    assert!(!home.state().exists());
    ask(&home, "s-1", "hello");
    terminal.wait_for("answered");
    terminal.send("q");
    let left = terminal.left();
    assert!(left.is_restored() && left.code == 0, "{:?}", left.unrestored);
}

#[test]
fn the_selection_goes_with_the_news_only_while_following() {
    let home = Home::new();
    ask(&home, "s-1", "hello");
    let terminal = watch(&home);
    terminal.wait_for("· s-1");
    ask(&home, "s-2", "hello");
    terminal.wait_for("2 calls");
    terminal.wait_for("· s-2");
    terminal.send("k");
    terminal.wait_for("· s-1");
    let before = selected(&terminal);
    ask(&home, "s-3", "hello");
    terminal.wait_for("1 new: G");
    assert_eq!(selected(&terminal), before);
    terminal.send("G");
    terminal.wait_for("· s-3");
    terminal.wait_for("following");
}

#[test]
fn the_text_a_call_injected_is_shown_from_the_conversation_store_and_compared_with_the_receipt() {
    let home = Home::new();
    home.write("src/project/CLAUDE.md", "Build with care.\n");
    ask(&home, "s-1", "hello");
    let terminal = home.terminal((200, 50), &["watch"]);
    terminal.wait_for("Build with care.");
    terminal.wait_for("byte for byte as the receipt binds it");
    terminal.send(keys::ENTER);
    terminal.wait_for("Esc list");
    terminal.send(keys::ESC);
    terminal.wait_for("q quit");

    // What was forgotten is not shown any more.
    let raw = rusqlite::Connection::open(home.state().join("conversations.sqlite")).unwrap();
    raw.execute("DELETE FROM span", []).unwrap();
    ask(&home, "s-2", "hello");
    terminal.wait_for("1 new: G");
    terminal.send("j");
    terminal.wait_for("· s-2");
    terminal.send("k");
    terminal.wait_for("Its text is not kept");
}

#[test]
fn what_the_proxy_took_a_call_for_is_shown_where_the_store_says_it() {
    let home = Home::new();
    ask(&home, "s-1", "hello");
    let store = rusqlite::Connection::open(home.state().join("conversations.sqlite")).unwrap();
    store
        .execute(
            "INSERT INTO session(id, created_at, project_id, cwd, host, instruction_host, title) SELECT 's-5', 0, project_id, cwd, host, instruction_host, NULL FROM session",
            [],
        )
        .unwrap();
    let body = json!({"receipt": receipt(5), "sort": "Title"}).to_string();
    store.execute("INSERT INTO event VALUES ('s-5', 1, 'call', 0, ?1)", [body]).unwrap();
    let terminal = watch(&home);
    terminal.wait_for("1 call ");
    answered(&home, 5, "remember:1");
    terminal.wait_for("turn (Title)");
    assert!(selected(&terminal).contains("Title"), "{}", terminal.text());
}

#[test]
fn a_refused_call_shows_its_code_what_it_means_and_the_next_command() {
    let home = Home::new();
    require(&home);
    let terminal = watch(&home);
    assert_eq!(home.ask("demo", "hello").code, 11);
    terminal.wait_for("provider-failed/exit(3)");
    terminal.wait_for("A required provider ended with an error.");
    terminal.wait_for("agentspine preflight-policy --show");
    terminal.send("/");
    terminal.send("nothing-like-it");
    terminal.wait_for("None matches.");
    terminal.send(keys::ESC);
    terminal.wait_for("1 refused");
}

#[test]
fn the_terminal_is_given_back_after_keys_and_signals() {
    let home = Home::new();
    answered(&home, 1, "remember:1");
    for (end, code) in [("q", 0), (keys::CTRL_C, 0)] {
        let terminal = watch(&home);
        terminal.wait_for("answered");
        terminal.send(end);
        let left = terminal.left();
        assert!(left.is_restored() && left.code == code, "{end:?}: {left:?}");
    }
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let terminal = watch(&home);
        terminal.wait_for("answered");
        terminal.signal(signal);
        let left = terminal.left();
        assert!(left.is_restored() && left.code == 130, "{signal:?}: {left:?}");
    }
}

#[test]
fn the_watch_needs_a_terminal_and_says_what_works_without() {
    let home = Home::new();
    let run = home.run(&["watch"]);
    assert_eq!(run.code, 2);
    assert!(run.err.contains("next: agentspine receipts --follow"), "{}", run.err);
}

#[test]
fn ascii_and_no_color_are_kept() {
    let home = Home::new();
    answered(&home, 1, "remember:1");
    let terminal = home.terminal_with(SIZE, &["watch", "--ascii"], &[("NO_COLOR", "1")]);
    terminal.wait_for("ok answered");
    terminal.wait_for("Injected");
    assert!(terminal.text().is_ascii(), "{}", terminal.text());
    let screen = terminal.screen();
    for (row, column) in (0..SIZE.1).flat_map(|row| (0..SIZE.0).map(move |column| (row, column))) {
        assert_eq!(screen.cell(row, column).unwrap().fgcolor(), vt100::Color::Default);
    }
}

#[test]
fn nothing_is_drawn_while_nothing_happens() {
    let home = Home::new();
    answered(&home, 1, "remember:1");
    let terminal = watch(&home);
    terminal.wait_for("Injected");
    assert_eq!(terminal.bytes_within(std::time::Duration::from_millis(700)), b"");
}
