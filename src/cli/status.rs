//! `agentspine preflight-status`: what is configured, what is ready, what the last turns were.

use clap::Args;

use super::flags::IdentityFlags;
use crate::config::{Config, Flags};
use crate::report::{Failure, Report};

/// Show policy, Must-Remember and receipts in numbers, the last turns, and the enforcement mode really in force
#[derive(Args)]
pub(super) struct StatusArgs {
    /// Print JSON (agentspine.preflight/v2)
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    identity: IdentityFlags,
}

impl StatusArgs {
    pub(super) fn flags(&self) -> Flags {
        self.identity.flags()
    }
}

/// Prints the status.
pub(super) fn run(config: &Config, report: &mut Report) -> Result<(), Failure> {
    let _ = (config, report);
    super::not_yet()
}
