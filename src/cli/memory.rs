//! `agentspine memory`: the person's own memories of a project, recalled by relevance.

use agentspine_gate::{Digest, Id, instructions};
use agentspine_memory::{
    Kind, Ledger, MemoryScope, NewMemory, Origin, Provenance, RememberError, Settled, Trust,
};
use clap::{Args, Subcommand};
use serde_json::json;

use super::flags::IdentityFlags;
use super::rooms::{Rooms, working_directory};
use super::table;
use crate::config::{Config, Flags};
use crate::report::{Failure, Output, Report};

/// Schema of everything printed here as JSON.
const SCHEMA: &str = "agentspine.memory/v1";
/// What a memory of the command line says it came from.
const SOURCE: &str = "cli";
/// What made it.
const EXTRACTOR: &str = "memory-cli/v1";
/// Most entries of one search.
const LIMIT_MAX: u8 = 25;

/// Remember and search what should be recalled when it is relevant
#[derive(Args)]
#[command(after_help = "Examples:
  agentspine memory remember --kind decision --title \"Receipts\" --summary \"Receipts live 60 s of boot time.\"
  agentspine memory search \"how long do receipts live\"

A rule that must be in every turn is no memory: agentspine remember-propose")]
pub(super) struct MemoryArgs {
    #[command(subcommand)]
    what: What,
    /// Print JSON (agentspine.memory/v1)
    #[arg(long, global = true)]
    pub json: bool,
    #[command(flatten)]
    identity: IdentityFlags,
}

#[derive(Subcommand)]
enum What {
    /// Remember one thing about this project
    Remember {
        /// decision, preference or work-unit
        #[arg(long, value_name = "KIND", default_value = "decision")]
        kind: String,
        /// One line
        #[arg(long, value_name = "TEXT")]
        title: String,
        /// What is to be recalled
        #[arg(long, value_name = "TEXT")]
        summary: String,
        /// A word to find it by; may be repeated
        #[arg(long = "tag", value_name = "WORD")]
        tags: Vec<String>,
    },
    /// Search this project's memories
    Search {
        /// Words
        #[arg(value_name = "QUERY")]
        query: String,
        /// At most this many
        #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..=i64::from(LIMIT_MAX)))]
        limit: u8,
    },
    /// How many memories there are
    Status,
}

impl MemoryArgs {
    pub(super) fn flags(&self) -> Flags {
        self.identity.flags()
    }
}

/// Remembers, searches, or counts.
pub(super) fn run(args: &MemoryArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let rooms = Rooms::open(config)?;
    let mut ledger = Ledger::open(&rooms.dir.memory_db())
        .map_err(|error| Failure::other(format!("The memory ledger: {error}"), "Run: agentspine doctor"))?;
    let cwd = working_directory(None)?;
    let scope = MemoryScope {
        tenant_id: config.identity.tenant_id.clone(),
        user_id: config.identity.user_id.clone(),
        project_id: Some(instructions::project_id(rooms.seams.fs.as_ref(), &cwd)),
        group_id: None,
    };
    match &args.what {
        What::Remember { kind, title, summary, tags } => {
            let kind =
                Kind::parse(kind).map_err(|error| Failure::usage(error.to_string(), error.advice()))?;
            let new = NewMemory {
                kind,
                title: title.clone(),
                summary: summary.clone(),
                tags: tags.clone(),
                subject: None,
                trust: Trust::Explicit,
                origin: origin(title, summary)?,
                created_at_ms: rooms.seams.clock.wall_ms(),
                provenance: Provenance::default(),
                relations: Vec::new(),
            };
            remember(&mut ledger, new, &scope, report)
        }
        What::Search { query, limit } => search(&ledger, &scope, query, usize::from(*limit), report),
        What::Status => status(&ledger, report),
    }
}

/// The same words twice are one memory.
fn origin(title: &str, summary: &str) -> Result<Origin, Failure> {
    let fixed = |text: &str| Id::new(text).map_err(|error| Failure::other(error.to_string(), ""));
    let range_key = Digest::of(format!("{title}\0{summary}").as_bytes()).to_hex();
    Ok(Origin {
        source: fixed(SOURCE)?,
        from_seq: 0,
        through_seq: 0,
        range_key,
        extractor: fixed(EXTRACTOR)?,
    })
}

fn remember(
    ledger: &mut Ledger,
    new: NewMemory,
    scope: &MemoryScope,
    report: &mut Report,
) -> Result<(), Failure> {
    // The act of a person: what was forgotten is remembered anew.
    let done = ledger.remember_anew(&new, scope).map_err(|error| refused(&error))?;
    let status = match done.settled {
        Settled::Applied => "applied",
        Settled::Replayed | Settled::Forgotten => "replayed",
        Settled::Uncertain => "uncertain",
    };
    match report.output() {
        Output::Json => report.json(&json!({
            "schema": SCHEMA, "status": status, "memoryId": done.memory_id, "redacted": done.redacted,
        })),
        Output::People if done.redacted.is_empty() => {
            report.line(format!("remembered as {} ({status})", done.memory_id));
        }
        Output::People => report.line(format!(
            "remembered as {} ({status}); redacted: {}",
            done.memory_id,
            done.redacted.join(", ")
        )),
    }
    Ok(())
}

fn refused(error: &RememberError) -> Failure {
    Failure::usage(format!("not remembered: {error}"), error.advice())
}

fn search(
    ledger: &Ledger,
    scope: &MemoryScope,
    query: &str,
    limit: usize,
    report: &mut Report,
) -> Result<(), Failure> {
    let found = ledger
        .search(scope, query, limit)
        .map_err(|error| Failure::other(error.to_string(), "Run: agentspine doctor"))?;
    match report.output() {
        Output::Json => {
            let entries: Vec<_> = found
                .entries
                .iter()
                .map(|entry| {
                    json!({
                        "memoryId": entry.memory_id, "kind": entry.kind.as_str(), "title": entry.title,
                        "summary": entry.summary, "trust": entry.trust.as_str(),
                    })
                })
                .collect();
            report.json(&json!({
                "schema": SCHEMA, "entries": entries, "scanned": found.scanned,
                "totalInScope": found.total_in_scope, "truncated": found.truncated,
            }));
        }
        Output::People if found.entries.is_empty() => report.line("nothing found"),
        Output::People => {
            let row = |entry: &agentspine_memory::Entry| {
                [
                    entry.memory_id.to_string(),
                    entry.kind.as_str().to_owned(),
                    entry.title.clone(),
                    entry.summary.clone(),
                ]
            };
            let rows: Vec<_> = found.entries.iter().map(row).collect();
            report.lines(table::lines(["id", "kind", "title", "summary"], &rows));
        }
    }
    Ok(())
}

fn status(ledger: &Ledger, report: &mut Report) -> Result<(), Failure> {
    let status =
        ledger.status().map_err(|error| Failure::other(error.to_string(), "Run: agentspine doctor"))?;
    match report.output() {
        Output::Json => {
            report.json(
                &json!({ "schema": SCHEMA, "records": status.records, "index": status.index.as_str() }),
            );
        }
        Output::People if status.records.is_empty() => report.line("no memories yet"),
        Output::People => {
            let counts = status.records.iter().map(|(state, count)| format!("{count} {state}"));
            report.line(counts.collect::<Vec<_>>().join(", "));
        }
    }
    Ok(())
}
