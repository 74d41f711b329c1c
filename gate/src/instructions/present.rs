//! Presence: which documents stand whole in the slots that the host itself puts instruction files into.
//!
//! Measured on the clients: Claude Code writes each file under a line with its path, Codex joins them in order.
//! Invariants: whole means every byte of the host's rendering, up to where the host's next file or its closing mark
//! begins; what a present document quotes is never taken for another one; in doubt a document is not present, and the
//! turn injects it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::{Document, Layer, Snapshot, render};
use crate::turn::InstructionHost;

/// Opens a document in Claude's slot, after a blank line; its path and a label follow.
const CONTENTS_OF: &str = "Contents of ";
/// What Claude shows in place of a path for `claudeMd` of the managed settings, whose id ends like this.
const MANAGED_TEXT: (&str, &str) = ("<managed-settings>", "#claudeMd");
/// Longest name in a header, bytes: what systems allow a path.
const NAME_BYTES_MAX: usize = 4096;
/// Closes Claude's slot.
const REMINDER_END: &str = "</system-reminder>";

/// Opens Codex's slot; the directory may follow.
const AGENTS_MD: &str = "# AGENTS.md instructions";
const INSTRUCTIONS: (&str, &str) = ("\n\n<INSTRUCTIONS>\n", "\n</INSTRUCTIONS>");
/// Stands between Codex's global file and the first of the project.
const PROJECT_DOC: &str = "\n\n--- project-doc ---\n\n";
const BLANK_LINE: &str = "\n\n";

/// Display ids of the documents whose rendered text stands whole in the host's own slots, under the document's own name.
/// Of a document that several slots show, the newest counts: it is what the model takes as said last.
pub fn present(snapshot: &Snapshot, slots: &[String]) -> BTreeSet<String> {
    match snapshot.host {
        InstructionHost::Claude => {
            let names = shown_names(&snapshot.documents);
            let shown = slots.iter().flat_map(|slot| claude(&names, slot));
            let newest: BTreeMap<&str, bool> = shown.collect();
            newest.into_iter().filter(|(_, whole)| *whole).map(|(id, _)| id.to_owned()).collect()
        }
        InstructionHost::Codex => {
            slots.last().and_then(|slot| codex(&snapshot.documents, slot)).unwrap_or_default()
        }
    }
}

/// Goes through the headers in order, over each document that stands whole. A header that comes twice tells nothing.
fn claude<'d>(names: &HashMap<&str, &'d Document>, slot: &str) -> BTreeMap<&'d str, bool> {
    let mut stands: BTreeMap<&str, bool> = BTreeMap::new();
    let mut at = 0;
    while let Some(header) = next_header(slot, at) {
        at = header + CONTENTS_OF.len();
        let Some((document, body)) = named(names, slot, at) else { continue };
        let is_first = !stands.contains_key(document.id.as_str());
        let end = is_first.then(|| end_of(&render::claude(&document.text), slot, body)).flatten();
        stands.insert(&document.id, end.is_some());
        at = end.unwrap_or(body);
    }
    stands
}

/// What the host may show as a document's name.
fn shown_names(documents: &[Document]) -> HashMap<&str, &Document> {
    let names = documents.iter().flat_map(|document| {
        let managed = document.id.ends_with(MANAGED_TEXT.1).then_some(MANAGED_TEXT.0);
        let paths = document.paths.iter().filter_map(|path| path.to_str());
        managed.into_iter().chain(paths).map(move |name| (name, document))
    });
    names.collect()
}

/// Where the next header begins: at the start or after a blank line.
fn next_header(slot: &str, from: usize) -> Option<usize> {
    let found = slot.get(from..)?.match_indices(CONTENTS_OF).map(|(n, _)| from + n);
    let begins = |at: &usize| *at == 0 || slot.get(..*at).is_some_and(|before| before.ends_with(BLANK_LINE));
    found.into_iter().find(begins)
}

/// The document that a header names, `PATH (LABEL):` and a blank line, and where its text begins.
fn named<'d>(names: &HashMap<&str, &'d Document>, slot: &str, at: usize) -> Option<(&'d Document, usize)> {
    let (line, _) = slot.get(at..)?.split_once(BLANK_LINE)?;
    let name = line.strip_suffix("):")?;
    let mut ends = name.match_indices(" (").map(|(n, _)| n).take_while(|n| *n <= NAME_BYTES_MAX);
    let document = ends.find_map(|end| names.get(name.get(..end)?))?;
    Some((document, at + line.len() + BLANK_LINE.len()))
}

/// Where a text ends that stands whole at `at`.
fn end_of(text: &str, slot: &str, at: usize) -> Option<usize> {
    let after = slot.get(at..)?.strip_prefix(text)?;
    let goes_on = after.strip_prefix(BLANK_LINE).is_some_and(|next| next.starts_with(CONTENTS_OF));
    let closes = after.trim().is_empty() || (after.starts_with('\n') && after.trim() == REMINDER_END);
    (goes_on || closes).then_some(at + text.len())
}

/// Goes through the documents in order, as far as each stands whole and is followed by what belongs between.
fn codex(documents: &[Document], slot: &str) -> Option<BTreeSet<String>> {
    let (head, rest) = slot.strip_prefix(AGENTS_MD)?.split_once(INSTRUCTIONS.0)?;
    let mut rest = rest.trim_end().strip_suffix(INSTRUCTIONS.1).filter(|_| !head.contains('\n'))?;
    let mut found = BTreeSet::new();
    let mut next = documents.iter().skip(1);
    for document in documents {
        let after = after_codex(document, next.next(), rest);
        let Some(after) = after else { break };
        found.insert(document.id.clone());
        rest = after;
    }
    Some(found)
}

/// What follows a document that stands whole: the next one's text, or nothing.
fn after_codex<'s>(document: &Document, next: Option<&Document>, rest: &'s str) -> Option<&'s str> {
    let is_last_global = document.layer == Layer::User && next.is_some_and(|next| next.layer != Layer::User);
    let between = if is_last_global { PROJECT_DOC } else { BLANK_LINE };
    // The global file is shown without the white space around it.
    let shown = [document.text.as_str(), document.text.trim()];
    let shown = if document.layer == Layer::User { shown.as_slice() } else { shown.get(..1)? };
    shown.iter().find_map(|text| match rest.strip_prefix(text)? {
        "" => Some(""),
        after => next.and_then(|_| after.strip_prefix(between)),
    })
}
