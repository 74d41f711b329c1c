//! An answer being streamed: bytes with limits, decoded into events.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use agentspine_gate::ReceiptId;
use eventsource_stream::{Event, EventStreamError, Eventsource as _};
use futures_util::{Stream, StreamExt as _, stream};
use reqwest::Response;
use tokio::time::timeout;

use crate::decode::{Decoder, Step};
use crate::error::ModelError;
use crate::event::ModelEvent;
use crate::secret::Secret;
use crate::spec::{Dialect, Target};

/// Most bytes between two events of a stream.
pub const EVENT_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Most bytes of one answer, framing included.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// An answer that is being streamed. Dropping it closes the connection, so no token is paid for that nobody reads.
pub struct Reply {
    receipt: ReceiptId,
    ready: VecDeque<ModelEvent>,
    source: Source,
}

enum Source {
    Http(Box<Live>),
    /// Paces the events that are ready.
    Demo(Duration),
    /// Complete or failed.
    Ended,
}

struct Live {
    events: Events,
    decoder: Decoder,
    dialect: Dialect,
    since_event: Arc<AtomicUsize>,
    host: String,
    secret: Option<Secret>,
    idle: Duration,
}

impl Reply {
    pub(crate) fn demo(receipt: ReceiptId, ready: VecDeque<ModelEvent>, pause: Duration) -> Self {
        Self { receipt, ready, source: Source::Demo(pause) }
    }

    pub(crate) fn http(
        receipt: ReceiptId,
        response: Response,
        target: &Target,
        host: String,
        idle: Duration,
    ) -> Self {
        let since_event = Arc::new(AtomicUsize::new(0));
        let live = Live {
            events: Box::pin(bytes(response, idle, since_event.clone()).eventsource()),
            decoder: Decoder::new(target),
            dialect: target.dialect,
            since_event,
            host,
            secret: target.credential.clone(),
            idle,
        };
        Self { receipt, ready: VecDeque::new(), source: Source::Http(Box::new(live)) }
    }

    /// The receipt that was consumed for this call.
    pub fn receipt(&self) -> ReceiptId {
        self.receipt
    }

    /// The next event; `None` after [`ModelEvent::Stop`] or an error. Safe to drop and call again.
    pub async fn next(&mut self) -> Option<Result<ModelEvent, ModelError>> {
        loop {
            if let Source::Demo(pause) = &self.source
                && !pause.is_zero()
                && !self.ready.is_empty()
            {
                tokio::time::sleep(*pause).await;
            }
            if let Some(event) = self.ready.pop_front() {
                return Some(Ok(event));
            }
            let Source::Http(live) = &mut self.source else { return None };
            let (events, goes_on) = match live.step().await {
                Ok(Step::Events(events)) => (events, true),
                Ok(Step::Done(events)) => (events, false),
                Ok(Step::Failed(json)) => {
                    return self.fail(|live| ModelError::in_stream(&json, live.secret.as_ref()));
                }
                Ok(Step::Malformed) => return self.fail(Live::malformed),
                Err(error) => return self.fail(|_| error),
            };
            self.ready.extend(events);
            if !goes_on {
                self.source = Source::Ended;
            }
        }
    }

    fn fail(&mut self, error: impl FnOnce(&Live) -> ModelError) -> Option<Result<ModelEvent, ModelError>> {
        match std::mem::replace(&mut self.source, Source::Ended) {
            Source::Http(live) => Some(Err(error(&live))),
            Source::Demo(_) | Source::Ended => None,
        }
    }
}

impl Live {
    async fn step(&mut self) -> Result<Step, ModelError> {
        let host = || self.host.clone();
        match self.events.next().await {
            Some(Ok(event)) => {
                self.since_event.store(0, Ordering::Relaxed);
                Ok(self.decoder.take(&event.event, &event.data))
            }
            None => self.decoder.finish().map(Step::Done).ok_or_else(|| ModelError::Cut { host: host() }),
            Some(Err(EventStreamError::Transport(Broken::Transport))) => {
                Err(ModelError::Cut { host: host() })
            }
            Some(Err(EventStreamError::Transport(Broken::Idle))) => {
                Err(ModelError::Idle { host: host(), after: self.idle })
            }
            Some(Err(EventStreamError::Transport(Broken::TooLarge(limit)))) => {
                Err(ModelError::TooLarge { host: host(), limit })
            }
            Some(Err(EventStreamError::Utf8(_) | EventStreamError::Parser(_))) => Ok(Step::Malformed),
        }
    }

    fn malformed(&self) -> ModelError {
        ModelError::Malformed { host: self.host.clone(), dialect: self.dialect.name() }
    }
}

/// Why the bytes of a stream ended early.
#[derive(Debug)]
enum Broken {
    Transport,
    Idle,
    TooLarge(usize),
}

type Events = Pin<Box<dyn Stream<Item = Result<Event, EventStreamError<Broken>>> + Send>>;

/// The body's bytes, bounded in silence, per event and in all. Ends after the first fault.
fn bytes(
    response: Response,
    idle: Duration,
    since_event: Arc<AtomicUsize>,
) -> impl Stream<Item = Result<Vec<u8>, Broken>> + Send {
    stream::unfold(Some((response, 0_usize)), move |state| {
        let since_event = since_event.clone();
        async move {
            let (mut response, total) = state?;
            let chunk = match timeout(idle, response.chunk()).await {
                Ok(Ok(chunk)) => chunk?,
                Ok(Err(_)) => return Some((Err(Broken::Transport), None)),
                Err(_) => return Some((Err(Broken::Idle), None)),
            };
            let total = total.saturating_add(chunk.len());
            let unread = since_event.fetch_add(chunk.len(), Ordering::Relaxed).saturating_add(chunk.len());
            if total > ANSWER_BYTES_MAX {
                return Some((Err(Broken::TooLarge(ANSWER_BYTES_MAX)), None));
            }
            if unread > EVENT_BYTES_MAX {
                return Some((Err(Broken::TooLarge(EVENT_BYTES_MAX)), None));
            }
            Some((Ok(chunk.to_vec()), Some((response, total))))
        }
    })
}
