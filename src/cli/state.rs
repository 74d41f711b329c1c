//! `agentspine state`: whether key, journal and anchor belong together, and the one way to start anew.

use agentspine_gate::journal::{Finding, Reset, ResetRules, Vault};
use agentspine_gate::{Detail, Refusal};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::rooms::Rooms;
use super::table;
use crate::config::Config;
use crate::report::{Failure, Output, Report};

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
        /// Print JSON (agentspine.state/v1)
        #[arg(long)]
        json: bool,
    },
    /// Put key, journal and anchor aside and start new ones; nothing is deleted, confirmed rules stay where their key does
    Reset {
        /// Yes: replay protection starts anew, and receipts of the old key can no longer be verified here
        #[arg(long)]
        confirm: bool,
        /// Print JSON (agentspine.state/v1)
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
    let rooms = Rooms::open(config)?;
    match &args.what {
        What::Check { .. } => check(&rooms, config, report),
        What::Reset { confirm: true, .. } => reset(&rooms, config, report),
        What::Reset { confirm: false, .. } => Err(Failure::usage(
            format!(
                "this would put key, journal and anchor in {} aside and start new ones",
                config.short_path(rooms.dir.root())
            ),
            "agentspine state reset --confirm",
        )),
    }
}

fn check(rooms: &Rooms, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let findings = findings(rooms);
    let dir = config.short_path(rooms.dir.root());
    match report.output() {
        Output::Json => report.json(&json!({
            "schema": "agentspine.state/v1", "directory": dir, "ok": findings.iter().all(Finding::ok),
            "findings": findings.iter().map(finding_json).collect::<Vec<_>>(),
        })),
        Output::People => {
            report.line(dir);
            let rows: Vec<_> = findings.iter().map(finding_row).collect();
            report.lines(table::lines(["piece", "state", "what"], &rows));
        }
    }
    match findings.into_iter().find_map(|finding| finding.detail.map(|detail| (detail, finding))) {
        None => Ok(()),
        Some((detail, finding)) => Err(Refusal::new(detail, finding.message, finding.advice).into()),
    }
}

/// On a machine that never made a call nothing is missing yet.
fn findings(rooms: &Rooms) -> Vec<Finding> {
    let pieces = [rooms.dir.keyring(), rooms.dir.journal(), rooms.dir.anchor()];
    if pieces.iter().any(|piece| piece.symlink_metadata().is_ok()) {
        return Vault::check(&rooms.dir, &rooms.seams);
    }
    let message = "nothing here yet; the first call makes key, journal and anchor".to_owned();
    vec![Finding { piece: "journal", detail: None, message, advice: String::new() }]
}

fn finding_json(finding: &Finding) -> Value {
    json!({
        "piece": finding.piece, "ok": finding.ok(), "detail": finding.detail.as_ref().map(Detail::to_string),
        "message": finding.message, "advice": finding.advice,
    })
}

fn finding_row(finding: &Finding) -> [String; 3] {
    let state = finding.detail.map_or_else(|| "ok".to_owned(), |detail| detail.to_string());
    [finding.piece.to_owned(), state, finding.message.clone()]
}

fn reset(rooms: &Rooms, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let Reset { aside, rules } = Vault::reset(&rooms.dir, &rooms.seams)?;
    let aside = config.short_path(&aside);
    match report.output() {
        Output::Json => report.json(&json!({
            "schema": "agentspine.state/v1", "reset": true, "aside": aside, "rules": rules_word(rules),
        })),
        Output::People => {
            report.line("started a new key, journal and anchor");
            report.line(format!("the old ones are kept in {aside}"));
            report.lines(rules_lines(rules));
        }
    }
    Ok(())
}

fn rules_word(rules: ResetRules) -> &'static str {
    match rules {
        ResetRules::None => "none",
        ResetRules::Kept => "kept",
        ResetRules::SetAside => "set-aside",
    }
}

fn rules_lines(rules: ResetRules) -> Vec<String> {
    let lines: &[&str] = match rules {
        ResetRules::None => &[],
        ResetRules::Kept => &["your confirmed rules apply as before"],
        ResetRules::SetAside => &[
            "your confirmed rules cannot be verified without their key: none applies now, remember.sqlite lies with the old files",
            "for each rule: agentspine remember-propose --claim TEXT, then agentspine remember-confirm ID --confirm-local-user",
        ],
    };
    lines.iter().map(|line| (*line).to_owned()).collect()
}
