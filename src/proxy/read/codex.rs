//! What Codex 0.171 says of its requests, in headers and in `client_metadata`, and what it writes into user items beside
//! the person's words.
//!
//! Measured on the client and read in its published source (`codex-rs/core/src/context`). A mark that is missing or
//! broken says nothing; the structure of the items decides then.

use std::borrow::Cow;

use agentspine_gate::ids::Id;
use http::HeaderMap;

use super::json::{At, object_if, string_if};
use super::{Unreadable, header, id_of};

const TURN_METADATA: &str = "x-codex-turn-metadata";
const WINDOW_ID: &str = "x-codex-window-id";
/// Names the work of a thread that no person types into.
const SUBAGENT_HEADER: &str = "x-openai-subagent";

/// What the client says of a request.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Marks {
    /// `THREAD:WINDOW`.
    pub(super) conversation: Option<Id>,
    /// How often this thread was compacted.
    pub(super) window: u64,
    pub(super) request: Request,
    pub(super) thread: Thread,
}

/// `request_kind`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Request {
    /// A turn, or not said.
    #[default]
    Turn,
    Compaction,
    Prewarm,
}

/// `thread_source`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Thread {
    /// A person's, or not said.
    #[default]
    Person,
    Title,
    Subagent,
}

impl Marks {
    /// Headers win over `client_metadata`.
    pub(super) fn read(headers: &HeaderMap, client_metadata: Option<&str>) -> Result<Self, Unreadable> {
        let at = At::ROOT.key("client_metadata");
        let names = [TURN_METADATA, WINDOW_ID, "thread_id", "session_id"];
        let [turn, window, thread, session] = object_if(client_metadata, at, names)?;
        let said = |name: &'static str, own: Option<&str>| -> Result<Option<String>, Unreadable> {
            match header(headers, name) {
                Some(value) => Ok(Some(value.to_owned())),
                None => Ok(string_if(own, at.key(name))?.map(Cow::into_owned)),
            }
        };
        let turn = Metadata::read(said(TURN_METADATA, turn)?.as_deref().unwrap_or_default());
        let thread = said("thread-id", thread)?.or(said("session-id", session)?);
        let window_id = said(WINDOW_ID, window)?.or(turn.window_id);
        let number =
            window_id.as_deref().and_then(|id| id.rsplit_once(':')).and_then(|(_, n)| n.parse().ok());
        let window = number.or(turn.window_number).unwrap_or(0);
        let of_thread = || thread.or(turn.thread_id).map(|thread| format!("{thread}:{window}"));
        let conversation = number.and(window_id).or_else(of_thread).map(|id| id_of(&id));
        let thread = match turn.thread {
            Thread::Person if header(headers, SUBAGENT_HEADER).is_some() => Thread::Subagent,
            thread => thread,
        };
        Ok(Self { conversation, window, request: turn.request, thread })
    }
}

/// The turn metadata, JSON in a string.
#[derive(Default)]
struct Metadata {
    window_id: Option<String>,
    window_number: Option<u64>,
    thread_id: Option<String>,
    request: Request,
    thread: Thread,
}

impl Metadata {
    fn read(json: &str) -> Self {
        let names =
            ["request_kind", "thread_source", "turn_trigger", "thread_id", "window_id", "window_number"];
        let Ok([request, source, trigger, thread_id, window_id, window_number]) =
            object_if(Some(json), At::ROOT, names)
        else {
            return Self::default();
        };
        let text = |json: Option<&str>| {
            string_if(json, At::ROOT).ok().flatten().filter(|text| !text.is_empty()).map(Cow::into_owned)
        };
        let request = match text(request).as_deref() {
            Some("compaction") => Request::Compaction,
            Some("prewarm") => Request::Prewarm,
            _ => Request::Turn,
        };
        Self {
            window_id: text(window_id),
            window_number: window_number.and_then(|n| n.parse().ok()),
            thread_id: text(thread_id),
            request,
            thread: Thread::of(text(source).as_deref(), text(trigger).as_deref()),
        }
    }
}

impl Thread {
    /// A thread of an unknown source is a person's where a person's action began the turn.
    fn of(source: Option<&str>, trigger: Option<&str>) -> Self {
        match (source, trigger) {
            (Some("thread_title"), _) => Self::Title,
            (Some(source), _) if source.starts_with("subagent") => Self::Subagent,
            (None | Some("user"), _) | (_, Some("user" | "exec")) => Self::Person,
            (Some(_), _) => Self::Subagent,
        }
    }
}

/// Whose words a block of text in a user item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Voice {
    Human,
    /// The client's: instruction files, environment, skills and the like.
    Context,
    /// The client's: an event it reports.
    Notice,
    /// A shell command that the person ran, with its output.
    Bash,
    /// The client's: the person stopped the model.
    Interrupted,
    /// The summary that a conversation goes on from.
    Summary,
    /// The client's: asks for that summary.
    Compact,
}

/// Opens the client's own slot for instruction files.
pub(super) const HOST_SLOT: &str = "# AGENTS.md instructions";

const OPENINGS: [(&str, Voice); 16] = [
    (HOST_SLOT, Voice::Context),
    ("<environment_context>", Voice::Context),
    ("<user_instructions>", Voice::Context),
    ("<INSTRUCTIONS>", Voice::Context),
    ("<external_", Voice::Context),
    ("<skill>", Voice::Context),
    ("<recommended_plugins>", Voice::Context),
    ("<hook_prompt", Voice::Notice),
    ("<goal_context>", Voice::Notice),
    ("<codex_internal_context", Voice::Notice),
    ("<internal_model_context", Voice::Notice),
    ("<subagent_notification>", Voice::Notice),
    ("<user_shell_command>", Voice::Bash),
    ("<turn_aborted>", Voice::Interrupted),
    ("Another language model started to solve this problem", Voice::Summary),
    ("You are performing a CONTEXT CHECKPOINT COMPACTION", Voice::Compact),
];

/// Whose words a text is: by the kind that the client names, else by its opening.
pub(super) fn voice(kind: Option<&str>, text: &str) -> Voice {
    let by_opening = OPENINGS.iter().find(|(opening, _)| text.starts_with(opening)).map(|(_, voice)| *voice);
    match kind {
        Some(kind) if kind.starts_with("user.") => Voice::Human,
        None | Some("unknown") => by_opening.unwrap_or(Voice::Human),
        Some(_) => by_opening.unwrap_or(Voice::Context),
    }
}
