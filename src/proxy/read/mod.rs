//! What is this request? Pure functions from a client's bytes to its conversation, its kind and the places of spans.
//!
//! Map: [`read`] is the door; `messages` reads Anthropic Messages and `claude` what Claude Code puts into it,
//! `responses` reads OpenAI Responses and `codex` what Codex puts into it, `chat` reads OpenAI Chat Completions;
//! `thread` turns messages into places and slots; `json` is the lens on the bytes.
//! Invariants: the body is only looked at, never written anew; time is linear in its length; a slot depends on nothing
//! but its conversation and the messages up to it, so that every later request has it again; a call that may add a span
//! has its last slot in the newest message that can carry one; errors hold pointers and positions, never content.
//! Absent here: the gate, files, the network, a clock.

mod chat;
mod claude;
mod codex;
mod json;
mod messages;
mod responses;
#[cfg(test)]
mod tests;
mod thread;

use agentspine_gate::body::Body;
use agentspine_gate::ids::{Digest, Id};
use agentspine_gate::span::{Draft, Place};
use agentspine_gate::turn::{CallKind, Host};
use bytes::Bytes;
use http::HeaderMap;

use super::block::Envelope;

/// Which prompt-carrying path a request came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PromptPath {
    /// `POST /v1/messages`.
    Messages,
    /// `POST /v1/messages/count_tokens`.
    CountTokens,
    /// `POST /v1/responses`.
    Responses,
    /// `POST /v1/chat/completions`.
    ChatCompletions,
}

impl PromptPath {
    /// How its errors look.
    pub(crate) fn envelope(self) -> Envelope {
        match self {
            Self::Messages | Self::CountTokens => Envelope::Anthropic,
            Self::Responses | Self::ChatCompletions => Envelope::OpenAi,
        }
    }

    /// Its name in counters and in the log.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::CountTokens => "count-tokens",
            Self::Responses => "responses",
            Self::ChatCompletions => "chat-completions",
        }
    }
}

/// What a request is for. Decided by the client's own marks where it has some, else by structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Sort {
    /// New human text.
    Human,
    /// Human text sent while the model was at work.
    Queued,
    /// First call after the client's own compaction: everything is injected again.
    Afresh,
    /// Tool results, or a later call of a subagent.
    Continuation,
    /// An event the client reports by itself.
    Background,
    /// Output of a command that the person ran in the client.
    Bash,
    /// A task given to a subagent.
    Subagent,
    /// Names the conversation.
    Title,
    /// Summarises the conversation.
    Compaction,
    /// Counts tokens.
    Count,
    /// Warms the provider's cache.
    Prewarm,
}

impl Sort {
    /// The kind of call the gate binds it as.
    pub(crate) fn kind(self) -> CallKind {
        match self {
            Self::Human | Self::Queued | Self::Afresh => CallKind::Turn,
            Self::Continuation | Self::Background | Self::Bash => CallKind::Continuation,
            Self::Subagent => CallKind::Subagent,
            Self::Title | Self::Compaction | Self::Count | Self::Prewarm => CallKind::Side,
        }
    }

    /// Stable word, for the log and metrics.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Queued => "queued",
            Self::Afresh => "afresh",
            Self::Continuation => "continuation",
            Self::Background => "background",
            Self::Bash => "bash",
            Self::Subagent => "subagent",
            Self::Title => "title",
            Self::Compaction => "compaction",
            Self::Count => "count",
            Self::Prewarm => "prewarm",
        }
    }
}

/// A request, understood. No `Debug`: it holds the person's words.
pub(crate) struct Asked {
    /// Claude `SESSION` or `SESSION:AGENT`, Codex `THREAD:WINDOW`, else `generic:` and 20 hex digits of the first
    /// message's digest. A value that is no [`Id`] is `x:` and 20 hex digits of its digest.
    pub(crate) conversation: Id,
    /// What it is for.
    pub(crate) sort: Sort,
    /// Turn: the human text, blocks joined by one `\n`, a stand-in such as `[image]` where there is none, the summary
    /// after a compaction without one. Subagent: its task. Else empty.
    pub(crate) prompt: String,
    /// Continuation: the newest words that stand in it, or the summary it goes on from. They are its prompt where its turn
    /// turns out to be gone. Else empty.
    pub(crate) standing: String,
    /// Model name as sent.
    pub(crate) model: String,
    /// The body as it came, and where spans go.
    pub(crate) draft: Draft,
}

/// Why a body cannot be read. Holds JSON pointers and positions, never content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    /// Not text.
    #[error("the body is not UTF-8 at byte {0}")]
    NotUtf8(usize),
    /// Not one JSON document.
    #[error("the body is not one JSON object (line {line}, column {column})")]
    NotJson {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
    },
    /// A key that is read stands twice in its object.
    #[error("{at} stands twice")]
    Twice {
        /// JSON pointer.
        at: String,
    },
    /// A field that is needed is absent or null.
    #[error("{at} is missing")]
    Missing {
        /// JSON pointer.
        at: String,
    },
    /// A field of another type.
    #[error("{} is not {expected}", if at.is_empty() { "the body" } else { at })]
    WrongType {
        /// JSON pointer.
        at: String,
        /// Such as `a string`.
        expected: &'static str,
    },
    /// A string with half a surrogate pair.
    #[error("{at} is not Unicode text")]
    NotUnicode {
        /// JSON pointer.
        at: String,
    },
    /// A list that is too long.
    #[error("{at} has more than {limit} elements")]
    TooMany {
        /// JSON pointer.
        at: String,
        /// Most elements.
        limit: usize,
    },
}

/// Reads a request of `client` that came to `path`.
pub(crate) fn read(
    client: Host,
    path: PromptPath,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<Asked, Unreadable> {
    let mut asked = read_with(client, path, headers, &body, None)?;
    asked.draft.body = Body::new(body);
    Ok(asked)
}

/// The places that the slots of a request would have in another conversation, which it may be a fork of.
pub(crate) fn places_in(
    conversation: &Id,
    client: Host,
    path: PromptPath,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Vec<Place>, Unreadable> {
    let asked = read_with(client, path, headers, body, Some(conversation))?;
    Ok(asked.draft.slots.iter().map(|slot| slot.place).collect())
}

/// Reads with the places of another conversation, where one is named.
fn read_with(
    client: Host,
    path: PromptPath,
    headers: &HeaderMap,
    body: &[u8],
    chain: Option<&Id>,
) -> Result<Asked, Unreadable> {
    let text = std::str::from_utf8(body).map_err(|error| Unreadable::NotUtf8(error.valid_up_to()))?;
    match path {
        PromptPath::Messages | PromptPath::CountTokens => messages::read(client, path, headers, text, chain),
        PromptPath::Responses => responses::read(client, headers, text, chain),
        PromptPath::ChatCompletions => chat::read(text, chain),
    }
}

/// A client's own id as ours; `x:` and 20 hex digits of its digest where it is none.
fn id_of(text: &str) -> Id {
    Id::new(text).unwrap_or_else(|_| Id::of_digest("x", Digest::of(text.as_bytes())))
}

/// A header's text.
fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim).filter(|value| !value.is_empty())
}
