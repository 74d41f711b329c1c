//! The hidden command a provider child is started through: it holds the child's whole process tree.

use std::ffi::OsString;

use clap::Args;

use crate::report::{Exit, Failure};

/// Supervise one provider process
#[derive(Args)]
pub(super) struct SuperviseArgs {
    /// What to run and how, written by the runner.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

/// Hands over to the runner; its report is on stdout, so nothing else may be said there.
pub(super) fn run(args: SuperviseArgs) -> Result<(), Failure> {
    match agentspine_recall::supervise::supervise(args.rest.into_iter()) {
        0 => Ok(()),
        2 => Err(Failure::Told(Exit::Usage)),
        _ => Err(Failure::Told(Exit::Other)),
    }
}
