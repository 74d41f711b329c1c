//! Makes `screenshots/`: `cargo test --test screenshots`, or with `-- watch` those of the watch alone. The real binary in a real terminal; the model is a scripted server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]

#[path = "support/picture.rs"]
mod picture;
// The house uses what this program does not.
#[allow(dead_code)]
mod support;

use std::path::Path;

use serde_json::{Value, json};
use support::fake_model::Answer;
use support::served::Served;
use support::terminal::{Terminal, keys};
use support::{Home, root};

const SIZES: [(u16, u16); 2] = [(80, 24), (120, 36)];
const WATCH_SIZES: [(u16, u16); 3] = [(80, 24), (120, 36), (200, 50)];
const QUESTION: &str = "How do receipts expire, and what blocks a turn?";
const ANSWER: [&str; 6] = [
    "A receipt belongs to one call. It expires **60 s after it was issued**, or as soon as it is consumed [1]:\n\n",
    "```rust\nlet receipt = gate.issue(&composed)?;\nlet spent = receipt.consume()?; // in process, once\n```\n\n",
    "Three things block a turn:\n\n",
    "- an instruction file that changes between issue and consume\n",
    "- a *required* provider that fails; an optional one only warns [2]\n",
    "- a receipt that is expired, or bound to another turn",
];
const MEMORIES: [[&str; 3]; 3] = [
    [
        "decision",
        "Receipts",
        "A receipt expires 60 s of boot time after it was issued, or when it is consumed.",
    ],
    [
        "decision",
        "Optional providers",
        "An optional provider that fails only warns; a required one blocks the turn.",
    ],
    ["preference", "Reviews", "Anja reviews every change of the receipts journal."],
];

fn main() {
    if std::env::args().any(|arg| arg == "watch") {
        return watch();
    }
    for size in SIZES {
        let shot = |terminal: &Terminal, name: &str| {
            let name = format!("{name}-{}x{}", size.0, size.1);
            picture::write(&terminal.screen(), &root().join("screenshots"), &name);
        };
        first_run(size, &shot);
        answer(size, &shot);
        blocked(size, &shot);
        receipts(size, &shot);
    }
    watch();
}

type Shot<'a> = &'a dyn Fn(&Terminal, &str);

fn first_run(size: (u16, u16), shot: Shot<'_>) {
    let home = furnished();
    let terminal = home.terminal(size, &["--model", "demo"]);
    terminal.wait_for("Whose instruction files shall bind every call?");
    terminal.wait_for("Enter takes it");
    shot(&terminal, "first-run");
}

fn answer(size: (u16, u16), shot: Shot<'_>) {
    let home = furnished();
    let server = Served::start([Answer::text(&ANSWER)]);
    let terminal = chat(&home, &server, size);
    ask(&terminal, 1, QUESTION);
    shot(&terminal, "answer");
}

fn blocked(size: (u16, u16), shot: Shot<'_>) {
    let home = furnished();
    let server = Served::start([Answer::text(&ANSWER)]);
    let terminal = chat(&home, &server, size);
    ask(&terminal, 1, QUESTION);
    require(&home);
    terminal.submit("Refactor the provider trait");
    terminal.wait_for("No model call was made.");
    terminal.wait_for("draft kept");
    shot(&terminal, "blocked");
}

fn receipts(size: (u16, u16), shot: Shot<'_>) {
    let home = furnished();
    let server = Served::start([
        Answer::text(&ANSWER),
        Answer::text(&["Anja, as with every change of the journal [1]."]),
    ]);
    let terminal = chat(&home, &server, size);
    ask(&terminal, 1, QUESTION);
    ask(&terminal, 2, "Who reviews the receipts journal?");
    require(&home);
    terminal.submit("Refactor the provider trait");
    terminal.wait_for("No model call was made.");
    terminal.send(keys::F3);
    terminal.wait_for("Receipts (3)");
    terminal.send(keys::DOWN);
    terminal.wait_until("the second receipt", |screen| {
        screen.contents().lines().any(|line| line.starts_with('▸') && line.contains("consumed"))
    });
    terminal.wait_for("· turn 2 ──");
    terminal.wait_for("not verified now");
    terminal.send("v");
    terminal.wait_for("signature and chain ok");
    shot(&terminal, "receipts");
}

