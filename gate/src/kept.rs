//! Claims of consumed receipts that later calls ask for again: those whose spans they replay, those of their turns.

use std::collections::HashMap;
use std::sync::Arc;

use crate::ids::ReceiptId;
use crate::receipt::claims::Claims;
use crate::turn::CallKind;

/// Most claims of one half, a few KiB each. What is not kept is read from the journal again.
const HALF_MAX: usize = 512;

/// The claims asked for last. A consumed receipt never changes, so they never grow old.
#[derive(Default)]
pub(crate) struct KeptClaims {
    young: HashMap<ReceiptId, Arc<Claims>>,
    /// What was young before; what is asked for becomes young again, the rest goes.
    old: HashMap<ReceiptId, Arc<Claims>>,
}

impl KeptClaims {
    pub(crate) fn get(&mut self, id: ReceiptId) -> Option<Arc<Claims>> {
        if let Some(claims) = self.young.get(&id) {
            return Some(Arc::clone(claims));
        }
        let claims = self.old.remove(&id)?;
        self.keep(Arc::clone(&claims));
        Some(claims)
    }

    pub(crate) fn keep(&mut self, claims: Arc<Claims>) {
        if self.young.len() >= HALF_MAX {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(claims.id, claims);
    }

    /// Keeps those that have a span or answer words: nobody asks for others, unless they are repeated.
    pub(crate) fn keep_if_asked(&mut self, claims: Arc<Claims>) {
        if claims.briefing_digest.is_some() || matches!(claims.kind, CallKind::Turn | CallKind::Subagent) {
            self.keep(claims);
        }
    }
}
