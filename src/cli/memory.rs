//! `agentspine memory`: the memory tools at the person's own command line, and taking memories along.

mod door;
mod export;
mod forget;
mod import;
mod show;

use std::borrow::Cow;

use agentspine_memory::tools::QUERY_BYTES_MAX;
use clap::{Args, Subcommand};
use serde_json::json;

pub(super) use door::Door;

use super::flags::IdentityFlags;
use crate::config::{Config, Flags};
use crate::report::{Failure, Report};

/// Schema of everything printed here as JSON.
const SCHEMA: &str = "agentspine.memory/v1";
/// Most entries of one search.
const LIMIT_MAX: u8 = 25;

/// Remember, search and forget what should be recalled when it is relevant
#[derive(Args)]
#[command(after_help = "Examples:
  agentspine memory remember --kind decision --title \"Receipts\" --summary \"Receipts live 60 s of boot time.\"
  agentspine memory search \"how long do receipts live\"
  agentspine memory forget \"receipts\"

Memories belong to the project of the working directory. A rule or a taboo becomes a proposal that you
confirm: agentspine remember-list")]
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
        /// decision, preference or work-unit; rule or taboo make a proposal
        #[arg(long, value_name = "KIND", default_value = "decision",
              value_parser = ["decision", "preference", "work-unit", "rule", "taboo"])]
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
    /// Choose memories from a list and forget them
    Forget(forget::QueryArgs),
    /// List what could be forgotten; forgets nothing
    ForgetPreview(forget::QueryArgs),
    /// Forget memories that a preview listed
    ForgetConfirm(forget::ConfirmArgs),
    /// How many memories there are, and what is allowed
    Status,
    /// Settle operations whose outcome is open
    Reconcile,
    /// Write this project's memories as JSON lines
    Export(export::ExportArgs),
    /// Take in notes of other programs, or an export
    Import(import::ImportArgs),
}

impl MemoryArgs {
    pub(super) fn flags(&self) -> Flags {
        self.identity.flags()
    }
}

/// Runs one of the tools for the person.
pub(super) fn run(args: &MemoryArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    for warning in &config.memory.warnings {
        report.note(warning);
    }
    let mut door = Door::of_person(config)?;
    match &args.what {
        What::Remember { kind, title, summary, tags } => {
            let arguments = json!({ "kind": kind, "title": title, "summary": summary, "tags": tags });
            show::remembered(&door.call("memory_remember", &arguments)?, report);
        }
        What::Search { query, limit } => {
            let arguments = json!({ "query": ends(query), "limit": limit });
            show::found(&door.call("memory_search", &arguments)?, report);
        }
        What::Forget(args) => forget::both_steps(args, &mut door, report)?,
        What::ForgetPreview(args) => forget::preview(args, &mut door, report)?,
        What::ForgetConfirm(args) => forget::confirm(args, &mut door, report)?,
        What::Status => show::status(&door.call("memory_status", &json!({}))?, report),
        What::Reconcile => show::reconciled(&door.call("memory_reconcile", &json!({}))?, report),
        What::Export(args) => export::run(args, &mut door, report)?,
        What::Import(args) => import::run(args, &mut door, report)?,
    }
    Ok(())
}

/// A query that is too long for the tool: its first and its last part, as with a prompt.
fn ends(query: &str) -> Cow<'_, str> {
    if query.len() <= QUERY_BYTES_MAX {
        return Cow::Borrowed(query);
    }
    let half = QUERY_BYTES_MAX / 2 - 1;
    let (head, tail) = (query.floor_char_boundary(half), query.ceil_char_boundary(query.len() - half));
    let part = |part: Option<&str>| part.unwrap_or_default().to_owned();
    Cow::Owned(part(query.get(..head)) + " " + &part(query.get(tail..)))
}
