//! Promises about the local policy file.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]
#![allow(clippy::too_many_lines, clippy::needless_pass_by_value, reason = "tables of cases")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use agentspine_gate::Id;
use agentspine_gate::policy::*;
use agentspine_gate::turn::{Host, Identity};
use serde_json::{Value, json};
use tempfile::TempDir;

const NOW: i64 = 1_764_500_000_000;

struct Home {
    dir: TempDir,
    store: PolicyStore,
}

fn home() -> Home {
    let dir = tempfile::tempdir().unwrap();
    let store = PolicyStore::new(dir.path());
    Home { dir, store }
}

impl Home {
    fn file(&self) -> PathBuf {
        self.dir.path().join("policy.json")
    }

    fn write(&self, bytes: &[u8]) {
        fs::write(self.file(), bytes).unwrap();
        fs::set_permissions(self.file(), PermissionsExt::from_mode(0o600)).unwrap();
    }

    fn put(&self, document: &Value) -> u64 {
        self.store.apply(self.store.propose(document.to_string().as_bytes()).unwrap(), NOW).unwrap()
    }

    fn stored(&self) -> Value {
        serde_json::from_slice(&fs::read(self.file()).unwrap()).unwrap()
    }
}

fn id(text: &str) -> Id {
    Id::new(text).unwrap()
}

fn provider() -> Value {
    json!({
        "schema": "agentspine.retrieval-provider/v1", "id": "mnemo:main", "adapter": "mnemo-command/v1", "required": true,
        "failClosed": true, "timeoutMs": 4000, "command": "/opt/mnemo/adapter", "args": ["--json"],
        "credentialEnv": ["MNEMO_TOKEN"]
    })
}

fn profile() -> Value {
    json!({
        "id": "work", "agentId": "host-agent:default", "host": "claude", "profileId": "default",
        "tenantId": "local-tenant", "enabled": true, "providers": [provider()]
    })
}

fn with(path: &str, value: Value) -> Value {
    let mut document = profile();
    let mut slot = &mut document;
    for key in path.split('.') {
        slot = match key.parse::<usize>() {
            Ok(n) => &mut slot[n],
            Err(_) => &mut slot[key],
        };
    }
    *slot = value;
    document
}

fn identity() -> Identity {
    Identity {
        agent_id: id("host-agent:default"),
        persona_id: None,
        user_id: id("local-user"),
        tenant_id: id("local-tenant"),
        profile_id: id("default"),
    }
}

#[test]
fn a_missing_file_is_revision_zero_and_requires_nothing() {
    let home = home();
    let policy = home.store.load().unwrap();
    assert_eq!(policy, Policy::default());
    assert_eq!(policy.select(&identity(), Host::Claude), Ok(None));
}

