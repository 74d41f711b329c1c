//! `agentspine remember-*`: Must-Remember rules, active only after the person confirmed them.

mod purge;

use agentspine_gate::remember::{
    Candidate, CandidateStatus, Entry, EntryStatus, Proposal, RememberError, RememberScope,
};
use agentspine_gate::{Digest, Id};
use clap::Args;
use serde_json::json;

pub(super) use purge::purge;

use super::flags::id;
use super::rooms::Rooms;
use super::table;
use crate::config::{Config, Flags};
use crate::report::{Failure, Output, Report};

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
    /// Without --group: also in the turns of every group
    #[arg(long, conflicts_with = "group")]
    any_group: bool,
    /// Kind [default: critical]
    #[arg(long, value_name = "WORD", value_parser = id)]
    kind: Option<Id>,
    /// SHA-256 of where the rule comes from
    #[arg(long, value_name = "HEX64", value_parser = digest)]
    source_digest: Option<Digest>,
    /// Print JSON; results always are
    #[arg(long)]
    pub json: bool,
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
    /// Print JSON; results always are
    #[arg(long)]
    pub json: bool,
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
    /// Print JSON; results always are
    #[arg(long)]
    pub json: bool,
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
    /// Print JSON; results always are
    #[arg(long)]
    pub json: bool,
}

/// Stores a candidate.
pub(super) fn propose(args: &ProposeArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let rooms = Rooms::open(config)?;
    let scope = RememberScope {
        user_id: config.identity.user_id.clone(),
        tenant_id: config.identity.tenant_id.clone(),
        project_id: args.project.clone(),
        group_id: args.group.clone(),
        task_id: args.task.clone(),
    };
    let proposed = rooms.remember()?.propose(Proposal {
        claim: &args.claim,
        scope,
        any_group: args.any_group,
        kind: args.kind.clone(),
        source_digest: args.source_digest,
        now_ms: rooms.seams.clock.wall_ms(),
    })?;
    report.json(&proposed);
    let command = format!("agentspine remember-confirm {} --confirm-local-user", proposed.candidate.id);
    report.note(format!("nothing is active yet; to activate it: {command}"));
    Ok(())
}

/// Activates a candidate.
pub(super) fn confirm(args: &ConfirmArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let rooms = Rooms::open(config)?;
    let store = rooms.remember()?;
    if !args.confirm_local_user {
        let listed = store.list()?;
        let found = listed.candidates.iter().find(|candidate| candidate.id == args.candidate);
        let claim = found.map(|candidate| candidate.claim.as_str());
        let replaced =
            args.supersedes.as_ref().map(|entry| format!(" --supersedes {entry}")).unwrap_or_default();
        let command =
            format!("agentspine remember-confirm {} --confirm-local-user{replaced}", args.candidate);
        return Err(unconfirmed(
            "this rule would be in every turn of its scope",
            claim,
            command,
            &args.candidate,
            report,
        ));
    }
    report.json(&store.confirm(&args.candidate, args.supersedes.as_ref(), rooms.seams.clock.wall_ms())?);
    Ok(())
}

/// Lists candidates and entries.
pub(super) fn list(config: &Config, report: &mut Report) -> Result<(), Failure> {
    let listing = Rooms::open(config)?.remember()?.list()?;
    match report.output() {
        Output::Json => report.json(&json!({
            "schema": "agentspine.remember/v1", "entries": listing.entries, "candidates": listing.candidates,
        })),
        Output::People if listing.entries.is_empty() && listing.candidates.is_empty() => {
            report.line("no rules yet");
        }
        Output::People => {
            let entries = listing.entries.iter().map(entry_row);
            let waiting =
                listing.candidates.iter().filter(|one| one.status == CandidateStatus::PendingConfirmation);
            let rows: Vec<_> = entries.chain(waiting.map(candidate_row)).collect();
            report.lines(table::lines(["state", "version", "id", "scope", "rule"], &rows));
        }
    }
    Ok(())
}

fn entry_row(entry: &Entry) -> [String; 5] {
    let state = match entry.status {
        EntryStatus::Active => "active",
        EntryStatus::Superseded => "superseded",
    };
    [
        state.to_owned(),
        entry.version.to_string(),
        entry.id.to_string(),
        scope(&entry.scope),
        entry.claim.clone(),
    ]
}

fn candidate_row(candidate: &Candidate) -> [String; 5] {
    let (id, claim) = (candidate.id.to_string(), candidate.claim.clone());
    ["to confirm".to_owned(), "-".to_owned(), id, scope(&candidate.scope), claim]
}

fn scope(scope: &RememberScope) -> String {
    let narrowed = [&scope.project_id, &scope.group_id, &scope.task_id].into_iter().flatten();
    let ids = [&scope.tenant_id, &scope.user_id].into_iter().chain(narrowed);
    ids.map(Id::as_str).collect::<Vec<_>>().join(" ")
}

/// Restores an earlier version.
pub(super) fn rollback(args: &RollbackArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let rooms = Rooms::open(config)?;
    let store = rooms.remember()?;
    if !args.confirm_local_user {
        let listed = store.list()?;
        let claim =
            listed.entries.iter().find(|entry| entry.id == args.entry).map(|entry| entry.claim.as_str());
        let command = format!("agentspine remember-rollback {} --confirm-local-user", args.entry);
        return Err(unconfirmed("this version would apply again", claim, command, &args.entry, report));
    }
    report.json(&store.rollback(&args.entry, rooms.seams.clock.wall_ms())?);
    Ok(())
}

/// Says what a confirmation would do; the rule itself goes to stdout alone.
fn unconfirmed(what: &str, claim: Option<&str>, command: String, id: &Id, report: &mut Report) -> Failure {
    let Some(claim) = claim else { return RememberError::Unknown(id.clone()).into() };
    if report.output() == Output::People {
        report.line(claim);
    }
    Failure::usage(format!("{what}; nothing was changed"), command)
}

impl From<RememberError> for Failure {
    fn from(error: RememberError) -> Self {
        match error {
            RememberError::Store(refusal) => Self::Refused(refusal),
            other => Self::other(other.to_string(), other.advice()),
        }
    }
}
