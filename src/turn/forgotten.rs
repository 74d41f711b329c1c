//! Memories that were forgotten while a turn that recalled them was under way: they are not said any more.
//!
//! Asked twice by every call that recalled something: before its body is put together, and once more when its span is
//! kept and its receipt is in the journal. Whoever forgets later finds both there and erases the span.

use std::path::PathBuf;

use agentspine_gate::recall::Outcome;
use agentspine_gate::receipt::claims::Claims;
use agentspine_gate::{Detail, Field, Id, Refusal};
use agentspine_memory::Ledger;

/// How every id of the ledger begins.
const OURS: &str = "memory:";

/// The ledger as the desk sees it: opened when the first recalled memory is to be said.
pub(crate) struct Memories {
    path: PathBuf,
    ledger: Option<Ledger>,
}

impl Memories {
    /// The ledger at this path, which may not be there.
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path, ledger: None }
    }

    /// Takes what was forgotten since out of what was recalled.
    pub(super) fn forget_in(&mut self, outcomes: &mut [Outcome]) {
        let answers = || outcomes.iter().filter_map(|outcome| outcome.result.as_ref().ok());
        let ids: Vec<Id> = answers().flat_map(|answer| &answer.items).map(|item| item.id.clone()).collect();
        let gone = self.gone(&ids);
        if !gone.is_empty() {
            for answer in outcomes.iter_mut().filter_map(|outcome| outcome.result.as_mut().ok()) {
                answer.items.retain(|item| !gone.contains(&item.id));
            }
        }
    }

    /// Refuses a call that is about to say something that was forgotten.
    pub(super) fn still_hold(&mut self, claims: &Claims) -> Result<(), Refusal> {
        let said = claims.providers.iter().flat_map(|provider| &provider.injected);
        let ids: Vec<Id> = said.map(|item| item.id.clone()).collect();
        if self.gone(&ids).is_empty() {
            return Ok(());
        }
        Err(Refusal::new(
            Detail::Mismatch(Field::Span),
            "A memory that this turn was about to be given was forgotten meanwhile.",
            "Send it again: the turn is put together without that memory.",
        ))
    }

    /// Where the ledger cannot be asked, nothing of it counts as remembered.
    fn gone(&mut self, ids: &[Id]) -> Vec<Id> {
        let ours: Vec<Id> = ids.iter().filter(|id| id.as_str().starts_with(OURS)).cloned().collect();
        if ours.is_empty() {
            return ours;
        }
        if self.ledger.is_none() {
            self.ledger = Ledger::open(&self.path).ok();
        }
        self.ledger.as_ref().and_then(|ledger| ledger.gone(&ours).ok()).unwrap_or(ours)
    }
}
