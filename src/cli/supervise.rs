//! The hidden command a provider child is started through: it holds the child's whole process tree.

use std::ffi::OsString;

use clap::Args;

use crate::report::Failure;

/// Supervise one provider process
#[derive(Args)]
pub(super) struct SuperviseArgs {
    /// What to run and how, written by the runner.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<OsString>,
}

/// Hands over to the runner.
pub(super) fn run(args: &SuperviseArgs) -> Result<(), Failure> {
    let _ = &args.rest;
    Err(Failure::other("no supervisor in this build", ""))
}
