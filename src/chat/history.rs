//! Which session a chat starts with: a new one, the named one, the project's last one.

use agentspine_gate::Id;
use agentspine_gate::turn::Host;

use super::engine::Binding;
use super::log::{self, LogEvent};
use crate::cli::chat::ChatArgs;
use crate::conversations::Session;
use crate::desk::{self, Desk};
use crate::report::Failure;

/// Sessions that are looked through for a list.
const LOOKED_AT_MAX: u32 = 200;
/// Sessions a list offers.
const LISTED_MAX: usize = 9;

/// What a session holds already.
#[derive(Default)]
pub(crate) struct Held {
    /// Its events.
    pub events: Vec<LogEvent>,
    /// Text injected since its newest summary, bytes.
    pub injected_bytes: usize,
}

/// Binds the session the arguments name and reads what it holds.
pub(super) async fn open(args: &ChatArgs, desk: &Desk, binding: &mut Binding) -> Result<Held, Failure> {
    let wanted = match (&args.resume, args.continue_last) {
        (Some(Some(text)), _) => Some(named(desk, text).await?),
        (Some(None), _) => return Err(which(&offered(desk, binding).await?)),
        (None, true) => Some(last(desk, binding).await?),
        (None, false) => None,
    };
    match wanted {
        Some(id) => resume(desk, binding, id).await,
        None => Ok(Held::default()),
    }
}

/// Binds a session that is known and reads what it holds.
pub(super) async fn resume(desk: &Desk, binding: &mut Binding, id: Id) -> Result<Held, Failure> {
    binding.scope.session_id = id.clone();
    let session = id.clone();
    let found = desk
        .ask(move |at| {
            if !at.claim(&session)? {
                return Ok(None);
            }
            let known = at.conversations.session(&session).map_err(desk::store)?;
            let (events, spans) = (at.read(&session)?, at.spans(&session)?);
            let injected_bytes = log::injected_bytes(&events, &spans);
            Ok(Some((known, Held { events, injected_bytes })))
        })
        .await?;
    let (session, held) = found.ok_or_else(|| in_use(&id))?;
    if let Some(session) = session {
        binding.scope.project_id = session.project_id;
        binding.instruction_host = binding.instruction_host.or(Some(session.instruction_host));
        binding.root = session.root;
    }
    Ok(held)
}

fn in_use(session: &Id) -> Failure {
    Failure::other(
        format!("Session {session} is open in another agentspine"),
        "Go on there, or start another session: agentspine chat",
    )
}

async fn named(desk: &Desk, text: &str) -> Result<Id, Failure> {
    let id = Id::new(text)
        .map_err(|error| Failure::usage(error.to_string(), "List them: agentspine sessions list"))?;
    let wanted = id.clone();
    let known = desk.ask(move |at| at.conversations.session(&wanted).map_err(desk::store)).await?;
    match known {
        Some(session) if session.redacted_at.is_some() => Err(Failure::usage(
            format!("Session {text} was redacted: what was said in it is erased, so it cannot go on"),
            "Start another one: agentspine chat",
        )),
        Some(session) if session.host == Host::Agentspine => Ok(id),
        Some(session) => Err(Failure::usage(
            format!("Session {text} is a conversation of {}", session.host.as_str()),
            "Go on with it there, through: agentspine run",
        )),
        None => {
            Err(Failure::usage(format!("There is no session {text}"), "List them: agentspine sessions list"))
        }
    }
}

async fn last(desk: &Desk, binding: &Binding) -> Result<Id, Failure> {
    let project = binding.scope.project_id.clone();
    let found = desk.ask(move |at| at.conversations.last_session(&project).map_err(desk::store)).await?;
    found
        .map(|session| session.id)
        .ok_or_else(|| Failure::usage("This project has no session yet", "Start one: agentspine chat"))
}

/// The sessions `--resume` without an id offers: this project's, the most recently used first.
pub(super) async fn offered(desk: &Desk, binding: &Binding) -> Result<Vec<Session>, Failure> {
    let sessions = desk.ask(|at| at.conversations.sessions(LOOKED_AT_MAX).map_err(desk::store)).await?;
    let here = |session: &Session| {
        session.project_id == binding.scope.project_id
            && session.host == Host::Agentspine
            && session.events > 0
            && session.redacted_at.is_none()
    };
    Ok(sessions.into_iter().filter(here).take(LISTED_MAX).collect())
}

/// Without a screen nobody can choose: the sessions are named.
fn which(offered: &[Session]) -> Failure {
    let ids: Vec<&str> = offered.iter().map(|session| session.id.as_str()).collect();
    match ids.first() {
        None => Failure::usage("This project has no session yet", "Start one: agentspine chat"),
        Some(newest) => Failure::usage(
            format!("Which session? {}", ids.join(", ")),
            format!("Name one: agentspine chat --resume {newest}"),
        ),
    }
}
