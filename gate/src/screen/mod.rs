//! The one screen for Must-Remember, memory and provider items: secret-shaped and authority-shaped text.
//!
//! `skeleton` takes disguises away, `secrets` and `authority` look at what is left, `neutral` makes text harmless that
//! was let through. Patterns are compiled on first use, each rule for itself; nothing here keeps or prints what it saw.

mod authority;
mod neutral;
mod secrets;
mod skeleton;

use std::ops::Range;

use regex::Regex;

pub use neutral::neutralise;
use skeleton::Skeleton;
pub(crate) use skeleton::is_invisible;

/// What stands in place of a secret.
pub const REDACTED: &str = "[redacted]";

/// Why text was refused. Holds a label, never the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Looks like a credential; the rule's label.
    #[error("it looks like a secret ({0})")]
    Secret(String),
    /// Grants, waives or demands a capability, approval or tool use.
    #[error("it reads like a grant or an order, not like a fact ({0})")]
    Authority(&'static str),
}

/// Checks text when it is proposed or received.
pub fn screen(text: &str) -> Result<(), Refused> {
    let skeleton = Skeleton::of(text);
    if let Some((label, _)) = secrets::find(&skeleton.text).into_iter().next() {
        return Err(Refused::Secret(label.to_owned()));
    }
    authority::find(&skeleton.text).map_or(Ok(()), |label| Err(Refused::Authority(label)))
}

/// Replaces secret-shaped parts by `[redacted]`; returns the labels of what was found, each once. Text without a secret
/// comes back as it is.
pub fn redact(text: &str) -> (String, Vec<String>) {
    let skeleton = Skeleton::of(text);
    let found = secrets::find(&skeleton.text);
    let mut labels: Vec<String> = Vec::new();
    for (label, _) in &found {
        if !labels.iter().any(|known| known == label) {
            labels.push((*label).to_owned());
        }
    }
    let mut spans: Vec<Range<usize>> = found.into_iter().map(|(_, span)| skeleton.behind(span)).collect();
    spans.sort_by_key(|span| (span.start, span.end));
    (replaced(text, &merged(spans), REDACTED), labels)
}

/// Sorted ranges without overlaps: two rules that see parts of one secret leave nothing of it between them.
fn merged(spans: Vec<Range<usize>>) -> Vec<Range<usize>> {
    let mut out: Vec<Range<usize>> = Vec::with_capacity(spans.len());
    for span in spans {
        match out.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => out.push(span),
        }
    }
    out
}

/// Text with each of the sorted ranges replaced; of overlapping ones the first counts.
fn replaced(text: &str, spans: &[Range<usize>], by: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for span in spans.iter().filter(|span| !span.is_empty()) {
        if span.start >= done {
            out.push_str(text.get(done..span.start).unwrap_or_default());
            out.push_str(by);
            done = span.end;
        }
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out
}

/// Constant patterns; that each one compiles is held by a test of its module.
fn compiled(patterns: &[&str]) -> Vec<Regex> {
    patterns.iter().filter_map(|pattern| Regex::new(pattern).ok()).collect()
}
