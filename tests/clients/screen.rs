//! Claude Code in a terminal, where it also asks for a title.

use super::law::law;
use super::script::{claude_documents, no_note_is_told_twice, obliging, told_once};
use super::{Desk, Road};
use crate::support::terminal::keys;

#[test]
fn claude_code_in_a_terminal_has_a_receipt_for_its_title_too() {
    let Some(desk) = Desk::new(Road::Spine, obliging) else { return };
    let mut lines = claude_documents(&desk);
    lines.push(desk.inject("claude"));
    let screen = desk.claude_screen();
    screen.wait_for("for shortcuts");
    screen.submit("hello from a terminal");
    screen.wait_for("Understood, and noted.");
    screen.submit("and once more, at length");
    screen.wait_until("the second answer", |_| {
        desk.api.prompts().iter().filter(|seen| is_told(seen)).count() >= 2
    });
    screen.send(keys::CTRL_C);
    screen.send(keys::CTRL_C);
    let left = screen.left();
    desk.dump("claude-screen");
    println!("{left:?}");
    let pairs = law(&desk);
    let kinds: Vec<&str> = pairs.iter().map(|(_, receipt)| receipt.text("kind")).collect();
    println!("{kinds:?}");
    for (seen, _) in pairs.iter().filter(|(_, receipt)| receipt.text("kind") != "side") {
        told_once(seen, &lines, "documents and rule");
    }
    no_note_is_told_twice(&desk.api.prompts());
    assert_eq!(desk.api.broken(), Vec::<String>::new());
}

fn is_told(seen: &super::api::Seen) -> bool {
    super::law::said(seen, "Ravenna") == 1
}
