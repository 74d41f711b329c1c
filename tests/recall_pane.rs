//! The recall pane in a real terminal: what the person says about a memory is heeded by the next turns.

use crate::support::Home;
use crate::support::fake_model::Answer;
use crate::support::law::law;
use crate::support::served::Served;
use crate::support::terminal::Terminal;

const MEMORY: &str = "Receipts are kept for ten years in the archive.";
const OTHER: &str = "Receipts of guests go to the front desk.";

fn ground(answers: usize) -> (Served, Home) {
    let home = Home::new();
    let remember = |title: &str, text: &str| {
        home.ok(&["memory", "remember", "--title", title, "--summary", text]);
    };
    remember("Archive", MEMORY);
    remember("Guests", OTHER);
    (Served::start((0..answers).map(|n| Answer::text(&[&format!("answer {n}")])).collect::<Vec<_>>()), home)
}

/// A chat with one answered turn, whose recall pane has the keys on the archive memory.
fn recalled(home: &Home, server: &Served) -> Terminal {
    let terminal =
        home.terminal((120, 36), &["chat", "--instruction-host", "claude", "--model", &server.anthropic()]);
    terminal.wait_for("ready");
    terminal.submit("How long are receipts kept in the archive?");
    terminal.wait_for("answer 0");
    terminal.wait_for("consumed");
    terminal.send("\t\t");
    terminal.wait_for("▸ [1]");
    terminal
}

/// To the composer; the escape must have been read before a letter follows it, or it would be Alt and that letter.
fn back(terminal: &Terminal) {
    terminal.send("\x1b");
    terminal.wait_gone("▸ Recall");
}

/// The body of the n-th request, once it is there.
fn body(terminal: &Terminal, server: &Served, n: usize) -> String {
    terminal.wait_for(&format!("answer {n}"));
    server.bodies()[n].clone()
}

/// What the newest message of a body holds: earlier turns keep what they were given.
fn newest(body: &str) -> String {
    let json: serde_json::Value = serde_json::from_str(body).unwrap();
    json["messages"].as_array().unwrap().last().unwrap().to_string()
}

#[test]
fn a_memory_that_came_close_is_pinned_and_the_next_turn_has_it_whatever_it_asks() {
    let (server, home) = ground(3);
    let terminal = recalled(&home, &server);
    terminal.send("j");
    terminal.wait_for("▸ · Guests");
    terminal.send("p");
    terminal.wait_for("pinned · Guests");
    back(&terminal);
    terminal.submit("What colour is the office door?");
    let second = newest(&body(&terminal, &server, 1));
    assert!(second.contains(OTHER) && second.contains("you pinned it"), "{second}");
    drop(terminal);
    law(&home, &[&server]);
}

#[test]
fn a_memory_that_was_left_out_comes_back_with_the_turn_after_the_next() {
    let (server, home) = ground(3);
    let terminal = recalled(&home, &server);
    terminal.send("j");
    terminal.wait_for("▸ · Guests");
    terminal.send("x");
    terminal.wait_for("not next turn · Guests");
    back(&terminal);
    terminal.submit("Where do receipts of guests go, the front desk?");
    let second = newest(&body(&terminal, &server, 1));
    assert!(!second.contains(OTHER), "{second}");
    terminal.wait_for("· Guests: Receipts");
    terminal.submit("So where do receipts of guests go, the front desk?");
    let third = newest(&body(&terminal, &server, 2));
    assert!(third.contains(OTHER), "{third}");
    drop(terminal);
    law(&home, &[&server]);
}

#[test]
fn a_memory_is_forgotten_in_two_steps_and_nothing_of_it_is_left_but_the_transcript() {
    let (server, home) = ground(3);
    let terminal = recalled(&home, &server);
    terminal.send("f");
    terminal.wait_for("Forget this memory for good?");
    terminal.send("y");
    terminal.wait_for("transcripts, exports and backups are not reached");
    back(&terminal);
    terminal.submit("How long are receipts kept in the archive, again?");
    let second = newest(&body(&terminal, &server, 1));
    assert!(!second.contains(MEMORY), "{second}");
    drop(terminal);
    for (name, bytes) in home.state_files() {
        let held = bytes.windows(MEMORY.len()).any(|window| window == MEMORY.as_bytes());
        assert!(!held, "the memory is in {name}");
    }
    assert_eq!(home.json(&["memory", "search", "--json", "archive"])["entries"].as_array().unwrap().len(), 0);
}

#[test]
fn an_opened_entry_says_where_it_comes_from() {
    let (server, home) = ground(1);
    let terminal = recalled(&home, &server);
    terminal.send("\r");
    terminal.wait_for("from: decision · explicit · 2");
    terminal.wait_for("· cli");
}
