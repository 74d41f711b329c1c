//! `ledger/v1`: the memory ledger, asked on a blocking thread.

use std::sync::{Arc, Mutex, PoisonError};

use agentspine_gate::recall::{
    Answer, CLAIM_BYTES_MAX, Item, Planned, ProviderFailure, Query, Validity, WHY_BYTES_MAX,
};
use agentspine_gate::{Detail, Id};
use agentspine_memory::{Ledger, MemoryScope, Recalled, StoreError};

use crate::run::{Answered, Asking, Recall, Retrieval, Stop};

/// Most items of one answer. The gate cuts them to its budget; a few more let it fill the place of a duplicate.
const ITEMS_MAX: usize = 8;

/// The embedded provider.
pub struct LedgerV1(Option<Arc<Mutex<Ledger>>>, Recall);

impl LedgerV1 {
    /// Over a ledger; `None` where it could not be opened, then every question fails.
    pub fn new(ledger: Option<Arc<Mutex<Ledger>>>, recall: Recall) -> Self {
        Self(ledger, recall)
    }
}

impl Retrieval for LedgerV1 {
    fn ask(&self, planned: Planned, stop: Stop) -> Asking {
        let (ledger, recall) = (self.0.clone(), self.1);
        Box::pin(async move {
            match ledger {
                _ if recall == Recall::Off => off(&planned),
                Some(ledger) => within(ledger, planned, stop).await,
                None => Err(failure(Detail::Missing, "The memory ledger could not be opened.")),
            }
        })
    }
}

/// Nobody asked for it where it is optional; a required provider that may not recall did not answer.
fn off(planned: &Planned) -> Answered {
    if planned.provider.required {
        let message =
            "Recall is switched off in the table [memory] of config.toml, but the policy requires it.";
        return Err(failure(Detail::NotInvoked, message));
    }
    Ok(Answer { items: Vec::new(), screened_out: Vec::new(), rejected: 0 })
}

/// The blocking thread may outlive the deadline by the time of one statement; the interrupt keeps that short.
async fn within(ledger: Arc<Mutex<Ledger>>, planned: Planned, mut stop: Stop) -> Answered {
    let deadline = planned.deadline_ms;
    let (sender, interrupter) = tokio::sync::oneshot::channel();
    let mut reading = tokio::task::spawn_blocking(move || {
        let ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.send(ledger.interrupter()).is_err() {
            return Err(failure(Detail::Timeout, "The memory ledger was busy."));
        }
        answer(&ledger, &planned)
    });
    let stopped = tokio::select! {
        done = &mut reading => return done.unwrap_or_else(|_| Err(failure(Detail::Malformed, "The memory ledger broke."))),
        () = stop.cancelled.wait() => failure(Detail::Cancelled, "Recall was cancelled."),
        () = tokio::time::sleep_until(stop.at.into()) => {
            failure(Detail::Timeout, &format!("The memory ledger did not answer within {deadline} ms."))
        }
    };
    let mut interrupter = interrupter;
    if let Ok(handle) = interrupter.try_recv() {
        handle.interrupt();
    }
    Err(stopped)
}

fn answer(ledger: &Ledger, planned: &Planned) -> Answered {
    let recalled = ledger.recall(&scope(&planned.query), &planned.prompt, ITEMS_MAX).map_err(store)?;
    let items = recalled.into_iter().map(item).collect::<Result<Vec<_>, _>>()?;
    Ok(Answer { items, screened_out: Vec::new(), rejected: 0 })
}

fn scope(query: &Query) -> MemoryScope {
    MemoryScope {
        tenant_id: query.tenant_id.clone(),
        user_id: query.user_id.clone(),
        project_id: Some(query.project_id.clone()),
        group_id: query.group_id.clone(),
    }
}

fn item(recalled: Recalled) -> Result<Item, ProviderFailure> {
    let entry = recalled.entry;
    let revision = Id::new(entry.revision.to_string())
        .map_err(|_| failure(Detail::Malformed, "The memory ledger holds a value it cannot hold."))?;
    let claim = cut(format!("{}: {}", entry.title.trim(), entry.summary.trim()), CLAIM_BYTES_MAX);
    let why_loaded = cut(recalled.why, WHY_BYTES_MAX);
    Ok(Item {
        id: entry.memory_id,
        revision,
        claim,
        source: entry.source,
        validity: Validity::Current,
        confidence: recalled.confidence,
        why_loaded,
    })
}

/// At most `bytes_max`, at a character boundary, with a sign that something is missing.
fn cut(mut text: String, bytes_max: usize) -> String {
    if text.len() > bytes_max {
        text.truncate(text.floor_char_boundary(bytes_max - '…'.len_utf8()));
        text.push('…');
    }
    text
}

fn store(error: StoreError) -> ProviderFailure {
    let detail = match error {
        StoreError::Busy | StoreError::Interrupted => Detail::Timeout,
        StoreError::Sqlite(_) | StoreError::Corrupt => Detail::Malformed,
    };
    failure(detail, &format!("Recall failed: {error}."))
}

fn failure(detail: Detail, message: &str) -> ProviderFailure {
    ProviderFailure { detail, message: message.to_owned() }
}
