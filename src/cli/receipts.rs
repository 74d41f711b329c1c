//! `agentspine receipts`: what every call was bound to, and whether the chain still holds.

mod show;

use agentspine_gate::journal::{ChainReport, ReceiptRecord, Vault};
use agentspine_gate::{Detail, ReceiptId, Refusal};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::rooms::Rooms;
use super::table;
use crate::config::Config;
use crate::report::{Failure, Output, Report};

/// Schema of everything printed here as JSON.
const SCHEMA: &str = "agentspine.receipts/v1";

/// List, show and verify receipts
#[derive(Args)]
#[command(after_help = "Examples:
  agentspine receipts list
  agentspine receipts show 7c1e
  agentspine receipts verify")]
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
        limit: u32,
        /// Only of this session
        #[arg(long, value_name = "ID")]
        session: Option<String>,
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
    let mut vault = Rooms::open(config)?.vault()?;
    match &args.what {
        What::List { limit, session, .. } => list(&mut vault, *limit, session.as_deref(), report),
        What::Show { id, .. } => {
            show::run(&find(&mut vault, id)?, report);
            Ok(())
        }
        What::Verify { .. } => verify(&vault.verify_chain()?, report),
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
    let mut id = record.id.to_hex();
    id.truncate(SHORT_DIGITS);
    let state = record.state.as_str().to_owned();
    let failed = refusal_key(record).unwrap_or_default();
    [id, state, claim("kind"), claim("model"), claim("sessionId"), table::when(written(record)), failed]
}

/// Digits of an id in a listing: enough to name one receipt to `show`.
const SHORT_DIGITS: usize = 8;

fn summary(record: &ReceiptRecord) -> Value {
    json!({
        "id": record.id, "state": record.state.as_str(), "seq": record.first_seq, "atMs": written(record),
        "kind": claim(record, "kind"), "model": claim(record, "model"), "sessionId": claim(record, "sessionId"),
        "host": claim(record, "host"), "refused": refusal_key(record),
    })
}

/// A bound field, or one of the row that recorded a refusal; null where neither has it.
pub(super) fn claim(record: &ReceiptRecord, name: &str) -> Value {
    let bound = record.issued.as_ref().and_then(|issued| issued.body.get("claims")?.get(name));
    let refused = || record.refused.first().and_then(|refused| refused.body.get(name));
    bound.or_else(refused).cloned().unwrap_or(Value::Null)
}

pub(super) fn written(record: &ReceiptRecord) -> i64 {
    record.issued.as_ref().or(record.refused.first()).map_or(0, |entry| entry.at_ms)
}

/// `code/detail` of what kept the receipt from its call, or the name of an incident.
pub(super) fn refusal_key(record: &ReceiptRecord) -> Option<String> {
    let text = |body: &Value, name: &str| body.get(name).and_then(Value::as_str).map(str::to_owned);
    if let Some(void) = &record.void {
        return text(&void.body, "reason");
    }
    let body = &record.refused.first()?.body;
    match (text(body, "code"), text(body, "detail")) {
        (Some(code), Some(detail)) => Some(format!("{code}/{detail}")),
        _ => text(body, "incident"),
    }
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
