//! The official MCP library lists and calls the six memory tools of `agentspine mcp`.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::clients;
use crate::support::{Home, Run, root};

#[test]
fn the_official_mcp_library_lists_and_calls_the_six_tools() {
    let Some(folder) = clients() else { return };
    let home = Home::new();
    home.write(".config/agentspine/config.toml", "[memory]\npreset = \"full\"\nreconcile_tool = true\n");
    let remember = json!({ "kind": "decision", "title": "Port", "summary": "The proxy listens on 8080." });
    let confirm = json!({ "preview_token": "$preview_token", "memory_ids": ["$candidates.0.memory_id"] });
    let calls = json!([
        { "name": "memory_remember", "arguments": remember },
        { "name": "memory_search", "arguments": { "query": "proxy port" } },
        { "name": "memory_status", "arguments": {} },
        { "name": "memory_forget_preview", "arguments": { "query": "proxy" } },
        { "name": "memory_forget_confirm", "arguments": confirm },
        { "name": "memory_reconcile", "arguments": {} },
        { "name": "memory_search", "arguments": { "query": "proxy port" } },
        { "name": "memory_search", "arguments": { "query": "proxy", "scope": "project:other" } },
    ]);
    let mut client = Command::new(folder.join("py/bin/python"));
    client.arg(root().join("tests/clients/mcp_client.py")).args([env!("CARGO_BIN_EXE_agentspine"), "mcp"]);
    client.env_clear().env("HOME", home.path()).env("PATH", "/usr/bin:/bin").current_dir(home.project());
    let mut client =
        client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    client.stdin.take().unwrap().write_all(calls.to_string().as_bytes()).unwrap();
    let run = Run::of(client.wait_with_output().unwrap());
    assert_eq!(run.code, 0, "{}", run.err);
    let told: Value = serde_json::from_str(&run.out).unwrap();

    assert_eq!(told["server"]["name"], "agentspine");
    let names: Vec<&str> =
        told["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let six = ["search", "remember", "forget_preview", "forget_confirm", "status", "reconcile"];
    assert_eq!(names, six.map(|name| format!("memory_{name}")));
    let answers = told["answers"].as_array().unwrap();
    let failed: Vec<bool> = answers.iter().map(|answer| answer["isError"] == true).collect();
    assert_eq!(failed, [false, false, false, false, false, false, false, true], "{}", run.out);
    assert!(answers.iter().all(|answer| answer["answer"] == answer["structured"]));
    let answer = |at: usize| &answers[at]["answer"];
    assert_eq!(answer(1)["entries"][0]["memory_id"], answer(0)["memory_id"]);
    assert_eq!(answer(4)["results"][0]["memory_id"], answer(0)["memory_id"]);
    assert_eq!(answer(6)["entries"], json!([]));
}
