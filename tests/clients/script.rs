//! What the scripted model says, and the documents that it must have been told each time.

use serde_json::json;

use super::Desk;
use super::api::{Call, Kind, Say, Seen};
use super::law::said;

/// Answers whatever the conversations of this chapter ask for.
pub fn obliging(call: &Call) -> Say {
    let newest = call.newest();
    if call.is_compaction() {
        return Say::text("<summary>They asked and were answered.</summary>");
    }
    if call.answers_a_tool() {
        return Say::text("The tool has answered.");
    }
    if newest.contains("ask an agent") && !call.is_subagent() {
        let task = "Say hello, please, and use the shell for it.";
        return Say::Tool(
            "Agent",
            json!({
                "description": "say hello", "prompt": task, "subagent_type": "general-purpose", "run_in_background": false,
            }),
        );
    }
    if newest.contains("use the shell") {
        return match call.kind {
            Kind::Responses => Say::Tool("exec_command", json!({ "cmd": "echo hi" })),
            _ => Say::Tool("Bash", json!({ "command": "echo hi", "description": "say hi" })),
        };
    }
    if newest.contains("at length") {
        return Say::Text("All of it, word by word. ".repeat(2400));
    }
    Say::text("Understood, and noted.")
}

/// A tree with everything that Claude Code does to its documents; one telling line of each that it loads at start.
pub fn claude_documents(desk: &Desk) -> Vec<&'static str> {
    let home = &desk.home;
    home.write(".claude/CLAUDE.md", "Answer in the language of the person.\n\n@more.md\n");
    home.write(".claude/more.md", "An import of the file of the person.\n");
    home.write(".claude/rules/style.md", "Short sentences, always.\n");
    home.write("src/CLAUDE.md", "\u{feff}The file of an ancestor.\r\nWith two lines.\r\n");
    let project = "---\nowner: somebody\n---\n# Project\n\n<!-- a comment\n over two lines -->\nKeep an <!-- inline --> \
                   comment.\n\n```\n<!-- in a fence -->\n```\n\nSee @docs/imported.md for more.  \n\n";
    home.write("src/project/CLAUDE.md", project);
    home.write("src/project/docs/imported.md", "The imported text says \"this\" \\ and é.\n");
    home.write("src/project/.claude/CLAUDE.md", "The second file of the project.\n");
    home.write("src/project/.claude/rules/always.md", "---\npaths: []\n---\nA rule for everything.\n");
    home.write(
        "src/project/.claude/rules/sometimes.md",
        "---\npaths:\n  - \"*.zig\"\n---\nA rule for zig.\n",
    );
    home.write("src/project/CLAUDE.local.md", "Words of this machine.\n");
    vec![
        "Answer in the language of the person.",
        "An import of the file of the person.",
        "Short sentences, always.",
        "The file of an ancestor.",
        "Keep an <!-- inline --> comment.",
        "<!-- in a fence -->",
        "The imported text says \"this\" \\ and é.",
        "The second file of the project.",
        "A rule for everything.",
        "Words of this machine.",
    ]
}

/// Every telling line stands in the request exactly once.
pub fn told_once(seen: &Seen, lines: &[&str], what: &str) {
    let counts: Vec<(&str, usize)> = lines.iter().map(|line| (*line, said(seen, line))).collect();
    let wanted: Vec<(&str, usize)> = lines.iter().map(|line| (*line, 1)).collect();
    assert_eq!(counts, wanted, "{what}");
}
