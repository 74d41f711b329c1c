//! Memories from the command line, and the memory tools over MCP.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::support::fake_model::Answer;
use crate::support::served::Served;
use crate::support::{Home, Run};

fn remember(home: &Home, title: &str, summary: &str) -> String {
    let done = home.json(&["memory", "remember", "--title", title, "--summary", summary, "--json"]);
    done["memory_id"].as_str().unwrap().to_owned()
}

fn found(home: &Home, query: &str) -> Vec<String> {
    let answer = home.json(&["memory", "search", query, "--json"]);
    let titles = answer["entries"].as_array().unwrap().iter();
    titles.map(|entry| entry["title"].as_str().unwrap().to_owned()).collect()
}

/// The same in another directory of the same home.
fn run_in(home: &Home, folder: &str, args: &[&str]) -> Run {
    let folder = home.path().join(folder);
    std::fs::create_dir_all(folder.join(".git")).unwrap();
    Run::of(home.command(args).current_dir(folder).output().unwrap())
}

#[test]
fn what_is_remembered_is_found_and_said_once() {
    let home = Home::new();
    let args =
        ["memory", "remember", "--title", "Port", "--summary", "The proxy listens on 8080.", "--tag", "net"];
    assert!(home.ok(&args).contains("(applied)"));
    assert!(home.ok(&args).contains("(replayed)"));
    assert!(home.ok(&["memory", "search", "proxy port"]).contains("The proxy listens on 8080."));
    let answer = home.json(&["memory", "search", "proxy port", "--json"]);
    assert_eq!(
        (&answer["schema"], &answer["total_in_scope"], &answer["entries"][0]["trust"]),
        (&json!("agentspine.memory/v1"), &json!(1), &json!("explicit"))
    );
    assert!(home.ok(&["memory", "status"]).starts_with("1 applied (project:"));
    assert!(home.ok(&["memory", "reconcile"]).contains("0 remaining"));
}

#[test]
fn forgetting_takes_a_preview_and_only_what_it_listed() {
    let home = Home::new();
    let (red, blue) =
        (remember(&home, "Red door", "It is locked."), remember(&home, "Blue window", "It is open."));
    let shown = home.run(&["memory", "forget", "red"]);
    assert_eq!(shown.code, 2);
    assert!(shown.out.contains(&red) && !shown.out.contains(&blue), "{}", shown.out);
    assert!(shown.err.contains("agentspine memory forget-confirm "), "{}", shown.err);
    assert_eq!(found(&home, "door window").len(), 2);

    // Each step is a process of its own.
    let preview = home.json(&["memory", "forget-preview", "red", "--json"]);
    let token = preview["preview_token"].as_str().unwrap();
    let done = home.json(&["memory", "forget-confirm", token, &red, &blue, "--json"]);
    assert_eq!(
        done["results"],
        json!([{ "memory_id": red, "cleanup_state": "active-shelf-cleanup-complete" }])
    );
    assert_eq!(done["refused"], json!([{ "memory_id": blue, "reason": "not in this preview" }]));
    assert_eq!(found(&home, "door window"), ["Blue window"]);
    let again = home.run(&["memory", "forget-confirm", token, &red]);
    assert!(again.code == 2 && again.err.contains("used already"), "{}", again.err);
    for (name, bytes) in home.state_files() {
        assert!(!bytes.windows(8).any(|window| window == b"Red door"), "{name}");
    }
    // What was forgotten can be remembered anew.
    assert!(
        home.ok(&["memory", "remember", "--title", "Red door", "--summary", "It is locked."])
            .contains("(applied)")
    );
    assert!(
        home.ok(&["memory", "forget-preview", "--match", "all"]).contains("2 listed of 2 that match, 2 here")
    );
}

#[test]
fn of_processes_that_confirm_one_preview_at_once_one_forgets() {
    let home = Home::new();
    let memory = remember(&home, "Red door", "It is locked.");
    let preview = home.json(&["memory", "forget-preview", "red", "--json"]);
    let token = preview["preview_token"].as_str().unwrap();
    let confirm = || home.command(&["memory", "forget-confirm", token, &memory, "--json"]);
    let quiet = |mut command: Command| command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let racing: Vec<_> = (0..6).map(|_| quiet(confirm())).collect();
    let ended = racing.into_iter().map(|child| Run::of(child.wait_with_output().unwrap()));
    let mut codes: Vec<i32> = ended.map(|run| run.code).collect();
    codes.sort_unstable();
    assert_eq!(codes, [0, 2, 2, 2, 2, 2]);
}

