//! `agentspine doctor`: would the next call be allowed, and if not, what to do.

use agentspine_gate::turn::InstructionHost;
use clap::Args;

use super::flags::{IdentityFlags, instruction_host};
use crate::config::{Config, Flags};
use crate::report::{Failure, Report};

/// Check everything a call needs here; exit 1 when the next call would be refused
#[derive(Args)]
pub(super) struct DoctorArgs {
    /// Whose instruction files [default: instruction_host of the configuration]
    #[arg(long, visible_alias = "instruction-host", value_name = "HOST", value_parser = instruction_host())]
    host: Option<InstructionHost>,
    /// Print JSON (agentspine.doctor/v1)
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    identity: IdentityFlags,
}

impl DoctorArgs {
    pub(super) fn flags(&self) -> Flags {
        Flags { instruction_host: self.host, ..self.identity.flags() }
    }
}

/// Runs every check.
pub(super) fn run(config: &Config, report: &mut Report) -> Result<(), Failure> {
    let _ = (config, report);
    super::not_yet()
}
