//! The full screen as a person meets it: the real binary in a real terminal.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::support::Home;
use crate::support::fake_model::{Answer, End};
use crate::support::served::Served;
use crate::support::terminal::{Left, Start, Terminal, find, keys, text_of};

const SIZE: (u16, u16) = (80, 24);
const DEMO: [&str; 4] = ["--instruction-host", "claude", "--model", "demo"];
/// What the composer shows while it is empty.
const EMPTY: &str = "Ask anything";

/// A chat with the demo model, ready for the first prompt.
fn demo(home: &Home) -> Terminal {
    let terminal = home.terminal(SIZE, &DEMO);
    terminal.wait_for("ready · demo");
    terminal
}

/// A chat with a scripted server, ready for the first prompt.
fn chat(home: &Home, server: &Served) -> Terminal {
    let terminal = home.terminal(SIZE, &["--instruction-host", "claude", "--model", &server.name()]);
    terminal.wait_for("ready · fake");
    terminal
}

/// Waits until nothing of an answered turn is still to be shown: the receipts pane is answered in order, after all that was
/// asked before.
fn settle(terminal: &Terminal) {
    terminal.wait_for("● ready");
    terminal.send(keys::F3);
    terminal.wait_for("✓ consumed");
    terminal.wait_for("answered");
    terminal.wait_for("not verified now");
    terminal.send(keys::F3);
    terminal.wait_for(EMPTY);
}

/// Quits by the keyboard.
fn quit(terminal: Terminal) -> Left {
    terminal.send(keys::CTRL_C);
    terminal.wait_for("Ctrl+C again to quit");
    terminal.send(keys::CTRL_C);
    terminal.left()
}

/// The terminal is a shell's again, and the program said so at the very end.
fn assert_restored(left: &Left) {
    assert!(left.is_restored(), "still {:?} at the end of:\n{}", left.unrestored, left.text);
    for (sequence, what) in [
        ("\x1b[?1049l", "leave the alternate screen"),
        ("\x1b[?25h", "show the cursor"),
        ("\x1b[?2004l", "bracketed paste off"),
        ("\x1b[<1u", "keyboard protocol off"),
    ] {
        let last = left.raw.len().saturating_sub(200);
        assert!(find(&left.raw[last..], sequence.as_bytes()).is_some(), "the end does not {what}");
    }
}

#[test]
fn the_first_run_asks_for_the_instruction_host_and_binds_the_answer() {
    let home = Home::new();
    home.write("src/project/AGENTS.md", "Answer briefly.\n");
    let terminal = home.terminal(SIZE, &["--model", "demo"]);
    terminal.wait_for("Whose instruction files shall bind every call?");
    terminal.send(keys::DOWN);
    terminal.wait_for("▸ 2  codex");
    terminal.send(keys::ENTER);
    terminal.wait_for(EMPTY);
    terminal.submit("hello there");
    terminal.wait_for("You wrote: “hello there”");
    terminal.wait_for("1 instruction document");
    terminal.wait_for("ready · demo · turn 1");
    assert_restored(&quit(terminal));

    let receipts = home.json(&["receipts", "list", "--json"]);
    assert_eq!(receipts["receipts"][0]["state"], "consumed", "{receipts}");
    let id = receipts["receipts"][0]["id"].as_str().unwrap();
    let receipt = home.ok(&["receipts", "show", id, "--json"]);
    assert!(
        receipt.contains("\"instructionHost\":\"codex\"")
            || receipt.contains("\"instructionHost\": \"codex\"")
    );
}

