//! What a conversation already holds: read from the receipts of the spans that its next request replays.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use crate::failure::{Detail, Field, Refusal};
use crate::ids::{Digest, Id, ReceiptId};
use crate::receipt::claims::{Claims, Delivery};
use crate::select::HeldItem;
use crate::span::{Draft, Place, Span};
use crate::turn::Identity;

/// A span to replay: its slot, the span, and what its receipt says is in it.
pub(crate) struct Replay<'a> {
    pub(crate) slot: usize,
    pub(crate) span: &'a Span,
    pub(crate) claims: Arc<Claims>,
}

/// Newest version of everything earlier spans hold.
#[derive(Default)]
pub(crate) struct Held<'a> {
    pub(crate) documents: BTreeMap<&'a str, (Digest, ReceiptId)>,
    pub(crate) remember: BTreeMap<&'a Id, (u64, Digest)>,
    pub(crate) items: HashSet<HeldItem<'a>>,
}

impl<'a> Held<'a> {
    /// Reads the replays in conversation order; later spans win.
    pub(crate) fn read(replays: &'a [Replay<'_>]) -> Self {
        let mut held = Self::default();
        for replay in replays {
            held.absorb(&replay.claims);
        }
        held
    }

    fn absorb(&mut self, claims: &'a Claims) {
        for id in &claims.withdrawn {
            self.documents.remove(id.as_str());
            self.remember.retain(|entry, _| entry.as_str() != id);
        }
        for doc in claims.documents.iter().filter(|doc| doc.state == Delivery::Injected) {
            self.documents.insert(&doc.id, (doc.sha256, claims.id));
        }
        for entry in claims.must_remember.iter().filter(|entry| entry.state == Delivery::Injected) {
            self.remember.insert(&entry.id, (entry.version, entry.checksum));
        }
        for provider in &claims.providers {
            self.items.extend(provider.injected.iter().map(|item| (&provider.id, &item.id, &item.revision)));
        }
    }
}

/// The span of each slot, in slot order, checked against the receipt that bound it. Spans whose receipt this journal
/// does not know as consumed are not replayed: their content is injected anew instead. The newest slot of a call that
/// injects takes a new span, never an old one. A span that was injected for another user or tenant refuses.
pub(crate) fn replays<'a>(
    draft: &Draft,
    spans: &'a [Span],
    injects: bool,
    identity: &Identity,
    mut claims_of: impl FnMut(ReceiptId) -> Result<Option<Arc<Claims>>, Refusal>,
) -> Result<Vec<Replay<'a>>, Refusal> {
    let mut found = Vec::new();
    let at: HashMap<Place, &Span> = spans.iter().map(|span| (span.place, span)).collect();
    let old_slots = draft.slots.len().saturating_sub(usize::from(injects));
    for (slot, place) in draft.slots.iter().map(|slot| slot.place).enumerate().take(old_slots) {
        let Some(span) = at.get(&place).copied() else { continue };
        let Some(claims) = claims_of(span.receipt)? else { continue };
        if claims.briefing_digest != Some(Digest::of(span.text.as_bytes())) {
            return Err(altered(span.receipt));
        }
        if (&claims.user_id, &claims.tenant_id) != (&identity.user_id, &identity.tenant_id) {
            return Err(foreign());
        }
        found.push(Replay { slot, span, claims });
    }
    Ok(found)
}

fn foreign() -> Refusal {
    Refusal::new(
        Detail::Mismatch(Field::Scope),
        "This conversation holds text that was injected for another user or tenant.",
        "Start a new session: agentspine chat, or go on with the identity it had (--user, --tenant).",
    )
}

fn altered(receipt: ReceiptId) -> Refusal {
    Refusal::new(
        Detail::Mismatch(Field::Span),
        format!("A stored span of this conversation is not what receipt {} bound.", receipt.short()),
        "The conversation store was altered. Start a new session: agentspine chat",
    )
}
