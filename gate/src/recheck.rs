//! Comparing the snapshot a receipt binds with one taken again: same set, order, bytes and identity.

use crate::failure::{Detail, Refusal};
use crate::instructions::{Document, Snapshot};

/// Refuses with what changed: `changed` for set, order or content, `replaced` for another file with the same content.
pub(crate) fn verify_unchanged(was: &Snapshot, now: &Snapshot) -> Result<(), Refusal> {
    let find = |list: &'_ [Document], id: &str| list.iter().any(|doc| doc.id == id);
    if let Some(gone) = was.documents.iter().find(|doc| !find(&now.documents, &doc.id)) {
        return Err(differs(Detail::Changed, &gone.id, "is no longer there"));
    }
    if let Some(new) = now.documents.iter().find(|doc| !find(&was.documents, &doc.id)) {
        return Err(differs(Detail::Changed, &new.id, "appeared"));
    }
    was.documents.iter().zip(&now.documents).try_for_each(|(was, now)| verify_document(was, now))
}

fn verify_document(was: &Document, now: &Document) -> Result<(), Refusal> {
    if was.id != now.id {
        return Err(differs(Detail::Changed, &now.id, "stands at another position"));
    }
    if was.sha256 != now.sha256 {
        return Err(differs(Detail::Changed, &now.id, "has another content"));
    }
    if was.identity != now.identity || was.via_link != now.via_link {
        return Err(differs(Detail::Replaced, &now.id, "is another file, or was written again"));
    }
    Ok(())
}

fn differs(detail: Detail, id: &str, what: &str) -> Refusal {
    Refusal::new(
        detail,
        format!("{id} {what} since this turn's receipt was issued."),
        "Send again: the file is read and bound anew.",
    )
}
