//! One request of another program: recognised, taken through the gate, sent on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentspine_gate::{Detail, Digest, ReceiptId, Refusal};
use agentspine_model::{ModelClient, ModelError, Passed, Relayed, Sent};
use hyper::header::LOCATION;
use hyper::{HeaderMap, StatusCode};
use tokio::task::block_in_place;
use tokio::time::sleep;

use super::behind::{Behind, Inbound, Outgoing, Passing, Relay};
use super::follow::Arrived;
use super::fork::Source;
use super::read::{self, Asked};
use super::reply::{End, How, Outcome};
use super::settle::Settle;
use super::thread::{self, Attempt, Threads};
use super::upstream::{Onward, may_hold_credential};
use super::workspaces::{Registry, Workspace};
use crate::chat::cancel::Cancel;
use crate::conversations::SPAN_UNUSED_MS_MAX;
use crate::desk::Drawer;
use crate::turn::{self, Rooms, Stopped};

/// What every request of the daemon needs.
pub(crate) struct House {
    rooms: Arc<Rooms>,
    client: Arc<ModelClient>,
    onward: Arc<Onward>,
    registry: Arc<Registry>,
    threads: Arc<Mutex<Threads>>,
}

/// How often the daemon looks for what may be removed.
const TIDY_EVERY: Duration = Duration::from_hours(24);
/// From this size on, reading a body takes as long as other requests may not wait.
const ASIDE_BYTES: usize = 512 * 1024;
/// What a client reads that speaks a dialect its workspace has no server for.
const NO_UPSTREAM: &str =
    "this workspace sends nothing in this API's dialect: start the client with agentspine run";
/// What a client reads whose address could hold a key.
const CREDENTIAL: &str = "the address ends with what could be a credential: send it in a header";
/// What a client reads whose upstream redirects: it would follow with prompt and key, past the gate.
const ELSEWHERE: &str = "the server points to another address; redirects are not followed";

impl Behind for Arc<House> {
    type Workspace = Workspace;

    fn find(&self, secret: &str) -> Option<Arc<Workspace>> {
        self.registry.find(secret)
    }

    async fn serve(&self, workspace: Arc<Workspace>, inbound: Inbound) -> Outgoing {
        let Inbound { path, query, headers, body } = inbound;
        let size = body.len();
        let source = Source { client: workspace.binding.host, path, headers: headers.clone() };
        let read = || read::read(source.client, path, &headers, body);
        let read = if size < ASIDE_BYTES { read() } else { block_in_place(read) };
        let asked = match read {
            Ok(asked) => asked,
            Err(unreadable) => return Outgoing::Unreadable(unreadable.to_string()),
        };
        if query.as_deref().is_some_and(may_hold_credential) {
            return Outgoing::Unreadable(CREDENTIAL.to_owned());
        }
        let Some(endpoint) = self.onward.now().endpoint(workspace.binding.upstreams, path, query.as_deref())
        else {
            return Outgoing::Unreadable(NO_UPSTREAM.to_owned());
        };
        let (passed, settle) = match self.preflight(&workspace, asked, source, endpoint).await {
            Ok(passed) => passed,
            Err(refusal) => return Outgoing::Blocked(refusal),
        };
        let receipt = Some(passed.claims.id);
        match self.client.relay(headers, passed.admitted).await {
            Ok(Relayed { status, headers, .. }) if leads_elsewhere(status, &headers) => {
                settle.with_answer(status).tell(End { how: How::Whole, bytes: 0 });
                let (status, message) = (status.as_u16(), ELSEWHERE.to_owned());
                let error = ModelError::Status { status, message, retry_after: None };
                Outgoing::UpstreamFailed { receipt, error }
            }
            Ok(Relayed { status, headers, body, .. }) => Outgoing::Relayed(Relay {
                receipt,
                status,
                headers,
                body: Box::pin(body),
                outcome: settle.with_answer(status),
            }),
            Err(error) => {
                if error.sent() == Sent::No {
                    settle.not_sent();
                }
                Outgoing::UpstreamFailed { receipt, error }
            }
        }
    }

    async fn pass(&self, workspace: Arc<Workspace>, passing: Passing) -> Outgoing {
        let Passing { path, query, headers } = passing;
        let onward = self.onward.now();
        let Some(question) = onward.question(workspace.binding.upstreams, path, query.as_deref(), &headers)
        else {
            return Outgoing::Unreadable(NO_UPSTREAM.to_owned());
        };
        match self.client.pass(question, headers).await {
            Ok(Passed { status, headers, body }) => {
                let (body, outcome) = (Box::pin(body), Outcome::unasked());
                Outgoing::Relayed(Relay { receipt: None, status, headers, body, outcome })
            }
            Err(error) => Outgoing::UpstreamFailed { receipt: None, error },
        }
    }
}

