//! Answers of the memory tools, as JSON for scripts and in a few lines for people.

use serde_json::{Value, json};

use super::SCHEMA;
use crate::cli::table;
use crate::report::{Output, Report};

/// The answer as it is for a script; whether that was all.
pub(super) fn as_json(answer: &Value, report: &mut Report) -> bool {
    if report.output() != Output::Json {
        return false;
    }
    let mut document = json!({ "schema": SCHEMA });
    if let (Some(document), Some(answer)) = (document.as_object_mut(), answer.as_object()) {
        document.extend(answer.clone());
    }
    report.json(&document);
    true
}

pub(super) fn remembered(answer: &Value, report: &mut Report) {
    if as_json(answer, report) {
        return;
    }
    let (id, status) = (text(&answer["memory_id"]), text(&answer["status"]));
    if id.starts_with("remember") {
        report.line(format!("proposed as {id} ({status})"));
        report.line(format!(
            "nothing is active yet; to activate it: agentspine remember-confirm {id} --confirm-local-user"
        ));
        return;
    }
    let redacted: Vec<&str> =
        answer["redacted"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if redacted.is_empty() {
        report.line(format!("remembered as {id} ({status})"));
    } else {
        report.line(format!("remembered as {id} ({status}); redacted: {}", redacted.join(", ")));
    }
}

pub(super) fn found(answer: &Value, report: &mut Report) {
    if as_json(answer, report) {
        return;
    }
    let entries = answer["entries"].as_array().map(Vec::as_slice).unwrap_or_default();
    if entries.is_empty() {
        report.line("nothing found");
        return;
    }
    report.lines(list(entries));
    if answer["truncated"] == true {
        report.note("more memories match; narrow the words or raise --limit");
    }
}

/// Memories as a table.
pub(super) fn list(entries: &[Value]) -> Vec<String> {
    let row = |entry: &Value| ["memory_id", "kind", "title", "summary"].map(|key| text(&entry[key]));
    let rows: Vec<_> = entries.iter().map(row).collect();
    table::lines(["id", "kind", "title", "summary"], &rows)
}

pub(super) fn status(answer: &Value, report: &mut Report) {
    if as_json(answer, report) {
        return;
    }
    let counts = answer["counts"].as_object();
    let counts: Vec<String> =
        counts.into_iter().flatten().map(|(state, count)| format!("{count} {state}")).collect();
    let counts = if counts.is_empty() { "no memories yet".to_owned() } else { counts.join(", ") };
    report.line(format!("{counts} ({})", text(&answer["scope"])));
    report.line(format!(
        "index {}, {} pending, {} to retry, {} given up",
        text(&answer["recall"]["index"]),
        answer["pending"],
        answer["retry"],
        answer["dead_letters"]
    ));
    let words: Vec<String> = answer["capabilities"].as_array().into_iter().flatten().map(text).collect();
    report.line(format!("allowed: {}", words.join(", ")));
}

pub(super) fn reconciled(answer: &Value, report: &mut Report) {
    if as_json(answer, report) {
        return;
    }
    report.line(format!(
        "{} checked, {} applied, {} in conflict, {} unresolved, {} cleaned up, {} remaining",
        answer["checked"],
        answer["applied"],
        answer["conflicts"],
        answer["unresolved"],
        answer["cleanups"],
        answer["remaining"]
    ));
}

/// A string without its quotes, anything else as JSON writes it.
pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
