//! Providers that misbehave: a refusal with its detail or a bounded result, and nothing left alive.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod support;

use std::os::unix::fs::PermissionsExt as _;

use agentspine_gate::policy::{Adapter, Network};
use agentspine_gate::recall::QUERY_SCHEMA_V2;
use agentspine_gate::{Detail, Digest};
use agentspine_recall::cancellation;
use support::{
    EVIL, Hold, PATIENT_MS, SHORT_MS, answer, ask, failure, marker, planned, providers, runtime, until,
};

const HOLDS: [Hold; 2] = [Hold::Namespace, Hold::Subreaper];

/// Every mode under both ways to hold a tree; messages never repeat what the provider printed.
fn all_fail_with(expected: Detail, deadline_ms: u64, modes: &[&str]) {
    for (mode, hold) in modes.iter().flat_map(|mode| HOLDS.map(|hold| (mode, hold))) {
        let marker = marker();
        let failure = failure(&ask(planned(mode, &marker, deadline_ms), &marker, hold));
        assert_eq!(failure.detail, expected, "{mode} {hold:?}");
        for secret in ["evil-claim", "secret", "{", EVIL] {
            assert!(!failure.message.contains(secret), "{mode}: {}", failure.message);
        }
    }
}

fn all_answer(modes: &[&str]) {
    for (mode, hold) in modes.iter().flat_map(|mode| HOLDS.map(|hold| (mode, hold))) {
        let marker = marker();
        let answer = answer(&ask(planned(mode, &marker, PATIENT_MS), &marker, hold));
        let claims: Vec<&str> = answer.items.iter().map(|item| item.claim.as_str()).collect();
        let expected: &[&str] =
            if matches!(*mode, "empty" | "unread" | "close-stdin") { &[] } else { &["evil-claim"] };
        assert_eq!(claims, expected, "{mode} {hold:?}");
    }
}

#[test]
fn a_valid_answer_is_loaded_and_an_empty_one_is_a_success() {
    all_answer(&["ok", "empty", "padded"]);
}

#[test]
fn a_provider_may_answer_without_reading_its_query_or_after_closing_its_input() {
    all_answer(&["unread", "close-stdin"]);
}

#[test]
fn a_provider_that_never_reads_a_large_query_still_answers() {
    for hold in HOLDS {
        let marker = marker();
        let mut plan = planned("unread", &marker, PATIENT_MS);
        plan.provider.adapter = Adapter::MnemoCommandV2;
        plan.provider.send_prompt = true;
        plan.query.schema = QUERY_SCHEMA_V2;
        plan.prompt = "x".repeat(900_000);
        assert_eq!(answer(&ask(plan, &marker, hold)).items.len(), 0);
    }
}

#[test]
fn nothing_survives_a_provider_that_hangs() {
    let modes =
        ["hang", "ignore-term", "fork-64", "setsid", "double-fork-and-hangs", "closes-stdout", "drip"];
    all_fail_with(Detail::Timeout, SHORT_MS, &modes);
}

#[test]
fn nothing_survives_a_provider_that_answers_and_leaves_others_running() {
    all_answer(&["forks-and-answers", "setsid-and-answers", "double-fork-and-answers"]);
}

#[test]
fn a_provider_that_stops_its_supervisor_is_killed_from_outside() {
    all_fail_with(Detail::Timeout, SHORT_MS, &["stops-supervisor"]);
}

#[test]
fn a_provider_in_a_namespace_cannot_kill_its_supervisor() {
    let marker = marker();
    answer(&ask(planned("kills-supervisor-and-answers", &marker, PATIENT_MS), &marker, Hold::Namespace));
}

#[test]
fn a_provider_that_kills_its_group_kills_only_itself() {
    all_fail_with(Detail::Signal(9), PATIENT_MS, &["kills-group-and-answers", "kill-9"]);
}

#[test]
fn a_provider_that_prints_too_much_is_stopped() {
    let modes = ["flood-stdout", "flood-stderr", "one-too-many", "flood-stderr-and-answers"];
    all_fail_with(Detail::Oversize, PATIENT_MS, &modes);
}

#[test]
fn a_valid_answer_counts_only_with_exit_zero() {
    all_fail_with(Detail::Exit(1), PATIENT_MS, &["exit-1"]);
    all_fail_with(Detail::Exit(3), PATIENT_MS, &["exit-3"]);
    all_fail_with(Detail::Signal(11), PATIENT_MS, &["segv"]);
    all_fail_with(Detail::Signal(15), PATIENT_MS, &["term"]);
}

