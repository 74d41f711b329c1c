//! Following: what a request means in its conversation. All of it at the desk, in the visit in which the call is made.

use std::sync::{Mutex, PoisonError};

use agentspine_gate::ids::hex;
use agentspine_gate::instructions::project_id;
use agentspine_gate::os_fs::OsFs;
use agentspine_gate::span::Draft;
use agentspine_gate::turn::{CallKind, InstructionHost, Scope, TurnRequest};
use agentspine_gate::{Detail, Digest, Id, Refusal};

use super::fork::{self, Source};
use super::read::{Asked, Sort};
use super::thread::{Before, Thread, Threads, answers_at};
use super::workspaces::{Binding, Workspace};
use crate::chat::log::LogEvent;
use crate::conversations::NewSession;
use crate::desk::Drawer;
use crate::turn::Call;

/// A request that was understood, before its conversation is known.
pub(super) struct Arrived {
    /// What it says.
    pub asked: Asked,
    /// Digest of its body.
    pub body: Digest,
    /// How it came.
    pub source: Source,
    /// Where it goes.
    pub endpoint: String,
}

impl Arrived {
    /// The call that it is in its conversation, which is started where it is new.
    pub(super) fn call(
        self,
        at: &mut Drawer,
        threads: &Mutex<Threads>,
        workspace: &Workspace,
    ) -> Result<Call, Refusal> {
        let Self { asked, body, source, endpoint } = self;
        let Asked { conversation, sort, prompt, standing, model, draft } = asked;
        let binding = &workspace.binding;
        let mut request = TurnRequest {
            identity: binding.identity.clone(),
            host: binding.host,
            instruction_host: Some(binding.instruction_host),
            homes: binding.homes.clone(),
            scope: scope(binding, &conversation),
            cwd: binding.dir.clone(),
            // Replaced by one that is drawn before anything is bound.
            delivery_id: conversation,
            kind: sort.kind(),
            prompt,
            parent: None,
            retry_of: None,
            injection: workspace.injection,
            client_body_digest: body,
            endpoint,
            model,
        };
        let entered = enter(at, &request).map_err(|why| at.gate.turn_away(&request, why))?;
        (request.scope.session_id, request.delivery_id) = entered;
        let before = before(at, threads, &request)?;
        if before.turn.is_none() && fork::may_be(&request, &draft) {
            fork::adopt(at, &request, &draft, &source)?;
        }
        let sort = follow(at, before, &mut request, &draft, sort, standing)?.as_str().to_owned();
        let (kind, words) = (request.kind, answers_at(request.kind, &draft));
        let event = move |receipt| LogEvent::Call { receipt, call: kind, sort, body, at: words };
        Ok(Call { request, draft, event: Box::new(event) })
    }
}

/// Where the call belongs, and its delivery, which never comes from the client: 128 random bits. A conversation seen for
/// the first time is started.
fn enter(at: &mut Drawer, request: &TurnRequest) -> Result<(Id, Id), Refusal> {
    let session = at.enter(NewSession {
        id: request.scope.session_id.clone(),
        created_at: at.seams.clock.wall_ms(),
        project_id: request.scope.project_id.clone(),
        cwd: request.cwd.clone(),
        host: request.host,
        instruction_host: request.instruction_host.unwrap_or(InstructionHost::Claude),
    })?;
    Ok((session, delivery(at)?))
}

/// What was called before in the conversation; read from the store where it is not known here.
fn before(at: &Drawer, threads: &Mutex<Threads>, request: &TurnRequest) -> Result<Before, Refusal> {
    let (session, body) = (&request.scope.session_id, request.client_body_digest);
    let known = |threads: &Mutex<Threads>| {
        threads.lock().unwrap_or_else(PoisonError::into_inner).before(session, body)
    };
    if let Some(before) = known(threads) {
        return Ok(before);
    }
    let thread = Thread::read(&at.read(session)?);
    threads.lock().unwrap_or_else(PoisonError::into_inner).know(session.clone(), thread);
    Ok(known(threads).unwrap_or_default())
}

/// What the call follows in its conversation; the sort that it turns out to be.
fn follow(
    at: &mut Drawer,
    before: Before,
    request: &mut TurnRequest,
    draft: &Draft,
    sort: Sort,
    standing: String,
) -> Result<Sort, Refusal> {
    let Before { turn, retry_of } = before;
    let goes_on = request.kind == CallKind::Continuation;
    request.parent = turn.map(|turn| turn.receipt).filter(|_| goes_on);
    request.retry_of = retry_of;
    let gone = turn.filter(|turn| goes_on && !standing.trim().is_empty() && turn.is_gone_from(draft));
    if gone.is_none() && retry_of.is_none() {
        return Ok(sort);
    }
    let spans = at.spans(&request.scope.session_id)?;
    if !at.gate.is_unknown(request, draft, &spans) {
        return Ok(sort);
    }
    // What it repeats was said with text that is kept no more: it is said anew.
    request.retry_of = None;
    let Some(turn) = gone else { return Ok(sort) };
    // The client's own compaction in the middle of a turn, its newest steps kept: everything is injected again.
    (request.kind, request.parent, request.prompt) = (turn.kind, None, standing);
    Ok(Sort::Afresh)
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

fn delivery(at: &Drawer) -> Result<Id, Refusal> {
    let mut bytes = [0; 16];
    at.seams.rng.fill(&mut bytes).map_err(|_| no_randomness())?;
    Id::new(hex(&bytes)).map_err(|_| no_randomness())
}

fn no_randomness() -> Refusal {
    Refusal::new(Detail::JournalIo, "No randomness from the system.", "Run: agentspine doctor")
}