#[test]
fn forgetting_takes_the_text_out_of_the_conversations_it_was_injected_into() {
    let (server, home) = (Served::start([Answer::text(&["Noted."]), Answer::text(&["Gone."])]), Home::new());
    let memory = remember(&home, "Harbour", "The harbour is named Ravenna.");
    assert_eq!(home.ask(&server.chat(), "How is the harbour named?").code, 0);
    assert!(server.bodies()[0].contains("Ravenna"));
    let preview = home.json(&["memory", "forget-preview", "harbour", "--json"]);
    let session = home.json(&["sessions", "list", "--json"])["sessions"][0]["id"].clone();
    assert_eq!(preview["conversations"], json!([session]));
    home.ok(&["memory", "forget-confirm", preview["preview_token"].as_str().unwrap(), &memory]);
    for (name, bytes) in home.state_files() {
        assert!(!bytes.windows(7).any(|window| window == b"Ravenna"), "{name}");
    }
    // The conversation goes on without it.
    assert_eq!(home.ask_on(&server.chat(), "And the harbour's name again?").code, 0);
    assert!(!server.bodies()[1].contains("Ravenna"));
}

#[test]
fn at_a_terminal_the_person_chooses_by_number() {
    let home = Home::new();
    remember(&home, "Red door", "It is locked.");
    remember(&home, "Red window", "It is open.");
    let terminal = home.terminal((120, 30), &["memory", "forget", "red"]);
    terminal.wait_for("forget which?");
    terminal.send("2\r");
    terminal.wait_for("forgotten memory:");
    assert_eq!(terminal.left().code, 0);
    assert_eq!(found(&home, "red").len(), 1);
}

#[test]
fn two_directories_of_the_same_name_know_nothing_of_each_other() {
    let home = Home::new();
    for (folder, summary) in [("a/shop", "Prices in euro."), ("b/shop", "Prices in yen.")] {
        let run = run_in(&home, folder, &["memory", "remember", "--title", "Prices", "--summary", summary]);
        assert_eq!(run.code, 0, "{}", run.err);
    }
    let run = run_in(&home, "a/shop", &["memory", "search", "prices"]);
    assert!(run.out.contains("euro") && !run.out.contains("yen"), "{}", run.out);
    let preview = run_in(&home, "a/shop", &["memory", "forget-preview", "prices", "--json"]);
    let preview: Value = serde_json::from_str(&preview.out).unwrap();
    let (token, id) = (&preview["preview_token"], &preview["candidates"][0]["memory_id"]);
    let elsewhere =
        run_in(&home, "b/shop", &["memory", "forget-confirm", token.as_str().unwrap(), id.as_str().unwrap()]);
    assert_eq!(elsewhere.code, 2, "a token of another project: {}", elsewhere.out);
    assert!(run_in(&home, "b/shop", &["memory", "search", "prices"]).out.contains("yen"));
    // Another user of the same directory neither.
    let other = run_in(&home, "a/shop", &["memory", "--user", "user:other", "search", "prices"]);
    assert_eq!(other.out, "nothing found\n");
}

#[test]
fn a_rule_waits_for_the_person() {
    let home = Home::new();
    let args =
        ["memory", "remember", "--kind", "rule", "--title", "Tags", "--summary", "A person tags releases."];
    let said = home.ok(&args);
    assert!(said.contains("nothing is active yet") && said.contains("agentspine remember-confirm"), "{said}");
    let listed = home.json(&["remember-list", "--json"]);
    assert_eq!((&listed["entries"], listed["candidates"].as_array().unwrap().len()), (&json!([]), 1));
    assert_eq!(listed["candidates"][0]["claim"], "Tags: A person tags releases.");
    assert_eq!(home.ok(&["memory", "search", "releases"]), "nothing found\n");
    assert!(home.ok(&args).contains("(replayed)"));
}

#[test]
fn the_configuration_says_what_is_allowed_and_warns_of_what_never_is() {
    let home = Home::new();
    remember(&home, "Port", "8080");
    let set = |text: &str| drop(home.write(".config/agentspine/config.toml", text));
    set("[memory]\npreset = \"read-only\"\n");
    assert_eq!(found(&home, "port"), ["Port"]);
    for args in [
        &["memory", "remember", "--title", "a", "--summary", "b"][..],
        &["memory", "forget-preview", "port"],
        &["memory", "export"],
        &["memory", "import", "--from", "jsonl", "x"],
    ] {
        let run = home.run(args);
        assert!(run.code == 2 && run.err.contains("is not granted"), "{args:?}: {}", run.err);
        assert!(run.err.contains("[memory] of config.toml"), "{}", run.err);
    }
    set("[memory]\npreset = \"evrything\"\n");
    let run = home.run(&["memory", "search", "port"]);
    assert!(run.code == 2 && run.err.contains("so memory is disabled"), "{}", run.err);
    set("[memory]\ntranscript-mirror = true\nextraction = true\nlegacyBridge = \"x\"\n");
    let run = home.run(&["memory", "search", "port"]);
    assert_eq!(run.code, 0);
    for words in [
        "transcript-mirror is refused",
        "consent for each session",
        "extraction is refused",
        "legacyBridge was removed",
    ] {
        assert!(run.err.contains(words), "{words}: {}", run.err);
    }
}

