//! THE PATH: the steps of a call in order. No other way leads to a model.

use agentspine_gate::instructions::Listed;
use agentspine_gate::recall::Outcome;
use agentspine_gate::receipt::Admitted;
use agentspine_gate::receipt::claims::Claims;
use agentspine_gate::span::{Draft, Span};
use agentspine_gate::turn::{InstructionHost, TurnRequest};
use agentspine_gate::{ReceiptId, Refusal, admit};
use agentspine_recall::Providers;

use crate::chat::cancel::Cancel;
use crate::chat::log::LogEvent;
use crate::desk::Desk;

/// The rooms a call passes through before the model.
pub(crate) struct Rooms {
    /// Gate and conversation store.
    pub desk: Desk,
    /// Retrieval.
    pub providers: Providers,
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
    Files(InstructionHost, Vec<Listed>),
    /// What each provider said.
    Recall(Vec<Heard>),
}

/// One provider's answer.
#[derive(Clone)]
pub(crate) struct Heard {
    /// Whether its failure refuses the call.
    pub required: bool,
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

/// Walks the path: bind, plan, recall, compose, issue, keep, consume, admit.
pub(crate) async fn walk(
    rooms: &Rooms,
    call: Call,
    tell: &(dyn Fn(Seen) + Sync),
    cancel: &Cancel,
) -> Result<Passed, Stopped> {
    let Call { request, draft, event } = call;
    let desk = &rooms.desk;

    let ask = request.clone();
    let plan = desk.ask(move |at| at.gate.bind(ask).and_then(|bound| at.gate.plan(bound))).await?;
    tell(Seen::Files(plan.snapshot().host, plan.snapshot().listed.clone()));
    let queries = plan.queries().to_vec();
    let required: Vec<bool> = queries.iter().map(|query| query.provider.required).collect();
    let outcomes = agentspine_recall::run(queries, &rooms.providers, cancel.listener()).await;
    let heard = required.into_iter().zip(outcomes.iter().cloned());
    tell(Seen::Recall(heard.map(|(required, outcome)| Heard { required, outcome }).collect()));

    if cancel.is_cancelled() {
        return Err(Stopped::Cancelled);
    }

    let session = request.scope.session_id.clone();
    let (composed, prepared) = desk
        .ask(move |at| {
            // Read for every call: what was forgotten or purged meanwhile is not said again.
            let spans = at.spans(&session)?;
            let composed = at.gate.compose(plan, &outcomes, &draft, &spans)?;
            let prepared = at.gate.issue(&composed)?;
            Ok((composed, prepared))
        })
        .await?;
    let (claims, span) = (composed.claims().clone(), composed.span().cloned());
    if cancel.is_cancelled() {
        desk.ask(move |at| at.gate.void(prepared)).await?;
        return Err(Stopped::Cancelled);
    }

    let kept = span.clone();
    let admitted = desk
        .ask(move |at| {
            let keep = at.keep(&request.scope.session_id, &event(prepared.id()), kept.as_ref());
            if let Err(why) = keep {
                return Err(at.gate.give_up(prepared, &request, why));
            }
            let consumed = at.gate.consume(prepared, &composed, &request)?;
            admit(consumed, composed)
        })
        .await?;
    Ok(Passed { admitted, claims, span })
}
