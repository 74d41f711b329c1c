//! Required and optional providers, with real processes: no answer, no call; and nothing of a provider stays alive.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::fake_model::Answer;
use crate::support::live::Live;
use crate::support::served::Served;
use crate::support::terminal::find;
use crate::support::{Home, Run};

/// The credential every provider here gets.
const CREDENTIAL: &str = "TEAM_NOTES_TOKEN";
/// A deadline that a well-behaved script keeps on a busy machine.
const PATIENT_MS: u64 = 10_000;
/// A deadline for scripts that never answer.
const SHORT_MS: u64 = 300;

/// What reads the query of a script and puts its digest into `$digest`; only the shell's own words.
const READ: &str = "IFS= read -r query\ndigest=${query#*'\"queryDigest\":\"'}\ndigest=${digest%%'\"'*}\n";

/// A script's answer of one item, for a tenant.
fn answer(tenant: &str) -> String {
    let item = json!({
        "id": "note:7", "revision": "3", "claim": "Optional providers only warn.", "source": "team-notes",
        "scope": {"agentId": "host-agent:default", "userId": "local-user", "tenantId": tenant},
        "validity": "current", "confidence": 0.9, "whyLoaded": "names the topic",
    });
    let result = json!({
        "schema": "agentspine.retrieval-result/v1", "providerId": "team-notes", "queryDigest": "DIGEST",
        "status": "ok", "rejected": 0, "items": [item],
    });
    let text = result.to_string().replace("DIGEST", "%s");
    format!("{READ}printf '{text}' \"$digest\"\n")
}

/// A home with one provider in its policy, and a model server.
struct Ground {
    home: Home,
    server: Served,
    /// Unique to this test; stands in the arguments and, with the credential, in the environment of all the provider starts.
    marker: String,
    /// Value of the credential.
    secret: String,
}

impl Ground {
    /// With a script as provider.
    fn script(text: &str, change: &Value) -> Self {
        let ground = Self::new();
        let path = ground.home.write("bin/provider", &format!("#!/bin/sh\n{text}"));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        ground.require(&path, change);
        ground
    }

    fn new() -> Self {
        let home = Home::new();
        let marker = home.path().file_name().unwrap().to_str().unwrap().to_owned();
        let secret = format!("secret-of-{marker}");
        Self { home, server: Served::start([Answer::text(&["pong"])]), marker, secret }
    }

    /// Puts the provider into the policy; `change` replaces members of it.
    fn require(&self, command: &std::path::Path, change: &Value) {
        let mut provider = json!({
            "schema": "agentspine.retrieval-provider/v1", "id": "team-notes", "adapter": "mnemo-command/v1",
            "required": true, "failClosed": true, "timeoutMs": PATIENT_MS, "command": command,
            "args": [self.marker], "credentialEnv": [CREDENTIAL],
        });
        provider.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        let profile = json!({
            "id": "local", "agentId": "host-agent:default", "host": "agentspine", "profileId": "default",
            "tenantId": "local-tenant", "enabled": true, "providers": [provider],
            "deadlines": {"requiredMs": PATIENT_MS, "optionalMs": PATIENT_MS},
        });
        let file = self.home.write("profile.json", &profile.to_string());
        self.home.ok(&["preflight-policy", file.to_str().unwrap(), "--confirm-local-policy"]);
    }

    /// Asks once, with the credential and a few things in the environment that are nobody's business.
    fn ask(&self, more: &[&str]) -> Run {
        let name = self.server.name();
        let mut args = vec!["-p", "ping", "--instruction-host", "claude", "--model", &name];
        args.extend(more);
        let mut command = self.home.command(&args);
        command.env(CREDENTIAL, &self.secret).env("PATH", "/usr/bin:/bin");
        command.env("SECRET_OF_THE_PERSON", "nobody-elses").env("LANG", "C.UTF-8");
        Run::of(command.output().unwrap())
    }

