//! What a briefing holds, read as a model would: by its frames and the lines that introduce each part.

/// Ids in injected text, each once, in order of first appearance.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) documents: Vec<String>,
    pub(super) rules: Vec<String>,
    pub(super) items: Vec<String>,
}

impl Seen {
    /// Reads one injected text. Text outside a frame is nobody's and is skipped.
    pub(super) fn read(&mut self, text: &str) {
        let mut rest = text;
        while let Some((inner, after, is_reference)) = next_frame(rest) {
            if is_reference {
                self.reference(inner);
            } else {
                self.instructions(inner);
            }
            rest = after;
        }
    }

    fn reference(&mut self, inner: &str) {
        for line in inner.lines() {
            let id = line.strip_prefix('[').and_then(|line| line.split_once("] ")).map(|(_, rest)| rest);
            if let Some((id, _)) = id.and_then(|rest| rest.split_once(" | provider ")) {
                add(&mut self.items, id);
            }
        }
    }

    fn instructions(&mut self, inner: &str) {
        let mut rest = inner;
        while let Some((line, after)) = rest.split_once('\n') {
            rest = after;
            if let Some((id, bytes)) = document_line(line) {
                add(&mut self.documents, id);
                // Its text may hold lines that look like ours.
                rest = rest.get(bytes..).unwrap_or(rest);
            } else if let Some((id, _)) =
                line.strip_prefix("rule ").and_then(|rule| rule.split_once(" (version "))
            {
                add(&mut self.rules, id);
            } else if let Some(id) = line.strip_prefix("withdrawn ") {
                self.documents.retain(|known| known != id);
                self.rules.retain(|known| known != id);
            }
        }
    }
}

/// `file ID (N bytes, sha256 X)` or `replaces ID (…)`.
fn document_line(line: &str) -> Option<(&str, usize)> {
    let named = line.strip_prefix("file ").or_else(|| line.strip_prefix("replaces "))?;
    let (id, facts) = named.rsplit_once(" (")?;
    let (bytes, _) = facts.split_once(" bytes, sha256 ")?;
    Some((id, bytes.parse().ok()?))
}

/// The next frame: its inner text, what follows it, and whether it holds reference data. A frame ends only at the tag
/// with its own mark.
fn next_frame(text: &str) -> Option<(&str, &str, bool)> {
    let (_, from_tag) = text.split_once("<agentspine-")?;
    let (opening, inner) = from_tag.split_once(">\n")?;
    let (name, _) = opening.split_once(" mark=\"")?;
    let (inner, after) = inner.split_once(&format!("</agentspine-{opening}>"))?;
    Some((inner, after, name == "reference"))
}

fn add(ids: &mut Vec<String>, id: &str) {
    if !ids.iter().any(|known| known == id) {
        ids.push(id.to_owned());
    }
}
