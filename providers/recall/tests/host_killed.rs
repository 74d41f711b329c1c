//! A host that is killed takes its providers with it, and a long run leaks nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod support;

use std::process::{Command, Stdio};

use agentspine_recall::cancellation;
use support::{Hold, PATIENT_MS, SHORT_MS, failure, marker, planned, providers, runtime, until};

/// Set by this file's own test for the copy of itself that it starts and kills.
const AS_HOST: &str = "AGENTSPINE_TEST_AS_HOST";

#[test]
#[allow(clippy::disallowed_methods)]
fn a_killed_host_leaves_no_provider_alive() {
    if let Some(marker) = std::env::var_os(AS_HOST) {
        return be_the_host(&marker.into_string().unwrap());
    }
    for plain in ["", "plain-"] {
        let marker = format!("{plain}{}", marker());
        // The host has no chance to clean up after itself.
        let scratch = tempfile::tempdir().unwrap();
        let mut host = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_killed_host_leaves_no_provider_alive"])
            .env(AS_HOST, &marker)
            .env("TMPDIR", scratch.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until(&marker, |alive| {
            alive.iter().filter(|line| line.contains("evil-provider setsid")).count() == 2
        });
        host.kill().unwrap();
        host.wait().unwrap();
        until(&marker, <[String]>::is_empty);
    }
}

fn be_the_host(marker: &str) {
    let scratch = tempfile::tempdir().unwrap();
    let hold = if marker.starts_with("plain-") { Hold::Subreaper } else { Hold::Namespace };
    let providers = providers(scratch.path(), hold);
    let (_canceller, cancelled) = cancellation();
    let plans = vec![planned("double-fork-and-hangs", marker, PATIENT_MS); 2];
    runtime().block_on(agentspine_recall::run(plans, &providers, cancelled));
}

#[test]
fn open_files_are_as_many_after_failures_as_before() {
    let scratch = tempfile::tempdir().unwrap();
    let providers = providers(scratch.path(), Hold::Namespace);
    let runtime = runtime();
    let (_canceller, cancelled) = cancellation();
    let round = || {
        let plans = ["hang", "exit-3", "flood-stdout"].map(|mode| planned(mode, &marker(), SHORT_MS)).into();
        let outcomes = runtime.block_on(agentspine_recall::run(plans, &providers, cancelled.clone()));
        assert!(outcomes.iter().all(|outcome| !failure(outcome).message.is_empty()));
        own_files()
    };
    let first = round();
    assert_eq!(round(), first);
}

/// Open files of this process that are pipes or regular files: the other test's child and the runtime own none of them.
fn own_files() -> usize {
    let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    files
        .filter_map(|file| std::fs::read_link(file.path()).ok())
        .filter(|to| to.to_string_lossy().starts_with("pipe:"))
        .count()
}
