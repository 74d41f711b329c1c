//! The prefix law behind the proxy, with clients of every dialect made up here: what the model was shown is shown again
//! to the byte, so its signed turns stay valid and its provider's cache stays warm.
//!
//! Each script is played twice, straight to the API and through the proxy. The API signs every turn of the model over
//! everything before it, answers 400 where that differs later, and simulates a prompt cache.

#[path = "proxy_law/chat.rs"]
mod chat;
#[path = "proxy_law/claude.rs"]
mod claude;
#[path = "proxy_law/codex.rs"]
mod codex;
#[path = "proxy_law/stage.rs"]
pub mod stage;

use chat::Chat;
use claude::Claude;
use codex::Codex;
use serde_json::json;
use stage::{Stage, count, no_cache_is_lost};

use crate::support::dice::Dice;
use crate::support::law::Shown;

const SESSION: &str = "618e08ae-3b03-4e3c-9982-6622e0570ed5";
const OLD: &str = "Answer in the language of the person.";
const NEW: &str = "Answer in English from now on.";
const HIDDEN: &str = "Short sentences, always.";
const RULE: &str = "Releases leave on Tuesdays.";

/// Runs a script on both roads; the one through the proxy is judged.
fn both(client: &str, script: fn(&mut Stage)) -> (Stage, Vec<Shown>) {
    let (mut direct, mut spine) = (Stage::direct(), Stage::spine(client));
    script(&mut direct);
    assert_eq!(direct.api.broken(), Vec::<String>::new(), "the script itself keeps the law");
    script(&mut spine);
    let receipts = spine.judge().into_iter().map(|(_, receipt)| receipt).collect();
    no_cache_is_lost(&direct, &spine);
    (spine, receipts)
}

/// Documents that the client shows, one that it does not, and a memory.
fn claude_project(stage: &mut Stage) {
    stage.write("CLAUDE.md", &format!("# Project\n\n{OLD}\n"));
    stage.write(".claude/rules/style.md", &format!("{HIDDEN}\n"));
    stage.lines = vec![OLD.to_owned(), HIDDEN.to_owned()];
    remember(stage);
}

fn codex_project(stage: &mut Stage) {
    stage.write("AGENTS.md", &format!("# Project\n\n{OLD}\n"));
    stage.lines = vec![OLD.to_owned()];
    remember(stage);
}

fn remember(stage: &Stage) {
    let summary = "Shells of this project are run by hand, agents as well.";
    stage.agentspine(&[
        "memory",
        "remember",
        "--title",
        "How the shell is used",
        "--summary",
        summary,
        "--json",
    ]);
}

fn claude_script(stage: &mut Stage) {
    claude_project(stage);
    let mut main = Claude::new(stage, SESSION);
    main.title(stage);
    main.count(stage);
    main.user(&["please use the shell"]);
    main.send(stage, "turn");
    main.results(&[]);
    main.send(stage, "continuation");
    stage.crash();
    main.user(&["and now the shell of somebody else"]);
    main.send(stage, "turn");
    // Sent while the tool was at work.
    main.results(&["The user sent a new message while you were working:\nonce more, please"]);
    main.send(stage, "turn");
    stage.crash();
    main.results(&[]);
    main.send(stage, "continuation");
    // A subagent with a tool of its own.
    main.user(&["now ask an agent"]);
    main.send(stage, "turn");
    let mut agent = main.agent("a1b2c3d4e5");
    agent.user(&["Use the shell, please."]);
    agent.send(stage, "subagent");
    agent.results(&[]);
    stage.crash();
    agent.send(stage, "continuation");
    main.results(&[]);
    main.send(stage, "continuation");
    // What nobody typed.
    main.user(&["<bash-input>ls</bash-input>", "<bash-stdout>a</bash-stdout><bash-stderr></bash-stderr>"]);
    main.send(stage, "continuation");
    main.user(&[
        "<system-reminder>\n[SYSTEM NOTIFICATION - NOT USER INPUT]\nA task is done.\n</system-reminder>",
    ]);
    main.send(stage, "continuation");
    main.user(&["something else"]);
    main.send(stage, "turn");
}

