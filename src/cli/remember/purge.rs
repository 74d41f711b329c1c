//! Deleting a rule for good, together with the injected text that holds it.

use agentspine_gate::Id;
use agentspine_gate::remember::{Listing, RememberError};
use serde_json::{Value, json};

use super::PurgeArgs;
use crate::cli::rooms::Rooms;
use crate::config::Config;
use crate::receipts::{claim, matching};
use crate::report::{Exit, Failure, Output, Report};

/// Deletes for good; without the confirmation it names the sessions that would lose injected text.
pub(crate) fn purge(args: &PurgeArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let rooms = Rooms::open(config)?;
    let store = rooms.remember()?;
    // A rule that does not verify cannot be listed, but it can be purged.
    let ids = store.list().map_or_else(|_| vec![args.entry.clone()], |listing| family(&listing, &args.entry));
    // Receipts whose own injected text holds one of these rules.
    let holding = matching(&mut rooms.vault()?, |record| holds(&claim(record, "mustRemember"), &ids))?;
    let mut conversations = rooms.conversations()?;
    let sessions = conversations.sessions_holding(&holding)?;
    if !args.confirm_local_purge {
        return preview(&args.entry, &ids, &sessions, report);
    }
    let purged = store.purge(&args.entry, rooms.seams.clock.wall_ms())?;
    let spans = conversations.erase_spans(&holding)?;
    let mut document = json!(purged);
    document["erasedSpans"] = json!(spans);
    report.json(&document);
    if !purged.erased {
        report.note("another process reads the store: its file still holds the text. Run this command once more later");
    }
    Ok(())
}

/// The rule as entry and candidate, all versions that go with it.
fn family(listing: &Listing, id: &Id) -> Vec<Id> {
    let of = |entry: &&agentspine_gate::remember::Entry| entry.id == *id || entry.candidate_id == *id;
    let entries = listing.entries.iter().filter(of).map(|entry| entry.id.clone());
    let candidates = listing.candidates.iter().map(|candidate| &candidate.id).filter(|one| *one == id);
    entries.chain(candidates.cloned()).collect()
}

fn holds(rules: &Value, ids: &[Id]) -> bool {
    let mut rules = rules.as_array().into_iter().flatten();
    rules.any(|rule| rule["state"] == "injected" && ids.iter().any(|id| rule["id"] == id.as_str()))
}

fn preview(entry: &Id, ids: &[Id], sessions: &[Id], report: &mut Report) -> Result<(), Failure> {
    if ids.is_empty() {
        return Err(RememberError::Unknown(entry.clone()).into());
    }
    let command = format!("agentspine remember-purge {entry} --confirm-local-purge");
    if report.output() == Output::Json {
        report.json(&json!({"purged": false, "wouldPurge": ids, "sessions": sessions, "confirm": command}));
        return Err(Failure::Told(Exit::Usage));
    }
    report.line(format!("would be deleted for good: {}", words(ids)));
    if !sessions.is_empty() {
        report.line(format!(
            "sessions that lose the text injected there, and with it a provider's cache: {}",
            words(sessions)
        ));
    }
    Err(Failure::usage("nothing was deleted", command))
}

fn words(ids: &[Id]) -> String {
    ids.iter().map(Id::as_str).collect::<Vec<_>>().join(", ")
}
