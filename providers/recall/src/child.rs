//! Our side of a child: start the supervisor, hand over the query, wait for the fate, and never leave anything behind.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};

use crate::run::Stop;
use crate::supervise::{FATE_BYTES_MAX, Fate, Order, STDOUT_BYTES_MAX, kill_tree};

/// How long a supervisor that was told to stop may take, before its tree is killed from here.
const STOP_WITHIN: Duration = Duration::from_millis(400);
/// How long that may take.
const KILL_WITHIN: Duration = Duration::from_secs(2);
/// How much longer than our deadline the supervisor's own is; it counts only when we cannot act.
const DEADLINE_SLACK_MS: u64 = 250;

/// How our binary is made to run as a supervisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Supervisor {
    /// The program, absolute; `/proc/self/exe` survives an update of the file.
    pub exe: PathBuf,
    /// What comes before the supervisor's own arguments, such as `__supervise`.
    pub args_prefix: Vec<OsString>,
}

/// One child to run.
pub(crate) struct Job {
    /// Absolute, checked.
    pub(crate) command: PathBuf,
    /// Verbatim.
    pub(crate) args: Vec<String>,
    /// The whole environment: `PATH` and credentials.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Without network.
    pub(crate) offline: bool,
    /// What it reads.
    pub(crate) query: Vec<u8>,
}

/// How a child ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ended {
    /// `exit 0`, with its output.
    Answered(Vec<u8>),
    /// Any other fate.
    Otherwise(Fate),
    /// The supervisor itself could not be started or was ended.
    Unsupervised,
}

/// Runs one child to its end. When this returns nothing that the child started is alive; when the future is dropped the
/// supervisor sees the end of its stdin and kills everything.
pub(crate) async fn run(supervisor: &Supervisor, job: Job, scratch: &Path, stop: Stop) -> Ended {
    let Ok(dir) = private_dir(scratch) else { return Ended::Unsupervised };
    let ended = match spawn(supervisor, &job, dir.path(), stop.at) {
        Ok(child) => supervised(child, &job.query, stop).await,
        Err(_) => Ended::Unsupervised,
    };
    // Emptying the directory may take long if the child filled it; no reason to make the turn wait on this thread.
    let _ = tokio::task::spawn_blocking(move || drop(dir)).await;
    ended
}

/// 0700 and empty.
fn private_dir(scratch: &Path) -> io::Result<tempfile::TempDir> {
    let mode = std::fs::Permissions::from_mode(0o700);
    tempfile::Builder::new().prefix("provider-").permissions(mode).tempdir_in(scratch)
}

fn spawn(supervisor: &Supervisor, job: &Job, dir: &Path, deadline: Instant) -> io::Result<Child> {
    let left = deadline.saturating_duration_since(Instant::now()).as_millis();
    let order = Order {
        prefix: supervisor.args_prefix.clone(),
        deadline_ms: u64::try_from(left).unwrap_or(u64::MAX).saturating_add(DEADLINE_SLACK_MS),
        offline: job.offline,
        plain: false,
        inside: false,
        command: job.command.clone().into(),
        args: job.args.iter().map(OsString::from).collect(),
    };
    Command::new(&supervisor.exe)
        .args(&supervisor.args_prefix)
        .args(order.to_argv())
        .env_clear()
        .envs(job.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(dir)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
}

async fn supervised(mut child: Child, query: &[u8], mut stop: Stop) -> Ended {
    let (Some(mut stdin), Some(mut stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Ended::Unsupervised;
    };
    let report = async {
        // The two sides at once: neither can wait for the other. A write error means the supervisor is gone.
        let (_, report) = tokio::join!(send(&mut stdin, query), read(&mut stdout));
        report
    };
    let interrupted = tokio::select! {
        report = report => Err(report),
        () = stop.cancelled.wait() => Ok(Fate::Cancelled),
        () = tokio::time::sleep_until(stop.at.into()) => Ok(Fate::Timeout),
    };
    // The end of its stdin tells the supervisor to stop; after a report it is on its way out anyway.
    drop(stdin);
    gone(&mut child).await;
    match interrupted {
        Ok(fate) => Ended::Otherwise(fate),
        Err(report) => parse(&report),
    }
}

async fn send(stdin: &mut tokio::process::ChildStdin, query: &[u8]) -> io::Result<()> {
    let length = u32::try_from(query.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    stdin.write_all(&length.to_be_bytes()).await?;
    stdin.write_all(query).await?;
    stdin.flush().await
}

async fn read(stdout: &mut (impl AsyncRead + Unpin)) -> Vec<u8> {
    let mut report = Vec::new();
    let limit = u64::try_from(FATE_BYTES_MAX + STDOUT_BYTES_MAX).unwrap_or(u64::MAX);
    let _ = stdout.take(limit).read_to_end(&mut report).await;
    report
}

/// Waits for the supervisor; kills its tree and it where it does not end by itself, such as when it was stopped.
async fn gone(child: &mut Child) {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
    if tokio::time::timeout(STOP_WITHIN, child.wait()).await.is_ok() {
        return;
    }
    let Some(pid) = pid else { return };
    let _ = tokio::task::spawn_blocking(move || {
        kill_tree(pid, KILL_WITHIN);
        Pid::from_raw(pid).map(|pid| kill_process(pid, Signal::KILL))
    })
    .await;
    let _ = child.wait().await;
}

fn parse(report: &[u8]) -> Ended {
    let Some(end) = report.iter().position(|byte| *byte == b'\n') else { return Ended::Unsupervised };
    let (line, output) = report.split_at(end);
    match std::str::from_utf8(line).ok().and_then(Fate::parse) {
        Some(Fate::Exit(0)) => Ended::Answered(output.get(1..).unwrap_or_default().to_vec()),
        Some(fate) => Ended::Otherwise(fate),
        None => Ended::Unsupervised,
    }
}
