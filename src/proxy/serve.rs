//! One request of another program: recognised, taken through the gate, sent on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentspine_gate::ids::hex;
use agentspine_gate::instructions::project_id;
use agentspine_gate::os_fs::OsFs;
use agentspine_gate::turn::{CallKind, Scope, TurnRequest};
use agentspine_gate::{Detail, Digest, Id, Refusal};
use agentspine_model::{ModelClient, Passed, Relayed, Sent};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::behind::{Behind, Inbound, Outgoing, Passing, Relay};
use super::read::{self, Asked};
use super::reply::Outcome;
use super::settle::Settle;
use super::thread::{Before, Repeat, Thread, Threads};
use super::upstream::Onward;
use super::workspaces::{Binding, Registry, Workspace};
use crate::chat::cancel::Cancel;
use crate::chat::log::LogEvent;
use crate::conversations::{NewSession, SPAN_UNUSED_MS_MAX};
use crate::desk::Drawer;
use crate::turn::{self, Call, Rooms, Stopped};

/// What every request of the daemon needs.
pub(crate) struct House {
    rooms: Arc<Rooms>,
    client: Arc<ModelClient>,
    onward: Arc<Onward>,
    registry: Arc<Registry>,
    threads: Mutex<Threads>,
}

/// How often the daemon looks for what may be removed.
const TIDY_EVERY: Duration = Duration::from_hours(24);
/// What a client reads that speaks a dialect its workspace has no server for.
const NO_UPSTREAM: &str =
    "this workspace sends nothing in this API's dialect: start the client with agentspine run";

impl Behind for Arc<House> {
    type Workspace = Workspace;

    fn find(&self, secret: &str) -> Option<Arc<Workspace>> {
        self.registry.find(secret)
    }

