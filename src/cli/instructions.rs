//! `agentspine instructions`: what the host would load here, in its order, and what it would not and why.

use std::path::PathBuf;

use agentspine_gate::instructions::{DocumentState, Listed, Snapshot, listing};
use agentspine_gate::policy::InstructionBudget;
use agentspine_gate::turn::InstructionHost;
use agentspine_gate::{Detail, Digest, Refusal};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use super::flags::{IdentityFlags, instruction_host};
use super::rooms::{InstructionRules, Rooms, working_directory};
use super::table;
use crate::config::{Config, Flags};
use crate::report::{Failure, Output, Report};

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
    let host = config.instruction_host.ok_or_else(unbound)?;
    let cwd = working_directory(args.cwd.as_deref())?;
    let rooms = Rooms::open(config)?;
    let rules = InstructionRules::of(&rooms.policy().load()?, config, host)?;
    let snapshot = listing(rooms.seams.fs.as_ref(), host, &config.homes, &cwd, &rules.links)?;
    let used = snapshot.documents.iter().map(|document| document.text.len() as u64).sum::<u64>();
    match report.output() {
        Output::Json => report.json(&document(&snapshot, config, used, rules.budget)),
        Output::People => people(&snapshot, config, used, rules.budget, report),
    }
    Ok(())
}

pub(super) fn unbound() -> Refusal {
    Refusal::new(
        Detail::HostUnbound,
        "it is not said whose instruction files are meant",
        "Add --host claude or --host codex, or set instruction_host in config.toml",
    )
}

fn people(snapshot: &Snapshot, config: &Config, used: u64, budget: InstructionBudget, report: &mut Report) {
    let rows: Vec<_> = numbered(&snapshot.listed).map(|(order, listed)| row(order, listed, config)).collect();
    let heading = ["order", "id", "scope", "bytes", "sha256", "state", "reason", "path"];
    report.lines(table::lines(heading, &rows));
    let InstructionBudget { standard_bytes, hard_limit_bytes } = budget;
    report.line(format!("used {used} / standard {standard_bytes} / hard limit {hard_limit_bytes} bytes"));
    if used > hard_limit_bytes {
        let command =
            "agentspine preflight-policy --set instructionBudget.hardLimitBytes=N --confirm-local-policy";
        report.note(format!(
            "over the hard limit: a call that adds all of these would be refused. Raise it: {command}"
        ));
    }
}

/// Mandatory documents are counted in the host's order; the others have no place in it.
fn numbered(listed: &[Listed]) -> impl Iterator<Item = (Option<usize>, &Listed)> {
    listed.iter().scan(0, |count, one| {
        let bound = matches!(one.state, DocumentState::Mandatory | DocumentState::CutByHost);
        *count += usize::from(bound);
        Some((bound.then_some(*count), one))
    })
}

fn row(order: Option<usize>, listed: &Listed, config: &Config) -> [String; 8] {
    [
        order.map_or_else(|| "-".to_owned(), |order| order.to_string()),
        listed.id.clone(),
        word(&listed.layer),
        listed.bytes.to_string(),
        listed.sha256.map_or_else(|| "-".to_owned(), Digest::short),
        word(&listed.state),
        listed.reason.clone(),
        config.short_path(&listed.path),
    ]
}

/// The wire text of a unit variant.
fn word(value: &impl Serialize) -> String {
    serde_json::to_value(value).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn document(snapshot: &Snapshot, config: &Config, used: u64, budget: InstructionBudget) -> Value {
    let one = |(order, listed): (Option<usize>, &Listed)| {
        json!({
            "order": order, "id": listed.id, "scope": listed.layer, "bytes": listed.bytes, "sha256": listed.sha256,
            "state": listed.state, "reason": listed.reason, "path": config.short_path(&listed.path),
        })
    };
    json!({
        "schema": "agentspine.instructions/v1", "host": snapshot.host,
        "documents": numbered(&snapshot.listed).map(one).collect::<Vec<_>>(),
        "usedBytes": used, "standardBytes": budget.standard_bytes, "hardLimitBytes": budget.hard_limit_bytes,
    })
}
