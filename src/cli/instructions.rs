//! `agentspine instructions`: what the host would load here, in its order, and what it would not and why.

use std::path::PathBuf;

use agentspine_gate::turn::InstructionHost;
use clap::Args;

use super::flags::{IdentityFlags, instruction_host};
use crate::config::{Config, Flags};
use crate::report::{Failure, Report};

/// List the instruction files the host would load at a directory
#[derive(Args)]
#[command(after_help = "Examples:
  agentspine instructions --host claude
  agentspine instructions --host codex --cwd ~/src/project --json")]
pub(super) struct InstructionsArgs {
    /// Whose hierarchy [default: instruction_host of the configuration]
    #[arg(long, visible_alias = "instruction-host", value_name = "HOST", value_parser = instruction_host())]
    host: Option<InstructionHost>,
    /// Directory [default: this one]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Print JSON (agentspine.instructions/v1)
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    identity: IdentityFlags,
}

impl InstructionsArgs {
    pub(super) fn flags(&self) -> Flags {
        Flags { instruction_host: self.host, ..self.identity.flags() }
    }
}

/// Prints the listing.
pub(super) fn run(args: &InstructionsArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let _ = (args, config, report, &args.cwd);
    super::not_yet()
}
