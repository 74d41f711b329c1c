//! A fault at every step before the call, behind the proxy: nothing reaches the API, whatever the dialect, stream or not;
//! the client is told once, in its own form, what failed and what to do; asked again at once, it gets the same refusal.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::fake_model::Answer;
use crate::support::law::law_behind;
use crate::support::live::Live;
use crate::support::proxied::{Got, Proxied};
use crate::support::served::Served;
use crate::support::{Home, bulk};

/// Stand in places that nobody but the API may see.
const PROMPT: &str = "canaryprompt";
const FILE: &str = "canaryfile";
const KEY: &str = "sk-ant-canarykey0123456789abcdef";

/// A daemon for any client, with a document and a call that passed.
struct Ground {
    proxied: Proxied,
    server: Served,
    calls: usize,
}

/// One way to ask: path, status of a block, body.
type Ask = (&'static str, u16, Value);

/// The same words in every dialect, stream or not.
fn asks(words: &str) -> Vec<Ask> {
    let text = format!("{PROMPT} {words}");
    let message = json!([{ "role": "user", "content": [{ "type": "text", "text": text }] }]);
    let input = json!([{ "role": "user", "content": [{ "type": "input_text", "text": text }] }]);
    let string = json!([{ "role": "user", "content": text }]);
    let both = |path, status, member: &str, said: Value| {
        [false, true].map(|stream| {
            let mut body = json!({ "model": "m", "max_tokens": 8, "stream": stream });
            body[member] = said.clone();
            (path, status, body)
        })
    };
    let mut asks = both("/v1/messages", 424, "messages", message).to_vec();
    asks.extend(both("/v1/responses", 400, "input", input));
    asks.extend(both("/v1/chat/completions", 400, "messages", string));
    asks
}

impl Ground {
    fn new() -> Self {
        let home = Home::new();
        home.write("src/project/CLAUDE.md", &format!("{FILE} is a rule.\n"));
        let server = Served::start([Answer::text(&["pong"])]);
        let proxied = Proxied::start(home, server.base(), "generic");
        let mut ground = Self { proxied, server, calls: 0 };
        let (path, _, body) = asks("before anything failed").remove(0);
        assert_eq!(ground.post(path, &body).status, 200);
        ground.calls = 1;
        ground
    }

    fn home(&self) -> &Home {
        &self.proxied.home
    }

    fn gate(&self, name: &str) -> PathBuf {
        self.home().state().join("gate").join(name)
    }

    fn post(&self, path: &str, body: &Value) -> Got {
        let key = format!("Bearer {KEY}");
        let headers = [("authorization", key.as_str()), ("x-api-key", KEY)];
        self.proxied.post(path, &headers, body.to_string().as_bytes())
    }

    /// A provider that every call needs.
    fn require(&self, script: &str, change: &Value) {
        let path = self.home().write("bin/provider", &format!("#!/bin/sh\n{script}\n"));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        let mut provider = json!({
            "schema": "agentspine.retrieval-provider/v1", "id": "team-notes", "adapter": "mnemo-command/v1",
            "required": true, "failClosed": true, "timeoutMs": 10_000, "command": path, "args": [], "credentialEnv": [],
        });
        provider.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        self.profile(&json!({ "host": "generic", "providers": [provider] }));
    }

    fn profile(&self, change: &Value) {
        let mut profile = json!({
            "id": "local", "agentId": "host-agent:default", "profileId": "default", "tenantId": "local-tenant",
            "enabled": true, "providers": [], "deadlines": { "requiredMs": 10_000, "optionalMs": 10_000 },
        });
        profile.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let file = self.home().write("profile.json", &profile.to_string());
        self.home().ok(&["preflight-policy", file.to_str().unwrap(), "--confirm-local-policy"]);
    }

    /// Every way to ask is refused with this reason, and says `words`.
    fn refuses(&self, reason: &str, words: &str) {
        for (path, status, body) in asks(reason) {
            self.refuses_one(path, status, &body, reason, words);
        }
        self.kept_quiet();
    }

    fn refuses_one(&self, path: &str, status: u16, body: &Value, reason: &str, words: &str) {
        let got = self.post(path, body);
        let told = format!("{reason} {path} {}: {got:?} {}", body["stream"], got.text());
        assert_eq!((got.status, got.header("agentspine-block")), (status, reason), "{told}");
        assert_eq!(got.header("content-type"), "application/json", "{told}");
        assert_eq!(got.header("x-should-retry"), "false", "{told}");
        assert_eq!(got.header("cache-control"), "no-store", "{told}");
        assert_eq!(got.header("retry-after"), "", "{told}");
        let receipt = got.header("agentspine-receipt");
        assert!(bulk::id(receipt).is_some(), "a receipt: {told}");
        assert_eq!(got.header("request-id"), format!("req_as_{receipt}"), "{told}");
        let error = &got.json()["error"];
        assert_eq!(error["type"], "invalid_request_error", "{told}");
        let code = error["details"]["error_code"].as_str().or(error["code"].as_str());
        assert_eq!(code, Some("agentspine_preflight_blocked"), "{told}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(words) && message.contains("Next: "), "{told}");
        assert!(message.contains("Nothing was sent."), "{told}");
        let whole = format!("{:?}{}", got.headers, got.text());
        for canary in [PROMPT, FILE, "canarykey", &self.proxied.secret, self.home().path().to_str().unwrap()]
        {
            assert!(!whole.contains(canary), "{canary} in {told}");
        }
        let again = self.post(path, body);
        assert_eq!(again.header("agentspine-receipt"), receipt, "{told}");
        assert_eq!((again.status, again.text()), (got.status, got.text()), "{told}");
        assert_eq!(self.server.requests().len(), self.calls, "{told}");
    }

    /// Nothing of the calls stands where only facts belong.
    fn kept_quiet(&self) {
        let metrics = self.proxied.page("/metrics").into_bytes();
        let files = self.home().state_files();
        let open = |name: &str| name.ends_with("proxy.json");
        for (name, bytes) in files.iter().chain([&("metrics".to_owned(), metrics)]) {
            let kept = name.contains("conversations.sqlite");
            for canary in [PROMPT, FILE, "canarykey"].iter().filter(|canary| !(kept && **canary == FILE)) {
                assert!(!contains(bytes, canary), "{canary} in {name}");
            }
            assert!(open(name) || !contains(bytes, &self.proxied.secret), "the secret in {name}");
        }
    }

    /// It was the fault alone: once it is mended the same words pass.
    fn passes(&mut self) {
        for (path, _, body) in asks("after all was mended") {
            self.server.push(Answer::text(&["pong"]));
            let got = self.post(path, &body);
            assert_eq!(got.status, 200, "{path}: {}", got.text());
            self.calls += 1;
        }
        law_behind(self.home(), self.server.base(), &self.server.requests());
    }
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn instruction_files_that_cannot_be_read_whole_stop_every_call() {
    let mut ground = Ground::new();
    let file = ground.home().project().join("CLAUDE.md");
    let good = std::fs::read(&file).unwrap();
    let put = |change: &dyn Fn()| {
        std::fs::remove_file(&file).unwrap();
        change();
    };
    put(&|| assert!(Command::new("mkfifo").arg(&file).status().unwrap().success()));
    ground.refuses("instructions-failed/not-regular", "claude:project/CLAUDE.md");
    put(&|| symlink("/etc/hostname", &file).unwrap());
    ground.refuses("instructions-failed/symlink", "claude:project/CLAUDE.md");
    put(&|| std::fs::write(&file, b"text \xff\n").unwrap());
    ground.refuses("instructions-failed/non-utf8", "claude:project/CLAUDE.md");
    put(&|| std::fs::write(&file, "x".repeat(20 * 1024)).unwrap());
    ground.refuses("budget-failed/instructions", "instructionBudget.hardLimitBytes");
    put(&|| std::fs::write(&file, &good).unwrap());
    ground.passes();
}

#[test]
fn a_file_that_changes_between_binding_and_the_call_stops_it() {
    let ground = Ground::new();
    let file = ground.home().project().join("CLAUDE.md");
    let read = "IFS= read -r query\ndigest=${query#*'\"queryDigest\":\"'}\ndigest=${digest%%'\"'*}\n";
    let result = json!({
        "schema": "agentspine.retrieval-result/v1", "providerId": "team-notes", "queryDigest": "DIGEST", "status": "ok",
        "rejected": 0, "items": [],
    });
    let answer = format!("printf '{}' \"$digest\"", result.to_string().replace("DIGEST", "%s"));
    // Between the snapshot and the receipt's consumption, each time another text.
    let change = format!("echo {FILE} $$ >> '{}'", file.display());
    ground.require(&format!("{read}{change}\n{answer}"), &json!({}));
    ground.refuses("instructions-failed/changed", "claude:project/CLAUDE.md");
    let replace = format!("echo {FILE} > '{0}.new'\n/bin/mv '{0}.new' '{0}'", file.display());
    ground.require(&format!("{read}{replace}\n{answer}"), &json!({}));
    let (path, _, body) = asks("replaced").remove(1);
    let got = ground.post(path, &body);
    assert!(got.header("agentspine-block").starts_with("instructions-failed/"), "{got:?}");
    assert_eq!(ground.server.requests().len(), 1);
}

#[test]
fn a_client_without_bound_instructions_has_no_proxy_at_all() {
    let home = Home::new();
    for args in [&["proxy"][..], &["env", "generic"], &["run", "--", "true"]] {
        let run = home.run(args);
        assert_eq!(run.code, 10, "{args:?} {run:?}");
        assert!(run.err.contains("instructions-failed/host-unbound"), "{}", run.err);
    }
}

#[test]
fn a_policy_that_is_broken_or_meant_for_others_stops_every_call() {
    let mut ground = Ground::new();
    ground.profile(&json!({ "host": "generic" }));
    let policy = ground.gate("policy.json");
    let good = std::fs::read(&policy).unwrap();
    std::fs::write(&policy, "{\"broken").unwrap();
    ground.refuses("preflight-failed/policy-invalid", "policy");
    std::fs::write(&policy, &good).unwrap();
    ground.passes();
    ground.require("exit 0", &json!({}));
    let text = std::fs::read_to_string(&policy).unwrap();
    std::fs::write(&policy, text.replace("local-tenant", "other-tenant")).unwrap();
    ground.refuses("preflight-failed/policy-unmatched", "other-tenant");
}

#[test]
fn a_required_provider_without_an_answer_stops_every_call() {
    let ground = Ground::new();
    let cases = [
        ("exit 3", json!({}), "provider-failed/exit(3)"),
        ("kill -9 $$", json!({}), "provider-failed/signal(9)"),
        ("/bin/sleep 60", json!({ "timeoutMs": 150 }), "provider-failed/timeout"),
        ("echo '{\"schema\": 1}'", json!({}), "provider-failed/echo"),
        ("echo not json", json!({}), "provider-failed/malformed"),
        ("exit 0", json!({ "command": "/nowhere/at/all" }), "provider-failed/missing"),
        ("exit 0", json!({ "credentialEnv": ["NOT_SET_HERE"] }), "provider-failed/credential-missing"),
        ("exit 0", json!({ "commandSha256": "0".repeat(64) }), "provider-failed/digest"),
    ];
    for (script, change, reason) in cases {
        ground.require(script, &change);
        ground.refuses(reason, "team-notes");
    }
}

#[test]
fn rules_that_cannot_be_trusted_stop_every_call() {
    let mut ground = Ground::new();
    let proposed =
        ground.home().json(&["remember-propose", "--claim", "Releases leave on Tuesdays.", "--json"]);
    let candidate = proposed["candidate"]["id"].as_str().unwrap().to_owned();
    ground.home().ok(&["remember-confirm", &candidate, "--confirm-local-user"]);
    ground.passes();
    let rules = rusqlite::Connection::open(ground.gate("remember.sqlite")).unwrap();
    let tables: Vec<String> = rules
        .prepare("SELECT name FROM sqlite_master WHERE type = 'trigger'")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    for trigger in tables {
        rules.execute(&format!("DROP TRIGGER {trigger}"), []).unwrap();
    }
    // Another claim under the same seal.
    let sql = "UPDATE remembered SET body = replace(body, 'Tuesdays', 'Mondays')";
    assert!(rules.execute(sql, []).unwrap() > 0);
    drop(rules);
    ground.refuses("preflight-failed/remember-corrupt", "");
}

#[test]
fn a_key_that_is_gone_or_open_to_others_stops_every_call() {
    let mut ground = Ground::new();
    let keyring = ground.gate("keyring.json");
    std::fs::set_permissions(&keyring, PermissionsExt::from_mode(0o644)).unwrap();
    ground.refuses("receipt-failed/key-mode", "");
    std::fs::set_permissions(&keyring, PermissionsExt::from_mode(0o600)).unwrap();
    ground.passes();
    std::fs::rename(&keyring, ground.gate("elsewhere")).unwrap();
    ground.refuses("receipt-failed/key-missing", "");
    // Also where it is missing from the start.
    ground.proxied.crash();
    ground.proxied.wake();
    ground.refuses("receipt-failed/key-missing", "");
}

#[test]
fn a_journal_that_is_gone_or_older_stops_every_call() {
    let mut ground = Ground::new();
    ground.proxied.crash();
    let names = ["journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm"];
    let kept: Vec<_> = names.iter().map(|name| std::fs::read(ground.gate(name)).ok()).collect();
    ground.proxied.wake();
    ground.passes();
    ground.proxied.crash();
    for (name, kept) in names.iter().zip(&kept) {
        let _ = std::fs::remove_file(ground.gate(name));
        if let Some(bytes) = kept {
            std::fs::write(ground.gate(name), bytes).unwrap();
            std::fs::set_permissions(ground.gate(name), PermissionsExt::from_mode(0o600)).unwrap();
        }
    }
    ground.proxied.wake();
    ground.refuses("receipt-failed/journal-rolled-back", "");
}

#[test]
fn a_journal_that_vanishes_under_the_daemon_stops_every_call() {
    let ground = Ground::new();
    std::fs::rename(ground.gate("journal.sqlite"), ground.gate("elsewhere")).unwrap();
    ground.refuses("receipt-failed/journal-missing", "agentspine state reset");
}

#[test]
fn a_journal_that_somebody_else_writes_stops_the_call() {
    let ground = Ground::new();
    let mut other = rusqlite::Connection::open(ground.gate("journal.sqlite")).unwrap();
    let held = other.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    let (path, status, body) = asks("busy").remove(0);
    ground.refuses_one(path, status, &body, "receipt-failed/journal-busy", "");
    drop(held);
}

#[test]
fn a_conversation_store_that_takes_nothing_stops_the_call() {
    let ground = Ground::new();
    let mut other = rusqlite::Connection::open(ground.home().state().join("conversations.sqlite")).unwrap();
    let held = other.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    let (path, status, body) = asks("kept").remove(2);
    ground.refuses_one(path, status, &body, "preflight-failed/state-dir", "conversation store");
    drop(held);
}

#[test]
fn a_conversation_store_that_vanished_stops_every_call() {
    let ground = Ground::new();
    for name in ["conversations.sqlite", "conversations.sqlite-wal", "conversations.sqlite-shm"] {
        let _ = std::fs::remove_file(ground.home().state().join(name));
    }
    ground.refuses("preflight-failed/state-dir", "conversation store");
}

#[test]
fn a_state_directory_that_is_gone_stops_every_call() {
    let ground = Ground::new();
    std::fs::remove_dir_all(ground.home().state()).unwrap();
    for (path, status, body) in asks("gone") {
        let got = ground.post(path, &body);
        assert_eq!(got.status, status, "{got:?}");
        let reason = got.header("agentspine-block");
        assert!(
            ["receipt-failed/", "preflight-failed/", "proxy-refused/workspace"]
                .iter()
                .any(|code| reason.starts_with(code)),
            "{got:?}"
        );
    }
    assert_eq!(ground.server.requests().len(), 1);
}

#[test]
fn a_directory_that_is_gone_stops_every_call() {
    let ground = Ground::new();
    std::fs::remove_dir_all(ground.home().project()).unwrap();
    ground.refuses("receipt-failed/mismatch(cwd)", "");
}

#[test]
fn a_full_disk_stops_every_call() {
    let mut ground = Ground::new();
    ground.proxied.crash();
    // Files may not grow over what the largest has now; the signal that would end the process is turned off.
    let largest = ground.home().state_files().iter().map(|(_, bytes)| bytes.len()).max().unwrap();
    let blocks = largest / 512;
    let mut command = Command::new("sh");
    let script = format!(
        "trap '' XFSZ; ulimit -f {blocks}; exec '{}' proxy --instruction-host claude",
        env!("CARGO_BIN_EXE_agentspine")
    );
    command.args(["-c", &script]).env_clear().env("HOME", ground.home().path()).env("PATH", "/usr/bin:/bin");
    command.current_dir(ground.home().project());
    let mut live = Live::ask(&mut command);
    live.until("by itself");
    let mut refused = 0;
    for round in 0..400 {
        let (path, status, body) =
            asks(&format!("round {round} {}", "x".repeat(20_000))).swap_remove(round % 6);
        let before = ground.server.requests().len();
        ground.server.push(Answer::text(&["pong"]));
        let got = ground.post(path, &body);
        let went = ground.server.requests().len() - before;
        match got.status {
            200 => assert_eq!(went, 1),
            other => {
                assert_eq!((other, went), (status, 0), "{got:?} {}", got.text());
                assert_ne!(got.header("agentspine-block"), "", "{got:?}");
                refused += 1;
            }
        }
        if refused > 6 {
            break;
        }
    }
    assert!(refused > 6, "the disk was never full");
    live.kill();
    live.end();
    ground.proxied.wake();
    law_behind(ground.home(), ground.server.base(), &ground.server.requests());
}

#[test]
fn a_body_that_is_no_request_goes_nowhere() {
    let ground = Ground::new();
    let bodies: [&[u8]; 9] = [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b"{\"model\":\"m\"}",
        b"{\"model\":\"m\",\"messages\":7,\"input\":7}",
        b"{\"messages\":[{\"role\":\"user\",\"content\":\"canaryprompt\"}],\"input\":\"canaryprompt\"}",
        b"{\"model\":\"m\",\"messages\":[],\"messages\":[{\"role\":\"user\",\"content\":\"canaryprompt\"}],\"input\":[],\"input\":\"x\"}",
        b"{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"\\ud800\"}],\"input\":\"\\ud800\"}",
    ];
    for (path, status) in [("/v1/messages", 424), ("/v1/responses", 400), ("/v1/chat/completions", 400)] {
        for body in bodies {
            let got = ground.proxied.post(path, &[], body);
            let told = format!("{path} {:?}: {got:?} {}", String::from_utf8_lossy(body), got.text());
            assert_eq!(
                (got.status, got.header("agentspine-block")),
                (status, "proxy-refused/unreadable"),
                "{told}"
            );
            assert_eq!(got.header("x-should-retry"), "false", "{told}");
            assert!(!got.text().contains(PROMPT), "{told}");
        }
        for (coding, body) in
            [("gzip", &b"no gzip"[..]), ("zstd", b"\x28\xb5\x2f\xfd"), ("br", b"\xff\xff"), ("odd", b"{}")]
        {
            let got = ground.proxied.post(path, &[("content-encoding", coding)], body);
            assert!(got.header("agentspine-block").starts_with("proxy-refused/"), "{coding} {got:?}");
        }
    }
    assert_eq!(ground.server.requests().len(), 1);
    ground.kept_quiet();
}

#[test]
fn the_middle_of_a_conversation_that_nobody_knows_goes_nowhere() {
    let ground = Ground::new();
    let call = json!([{ "type": "tool_use", "id": "t1", "name": "x", "input": {} }]);
    let result = json!([{ "type": "tool_result", "tool_use_id": "t1", "content": "y" }]);
    let messages = json!([
        { "role": "user", "content": PROMPT }, { "role": "assistant", "content": call },
        { "role": "user", "content": result },
    ]);
    let body = json!({ "model": "m", "max_tokens": 8, "messages": messages });
    ground.refuses_one(
        "/v1/messages",
        424,
        &body,
        "preflight-failed/conversation-unknown",
        "claude:project/CLAUDE.md",
    );
    let input = json!([
        { "role": "user", "content": PROMPT },
        { "type": "function_call", "call_id": "c", "name": "x", "arguments": "{}" },
        { "type": "function_call_output", "call_id": "c", "output": "y" },
    ]);
    let body = json!({ "model": "m", "input": input });
    ground.refuses_one(
        "/v1/responses",
        400,
        &body,
        "preflight-failed/conversation-unknown",
        "claude:project/CLAUDE.md",
    );
    let call = json!([{ "id": "c", "type": "function", "function": { "name": "x", "arguments": "{}" } }]);
    let messages = json!([
        { "role": "user", "content": PROMPT }, { "role": "assistant", "content": null, "tool_calls": call },
        { "role": "tool", "tool_call_id": "c", "content": "y" },
    ]);
    let body = json!({ "model": "m", "messages": messages });
    let path = "/v1/chat/completions";
    ground.refuses_one(path, 400, &body, "preflight-failed/conversation-unknown", "claude:project/CLAUDE.md");
    ground.kept_quiet();
}
