//! Events: what happened in a session, in the order it happened.

use serde_json::Value;

/// What an event is. Open-ended: a kind written by a later version is kept as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EventKind {
    /// The person's text.
    Prompt,
    /// The model's answer, or a part of it between tool calls.
    Assistant,
    /// Results of the model's tool calls.
    ToolResults,
    /// The turn ended well.
    TurnEnd,
    /// The gate refused: code, detail, receipt id.
    Refused,
    /// The person interrupted.
    Interrupted,
    /// The model's server failed, or the stream was cut.
    ModelError,
    /// A call through the proxy.
    Call,
    /// A summary was asked for.
    CompactionBegin,
    /// A summary of what was said, which stands in for it from here on.
    CompactionSummary,
    /// Any other kind.
    Other(String),
}

impl EventKind {
    /// Stored text.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Prompt => "prompt",
            Self::Assistant => "assistant",
            Self::ToolResults => "tool-results",
            Self::TurnEnd => "turn-end",
            Self::Refused => "refused",
            Self::Interrupted => "interrupted",
            Self::ModelError => "model-error",
            Self::Call => "call",
            Self::CompactionBegin => "compaction/begin",
            Self::CompactionSummary => "compaction/summary",
            Self::Other(text) => text,
        }
    }

    pub(super) fn of(text: String) -> Self {
        let known = [
            Self::Prompt,
            Self::Assistant,
            Self::ToolResults,
            Self::TurnEnd,
            Self::Refused,
            Self::Interrupted,
            Self::ModelError,
            Self::Call,
            Self::CompactionBegin,
            Self::CompactionSummary,
        ];
        known.into_iter().find(|kind| kind.as_str() == text).unwrap_or(Self::Other(text))
    }
}

/// An event to append.
#[derive(Clone, PartialEq)]
pub(crate) struct NewEvent {
    /// What it is.
    pub kind: EventKind,
    /// Wall clock, milliseconds; for people.
    pub at: i64,
    /// Its content.
    pub body: Value,
}

/// An event as it was stored.
#[derive(Clone, PartialEq)]
pub(crate) struct Event {
    /// 1, 2, 3 … within its session, without gaps.
    pub seq: u64,
    /// What it is.
    pub kind: EventKind,
    /// Wall clock, milliseconds; for people.
    pub at: i64,
    /// Its content.
    pub body: Value,
}

impl std::fmt::Debug for Event {
    /// Without the body: what people and models said never reaches debug output.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Event").field("seq", &self.seq).field("kind", &self.kind).finish_non_exhaustive()
    }
}
