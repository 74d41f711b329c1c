//! The client's process: this terminal, this process group, its exit code.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind};
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, waitpid};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::spawn_blocking;

use crate::report::Failure;

/// What a shell adds to the number of the signal that ended a program.
const SIGNALLED: i32 = 128;

/// Runs the program to its end; its exit code as a shell tells it.
pub(super) fn run(
    program: &OsStr,
    args: Vec<OsString>,
    variables: Vec<(&'static str, String)>,
) -> Result<u8, Failure> {
    let mut command = Command::new(program);
    command.args(args).envs(variables);
    let name = program.to_string_lossy().into_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime.and_then(|runtime| runtime.block_on(attend(command)));
    ended.map_err(|cause| match cause.kind() {
        ErrorKind::NotFound => Failure::other(
            format!("There is no program {name} on this PATH"),
            format!("Install it, or name it by its path: agentspine run /path/to/{name}"),
        ),
        kind => Failure::other(format!("{name} did not start: {kind}"), "Check that it can be executed"),
    })
}

/// Waits for it. What the terminal sends goes to the client as well, which decides; what is sent to us alone is passed on.
async fn attend(mut command: Command) -> io::Result<u8> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut quit = signal(SignalKind::quit())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    let child = command.spawn()?;
    let pid = Pid::from_child(&child);
    // Nobody else waits for it, so its id stays its own until this wait is over.
    let mut ended = spawn_blocking(move || wait(pid));
    // Gone already is as good: the wait tells.
    let pass = |signal| kill_process(pid, signal).unwrap_or_default();
    loop {
        tokio::select! {
            ended = &mut ended => return ended.map_err(io::Error::other)?,
            _ = interrupt.recv() => {}
            _ = quit.recv() => {}
            _ = terminate.recv() => pass(Signal::TERM),
            _ = hangup.recv() => pass(Signal::HUP),
        }
    }
}

/// Waits for its end. A client that stops itself (Ctrl+Z in raw mode) stops us too, so that the shell takes over; when the
/// shell continues us, it goes on.
fn wait(pid: Pid) -> io::Result<u8> {
    loop {
        let status = match waitpid(Some(pid), WaitOptions::UNTRACED) {
            Ok(Some((_, status))) => status,
            Ok(None) | Err(Errno::INTR) => continue,
            Err(cause) => return Err(cause.into()),
        };
        if status.stopped() {
            kill_process(getpid(), Signal::STOP)?;
            kill_process(pid, Signal::CONT)?;
        } else {
            return Ok(code(status));
        }
    }
}

fn code(status: WaitStatus) -> u8 {
    let signalled = status.terminating_signal().map(|signal| SIGNALLED.saturating_add(signal));
    let code = signalled.or(status.exit_status()).unwrap_or(1);
    u8::try_from(code).unwrap_or(u8::MAX)
}