    /// What must hold when the provider gave nothing: told in both voices, recorded, not sent, nothing left.
    fn assert_refused(&self, detail: &str) {
        let people = self.ask(&[]);
        assert_eq!(people.code, 11, "{people:?}");
        let (head, advice) = people.err.split_once('\n').unwrap_or_default();
        assert!(head.contains(&format!("provider-failed/{detail}: ")), "{}", people.err);
        assert!(head.contains("team-notes"), "{}", people.err);
        assert!(
            advice.contains("next: ") && advice.contains("agentspine preflight-policy"),
            "{}",
            people.err
        );
        assert_eq!(people.out, "");
        self.assert_nothing_lives();

        let json = self.ask(&["--json"]);
        assert_eq!(json.code, 11, "{json:?}");
        let events: Vec<Value> = json.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let refused = events.iter().find(|event| event["type"] == "refused").unwrap();
        assert_eq!((&refused["code"], &refused["detail"]), (&json!("provider-failed"), &json!(detail)));
        assert!(refused["message"].as_str().unwrap().contains("team-notes"), "{refused}");
        assert!(events.iter().all(|event| event["type"] != "receipt"), "{}", json.out);
        self.assert_nothing_lives();

        assert_eq!(self.server.requests(), []);
        let listed = self.home.json(&["receipts", "list", "--json"]);
        let listed: Vec<_> = listed["receipts"].as_array().unwrap().iter().collect();
        assert_eq!(listed.len(), 2);
        for receipt in listed {
            assert_eq!(receipt["state"], "refused");
            assert_eq!(receipt["refused"], format!("provider-failed/{detail}"));
        }
        self.home.ok(&["receipts", "verify"]);
        self.assert_no_credential(&[&people, &json]);
    }

    /// The credential's value is in nothing that was printed or written.
    fn assert_no_credential(&self, runs: &[&Run]) {
        for run in runs {
            assert!(!run.out.contains(&self.secret) && !run.err.contains(&self.secret), "{run:?}");
        }
        for (name, bytes) in self.home.state_files() {
            assert!(find(&bytes, self.secret.as_bytes()).is_none(), "the credential is in {name}");
        }
    }

    /// No process has the marker in its arguments or its environment.
    fn assert_nothing_lives(&self) {
        let of = |pid: &PathBuf, name| std::fs::read(pid.join(name)).unwrap_or_default();
        let marked = |pid: &PathBuf| {
            let all = [of(pid, "cmdline"), of(pid, "environ")].concat();
            find(&all, self.marker.as_bytes()).is_some()
        };
        let processes = std::fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
        let alive: Vec<String> = processes
            .filter(marked)
            .map(|pid| String::from_utf8_lossy(&of(&pid, "cmdline")).replace('\0', " "))
            .collect();
        assert_eq!(alive, Vec::<String>::new());
    }
}

#[test]
fn a_required_provider_that_is_not_there_blocks_the_call() {
    let ground = Ground::new();
    ground.require(&ground.home.path().join("bin/nowhere"), &json!({}));
    ground.assert_refused("missing");
}

#[test]
fn a_required_provider_that_cannot_be_run_blocks_the_call() {
    let ground = Ground::new();
    let path = ground.home.write("bin/provider", "#!/bin/sh\n");
    ground.require(&path, &json!({}));
    ground.assert_refused("not-executable");
}

#[test]
fn a_required_provider_that_hangs_blocks_the_call() {
    let script = "trap '' TERM INT HUP\n/usr/bin/sleep 1000 &\nwhile :; do wait; done\n";
    Ground::script(script, &json!({"timeoutMs": SHORT_MS})).assert_refused("timeout");
}

#[test]
fn a_required_provider_that_exits_with_an_error_blocks_the_call() {
    let script = format!("{}exit 3\n", answer("local-tenant"));
    Ground::script(&script, &json!({})).assert_refused("exit(3)");
}

#[test]
fn a_required_provider_that_dies_of_a_signal_blocks_the_call() {
    Ground::script("kill -9 $$\n", &json!({})).assert_refused("signal(9)");
}

#[test]
fn a_required_provider_that_prints_broken_json_blocks_the_call() {
    let script = format!("{READ}printf '{{\"schema\": \"agentspine.retr'\n");
    Ground::script(&script, &json!({})).assert_refused("malformed");
}

