//! `must-remember.json` of the earlier AgentSpine: every rule of this person comes in as a candidate.

use agentspine_gate::Id;
use serde_json::{Map, Value};

use super::{Item, Place, Reach, What, rule};

/// The file is no `must-remember.json`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Not JSON.
    #[error("not JSON, line {0}")]
    Json(usize),
    /// Not the document.
    #[error("no Must-Remember file: it has neither entries nor candidates")]
    Other,
}

/// Everything the file holds: applying rules and waiting candidates of exactly this user and tenant, and why the rest
/// is left.
pub fn upstream(name: &str, text: &str, user: &Id, tenant: &Id) -> Result<Vec<Item>, Unreadable> {
    let file: Value = serde_json::from_str(text).map_err(|error| Unreadable::Json(error.line()))?;
    let list = |key: &str| file.get(key).and_then(Value::as_array);
    if list("entries").is_none() && list("candidates").is_none() {
        return Err(Unreadable::Other);
    }
    let entries = list("entries").map(Vec::as_slice).unwrap_or_default();
    let candidates = list("candidates").map(Vec::as_slice).unwrap_or_default();
    let person = Person { user, tenant };
    let item = |row: &Value, what: What| {
        let at = Place { file: name.to_owned(), line: line_of(text, row) };
        Item { at, what, ignored: Vec::new() }
    };
    let entries_taken = entries.iter().map(|row| item(row, entry(row, &person)));
    let waiting = candidates.iter().map(|row| item(row, candidate(row, entries, &person)));
    Ok(entries_taken.chain(waiting).collect())
}

/// Whose rules are taken.
struct Person<'a> {
    user: &'a Id,
    tenant: &'a Id,
}

fn entry(row: &Value, person: &Person<'_>) -> What {
    match row.get("status").and_then(Value::as_str) {
        Some("active") => taken(row, person),
        Some("superseded") => What::Left("a later version replaced it".to_owned()),
        _ => What::Left("its status is unknown".to_owned()),
    }
}

fn candidate(row: &Value, entries: &[Value], person: &Person<'_>) -> What {
    let id = row.get("id").and_then(Value::as_str).unwrap_or_default();
    let entry = entries.iter().find(|entry| !id.is_empty() && entry.get("candidateId") == row.get("id"));
    match (row.get("status").and_then(Value::as_str), entry) {
        (Some("pending-confirmation"), _) => taken(row, person),
        (Some("confirmed"), Some(_)) => What::Pointer("its entry".to_owned()),
        (Some("confirmed"), None) => What::Left("it was confirmed, and its entry is gone".to_owned()),
        _ => What::Left("its status is unknown".to_owned()),
    }
}

fn taken(row: &Value, person: &Person<'_>) -> What {
    let Some(row) = row.as_object() else { return What::Left("not an object".to_owned()) };
    let text = |key: &str| row.get(key).and_then(Value::as_str);
    if text("userId") != Some(person.user.as_str()) || text("tenantId") != Some(person.tenant.as_str()) {
        return What::Left("it belongs to another user or tenant than the configured one".to_owned());
    }
    let (Ok(project), Ok(group), Ok(task)) = (id(row, "projectId"), id(row, "groupId"), id(row, "taskId"))
    else {
        return What::Left("its scope holds something that is no id".to_owned());
    };
    let Some(claim) = text("claim") else { return What::Left("it has no claim".to_owned()) };
    rule(text("kind").unwrap_or("critical"), claim, Reach::Named { project, group, task })
}

fn id(row: &Map<String, Value>, key: &str) -> Result<Option<Id>, ()> {
    match row.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Id::new(text.as_str()).map(Some).map_err(|_| ()),
        Some(_) => Err(()),
    }
}

/// The line its id stands in; 1 where it has none.
fn line_of(text: &str, row: &Value) -> usize {
    let id = row.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
    let at = id.and_then(|id| text.find(&format!("\"{id}\"")));
    at.map_or(1, |at| text.get(..at).unwrap_or_default().matches('\n').count() + 1)
}
