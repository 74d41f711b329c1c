//! One receipt with everything it binds.

use agentspine_gate::journal::{Entry, ReceiptRecord};
use serde_json::{Value, json};

use super::SCHEMA;
use crate::cli::table;
use crate::report::{Output, Report};

/// Prints every bound field.
pub(super) fn run(record: &ReceiptRecord, report: &mut Report) {
    match report.output() {
        Output::Json => report.json(&document(record)),
        Output::People => report.lines(people(record)),
    }
}

fn document(record: &ReceiptRecord) -> Value {
    let one = |entry: &Option<Entry>| entry.as_ref().map(entry_json);
    json!({
        "schema": SCHEMA, "id": record.id, "state": record.state.as_str(), "issued": one(&record.issued),
        "consumed": one(&record.consumed), "void": one(&record.void), "outcome": one(&record.outcome),
        "refused": record.refused.iter().map(entry_json).collect::<Vec<_>>(),
    })
}

fn entry_json(entry: &Entry) -> Value {
    json!({"seq": entry.seq, "atMs": entry.at_ms, "body": entry.body})
}

fn people(record: &ReceiptRecord) -> Vec<String> {
    let once = [
        ("issued", &record.issued),
        ("consumed", &record.consumed),
        ("void", &record.void),
        ("outcome", &record.outcome),
    ];
    let refused = record.refused.iter().map(|entry| ("refused", entry));
    let events = once.into_iter().filter_map(|(name, entry)| entry.as_ref().map(|entry| (name, entry)));
    let events: Vec<_> = events.chain(refused).collect();
    let heading = [format!("receipt   {}", record.id), format!("state     {}", record.state.as_str())];
    let rows = events
        .iter()
        .map(|(name, entry)| format!("{name:<9} {}  row {}", table::when(entry.at_ms), entry.seq));
    let bodies = events.iter().flat_map(|(name, entry)| match entry.body.get("claims") {
        Some(claims) => section("bound", claims),
        None => section(name, &entry.body),
    });
    heading.into_iter().chain(rows).chain(bodies).collect()
}

fn section(title: &str, body: &Value) -> Vec<String> {
    let mut fields = Vec::new();
    flatten(String::new(), body, &mut fields);
    let width = fields.iter().map(|(name, _)| name.chars().count()).max().unwrap_or_default();
    let lines = fields.iter().map(|(name, value)| format!("  {name:<width$}  {value}"));
    [String::new(), title.to_owned()].into_iter().chain(lines).collect()
}

/// Every leaf with its dotted path: `documents.0.sha256`.
fn flatten(path: String, value: &Value, fields: &mut Vec<(String, String)>) {
    let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(map) if !map.is_empty() => {
            map.iter().for_each(|(name, value)| flatten(below(name), value, fields));
        }
        Value::Array(items) if !items.is_empty() => {
            items.iter().enumerate().for_each(|(n, value)| flatten(below(&n.to_string()), value, fields));
        }
        Value::Object(_) | Value::Array(_) => fields.push((path, "none".to_owned())),
        Value::Null => fields.push((path, "-".to_owned())),
        Value::String(text) => fields.push((path, text.clone())),
        Value::Bool(_) | Value::Number(_) => fields.push((path, value.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_leaf_is_shown_with_its_path() {
        let body = json!({"a": {"b": [1, {"c": "x"}], "d": []}, "e": null});
        assert_eq!(
            section("bound", &body),
            ["", "bound", "  a.b.0    1", "  a.b.1.c  x", "  a.d      none", "  e        -"]
        );
    }
}