#[test]
fn claude_code_keeps_signed_turns_and_cache_over_tools_queued_words_subagents_and_crashes() {
    let (_, receipts) = both("claude", claude_script);
    let turns: Vec<&Shown> = receipts.iter().filter(|one| one.text("kind") == "turn").collect();
    let states =
        |shown: &Shown| shown.documents().iter().map(|(_, state)| (*state).to_owned()).collect::<Vec<_>>();
    assert_eq!(states(turns[0]), ["present", "injected"]);
    assert_eq!(states(turns[1]), ["present", "replayed"]);
    assert!(turns[0].0.to_string().contains("injected"));
    let sessions: Vec<&str> = receipts.iter().map(|one| one.text("sessionId")).collect();
    assert!(sessions.contains(&format!("{SESSION}:a1b2c3d4e5").as_str()), "{sessions:?}");
}

fn claude_changes(stage: &mut Stage) {
    claude_project(stage);
    let mut main = Claude::new(stage, SESSION);
    main.user(&["please use the shell"]);
    main.send(stage, "turn");
    // The agent edits its own file; the client goes on showing the old one.
    stage.write("CLAUDE.md", &format!("# Project\n\n{NEW}\n"));
    main.results(&[]);
    main.send(stage, "continuation");
    stage.crash();
    stage.lines.push(NEW.to_owned());
    main.user(&["go on"]);
    main.send(stage, "turn");
    stage.rule(RULE);
    main.user(&["and use the shell"]);
    main.send(stage, "turn");
    stage.crash();
    main.results(&[]);
    main.send(stage, "continuation");
    // A new file in the middle of a tool loop, and the same body twice.
    main.user(&["use the shell again"]);
    main.send(stage, "turn");
    main.results(&[]);
    main.post(stage, "continuation", &main.body(true));
    stage.crash();
    main.send(stage, "continuation");
    // A lost answer is asked for again without a stream.
    main.user(&["is anybody there"]);
    main.post(stage, "turn", &main.body(true));
    let whole = main.post(stage, "turn", &main.body(false));
    main.take(&whole);
    main.user(&["thank you"]);
    main.send(stage, "turn");
    // The person goes back by two of their messages and says something else.
    main.rewind(4);
    main.user(&["no, not that way"]);
    main.send(stage, "turn");
    main.user(&["better"]);
    main.send(stage, "turn");
    stage.lines.retain(|line| line != OLD);
    main.compact(stage, "after all that, use the shell");
    main.send(stage, "turn");
    main.results(&[]);
    stage.crash();
    main.send(stage, "continuation");
    main.user(&["and on"]);
    main.send(stage, "turn");
}

#[test]
fn claude_code_keeps_them_over_edited_files_new_rules_retries_rewinds_and_compaction() {
    let (_, receipts) = both("claude", claude_changes);
    let retries: Vec<&Shown> = receipts.iter().filter(|one| !one.text("retryOf").is_empty()).collect();
    assert_eq!(retries.len(), 1);
    assert_eq!(retries[0].text("kind"), "continuation");
}

fn codex_script(stage: &mut Stage) {
    codex_project(stage);
    let mut main = Codex::new(stage, SESSION);
    main.prewarm(stage);
    main.user("please use the shell");
    main.send(stage, "turn");
    main.result();
    main.send(stage, "continuation");
    stage.crash();
    // Sent while the tool was at work.
    main.user("and now the shell of somebody else");
    main.send(stage, "turn");
    main.result();
    main.user("once more, please");
    main.send(stage, "turn");
    main.result();
    stage.crash();
    main.send(stage, "continuation");
    main.bash();
    main.send(stage, "continuation");
    let mut agent = Codex::other(stage, "11111111-3b03-4e3c-9982-6622e0570ed5", "subagent_spawn");
    agent.user("Use the shell, please.");
    agent.send(stage, "subagent");
    agent.result();
    agent.send(stage, "continuation");
    let mut title = Codex::other(stage, "22222222-3b03-4e3c-9982-6622e0570ed5", "thread_title");
    title.user("Name this thread.");
    title.send(stage, "side");
    // The same body again, and a file that changed.
    main.user("something else");
    main.post(stage, "turn", "turn", &main.body());
    main.send(stage, "turn");
    stage.write("AGENTS.md", &format!("# Project\n\n{NEW}\n"));
    stage.lines.push(NEW.to_owned());
    stage.rule(RULE);
    main.user("use the shell");
    main.send(stage, "turn");
    stage.crash();
    main.result();
    main.send(stage, "continuation");
    main.rewind(6);
    main.user("no, differently");
    main.send(stage, "turn");
    stage.lines.retain(|line| line != OLD);
    main.compact(stage, "after all that, use the shell");
    main.send(stage, "turn");
    main.result();
    stage.crash();
    main.send(stage, "continuation");
    main.user("and on");
    main.send(stage, "turn");
}