#[test]
fn an_import_shows_its_plan_first_and_loses_nothing() {
    let home = Home::new();
    home.write(
        "notes/MEMORY.md",
        "# Build\n- Node 22 is needed.\n- Never edit the vendor folder\n- [T](topic.md) — hook\n",
    );
    home.write("notes/topic.md", "---\nname: Topic\ndescription: One line\ntype: project\n---\nThe key is AKIAQ7R5TLDJWXVN3PZK here.\n");
    home.write("notes/data.bin", "x");
    std::os::unix::fs::symlink("/etc/hostname", home.path().join("notes/link.md")).unwrap();
    let folder = home.path().join("notes");
    let args = ["memory", "import", "--from", "claude-memory", folder.to_str().unwrap()];
    let plan = home.run(&args);
    assert!(
        plan.code == 2 && plan.err.contains("nothing was changed") && plan.err.contains("--yes"),
        "{}",
        plan.err
    );
    for words in [
        "MEMORY.md:2",
        "to confirm",
        "redacted: ",
        "data.bin:1",
        "not a Markdown file",
        "a link is not followed",
        "stands for topic.md",
    ] {
        assert!(plan.out.contains(words), "{words}:\n{}", plan.out);
    }
    assert!(!plan.out.contains("AKIAQ7R5"));
    assert_eq!(home.json(&["memory", "status", "--json"])["counts"], json!({}));
    assert_eq!(home.run(&[&args[..], &["--dry-run"]].concat()).code, 0);

    let done = home.json(&[&args[..], &["--yes", "--json"]].concat());
    assert_eq!(
        done["counts"],
        json!({ "applied": 2, "to confirm": 1, "taken there": 1, "left out": 2 }),
        "{done}"
    );
    let candidate = done["steps"][1]["candidate"].as_str().unwrap();
    assert_eq!(home.json(&["remember-list", "--json"])["candidates"][0]["id"], candidate);
    home.ok(&["remember-confirm", candidate, "--confirm-local-user"]);
    let again = home.json(&[&args[..], &["--yes", "--json"]].concat());
    assert_eq!(again["counts"], json!({ "known": 3, "taken there": 1, "left out": 2 }), "{again}");
    assert_eq!(found(&home, "node"), ["Build"]);
    for (name, bytes) in home.state_files() {
        assert!(!bytes.windows(8).any(|window| window == b"AKIAQ7R5"), "{name}");
    }
}

#[test]
fn claude_codes_notes_on_this_project_are_found_by_themselves() {
    let home = Home::new();
    let missing = home.run(&["memory", "import", "--from", "claude-memory"]);
    assert_eq!(missing.code, 2, "{}", missing.err);
    let project = home.project().canonicalize().unwrap();
    let dashed: String =
        project.to_str().unwrap().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    home.write(&format!(".claude/projects/{dashed}/memory/MEMORY.md"), "- Node 22 is needed.\n");
    home.ok(&["memory", "import", "--from", "claude-memory", "--yes"]);
    assert_eq!(found(&home, "node"), ["MEMORY"]);
    assert_eq!(home.run(&["memory", "import", "--from", "jsonl"]).code, 2, "a file must be named");
}

#[test]
fn upstreams_rules_become_candidates_of_the_same_reach() {
    let home = Home::new();
    let row = |id: &str, project: Value| {
        json!({
            "id": id, "kind": "critical", "claim": format!("Rule {id} of the house."), "userId": "local-user",
            "tenantId": "local-tenant", "projectId": project, "groupId": null, "taskId": null, "status": "active",
        })
    };
    let rows = [row("remember:1", json!("project:p")), row("remember:2", Value::Null)];
    let file = home.write("must-remember.json", &json!({ "entries": rows, "candidates": [] }).to_string());
    let args = ["memory", "import", "--from", "upstream", file.to_str().unwrap(), "--yes"];
    let said = home.ok(&args);
    assert_eq!(said.matches("agentspine remember-confirm remember-candidate:").count(), 2, "{said}");
    let listed = home.json(&["remember-list", "--json"]);
    assert_eq!(listed["entries"], json!([]));
    let reach: Vec<&Value> =
        listed["candidates"].as_array().unwrap().iter().map(|one| &one["projectId"]).collect();
    assert_eq!(reach, [&json!("project:p"), &Value::Null]);
    let broken = home.write("broken.json", "{\n\n]");
    let run = home.run(&["memory", "import", "--from", "upstream", broken.to_str().unwrap()]);
    assert!(run.code == 2 && run.err.contains("line 3"), "{}", run.err);
}

