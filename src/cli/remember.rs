//! `agentspine remember-*`: Must-Remember rules, active only after the person confirmed them.

use agentspine_gate::{Digest, Id};
use clap::Args;

use super::flags::id;
use crate::config::{Config, Flags};
use crate::report::{Failure, Report};

/// Propose a Must-Remember rule; it stays a candidate until you confirm it
#[derive(Args)]
#[command(after_help = "Example:
  agentspine remember-propose --claim \"Releases are tagged by a person, never by a script\"")]
pub(super) struct ProposeArgs {
    /// The rule, at most 4096 bytes
    #[arg(long)]
    claim: String,
    /// User id [default: of the configuration]
    #[arg(long, value_name = "ID", value_parser = id)]
    user: Option<Id>,
    /// Tenant id [default: of the configuration]
    #[arg(long, value_name = "ID", value_parser = id)]
    tenant: Option<Id>,
    /// Only in this project
    #[arg(long, value_name = "ID", value_parser = id)]
    project: Option<Id>,
    /// Only in this group
    #[arg(long, value_name = "ID", value_parser = id)]
    group: Option<Id>,
    /// Only in this task
    #[arg(long, value_name = "ID", value_parser = id)]
    task: Option<Id>,
    /// Kind
    #[arg(long, default_value = "critical")]
    kind: String,
    /// SHA-256 of where the rule comes from
    #[arg(long, value_name = "HEX64", value_parser = digest)]
    source_digest: Option<Digest>,
    /// Print JSON; this command always does
    #[arg(long)]
    json: bool,
}

impl ProposeArgs {
    pub(super) fn flags(&self) -> Flags {
        Flags { user: self.user.clone(), tenant: self.tenant.clone(), ..Flags::default() }
    }
}

fn digest(text: &str) -> Result<Digest, String> {
    Digest::parse(text).ok_or_else(|| "not 64 lower-case hexadecimal digits".to_owned())
}

/// Activate a candidate
#[derive(Args)]
pub(super) struct ConfirmArgs {
    /// The candidate
    #[arg(value_name = "CANDIDATE", value_parser = id)]
    candidate: Id,
    /// Yes, I am the local user and want this rule in every turn
    #[arg(long)]
    confirm_local_user: bool,
    /// The entry this one replaces
    #[arg(long, value_name = "ENTRY", value_parser = id)]
    supersedes: Option<Id>,
    /// Print JSON; this command always does
    #[arg(long)]
    json: bool,
}

/// List candidates and entries
#[derive(Args)]
pub(super) struct ListArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Restore an earlier version of one rule; no other rule changes
#[derive(Args)]
pub(super) struct RollbackArgs {
    /// The entry to restore
    #[arg(value_name = "ENTRY", value_parser = id)]
    entry: Id,
    /// Yes, I am the local user and want this version back
    #[arg(long)]
    confirm_local_user: bool,
    /// Print JSON; this command always does
    #[arg(long)]
    json: bool,
}

/// Delete a rule for good; only a tombstone without its text stays
#[derive(Args)]
pub(super) struct PurgeArgs {
    /// The entry or candidate
    #[arg(value_name = "ENTRY", value_parser = id)]
    entry: Id,
    /// Yes, delete it for good
    #[arg(long)]
    confirm_local_purge: bool,
    /// Print JSON; this command always does
    #[arg(long)]
    json: bool,
}

/// Stores a candidate.
pub(super) fn propose(args: &ProposeArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let _ =
        (config, report, &args.claim, &args.project, &args.group, &args.task, &args.kind, args.source_digest);
    super::not_yet()
}

/// Activates a candidate.
pub(super) fn confirm(args: &ConfirmArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let _ = (config, report, &args.candidate, args.confirm_local_user, &args.supersedes);
    super::not_yet()
}

/// Lists candidates and entries.
pub(super) fn list(config: &Config, report: &mut Report) -> Result<(), Failure> {
    let _ = (config, report);
    super::not_yet()
}

/// Restores an earlier version.
pub(super) fn rollback(args: &RollbackArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let _ = (config, report, &args.entry, args.confirm_local_user);
    super::not_yet()
}

/// Deletes for good.
pub(super) fn purge(args: &PurgeArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let _ = (config, report, &args.entry, args.confirm_local_purge);
    super::not_yet()
}