#[test]
fn an_answer_that_is_not_one_valid_result_is_malformed() {
    let modes = [
        "nothing",
        "partial",
        "twice",
        "garbage",
        "html",
        "deep",
        "nan",
        "infinite",
        "negative",
        "duplicate-key",
        "lone-surrogate",
        "long-claim",
        "invalid-utf8",
        "double-fork",
    ];
    all_fail_with(Detail::Malformed, PATIENT_MS, &modes);
}

#[test]
fn an_answer_to_another_query_or_for_another_tenant_is_refused() {
    all_fail_with(Detail::Echo, PATIENT_MS, &["wrong-echo"]);
    all_fail_with(Detail::OutOfTenant, PATIENT_MS, &["other-tenant"]);
}

#[test]
fn control_characters_in_an_answer_are_bounded_data() {
    for mode in ["nul", "escape"] {
        let marker = marker();
        match ask(planned(mode, &marker, PATIENT_MS), &marker, Hold::Namespace).result {
            Ok(answer) => assert!(answer.items.len() + answer.screened_out.len() == 1, "{mode}"),
            Err(failure) => assert_eq!(failure.detail, Detail::Malformed, "{mode}"),
        }
    }
}

#[test]
fn a_child_sees_path_and_its_named_credentials_and_nothing_else() {
    let marker = marker();
    let mut plan = planned("environment", &marker, PATIENT_MS);
    plan.provider.credential_env = vec!["TOKEN".to_owned()];
    let answer = answer(&ask(plan, &marker, Hold::Namespace));
    let claim = &answer.items[0].claim;
    let mut names: Vec<&str> = claim.trim_start_matches("names: ").split(' ').collect();
    names.sort_unstable();
    assert_eq!(names, ["PATH", "TOKEN"]);
}

#[test]
fn a_child_starts_in_a_private_empty_directory() {
    let marker = marker();
    let answer = answer(&ask(planned("directory", &marker, PATIENT_MS), &marker, Hold::Namespace));
    assert_eq!(answer.items[0].claim, "mode 700, 0 entries");
}

#[test]
fn an_unset_or_empty_credential_fails_before_anything_is_started() {
    for name in ["UNSET", "EMPTY"] {
        let marker = marker();
        let mut plan = planned("ok", &marker, PATIENT_MS);
        plan.provider.credential_env = vec![name.to_owned()];
        let failure = failure(&ask(plan, &marker, Hold::Namespace));
        assert_eq!(failure.detail, Detail::CredentialMissing);
        assert!(failure.message.contains(name), "{}", failure.message);
    }
}

#[test]
fn a_command_that_cannot_run_by_itself_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, mode: u32, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    let cases = [
        (dir.path().join("absent"), Detail::Missing),
        (dir.path().to_owned(), Detail::NotExecutable),
        (file("plain", 0o600, "#!/bin/sh\n"), Detail::NotExecutable),
        (file("no-shebang", 0o700, "echo hello\n"), Detail::NotExecutable),
        (file("empty", 0o700, ""), Detail::NotExecutable),
        (file("no-interpreter", 0o700, "#!/absent/interpreter\n"), Detail::NotExecutable),
        ("evil-provider".into(), Detail::NotExecutable),
    ];
    for (command, detail) in cases {
        let marker = marker();
        let mut plan = planned("ok", &marker, PATIENT_MS);
        plan.provider.command = command.clone();
        assert_eq!(failure(&ask(plan, &marker, Hold::Namespace)).detail, detail, "{}", command.display());
    }
}

#[test]
fn a_pinned_command_runs_only_with_its_digest() {
    let marker = marker();
    let mut plan = planned("ok", &marker, PATIENT_MS);
    plan.provider.command_sha256 = Some(Digest::of(&std::fs::read(EVIL).unwrap()));
    answer(&ask(plan.clone(), &marker, Hold::Namespace));
    plan.provider.command_sha256 = Some(Digest::of(b"another file"));
    assert_eq!(failure(&ask(plan, &marker, Hold::Namespace)).detail, Detail::CommandDigest);
}

#[test]
fn no_network_is_held_by_a_namespace_or_refused_with_a_reason() {
    let marker = marker();
    let mut plan = planned("ok", &marker, PATIENT_MS);
    plan.provider.network = Network::None;
    let refused = failure(&ask(plan, &marker, Hold::Subreaper));
    assert_eq!(refused.detail, Detail::NotInvoked);
    assert!(refused.message.contains("network namespace"), "{}", refused.message);
}

