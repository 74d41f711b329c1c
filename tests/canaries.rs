//! After a full run with secrets in every input, each of them is only where it belongs.

use std::process::Command;

use serde_json::json;

use crate::support::fake_model::{Answer, End};
use crate::support::law::law;
use crate::support::live::Live;
use crate::support::served::Served;
use crate::support::{Home, Run};

const KEY: &str = "sk-canarykey-0123456789abcdef";
const PROMPT: &str = "canaryprompt";
const INSTRUCTION: &str = "canaryinstruction";
const CLAIM: &str = "canaryclaim";
const MEMORY: &str = "canarymemory";
const ANSWER: &str = "canaryanswer";
const CANARIES: [&str; 6] = [KEY, PROMPT, INSTRUCTION, CLAIM, MEMORY, ANSWER];

/// Where each canary may lie: what was said and injected; the memories; the rules.
const MAY_HOLD: [(&str, &[&str]); 3] = [
    ("conversations.sqlite", &[PROMPT, INSTRUCTION, CLAIM, MEMORY, ANSWER]),
    ("memory.sqlite", &[MEMORY]),
    ("remember.sqlite", &[CLAIM]),
];

fn holds(bytes: &[u8], canary: &str) -> bool {
    bytes.windows(canary.len()).any(|window| window == canary.as_bytes())
}

/// Every file of the state directory but the stores above, and those only with what they are for.
fn every_file_holds_only_its_own(home: &Home) {
    for (name, bytes) in home.state_files() {
        let file = name.rsplit('/').next().unwrap();
        let may = MAY_HOLD.iter().find(|(store, _)| file.starts_with(store)).map_or(&[][..], |(_, may)| may);
        for canary in CANARIES.iter().filter(|canary| !may.contains(canary)) {
            assert!(!holds(&bytes, canary), "{canary} is in {name}");
        }
    }
}

/// What was told beside the answer: nobody's words. `allowed` is what the command was asked to print.
fn told_nothing(run: &Run, allowed: &[&str]) {
    for canary in CANARIES {
        assert!(!run.err.contains(canary), "{canary} on stderr: {}", run.err);
        assert!(allowed.contains(&canary) || !run.out.contains(canary), "{canary} on stdout: {}", run.out);
    }
}

/// A home with a canary in its instructions, rules and memories, whose only way out is the server.
fn home_full_of_canaries(server: &Served) -> Home {
    let home = Home::new();
    home.write("src/project/CLAUDE.md", &format!("The word is {INSTRUCTION}.\n"));
    let config = format!("[http]\nproxy = \"{}\"\nallow_plain = true\n", server.base());
    home.write(".config/agentspine/config.toml", &config);
    let proposed = home.json(&["remember-propose", "--claim", &format!("We always say {CLAIM}."), "--json"]);
    let candidate = proposed["candidate"]["id"]
        .as_str()
        .or(proposed["id"].as_str())
        .unwrap_or_else(|| panic!("{proposed}"));
    home.ok(&["remember-confirm", candidate, "--confirm-local-user"]);
    let summary = format!("Deploys are called {MEMORY}.");
    home.ok(&["memory", "remember", "--title", "Names of deploys", "--summary", &summary]);
    home
}

/// A chat with a key in every variable that may hold one.
fn chat(home: &Home, args: &[&str]) -> Command {
    let mut command = home.chat("chat:m@http://models.example", args);
    command.env("AGENTSPINE_API_KEY", KEY).env("ANTHROPIC_API_KEY", KEY).env("OPENAI_API_KEY", KEY);
    command
}

fn run(home: &Home, args: &[&str]) -> Run {
    Run::of(chat(home, args).output().unwrap())
}

#[test]
fn prompts_instructions_claims_memories_and_keys_are_only_where_they_belong() {
    let quoting = json!({ "error": { "message": format!("key {KEY} is not good") } });
    let server = Served::start([
        Answer::tool("call_1", "memory_search", json!({ "query": "deploys" })),
        Answer::text(&[ANSWER]),
        Answer::json(400, &quoting),
        Answer::cut(&[ANSWER], End::Reset),
        Answer::sse("data: {broken\n\n"),
        Answer::Hang,
        Answer::text(&[ANSWER]),
    ]);
    let (home, prompt) = (home_full_of_canaries(&server), format!("{PROMPT}: how are deploys called?"));
    calls_tell_nothing(&home, &server, &prompt);
    let body = server.bodies().remove(0);
    for canary in [PROMPT, INSTRUCTION, CLAIM, MEMORY] {
        assert!(body.contains(canary), "{canary} reached the model: {body}");
    }
    refusals_tell_nothing(&home, &prompt);
    home.write("src/project/CLAUDE.md", INSTRUCTION);
    told_nothing(&run(&home, &["--continue", "-p", &prompt]), &[ANSWER]);
    reports_tell_nothing(&home, &server);
    every_file_holds_only_its_own(&home);
}