#[test]
fn codex_keeps_sealed_turns_and_cache_over_everything_it_does() {
    let (_, receipts) = both("codex", codex_script);
    assert_eq!(receipts.iter().filter(|one| !one.text("retryOf").is_empty()).count(), 1);
}

fn chat_script(stage: &mut Stage) {
    claude_project(stage);
    let mut main = Chat::default();
    main.user("please use the shell");
    main.send(stage, "turn");
    main.result();
    main.send(stage, "continuation");
    stage.crash();
    main.user("and now?");
    main.send(stage, "turn");
    stage.write("CLAUDE.md", &format!("# Project\n\n{NEW}\n"));
    stage.lines.push(NEW.to_owned());
    main.user("use the shell");
    main.send(stage, "turn");
    stage.rule(RULE);
    stage.lines.retain(|line| line != RULE);
    main.result();
    main.send(stage, "continuation");
    stage.lines.push(RULE.to_owned());
    main.user("with the new rule");
    let body = main.body();
    stage.call("turn", "/v1/chat/completions", &[], &body);
    stage.crash();
    main.send(stage, "turn");
    // With these two goes the text that held the rule.
    main.rewind(2);
    main.user("said otherwise");
    main.send(stage, "turn");
    main.user("and on");
    main.send(stage, "turn");
}

#[test]
fn a_generic_chat_keeps_them_too() {
    let (_, receipts) = both("generic", chat_script);
    assert_eq!(receipts.iter().filter(|one| !one.text("retryOf").is_empty()).count(), 1);
}

#[test]
fn a_purged_rule_is_not_said_again_and_the_next_turn_goes_on_without_it() {
    let mut stage = Stage::spine("claude");
    claude_project(&mut stage);
    let mut main = Claude::new(&stage, SESSION);
    let entry = stage.rule(RULE).unwrap();
    main.user(&["hello"]);
    main.send(&mut stage, "turn");
    main.user(&["hello again"]);
    main.send(&mut stage, "turn");
    stage.agentspine(&["remember-purge", &entry, "--confirm-local-purge", "--json"]);
    stage.lines.retain(|line| line != RULE);
    // A client that keeps no signed turns: forgetting changes what the model was shown, and that is what was asked for.
    for message in &mut main.messages {
        if let Some(blocks) = message["content"].as_array_mut() {
            blocks.retain(|block| block["type"] != "thinking");
        }
    }
    main.user(&["and now"]);
    main.send(&mut stage, "turn");
    let pairs = stage.judge();
    assert_eq!(count(&pairs[1].0.json(), RULE), 1);
    assert_eq!(count(&pairs[2].0.json(), RULE), 0);
    // What stood beside the rule is told anew.
    assert_eq!(pairs[2].1.documents()[1].1, "injected");
    assert_eq!(pairs[2].1.claims()["mustRemember"], json!([]));
}

