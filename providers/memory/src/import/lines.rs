//! JSON lines: an export of ours, or one object a line with a text in it.

use serde_json::{Map, Value};

use super::{Draft, Item, Place, Reach, What, fitting, rule};
use crate::export::{EXPORT_SCHEMA, LineOrigin};
use crate::record::{Kind, KindError, Trust};

/// Longest line, bytes.
const LINE_BYTES_MAX: usize = 256 * 1024;
/// Longest title that is made from a text, bytes.
const TITLE_MADE_MAX: usize = 80;
/// Under which key other programs keep the text, in the order they are looked for.
const TEXTS: [&str; 6] = ["summary", "text", "content", "memory", "claim", "body"];
/// Every other key that means something here.
const KNOWN: [&str; 8] = ["schema", "kind", "title", "tags", "subject", "trust", "created_at_ms", "origin"];

/// What each line holds; blank lines say nothing.
pub fn lines(name: &str, text: &str, now_ms: i64) -> Vec<Item> {
    let filled = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    filled
        .flat_map(|(line, number)| items(line, Place { file: name.to_owned(), line: number }, now_ms))
        .collect()
}

fn items(line: &str, at: Place, now_ms: i64) -> Vec<Item> {
    match read(line, &at, now_ms) {
        Ok(items) => items,
        Err(why) => vec![Item { at, what: What::Left(why), ignored: Vec::new() }],
    }
}

fn read(line: &str, at: &Place, now_ms: i64) -> Result<Vec<Item>, String> {
    if line.len() > LINE_BYTES_MAX {
        return Err(format!("the line is longer than {LINE_BYTES_MAX} bytes"));
    }
    let line: Value = serde_json::from_str(line).map_err(|_| "not JSON".to_owned())?;
    let row = line.as_object().ok_or("not a JSON object")?;
    if row.get("schema").is_some_and(|schema| schema != EXPORT_SCHEMA) {
        return Err("a schema this version does not know".to_owned());
    }
    let key = TEXTS.into_iter().find(|key| row.contains_key(*key));
    let summary = key.map_or(Ok(None), |key| text(row, key))?;
    let title = text(row, "title")?;
    let (title, summary) = match (title, summary) {
        (Some(title), Some(summary)) => (title, summary),
        (Some(title), None) => (title, title),
        (None, Some(summary)) => ("", summary),
        (None, None) => return Err("it has no text".to_owned()),
    };
    let mut items = match text(row, "kind")?.unwrap_or("decision") {
        kind @ ("rule" | "taboo" | "critical") => {
            let what = rule(kind, &crate::tools::claim(title, summary), Reach::Here);
            vec![Item { at: at.clone(), what, ignored: Vec::new() }]
        }
        kind => fitting(at, draft(row, kind, title, summary, now_ms)?),
    };
    let ignored = row.keys().filter(|name| !KNOWN.contains(&name.as_str()) && Some(name.as_str()) != key);
    if let Some(first) = items.first_mut() {
        first.ignored = ignored.cloned().collect();
    }
    Ok(items)
}

fn draft(
    row: &Map<String, Value>,
    kind: &str,
    title: &str,
    summary: &str,
    now_ms: i64,
) -> Result<Draft, String> {
    let kind = Kind::parse(kind).map_err(|error: KindError| error.to_string())?;
    let trust = text(row, "trust")?.unwrap_or(Trust::Derived.as_str());
    let trust =
        Trust::ALL.into_iter().find(|one| one.as_str() == trust).ok_or("trust is explicit or derived")?;
    let origin = match row.get("origin") {
        None | Some(Value::Null) => None,
        Some(origin) => {
            Some(serde_json::from_value::<LineOrigin>(origin.clone()).map_err(|_| "its origin is damaged")?)
        }
    };
    let created = match row.get("created_at_ms") {
        None | Some(Value::Null) => now_ms,
        // A date in the future would win every comparison of age.
        Some(at) => at.as_i64().ok_or("created_at_ms is no whole number")?.clamp(0, now_ms),
    };
    Ok(Draft {
        kind,
        title: if title.is_empty() { made(summary) } else { title.to_owned() },
        summary: summary.to_owned(),
        tags: tags(row)?,
        subject: text(row, "subject")?.map(str::to_owned),
        trust,
        created_at_ms: created,
        origin: origin.map(LineOrigin::origin),
    })
}

fn text<'a>(row: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>, String> {
    match row.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim()).filter(|text| !text.is_empty())),
        Some(_) => Err(format!("{key} is no text")),
    }
}

fn tags(row: &Map<String, Value>) -> Result<Vec<String>, String> {
    let Some(tags) = row.get("tags").filter(|tags| !tags.is_null()) else { return Ok(Vec::new()) };
    let tags = tags.as_array().ok_or("tags is no list")?;
    let tag = |tag: &Value| tag.as_str().map(str::to_owned).ok_or_else(|| "a tag is no text".to_owned());
    tags.iter().map(tag).collect()
}

/// The beginning of the text, up to the end of a sentence or a line.
fn made(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let sentence = line.split_inclusive(['.', '!', '?', '。']).next().unwrap_or(line);
    super::cut(sentence.trim(), TITLE_MADE_MAX)
}