#[test]
fn a_required_provider_that_answers_for_another_tenant_blocks_the_call() {
    Ground::script(&answer("other-tenant"), &json!({})).assert_refused("scope");
}

#[test]
fn a_required_provider_that_answers_another_question_blocks_the_call() {
    let script = answer("local-tenant").replace("\"$digest\"", &"0".repeat(64));
    Ground::script(&script, &json!({})).assert_refused("echo");
}

#[test]
fn a_required_provider_that_floods_its_output_blocks_the_call() {
    Ground::script("exec /usr/bin/yes flood\n", &json!({})).assert_refused("oversize");
}

#[test]
fn what_a_failed_provider_left_in_a_session_of_its_own_is_gone() {
    let script =
        "/usr/bin/setsid /bin/sh -c '/usr/bin/sleep 1000; :' \"$1\" >/dev/null 2>&1 </dev/null &\nexit 4\n";
    Ground::script(script, &json!({})).assert_refused("exit(4)");
}

#[test]
fn what_an_answering_provider_left_in_a_session_of_its_own_is_gone() {
    let lives_on =
        "/usr/bin/setsid /bin/sh -c '/usr/bin/sleep 1000; :' \"$1\" >/dev/null 2>&1 </dev/null &\n";
    let ground = Ground::script(&format!("{lives_on}{}", answer("local-tenant")), &json!({}));
    let run = ground.ask(&[]);
    ground.assert_nothing_lives();
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn a_credential_that_is_not_set_blocks_the_call() {
    let ground = Ground::script(&answer("local-tenant"), &json!({"credentialEnv": ["TEAM_NOTES_OTHER"]}));
    ground.assert_refused("credential-missing");
}

#[test]
fn an_optional_provider_that_fails_is_named_and_the_answer_comes() {
    let change = json!({"required": false, "failClosed": false});
    let ground = Ground::script("exit 3\n", &change);
    let run = ground.ask(&["--json"]);
    assert_eq!(run.code, 0, "{run:?}");
    let events: Vec<Value> = run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let receipt = events.iter().find(|event| event["type"] == "receipt").unwrap();
    let recall = receipt["recall"].as_array().unwrap();
    let provider = recall.iter().find(|provider| provider["id"] == "team-notes").unwrap();
    assert_eq!((&provider["status"], &provider["reason"]), (&json!("failed-optional"), &json!("exit(3)")));
    assert!(events.iter().any(|event| event["text"] == "pong"), "{}", run.out);

    let status = home_turn(&ground.home);
    let known =
        status.as_array().unwrap().iter().find(|provider| provider["providerId"] == "team-notes").unwrap();
    assert_eq!(known["status"], "failed-optional");
    assert_eq!(ground.server.requests().len(), 1);
    ground.assert_nothing_lives();
    ground.assert_no_credential(&[&run]);
}

/// What `preflight-status` says about the last turn's recall.
fn home_turn(home: &Home) -> Value {
    home.json(&["preflight-status", "--json"])["lastTurn"]["recall"].clone()
}

#[test]
fn a_valid_answer_is_in_the_request_and_in_the_receipt() {
    let ground = Ground::script(&answer("local-tenant"), &json!({}));
    let run = ground.ask(&[]);
    assert_eq!((run.code, run.out.as_str()), (0, "pong\n"), "{run:?}");
    let requests = ground.server.requests();
    assert_eq!(requests.len(), 1);
    let messages = requests[0].json()["messages"].to_string();
    for text in ["Optional providers only warn.", "note:7", "names the topic"] {
        assert_eq!(messages.matches(text).count(), 1, "{text} in {messages}");
    }

    let listed = ground.home.json(&["receipts", "list", "--json"]);
    let id = listed["receipts"][0]["id"].as_str().unwrap();
    let receipt = ground.home.json(&["receipts", "show", id, "--json"]);
    let claims = find_claims(&receipt).unwrap();
    let providers = claims["providers"].as_array().unwrap();
    let provider = providers.iter().find(|provider| provider["id"] == "team-notes").unwrap();
    assert_eq!(provider["status"], "loaded");
    assert_eq!(provider["injected"][0]["id"], "note:7");
    assert_eq!(provider["injected"][0]["revision"], "3");
    let digest = agentspine_gate::Digest::of(&requests[0].body).to_string();
    assert_eq!(claims["requestDigest"], digest, "the receipt binds the bytes that were sent");
    assert!(!receipt.to_string().contains("only warn"), "a receipt holds no claim");
    ground.assert_nothing_lives();
    ground.assert_no_credential(&[&run]);
}

/// The object with the providers in it, however deep `receipts show` puts it.
fn find_claims(value: &Value) -> Option<&Value> {
    let object = value.as_object()?;
    if object.contains_key("providers") { Some(value) } else { object.values().find_map(find_claims) }
}

#[test]
fn a_memory_forgotten_while_a_turn_is_under_way_is_not_said_in_it_nor_kept() {
    let marks = Home::new();
    let (asked, go) = (marks.path().join("asked"), marks.path().join("go"));
    let wait = format!("touch {}\nwhile [ ! -e {} ]; do sleep 0.02; done\n", asked.display(), go.display());
    let ground = Ground::script(&format!("{wait}{}", answer("local-tenant")), &json!({}));
    let memory = "Pings are answered by the night watch.";
    let remembered = ["memory", "remember", "--title", "Pings", "--summary", memory, "--json"];
    let id = ground.home.json(&remembered)["memory_id"].as_str().unwrap().to_owned();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| ground.ask(&[]));
        while !asked.exists() {
            std::thread::yield_now();
        }
        let preview = ground.home.json(&["memory", "forget-preview", "pings", "--json"]);
        let token = preview["preview_token"].as_str().unwrap();
        ground.home.ok(&["memory", "forget-confirm", token, &id]);
        std::fs::write(&go, "").unwrap();
        let run = run.join().unwrap();
        assert_eq!((run.code, run.out.as_str()), (0, "pong\n"), "{}", run.err);
    });
    let body = ground.server.bodies().pop().unwrap();
    assert!(body.contains("Optional providers only warn.") && !body.contains("night watch"), "{body}");
    for (name, bytes) in ground.home.state_files() {
        assert!(!bytes.windows(memory.len()).any(|window| window == memory.as_bytes()), "it is in {name}");
    }
}

