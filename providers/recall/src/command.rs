//! `mnemo-command/v1` and `/v2`: an executable that reads one query and prints one result.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agentspine_gate::policy::{Network, Provider};
use agentspine_gate::recall::{Planned, ProviderFailure, Query, parse_result};
use agentspine_gate::{Detail, Digest};
use rustix::fs::{Access, access};
use sha2::{Digest as _, Sha256};

use crate::child::{self, Ended, Job, Supervisor};
use crate::run::{Answered, Asking, Retrieval, Stop};
use crate::supervise::{Fate, STDIN_BYTES_MAX};

/// Looks a credential up by name. Only the caller reads the environment.
pub type Credentials = Arc<dyn Fn(&str) -> Option<OsString> + Send + Sync>;

/// How commands are run.
#[derive(Clone)]
pub struct Commands {
    /// Our binary as a supervisor.
    pub supervisor: Supervisor,
    /// `PATH` of every child.
    pub path: OsString,
    /// Existing directory for the children's private working directories, such as `<state>/run`.
    pub scratch: PathBuf,
    /// Values of the credentials a profile names.
    pub credentials: Credentials,
}

impl Retrieval for Commands {
    fn ask(&self, planned: Planned, stop: Stop) -> Asking {
        let commands = self.clone();
        Box::pin(async move { commands.answer(planned, stop).await })
    }
}

impl Commands {
    async fn answer(self, planned: Planned, stop: Stop) -> Answered {
        let query = planned.query.clone();
        let deadline_ms = planned.deadline_ms;
        let id = planned.provider.id.clone();
        let told =
            |detail, what: &str| Err(ProviderFailure { detail, message: format!("Provider {id} {what}.") });
        // The digest of a large command is read from disk: not on this thread, and not past the deadline.
        let mut cancelled = stop.cancelled.clone();
        let environment = self.environment(&planned.provider)?;
        let preparing = tokio::task::spawn_blocking(move || job(&planned, environment));
        let job = tokio::select! {
            job = preparing => job,
            () = cancelled.wait() => return told(Detail::Cancelled, "was cancelled"),
            () = tokio::time::sleep_until(stop.at.into()) => return told(Detail::Timeout, &late(deadline_ms)),
        };
        let Ok(job) = job else { return told(Detail::NotInvoked, "could not be prepared") };
        match child::run(&self.supervisor, job?, &self.scratch, stop).await {
            Ended::Answered(output) => parse_result(&output, &query),
            Ended::Otherwise(fate) => {
                let (detail, what) = reason(fate, deadline_ms);
                told(detail, &what)
            }
            Ended::Unsupervised => {
                told(Detail::NotInvoked, "could not be supervised, so nothing it said counts")
            }
        }
    }

    /// `PATH` and the named credentials; one that is unset or empty fails before anything is started.
    fn environment(&self, provider: &Provider) -> Result<Vec<(OsString, OsString)>, ProviderFailure> {
        let mut all = vec![(OsString::from("PATH"), self.path.clone())];
        for name in &provider.credential_env {
            match (self.credentials)(name) {
                Some(value) if !value.is_empty() => all.push((name.into(), value)),
                _ => {
                    let message =
                        format!("Provider {} needs {name} in the environment, and it is unset.", provider.id);
                    return Err(ProviderFailure { detail: Detail::CredentialMissing, message });
                }
            }
        }
        Ok(all)
    }
}

fn late(deadline_ms: u64) -> String {
    format!("did not answer within {deadline_ms} ms and was stopped")
}