#[test]
fn a_file_that_goes_back_to_what_the_client_shows_is_told_again_as_the_newest() {
    let mut stage = Stage::spine("claude");
    stage.write("CLAUDE.md", &format!("{OLD}\n"));
    let mut main = Claude::new(&stage, SESSION);
    main.user(&["hello"]);
    main.send(&mut stage, "turn");
    stage.write("CLAUDE.md", &format!("{NEW}\n"));
    main.user(&["with the new one"]);
    main.send(&mut stage, "turn");
    stage.write("CLAUDE.md", &format!("{OLD}\n"));
    main.user(&["and back"]);
    main.send(&mut stage, "turn");
    main.user(&["go on"]);
    main.send(&mut stage, "turn");
    let pairs = stage.judge();
    let states: Vec<&str> = pairs.iter().map(|(_, receipt)| receipt.documents()[0].1).collect();
    assert_eq!(states, ["present", "injected", "injected", "present"]);
    // The last word on the file is the file.
    for (seen, _) in &pairs[2..] {
        let body = seen.json().to_string();
        assert!(body.rfind(OLD) > body.rfind(NEW), "{body}");
    }
}

/// One step of a conversation that nobody wrote down.
fn any_step(stage: &mut Stage, dice: &mut Dice, main: &mut Claude, turns: &mut Vec<usize>) {
    match dice.roll(12) {
        0 => stage.crash(),
        1 => stage.write("CLAUDE.md", &format!("# Project\n\nVersion {}.\n", dice.roll(4))),
        2 => stage.write(".claude/rules/style.md", &format!("Style {}.\n", dice.roll(3))),
        3 => main.title(stage),
        4 => main.count(stage),
        5 if turns.len() > 1 => {
            // Back to before some message of the person's.
            turns.truncate(1 + dice.roll(turns.len() - 1));
            main.messages.truncate(turns.pop().unwrap());
        }
        6 => {
            turns.clear();
            turns.push(0);
            let words = format!("go on then {}", stage.calls());
            main.compact(stage, &words);
            main.send(stage, "turn");
        }
        other => {
            turns.push(main.messages.len());
            // No words twice: at the place of earlier ones, a file that changed since is told anew, cache or not.
            let words = ["hello", "use the shell", "shell, and then more", "yes"][dice.roll(4)];
            main.user(&[&format!("{words} {}", stage.calls())]);
            let repeated = (other == 7).then(|| main.body(dice.roll(2) == 0));
            repeated.map(|body| main.post(stage, "turn", &body));
            main.send(stage, "turn");
            tools(stage, dice, main);
        }
    }
}

fn tools(stage: &mut Stage, dice: &mut Dice, main: &mut Claude) {
    let calls = |main: &Claude| main.messages.last().unwrap()["content"].to_string().contains("tool_use");
    while calls(main) {
        match dice.roll(5) {
            0 => stage.crash(),
            1 => stage.write("CLAUDE.md", &format!("# Project\n\nVersion {}.\n", dice.roll(4))),
            _ => {}
        }
        if dice.roll(3) == 0 {
            main.results(&["The user sent a new message while you were working:\nonce more, please"]);
            main.send(stage, "turn");
        } else {
            main.results(&[]);
            main.send(stage, "continuation");
        }
    }
}

fn any_conversation(stage: &mut Stage, seed: u64) {
    claude_project(stage);
    stage.lines.clear();
    let (mut dice, mut turns) = (Dice(seed), Vec::new());
    let mut main = Claude::new(stage, SESSION);
    main.user(&["hello"]);
    turns.push(0);
    main.send(stage, "turn");
    for _ in 0..STEPS {
        any_step(stage, &mut dice, &mut main, &mut turns);
    }
}

/// Steps of a made up conversation.
const STEPS: usize = 30;

#[test]
fn conversations_of_any_course_keep_them() {
    for seed in 1..=4 {
        let (mut direct, mut spine) = (Stage::direct(), Stage::spine("claude"));
        any_conversation(&mut direct, seed);
        any_conversation(&mut spine, seed);
        assert_eq!(direct.api.broken(), Vec::<String>::new());
        let pairs = spine.judge();
        no_cache_is_lost(&direct, &spine);
        for (seen, receipt) in &pairs {
            // In a turn nothing is missing, and what is told is the newest.
            if receipt.text("kind") == "turn" {
                let states = receipt.documents();
                assert!(states.iter().all(|(_, state)| *state != "unverified"), "{states:?}");
                assert!(!seen.request.body.is_empty());
            }
        }
    }
}
