//! The real Claude Code and Codex, and the vendors' own libraries, before a scripted API: what they really send.
//!
//! `tests/clients/run.sh` fetches the clients and runs this chapter; without them every test here says that it skipped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]
// A test tells one story, however long.
#![allow(clippy::too_many_lines)]

mod clients;
#[allow(dead_code, reason = "shared ground: each test binary uses its part of it")]
mod support;

use clients::api::{Call, Say};
use clients::{Desk, Road};
use serde_json::json;

fn obliging(call: &Call) -> Say {
    if call.is_compaction() {
        return Say::text("<summary>They asked and were answered.</summary>");
    }
    if call.answers_a_tool() {
        return Say::text("The tool has answered.");
    }
    if call.newest().contains("ask an agent")
        && call.body["tools"].as_array().is_some_and(|tools| tools.iter().any(|tool| tool["name"] == "Agent"))
        && !call.is_subagent()
    {
        let input = json!({ "description": "say hello", "prompt": "Say hello please, use the shell", "subagent_type": "general-purpose", "run_in_background": false });
        return Say::Tool("Agent", input);
    }
    if call.newest().contains("use the shell") {
        return match call.kind {
            clients::api::Kind::Responses => Say::Tool("exec_command", json!({ "cmd": "echo hi" })),
            _ => Say::Tool("Bash", json!({ "command": "echo hi", "description": "say hi" })),
        };
    }
    Say::text("Understood, and noted.")
}

#[test]
fn claude_code_speaks_with_the_scripted_api() {
    let Some(desk) = Desk::new(Road::Direct, obliging) else { return };
    documents(&desk);
    let first = desk.claude(&["-p", "please use the shell", "--allowedTools", "Bash"]);
    let second = desk.claude(&["-p", "--continue", "and now?"]);
    let third = desk.claude(&["-p", "--continue", "/compact"]);
    let fourth = desk.claude(&["-p", "--continue", "after all that"]);
    let fifth = desk.claude(&["-p", "--continue", "and ask an agent", "--allowedTools", "Agent,Bash"]);
    println!("{fifth:?}");
    desk.dump("claude-direct");
    println!("{first:?}\n{second:?}\n{third:?}\n{fourth:?}");
    assert_eq!(desk.api.broken(), Vec::<String>::new());
    for seen in desk.api.seen() {
        println!("{} {} {} {:?}", seen.request.method, seen.request.path, seen.status, seen.cache);
    }
}

#[test]
fn codex_speaks_with_the_scripted_api() {
    let Some(desk) = Desk::new(Road::Direct, obliging) else { return };
    desk.home.write(
        "src/project/AGENTS.md",
        &format!(
            "# Agents\n\n{}the very last line of it\n",
            "a line of the long file of agents\n".repeat(1200)
        ),
    );
    desk.home.write(".codex/AGENTS.md", "Global agents file.\n");
    let first = desk.codex(&["please use the shell"]);
    let second = desk.codex(&["resume", "--last", "and now?"]);
    let third = desk.codex(&[
        "-c",
        "model_auto_compact_token_limit=60000",
        "resume",
        "--last",
        "after all that, use the shell",
    ]);
    let fourth = desk.codex(&["resume", "--last", "and finally"]);
    println!("{third:?}{fourth:?}");
    desk.dump("codex-direct");
    println!("{first:?}\n{second:?}");
    assert_eq!(desk.api.broken(), Vec::<String>::new());
    for seen in desk.api.seen() {
        println!("{} {} {} {:?}", seen.request.method, seen.request.path, seen.status, seen.cache);
    }
}

/// A tree of documents with everything that a host does to them.
fn documents(desk: &Desk) {
    let home = &desk.home;
    home.write(".claude/CLAUDE.md", "Answer in the person's language.\n\n@more.md\n");
    home.write(".claude/more.md", "An import of the user's own file.\n");
    home.write(".claude/rules/style.md", "Short sentences.\n");
    home.write("src/CLAUDE.md", "An ancestor's file.\n");
    home.write("src/project/CLAUDE.md", "---\nowner: somebody\n---\n# Project\n\n<!-- a block comment -->\nKeep an <!-- inline --> comment.\n\n```\n<!-- in a fence -->\n```\n\nSee @docs/imported.md for more.  \n\n");
    home.write("src/project/docs/imported.md", "Imported text.\n");
    home.write("src/project/.claude/CLAUDE.md", "The second project file.\n");
    home.write("src/project/.claude/rules/always.md", "---\npaths: []\n---\nAn unconditional rule.\n");
    home.write(
        "src/project/.claude/rules/sometimes.md",
        "---\npaths:\n  - \"*.zig\"\n---\nA rule for zig.\n",
    );
    home.write("src/project/CLAUDE.local.md", "Local words.\n");
}