#[test]
fn an_export_is_private_and_comes_back_in_another_home() {
    let home = Home::new();
    remember(&home, "Port", "The proxy listens on 8080.");
    remember(&home, "Door", "The red door is locked.");
    let file = home.path().join("export.jsonl");
    home.ok(&["memory", "export", file.to_str().unwrap()]);
    let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let lines = std::fs::read_to_string(&file).unwrap();
    assert_eq!(home.ok(&["memory", "export"]), lines);
    assert_eq!(home.run(&["memory", "export", file.to_str().unwrap()]).code, 2, "never over a file");

    let other = Home::new();
    let copy = other.write("export.jsonl", &lines);
    other.ok(&["memory", "import", "--from", "jsonl", copy.to_str().unwrap(), "--yes"]);
    assert_eq!(other.ok(&["memory", "export"]), lines);
    let known = home.run(&["memory", "import", "--from", "jsonl", file.to_str().unwrap(), "--dry-run"]);
    assert!(known.out.contains("2 items: 2 known"), "{}", known.out);
}

/// Speaks the protocol by hand: what stands on stdout, a line a message.
fn mcp(home: &Home, requests: &[Value]) -> (Vec<Value>, String) {
    let mut child: Command = home.command(&["mcp"]);
    let mut child =
        child.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let hello = json!({
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": { "name": "test", "version": "1" },
    });
    let mut lines = vec![
        json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
    ];
    lines.extend_from_slice(requests);
    for line in lines {
        writeln!(input, "{line}").unwrap();
    }
    // One answer a request; then the client goes.
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    let mut answers = Vec::new();
    for _ in 0..=requests.len() {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut out, &mut line).unwrap();
        answers.push(serde_json::from_str::<Value>(&line).unwrap_or_else(|_| panic!("no protocol: {line}")));
    }
    drop(input);
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut out, &mut rest).unwrap();
    assert_eq!(rest, "");
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success());
    answers.sort_by_key(|answer| answer["id"].as_u64());
    (answers, String::from_utf8(ended.stderr).unwrap())
}

fn call(id: u64, name: &str, arguments: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": { "name": name, "arguments": arguments } })
}

#[test]
fn mcp_offers_exactly_the_six_tools_and_only_the_protocol_on_stdout() {
    let home = Home::new();
    remember(&home, "Port", "The proxy listens on 8080.");
    home.write(".config/agentspine/config.toml", "[memory]\nextraction = true\n");
    let requests = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" }),
        call(2, "memory_search", &json!({ "query": "proxy" })),
        call(3, "memory_search", &json!({ "query": "proxy", "project_id": "project:other" })),
        call(4, "remember_confirm", &json!({})),
        call(5, "memory_forget_preview", &json!({ "query": "proxy" })),
        json!({ "jsonrpc": "2.0", "id": 6, "method": "resources/list" }),
    ];
    let (answers, err) = mcp(&home, &requests);
    let tools = answers[1]["result"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let six = [
        "memory_search",
        "memory_remember",
        "memory_forget_preview",
        "memory_forget_confirm",
        "memory_status",
        "memory_reconcile",
    ];
    assert_eq!(names, six);
    assert!(tools.iter().all(|tool| tool["inputSchema"]["additionalProperties"] == false));
    assert_eq!(answers[2]["result"]["structuredContent"]["entries"][0]["title"], "Port");
    for refused in &answers[3..6] {
        assert_eq!(refused["result"]["isError"], true, "{refused}");
    }
    assert!(answers[5]["result"]["content"][0]["text"].as_str().unwrap().contains("delete is not granted"));
    assert!(answers[6].get("error").is_some());
    assert!(err.contains("extraction is refused"), "{err}");
}

#[test]
fn what_mcp_remembers_is_of_the_directory_it_was_started_in() {
    let home = Home::new();
    let arguments = json!({ "kind": "decision", "title": "Port", "summary": "The proxy listens on 8080." });
    let rule = json!({ "kind": "rule", "title": "Tags", "summary": "A person tags releases." });
    let (answers, _) =
        mcp(&home, &[call(1, "memory_remember", &arguments), call(2, "memory_remember", &rule)]);
    assert_eq!(answers[1]["result"]["structuredContent"]["status"], "applied");
    assert_eq!(answers[2]["result"]["structuredContent"]["status"], "pending");
    assert_eq!(found(&home, "proxy"), ["Port"]);
    assert_eq!(run_in(&home, "elsewhere", &["memory", "search", "proxy"]).out, "nothing found\n");
    assert_eq!(home.json(&["remember-list", "--json"])["entries"], json!([]));
}
