//! `agentspine state`: whether key, journal and anchor belong together, and the one way to start anew.

use clap::{Args, Subcommand};

use crate::config::Config;
use crate::report::{Failure, Report};

/// Check the state directory, or start it anew
#[derive(Args)]
pub(super) struct StateArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Check key, journal and anchor
    Check {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Put key, journal and anchor aside and start new ones; nothing is deleted
    Reset {
        /// Yes: replay protection starts anew
        #[arg(long)]
        confirm: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

impl StateArgs {
    pub(super) fn json(&self) -> bool {
        match &self.what {
            What::Check { json } | What::Reset { json, .. } => *json,
        }
    }
}

/// Checks or resets.
pub(super) fn run(args: &StateArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let _ = (config, report);
    match &args.what {
        What::Check { .. } => super::not_yet(),
        What::Reset { confirm, .. } => {
            let _ = confirm;
            super::not_yet()
        }
    }
}
