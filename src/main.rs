//! No model call without your instructions, your rules and your recall.
//!
//! The hallway: [`cli`] parses, [`config`] reads files, environment and flags once, [`system`] gives time and
//! randomness, [`compose`] builds the rooms, [`turn`] is the path of a call, [`chat`] the host for people,
//! [`conversations`] what was said, [`report`] the one voice. Nothing here prints, except through [`report`].

mod chat;
mod cli;
mod compose;
mod config;
mod conversations;
mod desk;
#[expect(dead_code, reason = "the command that starts it comes with the next change")]
mod proxy;
mod report;
mod system;
mod turn;

use std::process::ExitCode;

fn main() -> ExitCode {
    report::quiet_panics();
    let invocation = match cli::parse(std::env::args_os()) {
        Ok(invocation) => invocation,
        Err(usage) => return report::usage(&usage),
    };
    let mut report = report::Report::new(invocation.output());
    let done = system::harden(invocation.hardening()).and_then(|()| cli::dispatch(invocation, &mut report));
    report.finish(done)
}
