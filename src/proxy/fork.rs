//! Forks: a conversation that a client copied from another one under a new id takes the injected text along.
//!
//! Its history was answered with that text in it: without it models that bind their thinking to what they read refuse it,
//! and caches miss. Nothing is copied from another directory, client or person.

use agentspine_gate::span::{Draft, Place, Span};
use agentspine_gate::turn::{CallKind, Host, TurnRequest};
use agentspine_gate::{Id, ReceiptId, Refusal};
use http::HeaderMap;

use super::read::{self, PromptPath};
use crate::desk::{self, Drawer};

/// Conversations of the directory that are looked at, newest first.
const LOOKED_AT_MAX: u32 = 32;

/// How a request came: what reading it again takes, beside its body.
pub(crate) struct Source {
    /// The client.
    pub client: Host,
    /// The endpoint.
    pub path: PromptPath,
    /// What is sent on.
    pub headers: HeaderMap,
}

/// Whether a call may be the first of a fork: it answers words, or goes on, after words that were answered before.
pub(super) fn may_be(request: &TurnRequest, draft: &Draft) -> bool {
    let new_words = match request.kind {
        CallKind::Turn | CallKind::Subagent => 1,
        CallKind::Continuation => 0,
        // Its body has another shape; the fork's first turn is still to come.
        CallKind::Side => return false,
    };
    draft.slots.len() > new_words
}

/// Copies the spans of the conversation that the request's history came from, where there is one; durable.
pub(super) fn adopt(
    at: &mut Drawer,
    request: &TurnRequest,
    draft: &Draft,
    source: &Source,
) -> Result<(), Refusal> {
    let Some(instruction_host) = request.instruction_host else { return Ok(()) };
    let (fork, hosts) = (&request.scope.session_id, (request.host, instruction_host));
    let known = at.conversations.forkable(&request.cwd, hosts, fork, LOOKED_AT_MAX);
    let known = known.map_err(desk::store)?;
    let mut spans: Vec<Span> = Vec::new();
    for origin in known {
        let shared = shared(at, &origin, draft, source)?;
        if shared.len() > spans.len() && is_of_person(at, &shared, request)? {
            spans = shared;
        }
    }
    if !spans.is_empty() {
        at.conversations.copy_spans(fork, &spans, at.seams.clock.wall_ms()).map_err(desk::store)?;
    }
    Ok(())
}

/// The spans of another conversation that stand in this one's history, at this one's places.
fn shared(at: &Drawer, origin: &Id, draft: &Draft, source: &Source) -> Result<Vec<Span>, Refusal> {
    let Source { client, path, headers } = source;
    // It was read before; where the client's own id is not the session's, there is just nothing to find.
    let places = read::places_in(origin, *client, *path, headers, &draft.body).unwrap_or_default();
    let spans = at.spans(origin)?;
    let of = |there: &Place| spans.iter().find(|span| span.place == *there);
    let pairs = draft.slots.iter().zip(&places).filter_map(|(slot, there)| Some((slot.place, of(there)?)));
    Ok(pairs.map(|(place, span)| Span { place, ..span.clone() }).collect())
}

/// Whether the receipts of all spans are the same person's as this call.
fn is_of_person(at: &mut Drawer, spans: &[Span], request: &TurnRequest) -> Result<bool, Refusal> {
    for span in spans {
        if !is_of(at, span.receipt, request)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_of(at: &mut Drawer, receipt: ReceiptId, request: &TurnRequest) -> Result<bool, Refusal> {
    let record = at.gate.vault().record(receipt)?;
    let issued = record.and_then(|record| record.issued);
    let claim = |name| issued.as_ref()?.body.get("claims")?.get(name)?.as_str();
    let (user, tenant) = (request.identity.user_id.as_str(), request.identity.tenant_id.as_str());
    Ok(claim("userId") == Some(user) && claim("tenantId") == Some(tenant))
}
