//! Comparing what a receipt binds with how it is at consumption: the host's view of the turn, and the snapshot taken
//! again: same set, order, bytes and identity.

use std::path::{Path, PathBuf};

use crate::failure::{Detail, Field, Refusal};
use crate::ids::Digest;
use crate::instructions::{Document, Snapshot};
use crate::receipt::claims::Claims;
use crate::seams::Seams;
use crate::turn::{Bound, CallKind, TurnRequest};

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

/// Digest of the human text that a call carries or answers; a continuation's host may not know it.
pub(crate) fn spoken(request: &TurnRequest) -> Option<Digest> {
    let speaks = match request.kind {
        CallKind::Turn => true,
        CallKind::Continuation => !request.prompt.is_empty(),
        CallKind::Subagent | CallKind::Side => false,
    };
    speaks.then(|| Digest::of(request.prompt.as_bytes()))
}

/// What the host presents at consumption is what was bound.
pub(crate) fn verify_presented(
    claims: &Claims,
    bound: &Bound,
    request: &TurnRequest,
    seams: &Seams,
) -> Result<(), Refusal> {
    same(spoken(request) == bound.prompt_digest, Field::Prompt, "The prompt is another one")?;
    same(request.scope.session_id == claims.session_id, Field::Session, "The session is another one")?;
    same(request.delivery_id == claims.delivery_id, Field::Delivery, "The delivery is another one")?;
    let cwd = canonical_cwd(seams, &request.cwd)?;
    same(
        Digest::of(cwd.as_os_str().as_encoded_bytes()) == claims.cwd_digest,
        Field::Cwd,
        "The directory is another one",
    )?;
    let was = &bound.request;
    let scope = request.identity == was.identity
        && request.scope == was.scope
        && request.host == was.host
        && request.instruction_host == was.instruction_host
        && request.kind == was.kind;
    same(scope, Field::Scope, "Identity or scope is another one")
}

/// Refuses with the field that changed.
pub(crate) fn same(holds: bool, field: Field, what: &str) -> Result<(), Refusal> {
    if holds {
        return Ok(());
    }
    let advice = "Send again: everything is read and bound anew.";
    Err(Refusal::new(Detail::Mismatch(field), format!("{what} since it was bound."), advice))
}

/// The working directory without links.
pub(crate) fn canonical_cwd(seams: &Seams, cwd: &Path) -> Result<PathBuf, Refusal> {
    seams.fs.canonicalize(cwd).map_err(|error| {
        Refusal::new(
            Detail::Mismatch(Field::Cwd),
            format!("The working directory cannot be used: {error}"),
            "Start in an existing directory, or name one: agentspine chat --cwd DIR",
        )
    })
}
