//! `agentspine sessions`: the conversations kept on this machine.

use agentspine_gate::Id;
use agentspine_gate::screen::neutralise;
use agentspine_gate::turn::Host;
use clap::{Args, Subcommand};
use serde_json::json;

use super::flags::id;
use super::rooms::Rooms;
use super::table;
use crate::chat::new_session_id;
use crate::config::Config;
use crate::conversations::{Claim, Conversations, ConversationsError, Fork, LogFile, Session};
use crate::report::{Failure, Output, Report};

/// Schema of everything printed here as JSON.
const SCHEMA: &str = "agentspine.sessions/v1";

/// List, fork, rename, redact or delete chat sessions
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
    /// Make a new session that begins with what was said in this one
    Fork {
        /// The session
        #[arg(value_name = "ID", value_parser = id)]
        id: Id,
        /// Up to this event; without it, up to the last turn that ended
        #[arg(long, value_name = "SEQ")]
        at: Option<u64>,
        /// Print JSON (agentspine.sessions/v1)
        #[arg(long)]
        json: bool,
    },
    /// Give a session another title
    Rename {
        /// The session
        #[arg(value_name = "ID", value_parser = id)]
        id: Id,
        /// Its title
        #[arg(value_name = "TITLE")]
        title: String,
        /// Print JSON (agentspine.sessions/v1)
        #[arg(long)]
        json: bool,
    },
    /// Erase what was said in a session for good; that it was, when, and its receipts stay
    Redact {
        /// The session
        #[arg(value_name = "ID", value_parser = id)]
        id: Id,
        /// Yes, erase it for good
        #[arg(long)]
        confirm: bool,
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
            What::List { json, .. }
            | What::Fork { json, .. }
            | What::Rename { json, .. }
            | What::Redact { json, .. }
            | What::Delete { json, .. } => *json,
        }
    }
}

/// Does what was asked.
pub(super) fn run(args: &SessionsArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let rooms = Rooms::open(config)?;
    let mut conversations = rooms.conversations()?;
    match &args.what {
        What::List { limit, .. } => {
            list(&conversations.sessions(*limit)?, config, report);
            Ok(())
        }
        What::Fork { id, at, .. } => {
            let now = rooms.seams.clock.wall_ms();
            let child = new_session_id()?;
            let child = conversations.fork_session(&Fork { parent: id.clone(), child, at: *at, now })?;
            forked(&child, id, report);
            Ok(())
        }
        What::Rename { id, title, .. } => rename(&mut conversations, id, title, report),
        What::Redact { id, confirm, .. } => redact(&rooms, &mut conversations, id, *confirm, report),
        What::Delete { id, confirm, .. } => delete(&mut conversations, id, *confirm, report),
    }
}

fn list(sessions: &[Session], config: &Config, report: &mut Report) {
    match report.output() {
        Output::Json => report.json(&json!({"schema": SCHEMA, "sessions": sessions})),
        Output::People if sessions.is_empty() => report.line("no sessions yet"),
        Output::People => {
            let row = |session: &Session| {
                let title = match session.redacted_at {
                    Some(_) => "(redacted)".to_owned(),
                    None => session.title.clone().unwrap_or_default(),
                };
                let parent = session.parent.as_ref();
                let parent = parent.map(|id| format!("{id}@{}", session.seed_length)).unwrap_or_default();
                let events = session.events.to_string();
                [
                    session.id.to_string(),
                    table::when(session.last_at),
                    events,
                    parent,
                    config.short_path(&session.cwd),
                    title,
                ]
            };
            let rows: Vec<_> = sessions.iter().map(row).collect();
            report.lines(table::lines(
                ["id", "last used", "events", "forked from", "directory", "title"],
                &rows,
            ));
        }
    }
}

fn forked(child: &Session, parent: &Id, report: &mut Report) {
    match report.output() {
        Output::Json => report.json(&json!({"schema": SCHEMA, "session": child})),
        Output::People => {
            report.line(format!(
                "{} begins with the first {} events of {parent}; go on: agentspine chat --resume {}",
                child.id, child.seed_length, child.id
            ));
        }
    }
}

fn rename(
    conversations: &mut Conversations,
    id: &Id,
    title: &str,
    report: &mut Report,
) -> Result<(), Failure> {
    let title = neutralise(title.trim());
    if title.trim().is_empty() {
        return Err(Failure::usage("a title needs words", "agentspine sessions rename ID TITLE"));
    }
    conversations.rename(id, &title)?;
    match report.output() {
        Output::Json => report.json(&json!({"schema": SCHEMA, "renamed": id, "title": title})),
        Output::People => report.line(format!("session {id} is called: {title}")),
    }
    Ok(())
}

fn redact(
    rooms: &Rooms,
    conversations: &mut Conversations,
    id: &Id,
    confirm: bool,
    report: &mut Report,
) -> Result<(), Failure> {
    let session = conversations.session(id)?.ok_or_else(|| ConversationsError::UnknownSession(id.clone()))?;
    if session.host != Host::Agentspine {
        return Err(ConversationsError::NotOurs(id.clone()).into());
    }
    if !confirm {
        let forks = forks(&conversations.forks(id)?);
        return Err(Failure::usage(
            format!(
                "this would erase what was said in session {id} ({} events) for good{forks}",
                session.events
            ),
            format!("agentspine sessions redact {id} --confirm"),
        ));
    }
    let Some(_claim) = Claim::take(&rooms.dir.run_dir(), id)? else {
        return Err(Failure::other(
            format!("session {id} is open in another agentspine"),
            "End it there, then redact",
        ));
    };
    let done = conversations.redact(id, rooms.seams.clock.wall_ms())?;
    if done.log == LogFile::InUse {
        return Err(Failure::other(
            format!(
                "session {id} is erased, but another process still reads the store's log, which holds old text"
            ),
            format!("End it, then once more: agentspine sessions redact {id} --confirm"),
        ));
    }
    match report.output() {
        Output::Json => report.json(&json!({
            "schema": SCHEMA, "redacted": id, "events": done.events, "forks": done.forks,
        })),
        Output::People => {
            report.line(format!(
                "erased what was said in session {id}; its receipts stay{}",
                forks(&done.forks)
            ));
            report.line("memories made from it stay too: agentspine memory search finds them");
        }
    }
    Ok(())
}

/// Redaction does not reach copies.
fn forks(forks: &[Id]) -> String {
    if forks.is_empty() {
        return String::new();
    }
    let ids: Vec<&str> = forks.iter().map(Id::as_str).collect();
    format!("; its forks keep their own copies: {}", ids.join(", "))
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
