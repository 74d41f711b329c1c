//! What an engine tells its front ends, in the order it happens.

use agentspine_gate::Refusal;
use agentspine_gate::receipt::claims::Claims;
use agentspine_gate::span::Span;
use agentspine_model::{ModelError, Usage};

use super::compact::{Compaction, Why};
use super::rules::Rule;
use crate::conversations::Range;
use crate::turn::Seen;

/// What happens in a turn, in order; front ends show it.
pub(crate) enum ChatEvent {
    /// The prompt was taken.
    Started { turn: u64, prompt: String },
    /// Something seen on the way to the call.
    Seen { turn: u64, ms: u64, seen: Seen },
    /// Receipt consumed: the call leaves now.
    Passed(Box<PassedView>),
    /// Model text.
    Delta(String),
    /// The model calls a tool.
    ToolUse { name: String, query: String },
    /// The tool answered.
    ToolResult { ok: bool, line: String },
    /// The prompt asked to remember something.
    Rule(Rule),
    /// What a call cost.
    Usage {
        usage: Usage,
        /// How much of the model's window it took, where the window is known.
        percent: Option<u8>,
    },
    /// A summary is made of what was said.
    Compacting { why: Why, range: Range },
    /// So much of it has come, bytes.
    Summarising(usize),
    /// What came of it.
    Compacted(Compaction),
    /// One line a person should read.
    Notice(String),
    /// The turn ended.
    Ended(End),
}

/// One passed preflight.
pub(crate) struct PassedView {
    pub turn: u64,
    pub ms: u64,
    pub claims: Claims,
    pub span: Option<Span>,
}

/// How a turn ended.
pub(crate) enum End {
    /// Answered whole.
    Done,
    /// Something required failed before a call; the prompt goes back to the person.
    Refused { turn: u64, refusal: Refusal, prompt: String, ms: u64 },
    /// The model's server failed.
    ModelFailed { turn: u64, error: ModelError },
    /// The answer broke off; what came is kept.
    Cut { error: ModelError },
    /// The person stopped it. Without any shown text the prompt goes back.
    Interrupted { prompt: Option<String> },
}