#[test]
fn a_typed_prompt_is_answered_word_by_word() {
    let home = Home::new();
    let server = Served::start([Answer::cut(&["The first ", "half **stands** here"], End::Hang)]);
    let terminal = chat(&home, &server);
    terminal.submit("tell me");
    // The server still holds the rest back: what is shown was streamed.
    terminal.wait_for("half stands here");
    server.arrived();
    terminal.send(keys::ESC);
    server.gone();
    terminal.wait_for("You stopped the answer here.");
    terminal.wait_for("ready · fake");
    assert_restored(&quit(terminal));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn escape_before_the_first_word_gives_the_prompt_back() {
    let home = Home::new();
    let server = Served::start([Answer::Hang]);
    let terminal = chat(&home, &server);
    terminal.submit("are you there");
    server.arrived();
    terminal.send(keys::ESC);
    server.gone();
    terminal.wait_for("Your text is back in the composer.");
    terminal.wait_until("the prompt in the composer", |screen| {
        screen.contents().matches("› are you there").count() == 2
    });
    terminal.send(keys::CTRL_C);
    terminal.wait_for("Your text is kept");
    assert_restored(&quit(terminal));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_blocked_turn_says_not_sent_and_keeps_the_draft() {
    let home = Home::new();
    let missing = home.path().join("nowhere");
    let profile = json!({
        "id": "local", "agentId": "host-agent:default", "host": "agentspine", "profileId": "default",
        "tenantId": "local-tenant", "enabled": true,
        "providers": [{
            "schema": "agentspine.retrieval-provider/v1", "id": "team-notes", "adapter": "mnemo-command/v1",
            "required": true, "failClosed": true, "timeoutMs": 5000, "command": missing, "args": [], "credentialEnv": [],
        }],
    });
    let file = home.write("profile.json", &profile.to_string());
    home.ok(&["preflight-policy", file.to_str().unwrap(), "--confirm-local-policy"]);

    let server = Served::start([]);
    let terminal = chat(&home, &server);
    terminal.submit("Refactor the provider trait");
    terminal.wait_for("Not sent");
    for text in ["provider-failed/missing", "team-notes", "→", "No model call was made.", "draft kept"] {
        terminal.wait_for(text);
    }
    terminal.wait_until("the draft in the composer", |screen| {
        screen.contents().matches("› Refactor the provider trait").count() == 2
    });
    // The card has the focus: letters do not end up in the draft.
    terminal.send("x");
    terminal.wait_for("Esc returns to your text");
    terminal.send("r");
    terminal.wait_until("a second refusal", |screen| {
        screen.contents().contains("blocked · draft kept · fake · turn 2")
    });
    terminal.send(keys::ESC);
    // The caret is in the composer again.
    terminal.wait_until("a caret", |screen| !screen.hide_cursor());
    terminal.send(keys::CTRL_C);
    terminal.wait_for("Your text is kept");
    let left = quit(terminal);
    assert_restored(&left);
    assert_eq!(left.code, 0);
    assert_eq!(server.requests(), []);
}

#[test]
fn the_receipts_pane_lists_and_verifies() {
    let home = Home::new();
    let server = Served::start([Answer::text(&["pong"])]);
    let terminal = chat(&home, &server);
    terminal.submit("ping");
    terminal.wait_for("pong");
    terminal.wait_for("ready · fake");
    terminal.send(keys::F3);
    terminal.wait_for("Receipts (1)");
    terminal.wait_for("✓ consumed");
    terminal.send("v");
    terminal.wait_for("signature and chain ok");
    assert!(terminal.text().contains("✓ consumed"));
    terminal.send(keys::ESC);
    terminal.wait_for(EMPTY);
    assert_restored(&quit(terminal));
}

#[test]
fn a_small_window_and_back_shows_the_same_again() {
    let home = Home::new();
    let server = Served::start([Answer::text(&[
        "A long answer that has to wrap in a narrow window, and then again.",
    ])]);
    let terminal = chat(&home, &server);
    terminal.submit("ping");
    terminal.wait_for("and then again.");
    settle(&terminal);
    let before = terminal.text();
    terminal.resize(40, 10);
    terminal.wait_until("a frame of 40 columns", |screen| {
        // The answer is wrapped as only 40 columns wrap it.
        screen.contents().contains("\n  narrow window, and then again.")
    });
    terminal.resize(SIZE.0, SIZE.1);
    terminal.wait_until("the frame of before", |screen| text_of(screen) == before);
    assert_restored(&quit(terminal));
}

#[test]
fn a_window_that_shrank_for_a_moment_is_drawn_anew() {
    let home = Home::new();
    let terminal = demo(&home);
    let before = terminal.text();
    for _ in 0..20 {
        terminal.resize(40, 10);
        terminal.resize(SIZE.0, SIZE.1);
    }
    terminal.wait_until("the frame of before", |screen| text_of(screen) == before);
    assert_restored(&quit(terminal));
}

#[test]
fn a_compaction_is_an_item_of_the_transcript_and_a_resumed_session_shows_it() {
    let home = Home::new();
    let terminal = demo(&home);
    terminal.submit("first words");
    terminal.wait_for("choose a model");
    terminal.wait_for("● ready");
    terminal.submit("/compact");
    terminal.wait_for("compacted: events 1 to 3");
    terminal.wait_for("│ - You wrote: “first words”");
    terminal.wait_for("● ready");
    terminal.submit("second words");
    terminal.wait_for("You wrote: “second words”");
    terminal.wait_for("ready · demo · turn 2");
    quit(terminal);

    let again = home.terminal((100, 50), &[&DEMO[..], &["--resume"]].concat());
    again.wait_for("Go on with which session?");
    again.wait_for("▸ 1  first words · ");
    again.send(keys::ENTER);
    again.wait_for("compacted: events 1 to 3");
    again.wait_for("You wrote: “second words”");
    again.submit("/fork");
    again.wait_for("stays as it is");
    again.submit("third words");
    again.wait_for("You wrote: “third words”");
    again.wait_for("ready · demo · turn 3");
    quit(again);
    let listed = home.json(&["sessions", "list", "--json"]);
    let sessions = listed["sessions"].as_array().unwrap();
    assert_eq!((sessions.len(), &sessions[0]["parent"]), (2, &sessions[1]["id"]), "{listed}");
    assert_eq!(sessions[0]["title"], "first words");
}

#[test]
fn escape_stops_a_summary_and_nothing_was_changed() {
    let (server, home) =
        (Served::start([Answer::text(&["one"]), Answer::cut(&["half of it"], End::Hang)]), Home::new());
    let terminal = chat(&home, &server);
    terminal.submit("first words");
    terminal.wait_for("one");
    terminal.wait_for("● ready");
    terminal.submit("/compact");
    terminal.wait_for("so far");
    terminal.submit("/fork");
    terminal.wait_for("A turn is running");
    terminal.send(keys::ESC);
    terminal.wait_for("not compacted: stopped");
    server.push(Answer::text(&["two"]));
    terminal.send(keys::CTRL_C);
    terminal.wait_for("Your text is kept");
    terminal.submit("second words");
    terminal.wait_for("two");
    terminal.wait_for("ready · fake · turn 2");
    quit(terminal);
    assert!(server.bodies()[2].contains("first words"));
}

#[test]
fn control_c_twice_quits_and_restores_the_terminal() {
    let home = Home::new();
    let left = quit(demo(&home));
    assert_restored(&left);
    assert_eq!((left.code, left.signal.as_deref()), (0, None));
}

#[test]
fn termination_and_hang_up_restore_the_terminal() {
    for signal in [Signal::TERM, Signal::HUP] {
        let home = Home::new();
        let terminal = demo(&home);
        terminal.send("a draft");
        terminal.wait_for("› a draft");
        terminal.signal(signal);
        let left = terminal.left();
        assert_restored(&left);
        assert_eq!((left.code, left.signal.as_deref()), (130, None), "{signal:?}");
    }
}

#[test]
fn a_draft_survives_a_termination() {
    let home = Home::new();
    let server = Served::start([Answer::text(&["pong"])]);
    let terminal = chat(&home, &server);
    terminal.submit("ping");
    terminal.wait_for("pong");
    terminal.wait_for("ready · fake");
    terminal.send("half a thought");
    terminal.wait_for("› half a thought");
    terminal.signal(Signal::TERM);
    assert_restored(&terminal.left());
    let terminal = home.terminal(SIZE, &["--continue", "--model", &server.name()]);
    terminal.wait_for("› half a thought");
}

#[test]
fn control_z_gives_the_terminal_to_the_shell_and_takes_it_again() {
    let home = Home::new();
    // A shell with job control, as a person has one: it sees the chat stop, and continues it.
    let script = format!(
        "'{}' {}; echo the chat stopped; read answer; fg; echo the chat ended",
        env!("CARGO_BIN_EXE_agentspine"),
        DEMO.join(" ")
    );
    let terminal = Terminal::start(Start {
        program: "/bin/sh",
        args: &["-m", "-c", &script],
        cwd: &home.project(),
        env: vec![("HOME", home.path().to_str().unwrap().to_owned()), ("TERM", "xterm-256color".to_owned())],
        size: SIZE,
    });
    terminal.wait_for("ready · demo");
    terminal.send("half a thought");
    terminal.wait_for("› half a thought");
    terminal.send(keys::CTRL_Z);
    terminal.wait_for("the chat stopped");
    let screen = terminal.screen();
    assert!(!screen.alternate_screen() && !screen.bracketed_paste() && !screen.hide_cursor());
    assert!(terminal.is_cooked());
    terminal.send("go on\r");
    terminal.wait_for("› half a thought");
    assert!(terminal.screen().alternate_screen() && terminal.screen().bracketed_paste());
    terminal.send(keys::CTRL_C);
    terminal.wait_for("Your text is kept");
    let left = quit(terminal);
    assert!(left.is_restored() && left.text.contains("the chat ended"), "{left:?}");
}

#[test]
fn a_limited_server_shows_the_wait_and_r_calls_again() {
    let home = Home::new();
    let limited = json!({"error": {"message": "slow down", "type": "rate_limit_error"}}).to_string();
    let server = Served::start([
        Answer::status(429, &[("content-type", "application/json"), ("retry-after", "600")], &limited),
        Answer::text(&["here it is"]),
    ]);
    let terminal = chat(&home, &server);
    terminal.submit("ping");
    terminal.wait_for("The server asks to wait 600 s");
    terminal.wait_for("r call again with a new receipt");
    terminal.send("r");
    terminal.wait_for("here it is");
    terminal.wait_for("ready · fake");
    assert_restored(&quit(terminal));
    let bodies: Vec<_> = server.requests().iter().map(crate::support::fake_model::Recorded::json).collect();
    assert_eq!(bodies.len(), 2);
    assert_eq!(bodies[0]["messages"], bodies[1]["messages"], "a retry says the same");
}

#[test]
fn a_large_paste_is_one_prompt_and_none_of_its_escapes_reach_the_terminal() {
    let home = Home::new();
    let server = Served::start([Answer::text(&["got it"])]);
    let terminal = chat(&home, &server);
    let line = "pasted line \u{1b}]52;c;RVZJTA==\u{7} with \u{1b}[31mcolour";
    let mut text = String::new();
    while text.chars().count() + line.chars().count() < 5000 {
        text.push_str(line);
        text.push('\n');
    }
    // A terminal sends the lines of a paste with carriage returns.
    terminal.paste(&text.replace('\n', "\r"));
    terminal.wait_for("[Pasted 4");
    assert_eq!(server.requests(), [], "a pasted line end sends nothing");
    terminal.send(keys::ENTER);
    terminal.wait_for("got it");
    terminal.wait_for("ready · fake");
    let body = server.requests()[0].json();
    let sent = body["messages"].to_string();
    assert_eq!(sent.matches("pasted line").count(), text.matches("pasted line").count());
    let left = quit(terminal);
    assert_restored(&left);
    assert_no_foreign_escape(&left.raw);
}

/// Nothing of what the texts of these tests try got through.
fn assert_no_foreign_escape(raw: &[u8]) {
    for sequence in ["\x1b]", "\x1b[31m", "\x1b[2J", "\x1b[8m", "\x1bP", "\u{9b}", "\u{9d}", "\u{202e}"] {
        assert!(find(raw, sequence.as_bytes()).is_none(), "{sequence:?} reached the terminal");
    }
    assert!(find(raw, b"\x07").is_none(), "a bell reached the terminal");
}

#[test]
fn no_escape_of_a_model_reaches_the_terminal() {
    let home = Home::new();
    let server = Served::start([Answer::text(&[
        "begin \u{1b}]52;c;RVZJTA==\u{7} \u{1b}]0;title\u{1b}\\ \u{1b}[31mred\u{1b}[0m \u{1b}[8mhidden \u{9b}2J\u{9d}52;c;QQ==\u{9c}",
        "\u{1b}",
        "[2J\u{1b}Pq\u{1b}\\ \u{202e}reversed\n\n```\n\u{1b}[31mcode\u{1b}]8;;http://x\u{7}link\n```\n\n| a |\n|---|\n| \u{1b}[31mcell |\n\nend of it",
    ])]);
    let terminal = chat(&home, &server);
    terminal.submit("ping");
    terminal.wait_for("end of it");
    terminal.wait_for("ready · fake");
    let left = quit(terminal);
    assert_restored(&left);
    assert_no_foreign_escape(&left.raw);
}

#[test]
fn an_idle_screen_writes_nothing() {
    let home = Home::new();
    let server = Served::start([Answer::text(&["pong"])]);
    let terminal = chat(&home, &server);
    terminal.submit("ping");
    terminal.wait_for("pong");
    settle(&terminal);
    // The echo of a key says that everything before it is drawn.
    terminal.send("x");
    terminal.wait_for("› x");
    assert_eq!(terminal.bytes_within(Duration::from_millis(500)), b"");
    terminal.send("y");
    terminal.wait_for("› xy");
}

#[test]
fn no_color_means_none() {
    let home = Home::new();
    let terminal = home.terminal_with(SIZE, &DEMO, &[("NO_COLOR", "1")]);
    terminal.wait_for("ready · demo");
    terminal.submit("ping");
    terminal.wait_for("You wrote: “ping”");
    let screen = terminal.screen();
    for (row, column) in (0..SIZE.1).flat_map(|row| (0..SIZE.0).map(move |column| (row, column))) {
        let cell = screen.cell(row, column).unwrap();
        let colours = (cell.fgcolor(), cell.bgcolor());
        assert_eq!(colours, (vt100::Color::Default, vt100::Color::Default), "{:?}", cell.contents());
    }
}

#[test]
fn a_terminal_that_goes_away_takes_the_editor_along() {
    let home = Home::new();
    let pids = home.path().join("editor.pid");
    let script = format!(
        "#!/bin/sh\ntrap '' HUP TERM\necho $$ > {}\necho EDITING\nwhile :; do sleep 1; done\n",
        pids.display()
    );
    let editor = home.write("bin/editor", &script);
    std::fs::set_permissions(&editor, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let env = [("VISUAL", editor.to_str().unwrap()), ("PATH", "/usr/bin:/bin")];
    let screen = home.terminal_with(SIZE, &DEMO, &env);
    screen.wait_for("ready · demo");
    screen.send("\x07");
    screen.wait_for("EDITING");
    screen.signal(Signal::HUP);
    assert_eq!(screen.left().code, 130);
    let pid: i32 = std::fs::read_to_string(pids).unwrap().trim().parse().unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    assert!(rustix::process::test_kill_process(pid).is_err(), "the editor is still alive");
}
