//! `agentspine preflight-policy`: the local policy, changed only with a confirmation.

use std::path::PathBuf;

use agentspine_gate::Id;
use clap::Args;

use super::flags::id;
use crate::config::Config;
use crate::report::{Failure, Report};

/// Show or change the local policy: which providers must answer, how large mandatory text may grow
#[derive(Args)]
#[command(after_help = "Examples:
  agentspine preflight-policy profile.json                            what would change (exit 2)
  agentspine preflight-policy profile.json --confirm-local-policy     store it
  agentspine preflight-policy --set instructionBudget.hardLimitBytes=65536 --confirm-local-policy
  agentspine preflight-policy --show
  agentspine preflight-policy --remove local --confirm-local-policy")]
pub(super) struct PolicyArgs {
    /// A profile as JSON
    #[arg(value_name = "FILE", conflicts_with_all = ["set", "show", "remove"])]
    file: Option<PathBuf>,
    /// Change one value of a profile; repeatable
    #[arg(long, value_name = "KEY=VALUE", conflicts_with_all = ["show", "remove"])]
    set: Vec<String>,
    /// The profile that --set changes [default: local, created where none exists]
    #[arg(long, value_name = "ID", value_parser = id, requires = "set")]
    profile: Option<Id>,
    /// Print the policy in force
    #[arg(long, conflicts_with = "remove")]
    show: bool,
    /// Remove a profile
    #[arg(long, value_name = "ID", value_parser = id)]
    remove: Option<Id>,
    /// Yes, I am the local owner and want this change
    #[arg(long)]
    confirm_local_policy: bool,
    /// Print JSON; this command always does
    #[arg(long)]
    json: bool,
}

/// Shows, plans or stores.
pub(super) fn run(args: &PolicyArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let _ = (config, report, &args.file, &args.set, &args.profile, args.show, &args.remove);
    let _ = (args.confirm_local_policy, args.json);
    super::not_yet()
}
