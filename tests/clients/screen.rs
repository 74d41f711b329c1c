//! Claude Code in a terminal, where it also asks for a title.

use super::api::Kind;
use super::law::{law, said};
use super::script::{claude_documents, no_note_is_told_twice, obliging, told_once};
use super::{Desk, Road};
use crate::support::terminal::keys;

#[test]
fn claude_code_in_a_terminal_has_a_receipt_for_its_title_too() {
    let Some(desk) = Desk::new(Road::Spine, obliging) else { return };
    let mut lines = claude_documents(&desk);
    lines.push(desk.inject("claude"));
    let screen = desk.claude_screen();
    screen.wait_for("shift+tab to cycle");
    screen.submit("hello from a terminal");
    screen.wait_for("Understood, and noted.");
    screen.submit("please use the shell");
    screen.wait_for("The tool has answered.");
    screen.submit("/context");
    screen.wait_for("Autocompact buffer");
    screen.send(keys::CTRL_C);
    screen.send(keys::CTRL_C);
    let left = screen.left();
    desk.dump("claude-screen");
    assert_eq!(left.code, 0);

    let pairs = law(&desk);
    let (side, told): (Vec<_>, Vec<_>) =
        pairs.iter().partition(|(_, receipt)| receipt.text("kind") == "side");
    let kinds: Vec<&str> = told.iter().map(|(_, receipt)| receipt.text("kind")).collect();
    assert_eq!(kinds, ["turn", "turn", "continuation"]);
    for (seen, _) in &told {
        told_once(seen, &lines, "documents and rule");
    }
    let titles = side.iter().filter(|(seen, _)| said(seen, "<session>") > 0).count();
    let counts = side.iter().filter(|(seen, _)| seen.kind == Kind::Count).count();
    assert!(titles > 0 && counts > 0, "{titles} titles and {counts} counts");
    no_note_is_told_twice(&desk.api.prompts());
    assert_eq!(desk.api.broken(), Vec::<String>::new());
}
