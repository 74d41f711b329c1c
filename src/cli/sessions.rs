//! `agentspine sessions`: the conversations kept on this machine.

use clap::{Args, Subcommand};

use agentspine_gate::Id;

use super::flags::id;
use crate::config::Config;
use crate::conversations::Conversations;
use crate::report::{Failure, Report};

/// List or delete chat sessions
#[derive(Args)]
pub(super) struct SessionsArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Sessions, the most recently used first
    List {
        /// At most this many
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u32,
        /// Print JSON (agentspine.sessions/v1)
        #[arg(long)]
        json: bool,
    },
    /// Delete a session's events, draft and injected text; receipts stay
    Delete {
        /// The session
        #[arg(value_name = "ID", value_parser = id)]
        id: Id,
        /// Yes, delete it for good
        #[arg(long)]
        confirm: bool,
        /// Print JSON (agentspine.sessions/v1)
        #[arg(long)]
        json: bool,
    },
}

impl SessionsArgs {
    pub(super) fn json(&self) -> bool {
        match &self.what {
            What::List { json, .. } | What::Delete { json, .. } => *json,
        }
    }
}

/// Lists or deletes.
pub(super) fn run(args: &SessionsArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let _ = (args, config, report, Conversations::open);
    super::not_yet()
}
