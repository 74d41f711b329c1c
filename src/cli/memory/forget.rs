//! Forgetting in two steps: a list, then exactly what was chosen from it.

use std::io::BufRead as _;

use agentspine_memory::Cleanup;
use clap::Args;
use serde_json::{Value, json};

use super::{Door, show};
use crate::report::{Exit, Failure, Output, Report, is_interactive};

/// Longest line a person may type to choose, bytes.
const CHOICE_BYTES_MAX: u64 = 4096;

#[derive(Args)]
pub(super) struct QueryArgs {
    /// Words of the memory; with --match all, nothing means every memory
    #[arg(value_name = "QUERY", default_value = "")]
    query: String,
    /// terms: any word; all: every word
    #[arg(long = "match", value_name = "HOW", default_value = "terms", value_parser = ["terms", "all"])]
    matching: String,
}

#[derive(Args)]
pub(super) struct ConfirmArgs {
    /// The preview's token: good for 10 minutes, once
    #[arg(value_name = "TOKEN")]
    token: String,
    /// Ids from its list
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
}

/// Lists, without a choice.
pub(super) fn preview(args: &QueryArgs, door: &mut Door, report: &mut Report) -> Result<(), Failure> {
    let answer = listed(args, door)?;
    if !show::as_json(&answer, report) {
        lines(&answer, report);
        if let Some(token) = answer["preview_token"].as_str() {
            report.line(format!("to forget some of them within 10 minutes: {}", command(token, "ID ...")));
        }
    }
    Ok(())
}

/// Forgets what was chosen.
pub(super) fn confirm(args: &ConfirmArgs, door: &mut Door, report: &mut Report) -> Result<(), Failure> {
    forget(&args.token, &json!(args.ids), door, report)
}

/// Both steps at a terminal; elsewhere the first, and the command for the second.
pub(super) fn both_steps(args: &QueryArgs, door: &mut Door, report: &mut Report) -> Result<(), Failure> {
    let answer = listed(args, door)?;
    let Some(token) = answer["preview_token"].as_str() else {
        if !show::as_json(&answer, report) {
            report.line("nothing found");
        }
        return Ok(());
    };
    if report.output() == Output::Json {
        show::as_json(&answer, report);
        return Err(Failure::Told(Exit::Usage));
    }
    lines(&answer, report);
    if !is_interactive() {
        return Err(Failure::usage("nothing was forgotten yet", command(token, "ID ...")));
    }
    report.text("forget which? numbers, or nothing to keep all: ");
    let chosen = chosen(&typed()?, answer["candidates"].as_array().map(Vec::as_slice).unwrap_or_default())?;
    if chosen.is_empty() {
        report.line("nothing was forgotten");
        return Ok(());
    }
    forget(token, &json!(chosen), door, report)
}

fn listed(args: &QueryArgs, door: &mut Door) -> Result<Value, Failure> {
    if args.query.trim().is_empty() && args.matching == "terms" {
        return Err(Failure::usage(
            "say which memories",
            "Give words of them, or list every memory here: agentspine memory forget --match all",
        ));
    }
    door.call("memory_forget_preview", &json!({ "query": args.query, "match": args.matching }))
}

fn lines(answer: &Value, report: &mut Report) {
    let candidates = answer["candidates"].as_array().map(Vec::as_slice).unwrap_or_default();
    if candidates.is_empty() {
        report.line("nothing found");
        return;
    }
    let mut lines = show::list(candidates).into_iter();
    report.lines(lines.next().map(|heading| format!("    {heading}")));
    report.lines(lines.enumerate().map(|(at, line)| format!("{:>3} {line}", at + 1)));
    report.line(format!(
        "{} listed of {} that match, {} here",
        candidates.len(),
        answer["matched"],
        answer["total_in_scope"]
    ));
    let conversations: Vec<String> =
        answer["conversations"].as_array().into_iter().flatten().map(show::text).collect();
    if !conversations.is_empty() {
        report.line(format!(
            "sessions that lose the text injected there, and with it a provider's cache: {}",
            conversations.join(", ")
        ));
    }
    report.note(show::text(&answer["not_reached"]));
}

fn command(token: &str, ids: &str) -> String {
    format!("agentspine memory forget-confirm {token} {ids}")
}

fn typed() -> Result<String, Failure> {
    let mut line = String::new();
    let read = std::io::Read::take(std::io::stdin().lock(), CHOICE_BYTES_MAX).read_line(&mut line);
    read.map_err(|_| Failure::usage("nothing was forgotten: no choice could be read", ""))?;
    Ok(line)
}

/// The ids behind the numbers; one that is not on the list chooses nothing at all.
fn chosen(line: &str, candidates: &[Value]) -> Result<Vec<String>, Failure> {
    let words = line.split([',', ' ', '\t', '\n']).filter(|word| !word.is_empty());
    let id = |word: &str| {
        let at = word.parse::<usize>().ok()?.checked_sub(1)?;
        candidates.get(at)?["memory_id"].as_str().map(str::to_owned)
    };
    let unknown =
        || Failure::usage("nothing was forgotten: that is not on the list", "Type numbers such as: 1 3");
    words.map(|word| id(word).ok_or_else(unknown)).collect()
}

fn forget(token: &str, ids: &Value, door: &mut Door, report: &mut Report) -> Result<(), Failure> {
    let arguments = json!({ "preview_token": token, "memory_ids": ids });
    let answer = door.call("memory_forget_confirm", &arguments)?;
    if show::as_json(&answer, report) {
        return Ok(());
    }
    for result in answer["results"].as_array().into_iter().flatten() {
        report.line(format!(
            "forgotten {} ({})",
            show::text(&result["memory_id"]),
            show::text(&result["cleanup_state"])
        ));
    }
    for refused in answer["refused"].as_array().into_iter().flatten() {
        report.line(format!(
            "kept      {} ({})",
            show::text(&refused["memory_id"]),
            show::text(&refused["reason"])
        ));
    }
    let results = answer["results"].as_array().map(Vec::as_slice).unwrap_or_default();
    if results.iter().any(|result| result["cleanup_state"] != Cleanup::ActiveShelfCleanupComplete.as_str()) {
        report.note(
            "forgotten, but not every byte of it is overwritten yet; to go on: agentspine memory reconcile",
        );
    }
    if let Some(reason) = answer["not_erased"]["reason"].as_str() {
        report.note(format!("text injected into conversations is still there: {reason}"));
    }
    report.note(show::text(&answer["not_reached"]));
    Ok(())
}
