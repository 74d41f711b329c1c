//! The daemon behind `run` and `env`: the one that serves, else a new one.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use agentspine_gate::policy::PolicyStore;
use agentspine_gate::state_dir::StateDir;

use crate::cli::proxy::READY;
use crate::compose::own_program;
use crate::config::Config;
use crate::proxy::ask;
use crate::proxy::post::{self, Notice, Stand};
use crate::report::Failure;

/// How long a daemon may take until it listens.
const START: Duration = Duration::from_secs(10);
/// How long another start, or a daemon that is just leaving, is waited for.
const PATIENCE: Duration = Duration::from_secs(12);
/// Pause between two looks at a daemon that somebody else has just started.
const PAUSE: Duration = Duration::from_millis(10);
/// What a daemon gets of this environment, besides `XDG_…` and what the local policy names.
const VARIABLES: [&str; 4] = ["HOME", "PATH", "LANG", "AGENTSPINE_STATE_DIR"];
/// Longest message of a daemon that did not start, bytes.
const MESSAGE_BYTES_MAX: u64 = 8 * 1024;

/// A daemon that serves, and stays while this is held.
pub(in crate::cli) struct Serving {
    /// Where it is.
    pub notice: Notice,
    _using: File,
}

/// The daemon of this state directory, healthy.
pub(in crate::cli) fn serving(config: &Config, dir: &StateDir) -> Result<Serving, Failure> {
    let run_dir = dir.run_dir();
    let using = post::user(&run_dir, PATIENCE).map_err(unusable)?.ok_or_else(stuck)?;
    // One after another: two that start at once would start two daemons, and one of them would fail.
    let _starting = post::starter(&run_dir, PATIENCE).map_err(unusable)?.ok_or_else(stuck)?;
    let begun = Instant::now();
    loop {
        match post::look(&run_dir).map_err(unusable)? {
            Stand::Held(notice) => return Ok(Serving { notice: healthy(notice)?, _using: using }),
            _ if begun.elapsed() > PATIENCE => return Err(stuck()),
            Stand::Free => start(config, dir)?,
            Stand::Starting => std::thread::sleep(PAUSE),
        }
    }
}

/// Only a process of this user can hold the post, and only the one that holds it knows the mark in its notice.
fn healthy(notice: Notice) -> Result<Notice, Failure> {
    match ask::health(notice.address) {
        Ok(health) if health.nonce == notice.nonce => Ok(notice),
        _ => Err(Failure::other(
            format!("The proxy (process {}) does not answer on {}", notice.pid, notice.address),
            format!("End it and start again: kill {}", notice.pid),
        )),
    }
}

fn start(config: &Config, dir: &StateDir) -> Result<(), Failure> {
    let mut child = spawn(config, dir).map_err(|cause| {
        Failure::other(
            format!("The proxy did not start: {}", cause.kind()),
            "Check the process limits: ulimit -u",
        )
    })?;
    match first_line(&mut child) {
        Some(line) if line.trim_end() == READY => Ok(()),
        Some(_) => Err(words(&mut child)),
        None => {
            // Started by us just now and not ready: nobody uses it.
            let _ = child.kill();
            let _ = child.wait();
            Err(Failure::other(
                format!("The proxy was not ready within {} s", START.as_secs()),
                "See why in the foreground: agentspine proxy",
            ))
        }
    }
}

/// With a clean environment, outside every project, its words on pipes until it is ready.
fn spawn(config: &Config, dir: &StateDir) -> io::Result<Child> {
    let credentials = credentials(dir);
    let wanted = |name: &str| {
        VARIABLES.contains(&name) || name.starts_with("XDG_") || credentials.iter().any(|named| named == name)
    };
    let mut command = Command::new(own_program());
    command.arg0("agentspine").args(["proxy", "--daemon"]);
    command.env_clear().envs(config.variables(wanted)).current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}

/// The variables that the local policy names. One that cannot be read names none: its calls are refused visibly.
fn credentials(dir: &StateDir) -> Vec<String> {
    let Ok(policy) = PolicyStore::new(&dir.gate_dir()).load() else { return Vec::new() };
    let providers = policy.profiles.into_iter().flat_map(|profile| profile.providers);
    providers.flat_map(|provider| provider.credential_env).collect()
}

/// What it says first on its stdout, empty at its end; `None` when it says nothing in time.
fn first_line(child: &mut Child) -> Option<String> {
    let stdout = child.stdout.take()?;
    let (said, heard) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        // Whatever came until an error is judged like the rest.
        let _ = BufReader::new(stdout.take(MESSAGE_BYTES_MAX)).read_line(&mut line);
        let _ = said.send(line);
    });
    heard.recv_timeout(START).ok()
}

/// What it said of why it did not start: a message and a next step, as every failure is told.
fn words(child: &mut Child) -> Failure {
    let mut said = String::new();
    if let Some(stderr) = child.stderr.take() {
        let _ = stderr.take(MESSAGE_BYTES_MAX).read_to_string(&mut said);
    }
    let _ = child.wait();
    let line = |prefix: &str| said.lines().find_map(|line| line.strip_prefix(prefix)).map(str::to_owned);
    Failure::other(
        line("agentspine: ").unwrap_or_else(|| "The proxy did not start".to_owned()),
        line("  next: ").unwrap_or_else(|| "See why in the foreground: agentspine proxy".to_owned()),
    )
}

fn unusable(cause: io::Error) -> Failure {
    Failure::other(format!("The proxy's lock files: {}", cause.kind()), "agentspine doctor")
}

fn stuck() -> Failure {
    Failure::other(
        "Another agentspine has been starting or stopping the proxy for too long",
        "See what is running, and end it: ps -C agentspine",
    )
}