#[test]
fn a_profile_is_shown_first_and_stored_with_known_keys_defaults_and_history() {
    let home = home();
    let change = home.store.propose(profile().to_string().as_bytes()).unwrap();
    assert!(!home.file().exists());
    assert!(change.diff.contains(&"+ host: \"claude\"".to_owned()), "{:?}", change.diff);
    assert!(change.diff.contains(&"+ providers[mnemo:main].timeoutMs: 4000".to_owned()), "{:?}", change.diff);
    assert_eq!(home.store.apply(change, NOW).unwrap(), 1);
    let stored = home.stored();
    assert_eq!(stored["schema"], "agentspine.preflight-policy/v1");
    assert_eq!(
        stored["history"],
        json!([{"event": "profile-configured", "profileId": "work", "at": "2025-11-30T10:53:20Z",
                "authority": "authenticated-local-policy"}])
    );
    assert_eq!(
        stored["profiles"][0],
        json!({
            "id": "work", "agentId": "host-agent:default", "host": "claude", "profileId": "default",
            "tenantId": "local-tenant", "enabled": true,
            "providers": [{
                "id": "mnemo:main", "adapter": "mnemo-command/v1", "required": true, "failClosed": true, "timeoutMs": 4000,
                "command": "/opt/mnemo/adapter", "args": ["--json"], "credentialEnv": ["MNEMO_TOKEN"],
                "sendPrompt": false, "commandSha256": null, "network": "allowed",
                "schema": "agentspine.retrieval-provider/v1"
            }],
            "instructionBudget": null, "recallBudget": {"entries": 5, "bytes": 12288, "tokens": 2000},
            "deadlines": {"requiredMs": 5000, "optionalMs": 300}, "allowedSymlinkTargets": [], "subagentRecall": false,
            "authority": "authenticated-local-policy"
        })
    );
    assert_eq!(home.file().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let policy = home.store.load().unwrap();
    assert_eq!((policy.revision, policy.profiles.len(), policy.required_providers()), (1, 1, 1));
    assert_eq!(policy.select(&identity(), Host::Claude).unwrap().unwrap().id, id("work"));
}

#[test]
fn saving_the_same_profile_again_bumps_the_revision_and_keeps_its_digest() {
    let home = home();
    home.put(&profile());
    let first = home.store.load().unwrap();
    assert_eq!(home.put(&profile()), 2);
    let second = home.store.load().unwrap();
    assert_eq!(first.profiles, second.profiles);
    assert_eq!(first.profiles[0].digest(), second.profiles[0].digest());
    home.put(&with("providers.0.timeoutMs", json!(4001)));
    assert_ne!(home.store.load().unwrap().profiles[0].digest(), first.profiles[0].digest());
    assert_eq!(home.store.load().unwrap().profiles.len(), 1);
}

#[test]
fn history_is_bounded() {
    let home = home();
    for _ in 0..205 {
        home.put(&profile());
    }
    let stored = home.stored();
    assert_eq!((stored["history"].as_array().unwrap().len(), &stored["revision"]), (200, &json!(205)));
}

#[test]
fn each_wrong_key_or_value_is_named_by_its_path() {
    let home = home();
    let refused = |document: &Value| {
        let refusal = home.store.propose(document.to_string().as_bytes()).unwrap_err();
        assert_eq!(refusal.key(), "preflight-failed/policy-invalid");
        refusal.message
    };
    let p = |key: &str| format!("providers.0.{key}");
    for (path, value, expected) in [
        ("id".to_owned(), json!("a b"), "id: not an id"),
        ("agentId".into(), Value::Null, "agentId: is missing"),
        ("host".into(), json!([]), "host: names no host"),
        ("host".into(), json!([1]), "host[0]: expected text"),
        ("enabled".into(), json!("true"), "enabled: expected true or false"),
        ("provider".into(), json!([]), "provider: unknown key"),
        ("recallBudget".into(), json!({"entry": 1}), "recallBudget.entry: unknown key"),
        ("recallBudget".into(), json!({"entries": -1}), "recallBudget.entries: expected a whole number"),
        ("instructionBudget".into(), json!({}), "instructionBudget.hardLimitBytes: is missing"),
        (
            "instructionBudget".into(),
            json!({"hardLimitBytes": 4096, "standardBytes": 8192}),
            "instructionBudget.standardBytes",
        ),
        (
            "deadlines".into(),
            json!({"requiredMs": 50}),
            "deadlines.requiredMs: expected a whole number from 100 to 10000",
        ),
        (
            "allowedSymlinkTargets".into(),
            json!(["a/b"]),
            "allowedSymlinkTargets[0]: expected an absolute path",
        ),
        ("authority".into(), json!("root"), "authority: expected authenticated-local-policy"),
        ("providers".into(), json!({}), "providers: expected a list"),
        (
            "providers".into(),
            json!([provider(), provider()]),
            "providers[1].id: provider mnemo:main stands twice",
        ),
        (p("schema"), Value::Null, "providers[0].schema: is missing"),
        (
            p("adapter"),
            json!("hypatia-cli/v1"),
            "providers[0].adapter: hypatia-cli/v1 is not in this version",
        ),
        (p("adapter"), json!("mnemo-command/v3"), "providers[0].adapter: expected ledger/v1"),
        (
            p("adapter"),
            json!("mnemo-command/v2"),
            "providers[0].sendPrompt: mnemo-command/v2 hands over the prompt",
        ),
        (p("sendPrompt"), json!(true), "providers[0].sendPrompt: only mnemo-command/v2"),
        (p("failClosed"), json!(false), "providers[0].failClosed: must be true where required is true"),
        (p("id"), json!("ledger"), "providers[0].id: ledger names the embedded provider"),
        (p("timeoutMs"), json!(99), "providers[0].timeoutMs: expected a whole number from 100 to 10000"),
        (p("timeoutMs"), json!(10_001), "providers[0].timeoutMs"),
        (p("timeoutMs"), json!("4000"), "providers[0].timeoutMs"),
        (p("timeoutMs"), json!(4000.5), "providers[0].timeoutMs"),
        (p("command"), json!("mnemo"), "providers[0].command: expected an absolute path"),
        (p("command"), json!("/bin/a\u{0}b"), "providers[0].command"),
        (p("args"), json!([1]), "providers[0].args[0]: expected text"),
        (p("args"), json!(["x".repeat(501)]), "providers[0].args[0]: at most 500"),
        (p("args"), json!(vec!["x"; 65]), "providers[0].args: at most 64"),
        (p("credentialEnv"), json!(["mnemo"]), "providers[0].credentialEnv[0]: expected the name"),
        (p("credentialEnv"), json!(["9A"]), "providers[0].credentialEnv[0]"),
        (p("credentialEnv"), json!(["A".repeat(129)]), "providers[0].credentialEnv[0]"),
        (p("credentialEnv"), json!(["A", "A"]), "providers[0].credentialEnv[1]: A stands twice"),
        (p("commandSha256"), json!("ABC"), "providers[0].commandSha256: expected 64"),
        (p("network"), json!("localhost"), "providers[0].network: expected allowed or none"),
        (p("shell"), json!(true), "providers[0].shell: unknown key"),
    ] {
        let message = refused(&with(&path, value));
        assert!(message.contains(expected), "{expected} | {message}");
    }
    for name in [
        "PATH",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "DYLD_INSERT_LIBRARIES",
        "NODE_OPTIONS",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "PERL5OPT",
        "PERL5LIB",
        "RUBYOPT",
        "BASH_ENV",
        "ENV",
        "GCONV_PATH",
        "JAVA_TOOL_OPTIONS",
        "GIT_SSH_COMMAND",
    ] {
        let message = refused(&with("providers.0.credentialEnv", json!([name])));
        assert!(message.contains(&format!("{name} changes what a program loads")), "{message}");
    }
    let ledger = json!({"schema": "agentspine.retrieval-provider/v1", "id": "ledger", "adapter": "ledger/v1", "command": "/x"});
    assert!(refused(&with("providers", json!([ledger]))).contains("the embedded ledger has no command"));
}

#[test]
fn documents_that_are_not_one_strict_object_are_refused() {
    let home = home();
    let deep = format!("{{\"id\":{}", "[".repeat(100_000));
    let twice = profile().to_string().replacen("\"timeoutMs\"", "\"timeoutMs\":100,\"timeoutMs\"", 1);
    for (bytes, expected) in [
        (&b""[..], "not one valid JSON document"),
        (b"[]", "expected an object"),
        (b"{} {}", "not one valid JSON document"),
        (b"\xff\xfe", "not UTF-8 at byte 0"),
        (deep.as_bytes(), "not one valid JSON document"),
        (twice.as_bytes(), "providers[0].timeoutMs: this key stands twice"),
        (&vec![b' '; 1024 * 1024 + 1], "larger than 1048576 bytes"),
    ] {
        let refusal = home.store.propose(bytes).unwrap_err();
        assert!(refusal.message.contains(expected), "{expected} | {}", refusal.message);
    }
}

#[test]
fn a_corrupt_or_foreign_file_blocks_and_is_left_as_it_is() {
    let home = home();
    home.put(&profile());
    let good = fs::read(home.file()).unwrap();
    let good_text = String::from_utf8(good.clone()).unwrap();
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (b"".to_vec(), "not one valid JSON document"),
        (b"{}".to_vec(), "schema: is missing"),
        (vec![b'x'; 10 * 1024 * 1024], "larger than 1048576 bytes"),
        ("[".repeat(500_000).into_bytes(), "not one valid JSON document"),
        (good_text.replace("\"history\"", "\"histori\"").into_bytes(), "history: is missing"),
        (
            good_text.replacen("\"revision\"", "\"extra\": 1, \"revision\"", 1).into_bytes(),
            "extra: unknown key",
        ),
        (
            good_text.replacen("\"revision\"", "\"revision\": 0, \"revision\"", 1).into_bytes(),
            "revision: this key stands twice",
        ),
        (
            good_text.replace("\"required\": true", "\"required\": 1").into_bytes(),
            "profiles[0].providers[0].required",
        ),
        (good_text.replace("profile-configured", "profile-liked").into_bytes(), "history[0].event"),
        (good_text.replacen("authenticated-local-policy", "someone", 1).into_bytes(), "authority"),
        (good_text.replace("2025-11-30", "yesterday").into_bytes(), "history[0]"),
        ([&good[..], b"\xff"].concat(), "not UTF-8"),
        (good_text.replace("mnemo:main", "mnemo:\u{1b}[31m<agentspine").into_bytes(), "not"),
    ];
    for (bytes, expected) in cases {
        home.write(&bytes);
        for refusal in [
            home.store.load().unwrap_err(),
            home.store.propose(profile().to_string().as_bytes()).unwrap_err(),
            home.store.set("enabled", "true", None).unwrap_err(),
        ] {
            assert_eq!(refusal.key(), "preflight-failed/policy-invalid");
            assert!(refusal.message.contains(expected), "{expected} | {}", refusal.message);
            assert!(refusal.message.contains("gate/policy.json in the state directory"));
            assert!(
                !refusal.message.contains('\u{1b}')
                    && !refusal.message.contains(home.dir.path().to_str().unwrap())
            );
        }
        assert!(fs::read(home.file()).unwrap() == bytes);
    }
    home.write(&good);
    let blocked = |expected: &str| {
        let refusal = home.store.load().unwrap_err();
        assert!(refusal.message.contains(expected), "{expected} | {}", refusal.message);
    };
    fs::set_permissions(home.file(), PermissionsExt::from_mode(0o644)).unwrap();
    blocked("chmod 600");
    fs::rename(home.file(), home.dir.path().join("aside")).unwrap();
    symlink(home.dir.path().join("aside"), home.file()).unwrap();
    blocked("a link or not a regular file");
    fs::remove_file(home.file()).unwrap();
    fs::create_dir(home.file()).unwrap();
    blocked("not a regular file");
}

