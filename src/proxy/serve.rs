//! One request of another program: recognised, taken through the gate, sent on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentspine_gate::ids::hex;
use agentspine_gate::instructions::project_id;
use agentspine_gate::os_fs::OsFs;
use agentspine_gate::span::Draft;
use agentspine_gate::turn::{CallKind, InstructionHost, Scope, TurnRequest};
use agentspine_gate::{Detail, Digest, Id, ReceiptId, Refusal};
use agentspine_model::{ModelClient, ModelError, Passed, Relayed, Sent};
use hyper::header::LOCATION;
use hyper::{HeaderMap, StatusCode};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::behind::{Behind, Inbound, Outgoing, Passing, Relay};
use super::fork::{self, Source};
use super::read::{self, Asked, Sort};
use super::reply::{End, How, Outcome};
use super::settle::Settle;
use super::thread::{Attempt, Before, Thread, Threads, answers_at};
use super::upstream::{Onward, may_hold_credential};
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
        let source = Source { client: workspace.binding.host, path, headers: headers.clone() };
        let asked = match read::read(source.client, path, &headers, &body) {
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
        source: Source,
        endpoint: String,
    ) -> Result<(turn::Passed, Settle), Refusal> {
        let (reply, answer) = oneshot::channel();
        let guard = Gone(Cancel::new());
        let cancel = guard.0.clone();
        let (house, workspace) = (Arc::clone(self), Arc::clone(workspace));
        tokio::spawn(async move {
            let done = house.walk(&workspace, asked, source, endpoint, &cancel).await;
            if let Err(Ok((_, settle))) = reply.send(done) {
                settle.not_sent();
            }
        });
        answer.await.unwrap_or_else(|_| Err(cancelled()))
    }

    /// A client that repeats a refused request at once is told the same again.
    async fn walk(
        &self,
        workspace: &Workspace,
        asked: Asked,
        source: Source,
        endpoint: String,
        cancel: &Cancel,
    ) -> Result<(turn::Passed, Settle), Refusal> {
        let attempt = Attempt {
            workspace: Digest::of(workspace.secret.expose().as_bytes()),
            conversation: asked.conversation.clone(),
            body: Digest::of(&asked.draft.body),
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
        workspace: &Workspace,
        asked: Asked,
        body: Digest,
        source: Source,
        endpoint: String,
        cancel: &Cancel,
    ) -> Result<(turn::Passed, Settle), Stopped> {
        let binding = &workspace.binding;
        let mut request = TurnRequest {
            identity: binding.identity.clone(),
            host: binding.host,
            instruction_host: Some(binding.instruction_host),
            homes: binding.homes.clone(),
            scope: scope(binding, &asked.conversation),
            cwd: binding.dir.clone(),
            // Replaced by one that was drawn before anything is bound.
            delivery_id: asked.conversation,
            kind: asked.sort.kind(),
            prompt: asked.prompt,
            parent: None,
            retry_of: None,
            injection: workspace.injection,
            client_body_digest: body,
            endpoint,
            model: asked.model,
        };
        let (session, delivery) = self.enter(&request).await?;
        (request.scope.session_id, request.delivery_id) = (session.clone(), delivery);
        let before = self.before(&session, body).await?;
        if before.turn.is_none() && fork::may_be(&request, &asked.draft) {
            let (request, draft) = (request.clone(), asked.draft.clone());
            self.rooms.desk.ask(move |at| fork::adopt(at, &request, &draft, &source)).await?;
        }
        let sort = self.follow(before, &mut request, asked.sort, asked.standing, &asked.draft).await?;
        let (kind, at) = (request.kind, answers_at(request.kind, &asked.draft));
        let sort = sort.as_str().to_owned();
        let event = move |receipt| LogEvent::Call { receipt, call: kind, sort, body, at };
        let call = Call { request, draft: asked.draft, event: Box::new(event) };
        let passed = turn::walk(&self.rooms, call, &|_| {}, cancel).await?;
        self.threads(|threads| threads.passed(&session, passed.claims.id, kind, body, at));
        let settle = Settle::new(Arc::clone(&self.rooms), passed.claims.id);
        Ok((passed, settle))
    }

    /// What the call follows in its conversation; the sort that it turns out to be.
    async fn follow(
        &self,
        before: Before,
        request: &mut TurnRequest,
        sort: Sort,
        standing: String,
        draft: &Draft,
    ) -> Result<Sort, Refusal> {
        let Before { turn, retry_of } = before;
        let goes_on = request.kind == CallKind::Continuation;
        request.parent = turn.map(|turn| turn.receipt).filter(|_| goes_on);
        request.retry_of = retry_of;
        let gone = turn.filter(|turn| goes_on && !standing.trim().is_empty() && turn.is_gone_from(draft));
        if (gone.is_none() && retry_of.is_none()) || !self.is_unknown(request, draft).await? {
            return Ok(sort);
        }
        // What it repeats was said with text that is kept no more: it is said anew.
        request.retry_of = None;
        let Some(turn) = gone else { return Ok(sort) };
        // The client's own compaction in the middle of a turn, its newest steps kept: everything is injected again.
        (request.kind, request.parent, request.prompt) = (turn.kind, None, standing);
        Ok(Sort::Afresh)
    }

    async fn is_unknown(&self, request: &TurnRequest, draft: &Draft) -> Result<bool, Refusal> {
        let (request, draft) = (request.clone(), draft.clone());
        let ask = move |at: &mut Drawer| {
            let spans = at.spans(&request.scope.session_id)?;
            Ok(at.gate.is_unknown(&request, &draft, &spans))
        };
        self.rooms.desk.ask(ask).await
    }

    /// Where the call belongs, and its delivery, which never comes from the client: 128 random bits. A conversation seen
    /// for the first time is started.
    async fn enter(&self, request: &TurnRequest) -> Result<(Id, Id), Refusal> {
        let request = request.clone();
        let enter = move |at: &mut Drawer| {
            let new = NewSession {
                id: request.scope.session_id.clone(),
                created_at: at.seams.clock.wall_ms(),
                project_id: request.scope.project_id.clone(),
                cwd: request.cwd.clone(),
                host: request.host,
                instruction_host: request.instruction_host.unwrap_or(InstructionHost::Claude),
            };
            let entered = at.enter(new).and_then(|session| Ok((session, delivery(at)?)));
            entered.map_err(|why| at.gate.turn_away(&request, why))
        };
        self.rooms.desk.ask(enter).await
    }

    async fn before(&self, session: &Id, body: Digest) -> Result<Before, Refusal> {
        if let Some(before) = self.threads(|threads| threads.before(session, body)) {
            return Ok(before);
        }
        let id = session.clone();
        let events = self.rooms.desk.ask(move |at| at.read(&id)).await?;
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

fn leads_elsewhere(status: StatusCode, headers: &HeaderMap) -> bool {
    status.is_redirection() && headers.contains_key(LOCATION)
}

/// A conversation of another person than the default one has that person's mark: ids that clients choose, or that follow
/// from a first message, are no secret, and injected text does not cross from one to another.
fn scope(binding: &Binding, conversation: &Id) -> Scope {
    let identity = &binding.identity;
    let session_id = if identity.is_default_person() {
        conversation.clone()
    } else {
        let parts = [conversation, &identity.user_id, &identity.tenant_id].map(|id| id.as_str().as_bytes());
        Id::of_digest("x", Digest::of(&parts.join(&0)))
    };
    Scope { session_id, project_id: project_id(&OsFs, &binding.dir), task_id: None, group_id: None }
}

fn random_id() -> Option<ReceiptId> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok().map(|()| ReceiptId(bytes))
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