/// One person's calls, seen while they happen: two sessions, a tool call, a failure, a refusal.
fn watch() {
    let home = furnished();
    confirm(&home, "Never push on Fridays.");
    let search = json!({"query": "receipts journal"});
    let server = Served::start([
        Answer::text(&ANSWER),
        Answer::tool("call-1", "memory_search", search),
        Answer::text(&["Anja does [1]."]),
        Answer::status(400, &[], "{}"),
    ]);
    let model = server.name().replace("chat:fake", "chat:scripted");
    let screens: Vec<_> = WATCH_SIZES.iter().map(|size| (home.terminal(*size, &["watch"]), *size)).collect();
    let ask = |session: &[&str], prompt: &str| {
        support::Run::of(home.chat(&model, &[session, &["-p", prompt]].concat()).output().unwrap())
    };
    ask(&["--session", "s-81"], QUESTION);
    ask(&["--continue"], "Who reviews the receipts journal?");
    ask(&["--session", "s-82"], "Summarise the last week.");
    require(&home);
    ask(&["--session", "s-83"], "Refactor the provider trait");
    for (terminal, (columns, rows)) in screens {
        let shot = |name: &str| {
            let name = format!("{name}-{columns}x{rows}");
            picture::write(&terminal.screen(), &root().join("screenshots"), &name);
        };
        terminal.wait_for("5 calls · 1 refused · 1 failed");
        terminal.wait_for("deadline");
        shot("watch-refused");
        terminal.send("g");
        terminal.wait_for("f follows");
        terminal.send("v");
        terminal.wait_for("anchor ok");
        terminal.wait_for("answered · took");
        shot("watch");
    }
}

fn confirm(home: &Home, rule: &str) {
    let candidate = home.json(&["remember-propose", "--claim", rule, "--json"]);
    let id = candidate["candidate"]["id"].as_str().unwrap().to_owned();
    home.ok(&["remember-confirm", &id, "--confirm-local-user"]);
}

/// Asks and waits for the end of the answer.
fn ask(terminal: &Terminal, turn: u32, prompt: &str) {
    terminal.submit(prompt);
    terminal.wait_until("the end of the answer", |screen| {
        let text = screen.contents();
        text.lines().last().is_some_and(|last| last.contains(&format!("● ready · scripted · turn {turn}")))
    });
}

fn chat(home: &Home, server: &Served, size: (u16, u16)) -> Terminal {
    let model = server.name().replace("chat:fake", "chat:scripted");
    let args = ["--instruction-host", "claude", "--session", "s-81", "--model", &model];
    let terminal = home.terminal(size, &args);
    terminal.wait_for("ready · scripted");
    terminal
}

/// A home with instruction files, memories, and a notes provider that answers.
fn furnished() -> Home {
    let home = Home::with_project("harbour");
    home.write(".claude/CLAUDE.md", "Answer in short sentences. Code first.\n");
    home.write(
        "src/harbour/CLAUDE.md",
        &"Build with `cargo build`; run every test before a commit.\n".repeat(12),
    );
    home.write("src/harbour/CLAUDE.local.md", "The staging journal lives on this machine.\n");
    for [kind, title, summary] in MEMORIES {
        home.ok(&["memory", "remember", "--kind", kind, "--title", title, "--summary", summary]);
    }
    home
}

/// Puts a required provider into the policy that does not answer.
fn require(home: &Home) {
    let script = home.write("bin/team-notes", "#!/bin/sh\nexec /usr/bin/sleep 1000\n");
    executable(&script);
    let provider: Value = json!({
        "schema": "agentspine.retrieval-provider/v1", "id": "team-notes", "adapter": "mnemo-command/v1",
        "required": true, "failClosed": true, "timeoutMs": 500, "command": script, "args": [], "credentialEnv": [],
    });
    let profile = json!({
        "id": "local", "agentId": "host-agent:default", "host": "agentspine", "profileId": "default",
        "tenantId": "local-tenant", "enabled": true, "providers": [provider],
    });
    let file = home.write("profile.json", &profile.to_string());
    home.ok(&["preflight-policy", file.to_str().unwrap(), "--confirm-local-policy"]);
}

fn executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
}