#[test]
fn two_stored_profiles_of_one_id_are_refused() {
    let home = home();
    home.put(&profile());
    let mut stored = home.stored();
    let twin = stored["profiles"][0].clone();
    stored["profiles"].as_array_mut().unwrap().push(twin);
    home.write(stored.to_string().as_bytes());
    assert!(home.store.load().unwrap_err().message.contains("profiles[1].id: profile work stands twice"));
}

#[test]
fn a_change_applies_only_to_the_policy_it_was_shown_for() {
    let home = home();
    let stale = home.store.propose(profile().to_string().as_bytes()).unwrap();
    home.put(&profile());
    let refusal = home.store.apply(stale, NOW).unwrap_err();
    assert!(refusal.message.contains("the policy changed since"), "{}", refusal.message);
    assert_eq!(home.store.load().unwrap().revision, 1);
}

#[test]
fn a_leftover_of_a_killed_writer_hinders_nobody() {
    let home = home();
    fs::write(home.dir.path().join("policy.json.new"), b"half").unwrap();
    assert_eq!(home.put(&profile()), 1);
    let mut names: Vec<_> = fs::read_dir(home.dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["policy.json", "policy.lock"]);
}

#[test]
fn setting_one_key_creates_profile_local_and_shows_the_difference() {
    let home = home();
    let set = |key: &str, value: &str| {
        let change = home.store.set(key, value, None).unwrap();
        let diff = change.diff.clone();
        home.store.apply(change, NOW).unwrap();
        diff
    };
    let first = set("instructionBudget.hardLimitBytes", "65536");
    assert!(first.contains(&"+ instructionBudget.hardLimitBytes: 65536".to_owned()), "{first:?}");
    assert_eq!(set("recallBudget.entries", "8"), ["~ recallBudget.entries: 5 -> 8"]);
    assert_eq!(set("deadlines.requiredMs", "2500"), ["~ deadlines.requiredMs: 5000 -> 2500"]);
    assert_eq!(
        set("allowedSymlinkTargets", r#"["/home/a/rules.md"]"#),
        ["~ allowedSymlinkTargets: [] -> [\"/home/a/rules.md\"]"]
    );
    assert_eq!(set("subagentRecall", "true"), ["~ subagentRecall: false -> true"]);
    assert_eq!(set("host", "codex"), [r#"~ host: ["agentspine","claude","codex","generic"] -> "codex""#]);
    let policy = home.store.load().unwrap();
    let local = policy.profiles.first().unwrap();
    assert_eq!(
        (local.id.as_str(), local.agent_id.as_str(), policy.revision),
        ("local", "host-agent:default", 6)
    );
    let budget = InstructionBudget { standard_bytes: 8192, hard_limit_bytes: 65_536 };
    assert_eq!(local.instruction_budget, Some(budget));
    assert_eq!((local.recall_budget.entries, local.deadlines.required_ms, local.enabled), (8, 2500, true));
    assert_eq!(set("enabled", "false"), ["~ enabled: true -> false"]);
}

#[test]
fn setting_what_does_not_exist_is_refused() {
    let home = home();
    home.put(&profile());
    for (key, value, profile, expected) in [
        ("recallBudget.entry", "1", None, "recallBudget.entry: unknown key"),
        ("unknown", "1", None, "unknown: unknown key"),
        ("enabled.x", "1", None, "enabled.x: unknown key"),
        ("", "1", None, "unknown key"),
        ("id", "x", None, "id: can't be set"),
        ("recallBudget.entries", "many", None, "recallBudget.entries: expected a whole number"),
        ("enabled", "{\"a\":1,\"a\":2}", None, "enabled: expected true or false"),
        ("enabled", "false", Some("home"), "home: no such profile; stored are: work"),
    ] {
        let profile = profile.map(id);
        let refusal = home.store.set(key, value, profile.as_ref()).unwrap_err();
        assert!(refusal.message.contains(expected), "{expected} | {}", refusal.message);
    }
    let change = home.store.set("enabled", "false", Some(&id("work"))).unwrap();
    assert_eq!(change.diff, ["~ enabled: true -> false"]);
}

#[test]
fn a_removed_profile_is_gone_and_history_says_so() {
    let home = home();
    home.put(&profile());
    assert!(home.store.remove(&id("other")).is_err());
    let change = home.store.remove(&id("work")).unwrap();
    assert!(change.diff.contains(&"- id: \"work\"".to_owned()));
    assert_eq!(home.store.apply(change, NOW).unwrap(), 2);
    assert_eq!(home.store.load().unwrap().profiles, []);
    assert_eq!(home.stored()["history"][1]["event"], "profile-removed");
}

#[test]
fn an_identity_that_matches_no_profile_can_not_skip_required_recall() {
    let home = home();
    home.put(&profile());
    let policy = home.store.load().unwrap();
    let refusal = policy.select(&identity(), Host::Codex).unwrap_err();
    assert_eq!(refusal.key(), "preflight-failed/policy-unmatched");
    assert_eq!(
        refusal.message,
        "No policy profile matches this turn (agentId host-agent:default, host codex, profileId default, tenantId \
         local-tenant), but a profile requires recall; the nearest, work, differs in host (claude)."
    );
    assert!(
        refusal.advice.contains(
            "`agentspine preflight-policy --set host='[\"claude\",\"codex\"]' --profile work --confirm-local-policy`"
        ),
        "{}",
        refusal.advice
    );
    let other = Identity { agent_id: id("agent:x"), ..identity() };
    let refusal = policy.select(&other, Host::Claude).unwrap_err();
    assert!(
        refusal.message.ends_with("the nearest, work, differs in agentId (host-agent:default)."),
        "{}",
        refusal.message
    );
    for disable in ["enabled", "required"] {
        let document = if disable == "enabled" {
            with("enabled", json!(false))
        } else {
            with("providers.0.required", json!(false))
        };
        home.put(&document);
        assert_eq!(home.store.load().unwrap().select(&identity(), Host::Codex), Ok(None), "{disable}");
    }
}

#[test]
fn the_first_enabled_profile_that_fits_is_chosen_and_a_host_list_covers_each() {
    let home = home();
    home.put(&with("enabled", json!(false)));
    for name in ["one", "two"] {
        let mut document = with("host", json!(["codex", "claude"]));
        document["id"] = json!(name);
        home.put(&document);
    }
    let policy = home.store.load().unwrap();
    for host in [Host::Claude, Host::Codex] {
        assert_eq!(policy.select(&identity(), host).unwrap().unwrap().id, id("one"));
    }
}

#[test]
fn a_profile_with_a_required_provider_is_never_shadowed_by_an_earlier_one() {
    let home = home();
    home.store.apply(home.store.set("recallBudget.entries", "4", None).unwrap(), NOW).unwrap();
    let before = home.store.load().unwrap();
    assert!(before.select(&identity(), Host::Claude).unwrap().is_some());
    home.put(&profile());
    let policy = home.store.load().unwrap();
    let refusal = policy.select(&identity(), Host::Claude).unwrap_err();
    assert_eq!(refusal.key(), "preflight-failed/policy-invalid");
    for name in ["local", "work"] {
        assert!(refusal.message.contains(name), "{}", refusal.message);
    }
    assert!(refusal.advice.contains("--remove local"), "{}", refusal.advice);
    assert!(policy.select(&identity(), Host::Generic).unwrap().is_some(), "no other door is closed by it");
}
