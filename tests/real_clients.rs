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
    let first = desk.claude(&["-p", "please use the shell", "--allowedTools", "Bash"]);
    let second = desk.claude(&["-p", "--continue", "and now?"]);
    let third = desk.claude(&["-p", "--continue", "/compact"]);
    let fourth = desk.claude(&["-p", "--continue", "after all that"]);
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
    let first = desk.codex(&["please use the shell"]);
    let second = desk.codex(&["resume", "--last", "and now?"]);
    desk.dump("codex-direct");
    println!("{first:?}\n{second:?}");
    assert_eq!(desk.api.broken(), Vec::<String>::new());
    for seen in desk.api.seen() {
        println!("{} {} {} {:?}", seen.request.method, seen.request.path, seen.status, seen.cache);
    }
}
