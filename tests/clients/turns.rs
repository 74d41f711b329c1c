//! Turns off the straight road: a message sent while the model works, a forked conversation, a file that is edited on the
//! way, older models, other instruction files, a compressed body.

use std::process::Stdio;

use super::api::{Call, Say, Seen};
use super::law::{law, said};
use super::script::{no_note_is_told_twice, obliging, told_once};
use super::{Desk, Road};
use crate::support::law::Shown;
use crate::support::live::Live;
use serde_json::{Value, json};

/// Kinds of the calls, in order of arrival.
fn kinds(pairs: &[(Seen, Shown)]) -> Vec<&str> {
    pairs.iter().map(|(_, receipt)| receipt.text("kind")).collect()
}

#[test]
fn a_message_sent_while_claude_code_works_is_a_turn_of_its_own() {
    let waits = |call: &Call| match call.newest().as_str() {
        newest if newest.contains("wait for me") && !call.answers_a_tool() => {
            Say::Tool("Bash", json!({ "command": "cat door", "description": "wait" }))
        }
        _ => obliging(call),
    };
    let Some(desk) = Desk::new(Road::Spine, waits) else { return };
    let rule = desk.inject("claude");
    let door = desk.home.project().join("door");
    let made = std::process::Command::new("mkfifo").arg(&door).status().unwrap();
    assert!(made.success());
    let talk = ["-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"];
    let mut command = desk.claude_command(&[&talk[..], &["--allowedTools", "Bash"]].concat());
    let mut live = Live::start(command.stderr(Stdio::piped()));
    let say =
        |text: &str| json!({ "type": "user", "message": { "role": "user", "content": text } }).to_string();
    live.send(&say("please wait for me"));
    live.until("toolu_scripted");
    live.send(&say("one more thing, sent meanwhile"));
    std::fs::write(&door, "opened\n").unwrap();
    live.until("\"type\":\"result\"");
    live.close_stdin();
    let run = live.end();
    desk.dump("claude-queued");
    assert_eq!(run.code, 0, "{run:?}");
    let pairs = law(&desk);
    // Whether it comes with the tool's result or after it is the client's business.
    assert_eq!(kinds(&pairs).iter().filter(|kind| **kind == "turn").count(), 2, "{:?}", kinds(&pairs));
    assert_eq!(desk.api.broken(), Vec::<String>::new());
    no_note_is_told_twice(&desk.api.prompts());
    for (seen, _) in &pairs {
        told_once(seen, &[rule], "the rule");
    }
}

#[test]
fn a_conversation_that_goes_back_keeps_what_it_was_told_up_to_there() {
    let Some(desk) = Desk::new(Road::Spine, obliging) else { return };
    let rule = desk.inject("claude");
    desk.claude(&["-p", "first of all"]);
    let session = desk.api.prompts()[0].request.header("x-claude-code-session-id").unwrap().to_owned();
    let answer = last_answer(&desk);
    desk.claude(&["-p", "--continue", "secondly"]);
    let run = desk.claude(&["-p", "--resume", &session, "--resume-session-at", &answer, "or rather this"]);
    desk.dump("claude-rewound");
    assert_eq!(run.out.trim(), "Understood, and noted.", "{run:?}");
    let pairs = law(&desk);
    assert_eq!(kinds(&pairs), ["turn", "turn", "turn"]);
    assert_eq!(desk.api.broken(), Vec::<String>::new());
    no_note_is_told_twice(&desk.api.prompts());
    for (seen, _) in &pairs {
        told_once(seen, &[rule], "the rule");
    }
    assert_eq!(said(&pairs[2].0, "secondly"), 0, "it did go back");
    assert_eq!(said(&pairs[2].0, "Note number 2."), 0);
}

/// Id of the newest answer in the client's own transcript.
fn last_answer(desk: &Desk) -> String {
    let folders = std::fs::read_dir(desk.home.path().join(".claude/projects")).unwrap();
    let mut files = folders.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    let file = files.find(|file| file.as_ref().unwrap().path().extension().is_some_and(|ext| ext == "jsonl"));
    let transcript = std::fs::read_to_string(file.unwrap().unwrap().path()).unwrap();
    let lines = transcript.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let answer = lines.rev().find(|line| line["type"] == "assistant").unwrap();
    answer["uuid"].as_str().unwrap().to_owned()
}

#[test]
fn a_forked_conversation_keeps_what_it_was_told() {
    let Some(desk) = Desk::new(Road::Spine, obliging) else { return };
    let rule = desk.inject("claude");
    desk.claude(&["-p", "first of all"]);
    desk.claude(&["-p", "--continue", "secondly"]);
    desk.claude(&["-p", "--continue", "--fork-session", "or rather this"]);
    desk.claude(&["-p", "--continue", "and on with it"]);
    desk.dump("claude-forked");
    let pairs = law(&desk);
    assert_eq!(desk.api.broken(), Vec::<String>::new());
    no_note_is_told_twice(&desk.api.prompts());
    for (seen, _) in &pairs {
        told_once(seen, &[rule], "the rule");
    }
}

#[test]
fn a_forked_codex_conversation_keeps_what_it_was_told() {
    let Some(desk) = Desk::new(Road::Spine, obliging) else { return };
    let rule = desk.inject("codex");
    desk.codex(&["first of all"]);
    let thread = desk.api.prompts()[0].request.header("thread-id").unwrap().to_owned();
    let run = desk.codex(&["fork", &thread, "or rather this"]);
    desk.dump("codex-forked");
    assert_eq!(run.code, 0, "{run:?}");
    let pairs = law(&desk);
    assert_eq!(desk.api.broken(), Vec::<String>::new());
    for (seen, _) in &pairs {
        told_once(seen, &[rule], "the rule");
    }
}

