//! `agentspine sessions`: the conversations kept on this machine.

use agentspine_gate::Id;
use clap::{Args, Subcommand};
use serde_json::json;

use super::flags::id;
use super::rooms::Rooms;
use super::table;
use crate::config::Config;
use crate::conversations::{Conversations, ConversationsError, Session};
use crate::report::{Failure, Output, Report};

/// Schema of everything printed here as JSON.
const SCHEMA: &str = "agentspine.sessions/v1";

/// List or delete chat sessions
#[derive(Args)]
pub(super) struct SessionsArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Sessions, the most recently used first
    List {
        /// At most this many
        #[arg(long, value_name = "N", default_value_t = 50)]
        limit: u32,
        /// Print JSON (agentspine.sessions/v1)
        #[arg(long)]
        json: bool,
    },
    /// Delete a session's events, draft and injected text; receipts stay
    Delete {
        /// The session
        #[arg(value_name = "ID", value_parser = id)]
        id: Id,
        /// Yes, delete it for good
        #[arg(long)]
        confirm: bool,
        /// Print JSON (agentspine.sessions/v1)
        #[arg(long)]
        json: bool,
    },
}

impl SessionsArgs {
    pub(super) fn json(&self) -> bool {
        match &self.what {
            What::List { json, .. } | What::Delete { json, .. } => *json,
        }
    }
}

/// Lists or deletes.
pub(super) fn run(args: &SessionsArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let mut conversations = Rooms::open(config)?.conversations()?;
    match &args.what {
        What::List { limit, .. } => list(&conversations.sessions(*limit)?, config, report),
        What::Delete { id, confirm, .. } => return delete(&mut conversations, id, *confirm, report),
    }
    Ok(())
}

fn list(sessions: &[Session], config: &Config, report: &mut Report) {
    match report.output() {
        Output::Json => report.json(&json!({"schema": SCHEMA, "sessions": sessions})),
        Output::People if sessions.is_empty() => report.line("no sessions yet"),
        Output::People => {
            let row = |session: &Session| {
                let title = session.title.clone().unwrap_or_default();
                let events = session.events.to_string();
                [
                    session.id.to_string(),
                    table::when(session.last_at),
                    events,
                    config.short_path(&session.cwd),
                    title,
                ]
            };
            let rows: Vec<_> = sessions.iter().map(row).collect();
            report.lines(table::lines(["id", "last used", "events", "directory", "title"], &rows));
        }
    }
}

fn delete(
    conversations: &mut Conversations,
    id: &Id,
    confirm: bool,
    report: &mut Report,
) -> Result<(), Failure> {
    let session = conversations.session(id)?.ok_or_else(|| ConversationsError::UnknownSession(id.clone()))?;
    if !confirm {
        return Err(Failure::usage(
            format!("this would delete session {id} with its {} events for good", session.events),
            format!("agentspine sessions delete {id} --confirm"),
        ));
    }
    conversations.delete_session(id)?;
    match report.output() {
        Output::Json => report.json(&json!({"schema": SCHEMA, "deleted": id})),
        Output::People => report.line(format!("deleted session {id}; its receipts stay")),
    }
    Ok(())
}
