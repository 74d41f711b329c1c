//! `ledger/v1`: the memory ledger, asked on a blocking thread.

use std::sync::{Arc, Mutex, PoisonError};

use agentspine_gate::recall::{
    Answer, CLAIM_BYTES_MAX, Item, LeftOut, Planned, ProviderFailure, Query, Validity, WHY_BYTES_MAX,
};
use agentspine_gate::{Detail, Id};
use agentspine_memory::{Ledger, LeftOut as Other, MemoryScope, Recalled, StoreError};

use crate::run::{Answered, Asking, Recall, Retrieval, Stop};
use crate::wishes::Wished;

/// Most items of one answer. The gate cuts them to its budget; a few more let it fill the place of a duplicate.
const ITEMS_MAX: usize = 8;

/// The embedded provider.
pub struct LedgerV1 {
    ledger: Option<Arc<Mutex<Ledger>>>,
    recall: Recall,
    wished: Wished,
}

impl LedgerV1 {
    /// Over a ledger; `None` where it could not be opened, then every question fails.
    pub fn new(ledger: Option<Arc<Mutex<Ledger>>>, recall: Recall, wished: Wished) -> Self {
        Self { ledger, recall, wished }
    }
}

impl Retrieval for LedgerV1 {
    fn ask(&self, planned: Planned, stop: Stop) -> Asking {
        let (ledger, recall, wished) = (self.ledger.clone(), self.recall, self.wished.clone());
        Box::pin(async move {
            match ledger {
                _ if recall == Recall::Off => off(&planned),
                Some(ledger) => within(ledger, planned, wished, stop).await,
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
    Ok(Answer { items: Vec::new(), screened_out: Vec::new(), rejected: 0, left_out: Vec::new() })
}

/// The blocking thread may outlive the deadline by the time of one statement; the interrupt keeps that short.
async fn within(ledger: Arc<Mutex<Ledger>>, planned: Planned, wished: Wished, mut stop: Stop) -> Answered {
    let deadline = planned.deadline_ms;
    let (sender, interrupter) = tokio::sync::oneshot::channel();
    let mut reading = tokio::task::spawn_blocking(move || {
        let ledger = ledger.lock().unwrap_or_else(PoisonError::into_inner);
        if sender.send(ledger.interrupter()).is_err() {
            return Err(failure(Detail::Timeout, "The memory ledger was busy."));
        }
        answer(&ledger, &planned, &wished)
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

fn answer(ledger: &Ledger, planned: &Planned, wished: &Wished) -> Answered {
    let scope = scope(&planned.query);
    // A few more than are wanted, because what the person left out takes no place.
    let limit = ITEMS_MAX + wished.left_out.len();
    let found = ledger.recall_with_rest(&scope, &planned.prompt, limit).map_err(store)?;
    let mut all = pinned(ledger, &scope, wished)?;
    let others = found.recalled.into_iter().filter(|found| !wished.pinned.contains(&found.entry.memory_id));
    all.extend(others);
    let items = all.into_iter().map(item).collect::<Result<Vec<_>, _>>()?;
    let left_out = found.left_out.into_iter().filter(|other| !wished.pinned.contains(&other.memory_id));
    let left_out = left_out.map(|other| rest(ledger, &scope, &other)).collect::<Result<Vec<_>, _>>()?;
    Ok(Answer { items, screened_out: Vec::new(), rejected: 0, left_out })
}

/// Memories the person pinned, in the order they did; one that was forgotten meanwhile is gone.
fn pinned(ledger: &Ledger, scope: &MemoryScope, wished: &Wished) -> Result<Vec<Recalled>, ProviderFailure> {
    let found = wished.pinned.iter().map(|id| ledger.record(scope, id).map_err(store));
    let entries = found.collect::<Result<Vec<_>, _>>()?.into_iter().flatten();
    Ok(entries.map(|entry| Recalled { entry, confidence: 1.0, why: "you pinned it".to_owned() }).collect())
}

fn rest(ledger: &Ledger, scope: &MemoryScope, other: &Other) -> Result<LeftOut, ProviderFailure> {
    let title = ledger.record(scope, &other.memory_id).map_err(store)?.map(|entry| entry.title);
    Ok(LeftOut { id: other.memory_id.clone(), title: title.unwrap_or_default(), why: other.why.to_string() })
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
    let about = [entry.kind.as_str(), entry.trust.as_str(), &entry.day()].join(", ");
    Ok(Item {
        id: entry.memory_id,
        revision,
        claim,
        about,
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
