//! `agentspine receipts`: what every call was bound to, and whether the chain still holds.

mod follow;
mod show;

use agentspine_gate::journal::{ChainReport, ReceiptRecord, Vault};
use agentspine_gate::{Detail, Id, ReceiptId, Refusal};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::flags::id;
use super::rooms::Rooms;
use super::table;
use crate::config::Config;
use crate::receipts::{call, claim, refusal_key, written};
use crate::report::{Failure, Output, Report};

/// Schema of everything printed here as JSON.
const SCHEMA: &str = "agentspine.receipts/v1";

/// List, follow, show and verify receipts
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
#[command(after_help = "Examples:
  agentspine receipts list
  agentspine receipts --follow                 every call as it happens; Ctrl+C ends
  agentspine receipts --follow --json | jq -r 'select(.refused).refused'
  agentspine receipts show 7c1e
  agentspine receipts verify

The same on the whole screen, with what a call injected: agentspine watch")]
pub(super) struct ReceiptsArgs {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    follow: FollowArgs,
}

#[derive(Args)]
struct FollowArgs {
    /// Print the newest calls, then every one as it happens
    #[arg(short, long)]
    follow: bool,
    /// Begin with at most this many [default: 20]
    #[arg(long, value_name = "N", requires = "follow")]
    limit: Option<u32>,
    /// Only of this session
    #[arg(long, value_name = "ID", value_parser = id, requires = "follow")]
    session: Option<Id>,
    /// Print JSON, one object a line (agentspine.receipts/v1)
    #[arg(long, requires = "follow")]
    json: bool,
}

#[derive(Subcommand)]
enum What {
    /// Newest receipts first
    List {
        /// At most this many [default: 50, or 20 with --follow]
        #[arg(long, value_name = "N")]
        limit: Option<u32>,
        /// Only of this session
        #[arg(long, value_name = "ID", value_parser = id)]
        session: Option<Id>,
        /// Oldest first, then every call as it happens
        #[arg(short, long)]
        follow: bool,
        /// Print JSON (agentspine.receipts/v1); with --follow one object a line
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

/// Receipts that a list holds, where nothing is said.
const LISTED: u32 = 50;

impl ReceiptsArgs {
    pub(super) fn json(&self) -> bool {
        match &self.what {
            None => self.follow.json,
            Some(What::List { json, .. } | What::Show { json, .. } | What::Verify { json }) => *json,
        }
    }
}

/// Lists, follows, shows or verifies.
pub(super) fn run(args: &ReceiptsArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let vault = || Ok::<Vault, Failure>(Rooms::open(config)?.vault()?);
    match &args.what {
        None => follow::run(config, args.follow.limit, args.follow.session.clone(), report),
        Some(What::List { limit, session, follow: true, .. }) => {
            follow::run(config, *limit, session.clone(), report)
        }
        Some(What::List { limit, session, .. }) => {
            list(&mut vault()?, limit.unwrap_or(LISTED), session.as_ref().map(Id::as_str), report)
        }
        Some(What::Show { id, .. }) => {
            show::run(&find(&mut vault()?, id)?, report);
            Ok(())
        }
        Some(What::Verify { .. }) => verify(&vault()?.verify_chain()?, report),
    }
}

fn list(vault: &mut Vault, limit: u32, session: Option<&str>, report: &mut Report) -> Result<(), Failure> {
    let records = vault.list(limit, None, session)?;
    match report.output() {
        Output::Json => report
            .json(&json!({"schema": SCHEMA, "receipts": records.iter().map(summary).collect::<Vec<_>>()})),
        Output::People if records.is_empty() => report.line("no receipts yet"),
        Output::People => {
            let heading = ["id", "state", "kind", "model", "session", "written", "what failed"];
            let rows: Vec<_> = records.iter().map(row).collect();
            report.lines(table::lines(heading, &rows));
        }
    }
    Ok(())
}

fn row(record: &ReceiptRecord) -> [String; 7] {
    let text = |value: Value| value.as_str().unwrap_or("-").to_owned();
    let claim = |name| text(claim(record, name));
    let id = call::short(&record.id.to_hex());
    let state = record.state.as_str().to_owned();
    let failed = refusal_key(record).unwrap_or_default();
    [id, state, claim("kind"), claim("model"), claim("sessionId"), table::when(written(record)), failed]
}

/// One receipt in few words, as `list` and `--follow` print it.
fn summary(record: &ReceiptRecord) -> Value {
    let providers = claim(record, "providers");
    let bound = |list: &str| claim(record, list).as_array().map_or(0, Vec::len);
    json!({
        "id": record.id, "state": record.state.as_str(), "seq": record.first_seq, "atMs": written(record),
        "kind": claim(record, "kind"), "model": claim(record, "model"), "sessionId": claim(record, "sessionId"),
        "host": claim(record, "host"), "refused": refusal_key(record), "documents": bound("documents"),
        "mustRemember": bound("mustRemember"), "recalled": call::recalled(&providers),
        "providersFailed": call::failed(&providers), "outcome": call::outcome(record), "httpStatus": call::status(record),
        "tookMs": call::took_ms(record),
    })
}

fn find(vault: &mut Vault, digits: &str) -> Result<ReceiptRecord, Failure> {
    let unknown = || Failure::usage(format!("there is no receipt {digits}"), "agentspine receipts list");
    if let Some(id) = ReceiptId::parse(digits) {
        return vault.record(id)?.ok_or_else(unknown);
    }
    let listed = vault.list(agentspine_gate::journal::LIST_MAX, None, None)?;
    let mut matching = listed.into_iter().filter(|record| record.id.to_hex().starts_with(digits));
    match (matching.next(), matching.next()) {
        (Some(record), None) => Ok(record),
        (Some(_), Some(_)) => Err(Failure::usage(
            format!("more than one receipt begins with {digits}"),
            "Give more digits: agentspine receipts list",
        )),
        (None, _) => Err(unknown()),
    }
}

fn verify(chain: &ChainReport, report: &mut Report) -> Result<(), Failure> {
    match report.output() {
        Output::Json => report.json(&json!({
            "schema": SCHEMA, "ok": chain.ok, "rows": chain.rows, "consumed": chain.consumed, "firstSeq": chain.first_seq,
            "headSeq": chain.head_seq, "head": chain.head, "anchoredSeq": chain.anchored_seq, "firstBad": chain.first_bad,
            "problem": chain.problem,
        })),
        Output::People if chain.ok => {
            let receipts = if chain.consumed == 1 { "receipt" } else { "receipts" };
            let rows = if chain.rows == 1 { "row" } else { "rows" };
            report.line(format!("{} consumed {receipts}, chain ok ({} {rows}), anchor ok", chain.consumed, chain.rows));
        }
        Output::People => {}
    }
    match &chain.problem {
        None => Ok(()),
        Some(problem) => Err(Refusal::new(
            Detail::JournalRolledBack,
            format!("the journal does not hold: {problem}"),
            "agentspine state check, then restore the newest state directory you have or run agentspine state reset --confirm",
        )
        .into()),
    }
}
