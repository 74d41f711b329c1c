//! THE PATH: the steps of a call in order. No other way leads to a model.

use agentspine_gate::Plan;
use agentspine_gate::instructions::Listed;
use agentspine_gate::recall::Outcome;
use agentspine_gate::receipt::Admitted;
use agentspine_gate::receipt::claims::Claims;
use agentspine_gate::span::{Draft, Span};
use agentspine_gate::turn::{InstructionHost, TurnRequest};
use agentspine_gate::{ReceiptId, Refusal, admit};
use agentspine_memory::Grants;
use agentspine_recall::Providers;

use crate::chat::cancel::Cancel;
use crate::chat::intake::Intake;
use crate::chat::log::LogEvent;
use crate::desk::{Desk, Drawer};

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
///
/// Where no provider is asked, the desk walks all of it in one go: each visit costs two threads a wake-up.
pub(crate) async fn walk(
    rooms: &Rooms,
    call: Call,
    tell: &(dyn Fn(Seen) + Sync),
    cancel: &Cancel,
) -> Result<Passed, Stopped> {
    let stop = cancel.clone();
    let (files, begun) = rooms.desk.ask(move |at| begin(at, call, &stop)).await?;
    tell(files);
    let planned = match begun {
        Begun::Over(done) => {
            tell(Seen::Recall(Vec::new()));
            return *done;
        }
        Begun::Asking(planned) => planned,
    };

    let queries = planned.plan.queries().to_vec();
    let required: Vec<bool> = queries.iter().map(|query| query.provider.required).collect();
    let outcomes = agentspine_recall::run(queries, &rooms.providers, cancel.listener()).await;
    let heard = required.into_iter().zip(outcomes.iter().cloned());
    tell(Seen::Recall(heard.map(|(required, outcome)| Heard { required, outcome }).collect()));

    let stop = cancel.clone();
    rooms.desk.ask(move |at| Ok(planned.finish(at, &outcomes, &stop))).await?
}

/// A call whose files and rules are read.
struct Planned {
    call: Call,
    plan: Plan,
}

/// How far the desk came by itself.
enum Begun {
    /// Providers are asked next.
    Asking(Box<Planned>),
    /// To the end.
    Over(Box<Result<Passed, Stopped>>),
}

/// Binds who asks and where, reads files, policy and rules fresh, and goes on where nobody is to be asked.
fn begin(at: &mut Drawer, call: Call, cancel: &Cancel) -> Result<(Seen, Begun), Refusal> {
    let plan = at.gate.bind(call.request.clone()).and_then(|bound| at.gate.plan(bound))?;
    let files = Seen::Files(plan.snapshot().host, plan.snapshot().listed.clone());
    let planned = Box::new(Planned { call, plan });
    let begun = if planned.plan.queries().is_empty() {
        Begun::Over(Box::new(planned.finish(at, &[], cancel)))
    } else {
        Begun::Asking(planned)
    };
    Ok((files, begun))
}

impl Planned {
    /// Puts the exact body together, signs its receipt, keeps what the conversation needs, spends the receipt, and admits
    /// the body.
    fn finish(self, at: &mut Drawer, outcomes: &[Outcome], cancel: &Cancel) -> Result<Passed, Stopped> {
        let Self { call: Call { request, draft, event }, plan } = self;
        if cancel.is_cancelled() {
            return Err(Stopped::Cancelled);
        }
        // Read for every call: what was forgotten or purged meanwhile is not said again.
        let spans = at.spans(&request.scope.session_id)?;
        let composed = at.gate.compose(plan, outcomes, &draft, &spans)?;
        let prepared = at.gate.issue(&composed)?;
        if cancel.is_cancelled() {
            at.gate.void(prepared)?;
            return Err(Stopped::Cancelled);
        }

        let (claims, span) = (composed.claims().clone(), composed.span().cloned());
        let keep = at.keep(&request.scope.session_id, &event(prepared.id()), span.as_ref());
        if let Err(why) = keep {
            return Err(at.gate.give_up(prepared, &request, why).into());
        }
        let consumed = at.gate.consume(prepared, &composed, &request)?;
        Ok(Passed { admitted: admit(consumed, composed)?, claims, span })
    }
}
