//! Plans, providers and a look at `/proc`, shared by the chapters.
#![allow(dead_code, unreachable_pub)]

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use agentspine_gate::policy::{Adapter, Network, Provider};
use agentspine_gate::recall::{Answer, Outcome, Planned, ProviderFailure, QUERY_SCHEMA_V1, Query};
use agentspine_gate::{Digest, Id};
use agentspine_recall::{Commands, Providers, Supervisor, cancellation};

pub const EVIL: &str = env!("CARGO_BIN_EXE_evil-provider");
/// Long enough for a child that answers, on any machine.
pub const PATIENT_MS: u64 = 30_000;
/// For children that never answer.
pub const SHORT_MS: u64 = 300;

pub fn id(text: &str) -> Id {
    Id::new(text).unwrap()
}

/// A word that stands in no other process's command line.
pub fn marker() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("marker-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

pub fn query() -> Query {
    Query {
        schema: QUERY_SCHEMA_V1,
        provider_id: id("evil"),
        agent_id: id("a"),
        persona_id: None,
        user_id: id("u"),
        tenant_id: id("t"),
        host: "agentspine".to_owned(),
        profile_id: id("default"),
        session_id: id("s"),
        project_id: id("project:p"),
        group_id: None,
        task_id: None,
        cwd_digest: Digest::of(b"cwd"),
        prompt_digest: Digest::of(b"prompt"),
        requested: "current-effective-truth",
        query_digest: Digest::of(b"query"),
    }
}

pub fn planned(mode: &str, marker: &str, deadline_ms: u64) -> Planned {
    let query = query();
    Planned {
        provider: Provider {
            id: id("evil"),
            adapter: Adapter::MnemoCommandV1,
            required: true,
            fail_closed: true,
            timeout_ms: deadline_ms,
            command: PathBuf::from(EVIL),
            args: vec![mode.to_owned(), marker.to_owned(), query.query_digest.to_hex()],
            credential_env: Vec::new(),
            send_prompt: false,
            command_sha256: None,
            network: Network::Allowed,
        },
        query,
        prompt: "secret-prompt".to_owned(),
        deadline_ms,
    }
}

/// How the supervisor holds the tree.
#[derive(Clone, Copy, Debug)]
pub enum Hold {
    /// In namespaces where the system gives them.
    Namespace,
    /// As a child subreaper, as on systems without.
    Subreaper,
}

pub fn providers(scratch: &Path, hold: Hold) -> Providers {
    let args_prefix: Vec<OsString> = match hold {
        Hold::Namespace => vec![],
        Hold::Subreaper => vec!["--plain".into()],
    };
    Providers {
        ledger: None,
        recall: agentspine_recall::Recall::On,
        wishes: agentspine_recall::Wishes::default(),
        commands: Commands {
            supervisor: Supervisor { exe: env!("CARGO_BIN_EXE_agentspine-supervise").into(), args_prefix },
            path: "/usr/bin:/bin".into(),
            scratch: scratch.to_owned(),
            credentials: Arc::new(|name| match name {
                "TOKEN" => Some("secret-token".into()),
                "EMPTY" => Some("".into()),
                _ => None,
            }),
        },
    }
}

pub fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

/// Runs one plan to its end and looks that nothing with the marker is left.
pub fn ask(planned: Planned, marker: &str, hold: Hold) -> Outcome {
    let scratch = tempfile::tempdir().unwrap();
    let providers = providers(scratch.path(), hold);
    let (_canceller, cancelled) = cancellation();
    let mut outcomes = runtime().block_on(agentspine_recall::run(vec![planned], &providers, cancelled));
    assert_eq!(survivors(marker), Vec::<String>::new(), "left alive");
    assert_eq!(scratch.path().read_dir().unwrap().count(), 0, "left in the scratch directory");
    assert_eq!(outcomes.len(), 1);
    outcomes.remove(0)
}

/// Command lines of living processes that hold the marker.
pub fn survivors(marker: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.split(' ').any(|word| word == marker)).collect()
}

/// Waits until something about the processes with this marker holds; panics when it does not come true.
pub fn until(marker: &str, holds: impl Fn(&[String]) -> bool) -> Duration {
    let started = Instant::now();
    loop {
        let seen = survivors(marker);
        if holds(&seen) {
            return started.elapsed();
        }
        assert!(started.elapsed() < Duration::from_secs(30), "did not come true; alive: {seen:?}");
        std::thread::yield_now();
    }
}

pub fn failure(outcome: &Outcome) -> ProviderFailure {
    outcome.result.as_ref().err().cloned().expect("a failure")
}

pub fn answer(outcome: &Outcome) -> Answer {
    outcome.result.as_ref().ok().cloned().unwrap_or_else(|| panic!("{:?}", outcome.result.as_ref().err()))
}
