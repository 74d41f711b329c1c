//! Which session a chat starts with: a new one, the named one, the project's last one.

use agentspine_gate::Id;
use agentspine_gate::turn::Host;

use super::engine::Binding;
use super::log::LogEvent;
use crate::cli::chat::ChatArgs;
use crate::desk::{self, Desk};
use crate::report::Failure;

/// Sessions a list offers.
const LISTED_MAX: u32 = 20;

/// Binds the session the arguments name and reads what it holds.
pub(super) async fn open(
    args: &ChatArgs,
    desk: &Desk,
    binding: &mut Binding,
) -> Result<Vec<LogEvent>, Failure> {
    let wanted = match (&args.resume, args.continue_last) {
        (Some(Some(text)), _) => Some(named(desk, text).await?),
        (Some(None), _) => return Err(choose(desk, binding).await?),
        (None, true) => Some(last(desk, binding).await?),
        (None, false) => None,
    };
    let Some(id) = wanted else { return Ok(Vec::new()) };
    binding.scope.session_id = id.clone();
    let session = id.clone();
    let found = desk
        .ask(move |at| {
            if !at.claim(&session)? {
                return Ok(None);
            }
            let known = at.conversations.session(&session).map_err(desk::store)?;
            Ok(Some((known, at.read(&session)?)))
        })
        .await?;
    let (session, held) = found.ok_or_else(|| in_use(&id))?;
    if let Some(session) = session {
        binding.scope.project_id = session.project_id;
        binding.instruction_host = binding.instruction_host.or(Some(session.instruction_host));
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

/// `--resume` without an id: names the sessions of this project, newest first.
async fn choose(desk: &Desk, binding: &Binding) -> Result<Failure, Failure> {
    let sessions = desk.ask(|at| at.conversations.sessions(LISTED_MAX).map_err(desk::store)).await?;
    let ids: Vec<String> = sessions
        .iter()
        .filter(|s| s.project_id == binding.scope.project_id && s.host == Host::Agentspine)
        .map(|s| s.id.to_string())
        .collect();
    Ok(match ids.first() {
        None => Failure::usage("This project has no session yet", "Start one: agentspine chat"),
        Some(newest) => Failure::usage(
            format!("Which session? {}", ids.join(", ")),
            format!("Name one: agentspine chat --resume {newest}"),
        ),
    })
}