#[test]
fn a_provider_gets_its_credential_and_nothing_else_of_the_environment() {
    let ground = Ground::new();
    let seen = ground.home.path().join("seen");
    let script = format!("/usr/bin/env > '{}'\n{}", seen.display(), answer("local-tenant"));
    let path = ground.home.write("bin/provider", &format!("#!/bin/sh\n{script}"));
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    ground.require(&path, &json!({}));
    let run = ground.ask(&[]);
    assert_eq!(run.code, 0, "{run:?}");
    let environment = std::fs::read_to_string(seen).unwrap();
    // A shell adds these by itself.
    let own = |pair: &&str| ["PWD=", "OLDPWD=", "SHLVL=", "_="].iter().any(|name| pair.starts_with(name));
    let mut environment: Vec<&str> = environment.lines().filter(|pair| !own(pair)).collect();
    environment.sort_unstable();
    assert_eq!(environment, ["PATH=/usr/bin:/bin".to_owned(), format!("{CREDENTIAL}={}", ground.secret)]);
    ground.assert_no_credential(&[&run]);
}

#[test]
fn an_interrupt_while_a_required_provider_runs_ends_with_130_and_nothing_lives() {
    let ground = Ground::script("sleep 60\n", &json!({}));
    let name = ground.server.name();
    let mut command =
        ground.home.command(&["-p", "ping", "--instruction-host", "claude", "--model", &name, "--json"]);
    command.env(CREDENTIAL, &ground.secret).env("PATH", "/usr/bin:/bin");
    let mut live = Live::ask(&mut command);
    live.until("\"type\":\"instructions\"");
    live.interrupt();
    let run = live.end();
    assert_eq!(run.code, 130, "{run:?}");
    assert!(run.out.contains("interrupted"), "{run:?}");
    ground.assert_nothing_lives();
    assert_eq!(ground.server.requests(), []);
}
