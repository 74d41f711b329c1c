//! Presence: which documents stand whole in the slot that the host itself puts instruction files into.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Document, Snapshot, render};
use crate::turn::InstructionHost;

/// Opens a document in Claude's slot; its path follows.
const CONTENTS_OF: &str = "Contents of ";

/// Display ids of the documents whose rendered text stands whole in the host's own slot, under the document's own name.
pub fn present(snapshot: &Snapshot, slot: &str) -> BTreeSet<String> {
    let path = |id: &str| snapshot.listed.iter().find(|listed| listed.id == id).map(|l| l.path.as_path());
    let stands = |doc: &&Document| match snapshot.host {
        InstructionHost::Claude => path(&doc.id).is_some_and(|path| claude(slot, path, &doc.text)),
        InstructionHost::Codex => false,
    };
    snapshot.documents.iter().filter(stands).map(|doc| doc.id.clone()).collect()
}

fn claude(slot: &str, path: &Path, text: &str) -> bool {
    let Some(path) = path.to_str() else { return false };
    let opening = format!("{CONTENTS_OF}{path} (");
    let rendered = render::claude(text);
    slot.match_indices(&opening).any(|(at, _)| {
        let own_line = slot.get(..at).is_some_and(|before| before.is_empty() || before.ends_with("\n\n"));
        let body = slot.get(at..).and_then(|rest| rest.split_once("):\n\n")).map(|(_, body)| body);
        let after = body.and_then(|body| body.strip_prefix(rendered.as_str()));
        own_line && after.is_some_and(|after| after.is_empty() || after.starts_with('\n'))
    })
}
