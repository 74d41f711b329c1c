//! `agentspine receipts`: what every call was bound to, and whether the chain still holds.

use clap::{Args, Subcommand};

use crate::config::Config;
use crate::report::{Failure, Report};

/// List, show and verify receipts
#[derive(Args)]
pub(super) struct ReceiptsArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Newest receipts first
    List {
        /// At most this many
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: usize,
        /// Print JSON (agentspine.receipts/v1)
        #[arg(long)]
        json: bool,
    },
    /// Every bound field of one receipt
    Show {
        /// The receipt, or the first digits of its id
        #[arg(value_name = "ID")]
        id: String,
        /// Print JSON (agentspine.receipts/v1)
        #[arg(long)]
        json: bool,
    },
    /// Check every signature, the whole chain and the anchor
    Verify {
        /// Print JSON (agentspine.receipts/v1)
        #[arg(long)]
        json: bool,
    },
}

impl ReceiptsArgs {
    pub(super) fn json(&self) -> bool {
        match &self.what {
            What::List { json, .. } | What::Show { json, .. } | What::Verify { json } => *json,
        }
    }
}

/// Lists, shows or verifies.
pub(super) fn run(args: &ReceiptsArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let _ = (config, report);
    match &args.what {
        What::List { limit, .. } => {
            let _ = limit;
            super::not_yet()
        }
        What::Show { id, .. } => {
            let _ = id;
            super::not_yet()
        }
        What::Verify { .. } => super::not_yet(),
    }
}