fn reason(fate: Fate, deadline_ms: u64) -> (Detail, String) {
    match fate {
        Fate::Exit(n) => (Detail::Exit(n), format!("exited with status {n}")),
        Fate::Signal(n) => (Detail::Signal(n), format!("was ended by signal {n}")),
        Fate::Timeout => (Detail::Timeout, late(deadline_ms)),
        Fate::Cancelled => (Detail::Cancelled, "was cancelled".to_owned()),
        Fate::Oversize => (Detail::Oversize, "printed more than the limit and was stopped".to_owned()),
        Fate::Exec(errno) => {
            (Detail::NotExecutable, format!("could not be started: {}", io::Error::from_raw_os_error(errno)))
        }
        Fate::NoNetworkNamespace => (
            Detail::NotInvoked,
            "was not started: this system gives no network namespace, so `network: none` cannot be held"
                .to_owned(),
        ),
    }
}

/// Checks the command and writes the query.
fn job(planned: &Planned, environment: Vec<(OsString, OsString)>) -> Result<Job, ProviderFailure> {
    let provider = &planned.provider;
    let told = |(detail, what): (Detail, &str)| ProviderFailure {
        detail,
        message: format!("The command of provider {} {what}.", provider.id),
    };
    let command = executable(&provider.command).map_err(told)?;
    pinned(&command, provider.command_sha256).map_err(told)?;
    let query = wire(&planned.query, provider, &planned.prompt)?;
    Ok(Job {
        command,
        args: provider.args.clone(),
        environment,
        offline: provider.network == Network::None,
        query,
    })
}

fn wire(query: &Query, provider: &Provider, prompt: &str) -> Result<Vec<u8>, ProviderFailure> {
    let text = provider.send_prompt.then_some(prompt);
    let bytes = query.to_wire(text);
    if bytes.len() > STDIN_BYTES_MAX {
        let message = format!("The query for provider {} is longer than the limit.", provider.id);
        return Err(ProviderFailure { detail: Detail::Oversize, message });
    }
    Ok(bytes)
}

/// The real path of an absolute, regular, executable file that the system can run by itself.
fn executable(command: &Path) -> Result<PathBuf, (Detail, &'static str)> {
    if !command.is_absolute() {
        return Err((Detail::NotExecutable, "is not an absolute path"));
    }
    let real = command.canonicalize().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => (Detail::Missing, "does not exist"),
        _ => (Detail::NotExecutable, "cannot be reached"),
    })?;
    if !real.is_file() {
        return Err((Detail::NotExecutable, "is not a regular file"));
    }
    access(&real, Access::EXEC_OK).map_err(|_| (Detail::NotExecutable, "is not executable"))?;
    if !runs_by_itself(&real) {
        return Err((Detail::NotExecutable, "is neither a program nor a script with a #! line"));
    }
    Ok(real)
}

/// The C library hands a file of an unknown format to a shell; no provider is run by a shell.
fn runs_by_itself(path: &Path) -> bool {
    const MAGICS: [&[u8]; 6] = [
        b"\x7fELF",
        b"#!",
        b"\xcf\xfa\xed\xfe",
        b"\xce\xfa\xed\xfe",
        b"\xca\xfe\xba\xbe",
        b"\xca\xfe\xba\xbf",
    ];
    let mut head = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read(&mut head));
    match read {
        Ok(n) => MAGICS.iter().any(|magic| head.get(..n).is_some_and(|head| head.starts_with(magic))),
        // Executable but not readable: a script could not run either, so it is a program.
        Err(_) => true,
    }
}

fn pinned(command: &Path, wanted: Option<Digest>) -> Result<(), (Detail, &'static str)> {
    let Some(wanted) = wanted else { return Ok(()) };
    let other = (Detail::CommandDigest, "is not the one whose digest the policy names");
    let found = file_digest(command)
        .map_err(|_| (Detail::NotExecutable, "cannot be read, so its digest is unknown"))?;
    if found == wanted { Ok(()) } else { Err(other) }
}

fn file_digest(path: &Path) -> io::Result<Digest> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut piece = vec![0; 64 * 1024];
    loop {
        match file.read(&mut piece)? {
            0 => return Ok(Digest(hash.finalize().into())),
            n => hash.update(piece.get(..n).unwrap_or_default()),
        }
    }
}