    async fn serve(&self, workspace: Arc<Workspace>, inbound: Inbound) -> Outgoing {
        let Inbound { path, query, headers, body } = inbound;
        let asked = match read::read(workspace.binding.host, path, &headers, body) {
            Ok(asked) => asked,
            Err(unreadable) => return Outgoing::Unreadable(unreadable.to_string()),
        };
        let Some(endpoint) = self.onward.now().endpoint(workspace.binding.upstreams, path, query.as_deref())
        else {
            return Outgoing::Unreadable(NO_UPSTREAM.to_owned());
        };
        let (passed, settle) = match self.preflight(&workspace, asked, endpoint).await {
            Ok(passed) => passed,
            Err(refusal) => return Outgoing::Blocked(refusal),
        };
        let receipt = Some(passed.claims.id);
        match self.client.relay(headers, passed.admitted).await {
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
        let Some(question) = self.onward.now().question(workspace.binding.upstreams, path, query.as_deref())
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
        Arc::new(Self { rooms, client, onward, registry, threads: Mutex::default() })
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

    /// The path of the call, in a task of its own: a client that goes away cancels it in its own time, and a receipt that
    /// was consumed meanwhile is told that nothing was sent.
    async fn preflight(
        self: &Arc<Self>,
        workspace: &Arc<Workspace>,
        asked: Asked,
        endpoint: String,
    ) -> Result<(turn::Passed, Settle), Refusal> {
        let (reply, answer) = oneshot::channel();
        let guard = Gone(Cancel::new());
        let cancel = guard.0.clone();
        let (house, workspace) = (Arc::clone(self), Arc::clone(workspace));
        tokio::spawn(async move {
            let done = house.walk(&workspace, asked, endpoint, &cancel).await;
            if let Err(Ok((_, settle))) = reply.send(done) {
                settle.not_sent();
            }
        });
        answer.await.unwrap_or_else(|_| Err(cancelled()))
    }

    async fn walk(
        self: &Arc<Self>,
        workspace: &Arc<Workspace>,
        asked: Asked,
        endpoint: String,
        cancel: &Cancel,
    ) -> Result<(turn::Passed, Settle), Refusal> {
        let Asked { conversation, sort, prompt, model, draft } = asked;
        let (kind, sort, body) = (sort.kind(), sort.as_str(), Digest::of(&draft.body));
        let (dir, host) = (workspace.binding.dir.clone(), workspace.binding.host);
        let repeat = Repeat { dir, host, conversation: conversation.clone(), body };
        if let Some(refusal) = self.threads(|threads| threads.just_refused(&repeat)) {
            return Err(refusal);
        }
        let said = Said { conversation, kind, prompt, model, body, endpoint };
        let (house, workspace) = (Arc::clone(self), Arc::clone(workspace));
        let request = move |at: &mut Drawer| house.request(at, &workspace, said);
        let event = move |receipt| LogEvent::Call { receipt, call: kind, sort: sort.to_owned(), body };
        let call = Call { request: Box::new(request), draft, event: Box::new(event) };
        match turn::walk(&self.rooms, call, &|_| {}, cancel).await {
            Ok(passed) => {
                let claims = &passed.claims;
                self.threads(|threads| threads.passed(&claims.session_id, claims.id, kind, body));
                let settle = Settle::new(Arc::clone(&self.rooms), claims.id);
                Ok((passed, settle))
            }
            Err(Stopped::Refused(refusal)) => {
                self.threads(|threads| threads.refused(repeat, &refusal));
                Err(refusal)
            }
            Err(Stopped::Cancelled) => Err(cancelled()),
        }
    }

    /// What the gate is asked: where the call belongs, what it follows, and its delivery, which never comes from the
    /// client: 128 random bits. A conversation seen for the first time is started.
    fn request(&self, at: &mut Drawer, workspace: &Workspace, said: Said) -> Result<TurnRequest, Refusal> {
        let Said { conversation, kind, prompt, model, body, endpoint } = said;
        let Binding { dir, host, instruction_host, identity, homes, .. } = workspace.binding.clone();
        let project_id = project_id(&OsFs, &dir);
        let session_id = at.enter(NewSession {
            id: conversation,
            created_at: at.seams.clock.wall_ms(),
            project_id: project_id.clone(),
            cwd: dir.clone(),
            host,
            instruction_host,
        })?;
        let before = self.before(at, &session_id, body)?;
        Ok(TurnRequest {
            identity,
            host,
            instruction_host: Some(instruction_host),
            homes,
            scope: Scope { session_id, project_id, task_id: None, group_id: None },
            cwd: dir,
            delivery_id: delivery(at)?,
            kind,
            prompt,
            parent: before.parent.filter(|_| kind == CallKind::Continuation),
            retry_of: before.retry_of,
            injection: workspace.injection,
            client_body_digest: body,
            endpoint,
            model,
        })
    }

    fn before(&self, at: &Drawer, session: &Id, body: Digest) -> Result<Before, Refusal> {
        if let Some(before) = self.threads(|threads| threads.before(session, body)) {
            return Ok(before);
        }
        let events = at.read(session)?;
        let before = self.threads(|threads| {
            threads.know(session.clone(), Thread::read(&events));
            threads.before(session, body)
        });
        Ok(before.unwrap_or_default())
    }

    fn threads<R>(&self, work: impl FnOnce(&mut Threads) -> R) -> R {
        work(&mut self.threads.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a request says by itself.
struct Said {
    conversation: Id,
    kind: CallKind,
    prompt: String,
    model: String,
    body: Digest,
    endpoint: String,
}

fn delivery(at: &Drawer) -> Result<Id, Refusal> {
    let mut bytes = [0; 16];
    at.seams.rng.fill(&mut bytes).map_err(|_| no_randomness())?;
    Id::new(hex(&bytes)).map_err(|_| no_randomness())
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

fn no_randomness() -> Refusal {
    Refusal::new(Detail::JournalIo, "No randomness from the system.", "Run: agentspine doctor")
}
