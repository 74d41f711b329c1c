//! Forks: a conversation that goes on with another one's history keeps what was injected into that.
//!
//! Claude Code and Codex give a fork a new id and send the whole old history along. Places start from the id, so none of
//! the old spans would be replayed, and signed thinking and the provider's cache would be lost. The history is therefore
//! read once more under the ids of conversations of the same host and directory; the spans that meet it are kept for the
//! fork too. Invariant: only the very messages that a span stood after bring it along.

use std::collections::HashMap;

use agentspine_gate::Id;
use agentspine_gate::span::{Draft, Place, Span};
use agentspine_gate::turn::{CallKind, Host};

use super::read::{self, PromptPath};

/// Conversations that are tried, the latest first.
pub(super) const TRIED_MAX: u32 = 32;

/// Whether a call may be the first of a fork: a client with ids of its own, and words before those that it answers.
pub(super) fn may_be(host: Host, kind: CallKind, draft: &Draft) -> bool {
    let answered = match kind {
        CallKind::Turn | CallKind::Subagent => 1,
        CallKind::Continuation => 0,
        CallKind::Side => return false,
    };
    matches!(host, Host::Claude | Host::Codex | Host::King) && draft.slots.len() > answered
}

/// The spans that a call's history has in one of these conversations, at its own places; of the one with the most.
pub(super) fn spans(
    host: Host,
    path: PromptPath,
    draft: &Draft,
    relatives: Vec<(Id, Vec<Span>)>,
) -> Vec<Span> {
    let each = relatives.into_iter().map(|(id, spans)| {
        let theirs: HashMap<Place, Span> = spans.into_iter().map(|span| (span.place, span)).collect();
        let places = read::places(host, path, &id, &draft.body);
        let met = draft.slots.iter().zip(places).filter_map(|(slot, place)| {
            theirs.get(&place).map(|span| Span { place: slot.place, ..span.clone() })
        });
        met.collect::<Vec<_>>()
    });
    // The first of the longest.
    each.fold(Vec::new(), |most, met| if met.len() > most.len() { met } else { most })
}
