//! All planned providers at once.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::{Duration, Instant};

use agentspine_gate::Detail;
use agentspine_gate::policy::Adapter;
use agentspine_gate::recall::{Answer, Outcome, Planned, ProviderFailure};
use agentspine_memory::Ledger;

use crate::cancel::Cancelled;
use crate::command::Commands;
use crate::ledger::LedgerV1;
use crate::wishes::{Wished, Wishes};

/// What a provider comes to.
pub type Answered = Result<Answer, ProviderFailure>;

/// A running question.
pub type Asking = Pin<Box<dyn Future<Output = Answered> + Send>>;

/// When a question ends without an answer.
#[derive(Clone)]
pub struct Stop {
    /// The deadline.
    pub at: Instant,
    /// The person's cancellation.
    pub cancelled: Cancelled,
}

/// One way to retrieve: asked once, answers by its deadline, and leaves nothing running.
pub trait Retrieval: Send + Sync {
    /// Asks. The future may be dropped at any time; what it started ends then.
    fn ask(&self, planned: Planned, stop: Stop) -> Asking;
}

/// Whether the local configuration lets `ledger/v1` recall.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recall {
    /// It does.
    On,
    /// It does not: an optional recall is empty, a required one fails.
    Off,
}

/// Everything providers need, made once by the caller.
#[derive(Clone)]
pub struct Providers {
    /// The memory ledger of `ledger/v1`; `None` where it could not be opened.
    pub ledger: Option<Arc<Mutex<Ledger>>>,
    /// Whether it may be asked.
    pub recall: Recall,
    /// How commands are run.
    pub commands: Commands,
    /// What the person pinned or left out; nobody's where there is no screen.
    pub wishes: Wishes,
}

impl Providers {
    fn door(&self, adapter: Adapter) -> Box<dyn Retrieval> {
        match adapter {
            Adapter::LedgerV1 => Box::new(LedgerV1::new(self.ledger.clone(), self.recall, self.wishes.now())),
            Adapter::MnemoCommandV1 | Adapter::MnemoCommandV2 => Box::new(self.commands.clone()),
        }
    }
}

/// Asks every planned provider at the same time; one outcome each, in the order of the plan.
///
/// Each has its own deadline. When this returns, no process it started is alive; when it is dropped, they end at once.
pub async fn run(planned: Vec<Planned>, providers: &Providers, cancelled: Cancelled) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = planned.iter().map(broken).collect();
    let ask = |planned| Some(Box::pin(timed(planned, providers, cancelled.clone())));
    let mut running: Vec<_> = planned.into_iter().map(ask).collect();
    // All in this task: a task each would cost every call a few wake-ups of other threads.
    std::future::poll_fn(|context| {
        for (asking, outcome) in running.iter_mut().zip(&mut outcomes) {
            let Some(future) = asking else { continue };
            match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
                Ok(Poll::Pending) => continue,
                Ok(Poll::Ready(done)) => *outcome = done,
                Err(_) => {}
            }
            *asking = None;
        }
        if running.iter().all(Option::is_none) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    outcomes
}

fn timed(
    planned: Planned,
    providers: &Providers,
    cancelled: Cancelled,
) -> impl Future<Output = Outcome> + use<> {
    let started = Instant::now();
    let stop = Stop { at: started + Duration::from_millis(planned.deadline_ms), cancelled };
    let (provider_id, query_digest) = (planned.provider.id.clone(), planned.query.query_digest);
    let wished = if planned.provider.required { Wished::default() } else { providers.wishes.now() };
    let asking = providers.door(planned.provider.adapter).ask(planned, stop);
    async move {
        let mut result = asking.await;
        if let Ok(answer) = &mut result {
            wished.apply(answer);
        }
        let latency_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Outcome { provider_id, query_digest, latency_ms, result }
    }
}

/// The outcome that stands where a provider's task broke: every planned provider has one.
fn broken(planned: &Planned) -> Outcome {
    let message = format!("Provider {} could not be run.", planned.provider.id);
    Outcome {
        provider_id: planned.provider.id.clone(),
        query_digest: planned.query.query_digest,
        latency_ms: 0,
        result: Err(ProviderFailure { detail: Detail::NotInvoked, message }),
    }
}