impl House {
    /// A daemon's house over opened rooms.
    pub(crate) fn new(
        rooms: Arc<Rooms>,
        client: Arc<ModelClient>,
        onward: Arc<Onward>,
        registry: Arc<Registry>,
    ) -> Arc<Self> {
        Arc::new(Self { rooms, client, onward, registry, threads: Arc::default() })
    }

    /// Once a day, for ever: injected text that nobody used for 30 days goes, and rows of the journal that are old enough.
    pub(crate) async fn keep_tidy(&self) {
        loop {
            self.rooms.desk.tell(|at| {
                let now = at.seams.clock.wall_ms();
                // What cannot be removed today is tried again tomorrow; no call depends on it.
                let _ = at.conversations.expire_spans(now.saturating_sub(SPAN_UNUSED_MS_MAX));
                let _ = at.gate.vault().prune(now);
            });
            sleep(TIDY_EVERY).await;
        }
    }

    /// The path of the call. Dropped, it is cancelled: providers end at once, the desk stops before the receipt is spent, or
    /// tells one that was spent meanwhile that nothing was sent.
    async fn preflight(
        &self,
        workspace: &Arc<Workspace>,
        asked: Asked,
        source: Source,
        endpoint: String,
    ) -> Result<(turn::Passed, Settle), Refusal> {
        let gone = Gone(Cancel::new());
        self.walk(workspace, asked, source, endpoint, &gone.0).await
    }

    /// A client that repeats a refused request at once is told the same again.
    async fn walk(
        &self,
        workspace: &Arc<Workspace>,
        asked: Asked,
        source: Source,
        endpoint: String,
        cancel: &Cancel,
    ) -> Result<(turn::Passed, Settle), Refusal> {
        let attempt = Attempt {
            workspace: Digest::of(workspace.secret.expose().as_bytes()),
            conversation: asked.conversation.clone(),
            body: asked.draft.body.digest(),
        };
        if let Some(refusal) = self.threads(|threads| threads.just_refused(&attempt)) {
            return Err(refusal);
        }
        match self.walk_anew(workspace, asked, attempt.body, source, endpoint, cancel).await {
            Ok(passed) => Ok(passed),
            Err(Stopped::Refused(mut refusal)) => {
                // A gate that could not even be opened gave it no id.
                refusal.receipt = refusal.receipt.or_else(random_id);
                self.threads(|threads| threads.refused(attempt, &refusal));
                Err(refusal)
            }
            Err(Stopped::Cancelled) => Err(cancelled()),
        }
    }

    async fn walk_anew(
        &self,
        workspace: &Arc<Workspace>,
        asked: Asked,
        body: Digest,
        source: Source,
        endpoint: String,
        cancel: &Cancel,
    ) -> Result<(turn::Passed, Settle), Stopped> {
        let newest = asked.draft.slots.last().map(|slot| slot.place);
        let (threads, workspace) = (Arc::clone(&self.threads), Arc::clone(workspace));
        let arrived = Arrived { asked, body, source, endpoint };
        let call = move |at: &mut Drawer| arrived.call(at, &threads, &workspace);
        let passed = turn::walk(&self.rooms, call, &|_| {}, cancel).await?;
        let (session, kind) = (&passed.claims.session_id, passed.claims.kind);
        let words = newest.filter(|_| thread::speaks(kind));
        self.threads(|threads| threads.passed(session, passed.claims.id, kind, body, words));
        let settle = Settle::new(Arc::clone(&self.rooms), passed.claims.id);
        Ok((passed, settle))
    }

    fn threads<R>(&self, work: impl FnOnce(&mut Threads) -> R) -> R {
        work(&mut self.threads.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn leads_elsewhere(status: StatusCode, headers: &HeaderMap) -> bool {
    status.is_redirection() && headers.contains_key(LOCATION)
}

fn random_id() -> Option<ReceiptId> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok().map(|()| ReceiptId(bytes))
}

/// Cancels the path when the client has gone.
struct Gone(Cancel);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

fn cancelled() -> Refusal {
    Refusal::new(Detail::Cancelled, "The client went away before the call was made.", "Send again.")
}
