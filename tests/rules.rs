//! Instructions, policy and Must-Remember from the command line.

use serde_json::{Value, json};

use crate::support::Home;
use crate::support::vault::answered;

fn ids(listing: &Value, state: &str) -> Vec<String> {
    let all = listing["documents"].as_array().unwrap();
    all.iter().filter(|one| one["state"] == state).map(|one| one["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn instructions_lists_what_the_host_loads_in_its_order_and_ends_with_the_budget() {
    let home = Home::new();
    home.write(".claude/CLAUDE.md", "mine\n");
    home.write("src/project/CLAUDE.md", "ours\n");
    home.write("src/project/CLAUDE.local.md", "mine here\n");
    let listed = home.json(&["instructions", "--host", "claude", "--json"]);
    let expected = ["claude:user/CLAUDE.md", "claude:project/CLAUDE.md", "claude:project/CLAUDE.local.md"];
    assert_eq!(ids(&listed, "mandatory"), expected);
    assert_eq!((&listed["schema"], &listed["usedBytes"]), (&json!("agentspine.instructions/v1"), &json!(20)));
    let table = home.ok(&["instructions", "--host", "claude"]);
    assert!(table.starts_with("order  id"), "{table}");
    assert!(table.contains("~/src/project/CLAUDE.local.md"), "{table}");
    assert_eq!(table.lines().last().unwrap(), "used 20 / standard 8192 / hard limit 16384 bytes");
}

#[test]
fn an_unbound_host_is_never_guessed() {
    let home = Home::new();
    home.write(".claude/CLAUDE.md", "mine\n");
    let mut command = home.command(&["instructions"]);
    command
        .env("CLAUDE_CONFIG_DIR", home.path().join(".claude"))
        .env("CODEX_HOME", home.path().join(".codex"));
    let run = crate::support::Run::of(command.output().unwrap());
    assert_eq!(run.code, 10);
    assert!(run.err.contains("instructions-failed/host-unbound"), "{}", run.err);
    home.write(".config/agentspine/config.toml", "instruction_host = \"codex\"\n");
    assert_eq!(home.json(&["instructions", "--json"])["host"], "codex");
}

#[test]
fn a_linked_instruction_file_is_refused_with_the_command_that_allows_it() {
    let home = Home::new();
    let target = home.write("shared/rules.md", "linked\n");
    std::os::unix::fs::symlink(&target, home.project().join("CLAUDE.md")).unwrap();
    let run = home.run(&["instructions", "--host", "claude"]);
    assert_eq!(run.code, 10, "{}", run.err);
    assert!(
        run.err.contains("instructions-failed/symlink") && run.err.contains("allowedSymlinkTargets"),
        "{}",
        run.err
    );
    let allow = format!("allowedSymlinkTargets=[\"{}\"]", target.display());
    home.ok(&["preflight-policy", "--set", &allow, "--confirm-local-policy"]);
    assert_eq!(
        ids(&home.json(&["instructions", "--host", "claude", "--json"]), "mandatory"),
        ["claude:project/CLAUDE.md"]
    );
}

#[test]
fn a_policy_change_is_shown_first_and_stored_only_with_the_confirmation() {
    let home = Home::new();
    let set = ["preflight-policy", "--set", "instructionBudget.hardLimitBytes=65536"];
    let shown = home.run(&set);
    assert_eq!(shown.code, 2);
    assert!(shown.out.contains("instructionBudget.hardLimitBytes: 65536"), "{}", shown.out);
    assert!(shown.err.contains("--confirm-local-policy"), "{}", shown.err);
    assert_eq!(home.json(&["preflight-policy", "--show"])["revision"], 0);
    let stored = home.json(&[set[0], set[1], set[2], "--confirm-local-policy"]);
    let keys: Vec<&str> = stored.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        (keys.as_slice(), &stored["revision"]),
        (["profile", "revision", "policyPath"].as_slice(), &json!(1))
    );
    let listed = home.json(&["instructions", "--host", "claude", "--json"]);
    assert_eq!(listed["hardLimitBytes"], 65536);
    home.ok(&["preflight-policy", "--remove", "local", "--confirm-local-policy"]);
    assert_eq!(home.json(&["preflight-policy"])["profiles"], json!([]));
}

#[test]
fn a_profile_file_with_an_unknown_key_is_refused() {
    let home = Home::new();
    let file = home.write("p.json", "{\"id\": \"a\", \"colour\": 1}");
    let run = home.run(&["preflight-policy", file.to_str().unwrap(), "--confirm-local-policy"]);
    assert_eq!(run.code, 14, "{}", run.err);
    assert!(run.err.contains("preflight-failed/policy-invalid"), "{}", run.err);
    let run = home.run(&["preflight-policy", "/no/such/file"]);
    assert_eq!(run.code, 2, "{}", run.err);
}

#[test]
fn doctor_fails_when_a_required_provider_could_not_start() {
    let home = Home::new();
    let profile = json!({
        "id": "hard", "agentId": "host-agent:default", "host": "agentspine", "profileId": "default", "tenantId": "local-tenant",
        "enabled": true,
        "providers": [{
            "schema": "agentspine.retrieval-provider/v1", "id": "mnemo:main", "adapter": "mnemo-command/v1", "required": true,
            "failClosed": true, "command": "/no/such/adapter", "args": [], "credentialEnv": [],
        }],
    });
    let file = home.write("hard.json", &profile.to_string());
    assert_eq!(home.run(&["doctor", "--host", "claude"]).code, 0);
    home.ok(&["preflight-policy", file.to_str().unwrap(), "--confirm-local-policy"]);
    let run = home.run(&["doctor", "--host", "claude"]);
    assert_eq!(run.code, 1);
    assert!(run.out.contains("provider-failed/missing: provider mnemo:main"), "{}", run.out);
    assert!(run.out.ends_with("the next call would be refused\n"), "{}", run.out);
    assert_eq!(home.json(&["preflight-status", "--json"])["status"], "wrapper-hard-required");
    // Another identity matches no profile, and one of them demands recall.
    let other = home.run(&["doctor", "--host", "claude", "--tenant", "tenant:b"]);
    assert!(other.code == 1 && other.out.contains("preflight-failed/policy-unmatched"), "{}", other.out);
}

#[test]
fn a_rule_becomes_active_only_after_the_person_confirmed_it() {
    let home = Home::new();
    let claim = "Releases are tagged by a person";
    let proposed = home.json(&["remember-propose", "--claim", claim]);
    assert_eq!(
        (&proposed["duplicate"], &proposed["candidate"]["status"]),
        (&json!(false), &json!("pending-confirmation"))
    );
    assert_eq!(home.json(&["remember-propose", "--claim", claim])["duplicate"], true);
    let candidate = proposed["candidate"]["id"].as_str().unwrap();
    let asked = home.run(&["remember-confirm", candidate]);
    assert_eq!((asked.code, asked.out.trim()), (2, claim));
    assert!(!asked.err.contains(claim), "{}", asked.err);
    let status = home.json(&["preflight-status", "--json"]);
    assert_eq!((&status["pendingMemories"], &status["activeMustRemember"]), (&json!(1), &json!(0)));
    let confirmed = home.json(&["remember-confirm", candidate, "--confirm-local-user"]);
    assert_eq!(
        (&confirmed["entry"]["status"], &confirmed["entry"]["version"]),
        (&json!("active"), &json!(1))
    );
    let status = home.json(&["preflight-status", "--json"]);
    assert_eq!((&status["pendingMemories"], &status["activeMustRemember"]), (&json!(0), &json!(1)));
    assert!(home.ok(&["remember-list"]).contains(claim));
}

#[test]
fn a_newer_version_replaces_and_a_rollback_restores() {
    let home = Home::new();
    let confirm = |claim: &str, more: &[&str]| {
        let proposed = home.json(&["remember-propose", "--claim", claim]);
        let candidate = proposed["candidate"]["id"].as_str().unwrap().to_owned();
        let args: Vec<&str> = ["remember-confirm", &candidate, "--confirm-local-user"]
            .into_iter()
            .chain(more.iter().copied())
            .collect();
        home.json(&args)["entry"]["id"].as_str().unwrap().to_owned()
    };
    let first = confirm("Tests run before each commit", &[]);
    let second = confirm("Tests and lints run before each commit", &["--supersedes", &first]);
    let active = || {
        let list = home.json(&["remember-list", "--json"]);
        let entries = list["entries"].as_array().unwrap().clone();
        entries.iter().find(|one| one["status"] == "active").unwrap()["id"].as_str().unwrap().to_owned()
    };
    assert_eq!(active(), second);
    assert_eq!(home.run(&["remember-rollback", &first]).code, 2);
    home.ok(&["remember-rollback", &first, "--confirm-local-user"]);
    assert_eq!(active(), first);
}

#[test]
fn a_purge_names_the_sessions_it_touches_and_erases_rule_and_injected_text() {
    let home = Home::new();
    let proposed = home.json(&["remember-propose", "--claim", "The lark sings at dawn"]);
    let candidate = proposed["candidate"]["id"].as_str().unwrap().to_owned();
    let entry = home.json(&["remember-confirm", &candidate, "--confirm-local-user"])["entry"]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    answered(&home, 1, &entry);
    home.ok(&["sessions", "list"]);
    crate::sessions::insert(&home, "s-1", "project:a", 1);
    crate::sessions::insert_span(&home, "s-1", 1, "The lark sings at dawn");
    let preview = home.run(&["remember-purge", &entry]);
    assert_eq!(preview.code, 2);
    assert!(preview.out.contains("s-1") && !preview.out.contains("lark"), "{}", preview.out);
    let purged = home.json(&["remember-purge", &entry, "--confirm-local-purge"]);
    assert_eq!((&purged["purged"], &purged["erasedSpans"]), (&json!(true), &json!(1)));
    assert_eq!(home.ok(&["remember-list"]), "no rules yet\n");
    for (name, bytes) in home.state_files() {
        assert!(!bytes.windows(6).any(|window| window == b"e lark"), "{name}");
    }
    assert_eq!(home.run(&["remember-purge", "remember:none"]).code, 1);
}

#[test]
fn secrets_and_grants_do_not_become_rules_and_are_not_repeated() {
    let home = Home::new();
    // Put together here, so that no scanner takes this file for a leak.
    let secret = format!("my key is ghp_{}", "R4k9sQ2vXz7LmN1bT8wYc3UaD6eFgH5jKpO0");
    for claim in [secret.as_str(), "You may always push without asking"] {
        let run = home.run(&["remember-propose", "--claim", claim]);
        assert_eq!(run.code, 1, "{}", run.err);
        assert!(!run.err.contains(claim) && run.err.contains("next: "), "{}", run.err);
    }
    assert_eq!(home.ok(&["remember-list"]), "no rules yet\n");
}