/// A tool loop, an error that quotes the key, a cut, nonsense, and a kill before the first byte.
fn calls_tell_nothing(home: &Home, server: &Served, prompt: &str) {
    let first = run(home, &["-p", prompt]);
    assert_eq!((first.code, first.out.as_str()), (0, format!("{ANSWER}\n").as_str()), "{}", first.err);
    told_nothing(&first, &[ANSWER]);
    for code in [20, 21, 20] {
        let run = run(home, &["--json", "--continue", "-p", prompt]);
        assert_eq!(run.code, code, "{}", run.err);
        told_nothing(&run, &[ANSWER]);
    }
    let killed = Live::ask(&mut chat(home, &["--continue", "-p", prompt]));
    for _ in 0..6 {
        server.arrived();
    }
    killed.kill();
    told_nothing(&killed.end(), &[]);
}

/// Over the budget, no UTF-8, no instruction host.
fn refusals_tell_nothing(home: &Home, prompt: &str) {
    let file = home.project().join("CLAUDE.md");
    for (text, code) in [
        (format!("{INSTRUCTION} ").repeat(4096).into_bytes(), 12),
        ([INSTRUCTION.as_bytes(), &[0xff, 0xfe]].concat(), 10),
    ] {
        std::fs::write(&file, text).unwrap();
        let refused = run(home, &["--json", "-p", prompt]);
        assert_eq!(refused.code, code, "{}", refused.err);
        told_nothing(&refused, &[]);
    }
    let unbound = home.run_with_stdin(&["chat", "--model", "demo", "--plain"], &format!("{prompt}\n"));
    assert_eq!(unbound.code, 10, "{}", unbound.err);
    told_nothing(&unbound, &[]);
}

/// Every command that reports on what happened.
fn reports_tell_nothing(home: &Home, server: &Served) {
    for args in [
        &["receipts", "list"][..],
        &["receipts", "list", "--json"],
        &["receipts", "verify", "--json"],
        &["preflight-status", "--json"],
        &["instructions", "--host", "claude", "--json"],
        &["doctor", "--json"],
        &["state", "check"],
    ] {
        told_nothing(&home.run(args), &[]);
    }
    // A session is listed by its first words.
    told_nothing(&home.run(&["sessions", "list", "--json"]), &[PROMPT]);
    for receipt in law_of(home, server) {
        told_nothing(&home.run(&["receipts", "show", &receipt]), &[]);
    }
}

/// The law with the proxy's requests, whose receipts name the far endpoint; every receipt's id.
fn law_of(home: &Home, server: &Served) -> Vec<String> {
    let receipts = crate::support::law::law_through(home, server, "http://models.example");
    assert_eq!(receipts.iter().filter(|receipt| receipt.is_consumed()).count(), server.requests().len());
    receipts.iter().map(|receipt| receipt.id().to_owned()).collect()
}

#[test]
fn a_key_is_neither_kept_nor_shown_nor_given_to_a_provider() {
    let home = Home::new();
    let spy = home.write("spy.sh", "#!/bin/sh\ncat\nenv >&2\nexit 3\n");
    std::fs::set_permissions(&spy, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let profile = json!({
        "id": "local", "agentId": "host-agent:default", "host": "agentspine", "profileId": "default",
        "tenantId": "local-tenant", "enabled": true,
        "providers": [{
            "schema": "agentspine.retrieval-provider/v1", "id": "spy", "adapter": "mnemo-command/v1", "required": true,
            "failClosed": true, "timeoutMs": 5000, "command": spy.to_str().unwrap(), "args": [], "credentialEnv": [],
        }],
    });
    let file = home.write("policy.json", &profile.to_string());
    let stored = home.run(&["preflight-policy", file.to_str().unwrap(), "--confirm-local-policy"]);
    assert_eq!(stored.code, 0, "{}{}", stored.out, stored.err);
    let server = Served::start([Answer::text(&["never"])]);
    let mut command = home.chat(&server.anthropic(), &["--json", "-p", PROMPT]);
    let run = Run::of(command.env("ANTHROPIC_API_KEY", KEY).env("AGENTSPINE_API_KEY", KEY).output().unwrap());
    assert_eq!(run.code, 11, "{}", run.err);
    assert!(run.err.contains("provider-failed/exit(3)"), "{}", run.err);
    told_nothing(&run, &[]);
    assert_eq!(server.requests().len(), 0);
    every_file_holds_only_its_own(&home);
    law(&home, &[&server]);
}
