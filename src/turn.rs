//! THE PATH: the steps of a call in order. No other way leads to a model.

mod forgotten;
mod together;

use std::sync::Arc;

use agentspine_gate::instructions::Snapshot;
use agentspine_gate::policy::Adapter;
use agentspine_gate::recall::Outcome;
use agentspine_gate::receipt::Admitted;
use agentspine_gate::receipt::claims::Claims;
use agentspine_gate::span::{Draft, Span};
use agentspine_gate::turn::TurnRequest;
use agentspine_gate::{ReceiptId, Refusal};
use agentspine_memory::Grants;
use agentspine_recall::Providers;

use crate::chat::cancel::Cancel;
use crate::chat::intake::Intake;
use crate::chat::log::LogEvent;
use crate::desk::{Desk, Drawer};
pub(crate) use forgotten::Memories;
pub(crate) use together::{Came, Step, Waiting, walk_together};

/// The rooms a call passes through before the model.
pub(crate) struct Rooms {
    /// Gate and conversation store.
    pub desk: Desk,
    /// Retrieval.
    pub providers: Providers,
    /// Summaries on their way into memory.
    pub intake: Intake,
    /// What the model may do with memories.
    pub memory: Grants,
    /// What the person at this program's own screen may do with them.
    pub person: Grants,
}

/// One call, as its host is about to make it.
pub(crate) struct Call {
    /// Who, where, which.
    pub request: TurnRequest,
    /// The body without injected text.
    pub draft: Draft,
    /// What the conversation keeps before the call, once its receipt is known: the prompt, or tool results.
    pub event: Box<dyn FnOnce(ReceiptId) -> LogEvent + Send>,
}

/// A call that passed, and what is worth showing of it.
pub(crate) struct Passed {
    /// The one value the model client accepts.
    pub admitted: Admitted,
    /// What its receipt binds.
    pub claims: Claims,
    /// What this call added to the conversation.
    pub span: Option<Span>,
}

/// What was seen on the way, told as it is seen: a call that is refused later still shows it.
pub(crate) enum Seen {
    /// Every instruction file looked at.
    Files(Arc<Snapshot>),
    /// What each provider said.
    Recall(Vec<Heard>),
}

/// One provider's answer.
#[derive(Clone)]
pub(crate) struct Heard {
    /// Whether its failure refuses the call.
    pub required: bool,
    /// Whether it is the memory ledger of this program.
    pub ours: bool,
    /// What came of it.
    pub outcome: Outcome,
}

/// Why a call did not pass.
pub(crate) enum Stopped {
    /// Something required failed.
    Refused(Refusal),
    /// The person cancelled before the receipt was spent.
    Cancelled,
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Walks the path: bind, plan, recall, compose, issue, keep, consume, admit. `call` is put together at the desk.
///
/// Where no provider is asked, the desk walks all of it in one go: each visit costs two threads a wake-up. Calls that
/// wait for the desk at the same time are walked together.
pub(crate) async fn walk(
    rooms: &Rooms,
    call: impl FnOnce(&mut Drawer) -> Result<Call, Refusal> + Send + 'static,
    tell: &(dyn Fn(Seen) + Sync),
    cancel: &Cancel,
) -> Result<Passed, Stopped> {
    let planned = match rooms.desk.walk(Step::Begin(Box::new(call)), cancel).await {
        Came::Asking(planned) => {
            tell(Seen::Files(Arc::clone(planned.plan.snapshot())));
            planned
        }
        Came::Over { seen, done } => {
            if let Some(snapshot) = seen {
                tell(Seen::Files(snapshot));
                tell(Seen::Recall(Vec::new()));
            }
            return *done;
        }
    };

    let queries = planned.plan.queries().to_vec();
    let asked: Vec<(bool, bool)> = queries
        .iter()
        .map(|query| (query.provider.required, query.provider.adapter == Adapter::LedgerV1))
        .collect();
    let outcomes = agentspine_recall::run(queries, &rooms.providers, cancel.listener()).await;
    let heard = asked.into_iter().zip(outcomes.iter().cloned());
    tell(Seen::Recall(heard.map(|((required, ours), outcome)| Heard { required, ours, outcome }).collect()));

    match rooms.desk.walk(Step::Finish(planned, outcomes), cancel).await {
        Came::Over { done, .. } => *done,
        // Nobody is asked twice.
        Came::Asking(_) => Err(Stopped::Cancelled),
    }
}