#[test]
fn a_file_edited_between_two_turns_reaches_the_model_anew() {
    let Some(desk) = Desk::new(Road::Spine, obliging) else { return };
    desk.home.write("src/project/CLAUDE.md", "The first wording.\n");
    desk.claude(&["-p", "first of all"]);
    desk.home.write("src/project/CLAUDE.md", "The second wording.\n");
    desk.claude(&["-p", "--continue", "please use the shell", "--allowedTools", "Bash"]);
    desk.dump("claude-edited");
    let pairs = law(&desk);
    assert_eq!(kinds(&pairs), ["turn", "turn", "continuation"]);
    let told = |text: &str| pairs.iter().map(|(seen, _)| said(seen, text)).collect::<Vec<_>>();
    assert_eq!((told("The first wording."), told("The second wording.")), (vec![1, 1, 1], vec![0, 1, 1]));
}

#[test]
fn an_older_model_gets_the_same_once() {
    let Some(desk) = Desk::new(Road::Spine, obliging) else { return };
    desk.home.write("src/project/AGENTS.md", "Agents of every kind read this.\n");
    let rule = desk.inject("claude");
    let older = ["--model", "claude-sonnet-4-6", "--allowedTools", "Bash"];
    desk.claude(&[&["-p", "please use the shell"][..], &older].concat());
    desk.claude(&[&["-p", "--continue", "and now?"][..], &older].concat());
    desk.dump("claude-older");
    let pairs = law(&desk);
    assert_eq!(kinds(&pairs), ["turn", "continuation", "turn"]);
    assert_eq!(desk.api.broken(), Vec::<String>::new());
    no_note_is_told_twice(&desk.api.prompts());
    for (seen, _) in &pairs {
        told_once(seen, &[rule, "Agents of every kind read this."], "rule and document");
    }
}

#[test]
fn a_compressed_body_of_codex_is_sent_on_plainly() {
    let Some(direct) = Desk::new(Road::Direct, obliging) else { return };
    direct.codex_with_account(&["hello"]);
    let sent = direct.api.seen().into_iter().find(Seen::is_prompt).unwrap();
    assert_eq!(sent.request.header("content-encoding"), Some("zstd"));

    let desk = Desk::new(Road::Spine, obliging).unwrap();
    let rule = desk.inject("codex");
    desk.home.write("src/project/AGENTS.md", "Agents of every kind read this.\n");
    let run = desk.codex_with_account(&["please use the shell"]);
    desk.dump("codex-account");
    assert_eq!(run.out.trim(), "The tool has answered.", "{run:?}");
    let pairs = law(&desk);
    assert_eq!(kinds(&pairs), ["turn", "continuation"]);
    for (seen, _) in &pairs {
        assert_eq!(seen.request.header("content-encoding"), None);
        told_once(seen, &[rule, "Agents of every kind read this."], "rule and document");
    }
}

/// Starts an agent with so much of the conversation, waits for it, and says so.
fn leads(call: &Call, turns: &str) -> Say {
    let items = call.body["input"].as_array().map(Vec::as_slice).unwrap_or_default();
    if items.iter().any(|item| item["type"] == "agent_message" && item.to_string().contains("NEW_TASK")) {
        return Say::text("Hello, everybody.");
    }
    let done = items.iter().filter(|item| item["type"] == "function_call_output").count();
    match (call.newest().contains("start an agent"), done) {
        (true, 0) => Say::Tool(
            "collaboration.spawn_agent",
            json!({ "task_name": "greeter", "message": "Say hello to everybody.", "fork_turns": turns }),
        ),
        (true, 1) => Say::Tool("collaboration.wait_agent", json!({})),
        _ => Say::text("Understood, and noted."),
    }
}

/// The lead's conversation and its agent's, whose only call is of this kind: each told everything once.
fn agent_is_told_once(turns: &'static str, first: &str) {
    let Some(desk) = Desk::new(Road::Spine, move |call| leads(call, turns)) else { return };
    let rule = desk.inject("codex");
    desk.home.write("src/project/AGENTS.md", "Agents of every kind read this.\n");
    let run = desk.codex(&["please start an agent"]);
    desk.dump(&format!("codex-agent-{turns}"));
    assert_eq!((run.code, desk.api.broken()), (0, Vec::new()), "{run:?}");
    let pairs = law(&desk);
    // The agent asks while its lead waits.
    let (lead, agent): (Vec<_>, Vec<_>) = pairs
        .iter()
        .partition(|(seen, _)| seen.request.header("thread-id") == seen.request.header("session-id"));
    let kinds =
        |pairs: &[&(Seen, Shown)]| pairs.iter().map(|(_, r)| r.text("kind").to_owned()).collect::<Vec<_>>();
    assert_eq!(kinds(&lead), ["turn", "continuation", "continuation"]);
    assert_eq!(kinds(&agent), [first]);
    for (seen, _) in &pairs {
        told_once(seen, &[rule, "Agents of every kind read this."], "rule and document");
    }
}

#[test]
fn an_agent_that_codex_starts_is_told_everything_once() {
    agent_is_told_once("none", "subagent");
}

#[test]
fn an_agent_that_codex_starts_with_the_whole_conversation_is_told_everything_once() {
    // Its call goes on where its lead's conversation stood.
    agent_is_told_once("all", "continuation");
}