#[test]
fn cancelling_ends_every_provider() {
    for hold in HOLDS {
        let marker = marker();
        let scratch = tempfile::tempdir().unwrap();
        let providers = providers(scratch.path(), hold);
        let (switch, cancelled) = cancellation();
        let plans =
            vec![planned("double-fork-and-hangs", &marker, PATIENT_MS), planned("hang", &marker, PATIENT_MS)];
        let runtime = runtime();
        let running =
            runtime.spawn(async move { agentspine_recall::run(plans, &providers, cancelled).await });
        until(&marker, |alive| alive.iter().any(|line| line.contains("evil-provider setsid")));
        switch.cancel();
        let outcomes = runtime.block_on(running).unwrap();
        let details: Vec<Detail> = outcomes.iter().map(|outcome| failure(outcome).detail).collect();
        assert_eq!(details, [Detail::Cancelled, Detail::Cancelled]);
        assert_eq!(support::survivors(&marker), Vec::<String>::new());
    }
}

#[test]
fn a_cancelled_turn_starts_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let (switch, cancelled) = cancellation();
    switch.cancel();
    let providers = providers(scratch.path(), Hold::Namespace);
    let plans = vec![planned("hang", &marker(), PATIENT_MS)];
    let outcomes = runtime().block_on(agentspine_recall::run(plans, &providers, cancelled));
    assert_eq!(failure(&outcomes[0]).detail, Detail::Cancelled);
}

#[test]
fn cancelling_at_any_moment_leaves_nothing() {
    let runtime = runtime();
    for (millis, hold) in (0..20).flat_map(|n| HOLDS.map(|hold| (n * 2, hold))) {
        let marker = marker();
        let scratch = tempfile::tempdir().unwrap();
        let providers = providers(scratch.path(), hold);
        let (switch, cancelled) = cancellation();
        let plans = vec![planned("setsid-and-answers", &marker, PATIENT_MS)];
        let outcomes = runtime.block_on(async {
            // Whichever comes first is right; the wait only moves the moment through the child's whole life.
            let later = async {
                tokio::time::sleep(std::time::Duration::from_millis(millis)).await;
                switch.cancel();
            };
            tokio::join!(agentspine_recall::run(plans, &providers, cancelled), later).0
        });
        if let Err(failure) = &outcomes[0].result {
            assert_eq!(failure.detail, Detail::Cancelled);
        }
        assert_eq!(support::survivors(&marker), Vec::<String>::new());
    }
}

#[test]
fn dropping_the_run_ends_every_provider() {
    for hold in HOLDS {
        let marker = marker();
        let scratch = tempfile::tempdir().unwrap();
        let providers = providers(scratch.path(), hold);
        let (_canceller, cancelled) = cancellation();
        let plans = vec![planned("double-fork-and-hangs", &marker, PATIENT_MS)];
        let runtime = runtime();
        let running =
            runtime.spawn(async move { agentspine_recall::run(plans, &providers, cancelled).await });
        until(&marker, |alive| alive.iter().any(|line| line.contains("evil-provider setsid")));
        running.abort();
        until(&marker, <[String]>::is_empty);
    }
}

#[test]
fn eight_providers_run_at_once_and_each_has_its_own_outcome_in_order() {
    let marker = marker();
    let scratch = tempfile::tempdir().unwrap();
    let providers = providers(scratch.path(), Hold::Namespace);
    let modes =
        ["hang", "ok", "exit-3", "fork-64", "partial", "flood-stdout", "double-fork-and-hangs", "empty"];
    let (_canceller, cancelled) = cancellation();
    let plans = modes.map(|mode| {
        let hangs = matches!(mode, "hang" | "fork-64" | "double-fork-and-hangs");
        planned(mode, &marker, if hangs { SHORT_MS } else { PATIENT_MS })
    });
    let outcomes = runtime().block_on(agentspine_recall::run(plans.into(), &providers, cancelled));
    let seen: Vec<Option<Detail>> =
        outcomes.iter().map(|outcome| outcome.result.as_ref().err().map(|f| f.detail)).collect();
    let expected = [
        Some(Detail::Timeout),
        None,
        Some(Detail::Exit(3)),
        Some(Detail::Timeout),
        Some(Detail::Malformed),
        Some(Detail::Oversize),
        Some(Detail::Timeout),
        None,
    ];
    assert_eq!(seen, expected);
    assert_eq!(support::survivors(&marker), Vec::<String>::new());
}
