//! No model call without your instructions, your rules and your recall.
//!
//! The hallway: [`cli`] parses, [`config`] reads files, environment and flags once, [`system`] gives time and
//! randomness, [`compose`] builds the rooms, [`turn`] is the path of a call, [`chat`] the host for people,
//! [`memory`] what its tools ask of this program, [`conversations`] what was said, [`receipts`] what people see of the journal, [`report`] the one voice, [`terminal`] the
//! full screen. Nothing here prints, except through [`report`].

mod chat;
mod cli;
mod compose;
mod config;
mod conversations;
mod desk;
mod memory;
mod proxy;
mod receipts;
mod report;
mod system;
mod terminal;
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
