//! What a call carries: the prompt, or the results of the tools the model called.

use agentspine_gate::ReceiptId;
use agentspine_gate::turn::CallKind;
use agentspine_model::{Message, ToolResult};

use super::log::LogEvent;

/// What the next call carries.
pub(super) enum Step {
    Ask { retry_of: Option<ReceiptId> },
    Answer { results: Vec<ToolResult>, retry_of: Option<ReceiptId> },
}

impl Step {
    /// What kind of call carries it, and which one that may repeat.
    pub(super) fn kind(&self) -> (CallKind, Option<ReceiptId>) {
        match self {
            Self::Ask { retry_of } => (CallKind::Turn, *retry_of),
            Self::Answer { retry_of, .. } => (CallKind::Continuation, *retry_of),
        }
    }

    pub(super) fn message(&self, prompt: &str) -> Message {
        match self {
            Self::Ask { .. } => Message::User { text: prompt.to_owned() },
            Self::Answer { results, .. } => Message::ToolResults(results.clone()),
        }
    }

    /// What the log keeps of it, once the receipt is known.
    pub(super) fn event(&self, prompt: &str) -> impl FnOnce(ReceiptId) -> LogEvent + Send + 'static {
        let (text, results) = match self {
            Self::Ask { .. } => (prompt.to_owned(), None),
            Self::Answer { results, .. } => (String::new(), Some(results.clone())),
        };
        move |receipt| match results {
            None => LogEvent::Prompt { text, receipt },
            Some(results) => LogEvent::ToolResults { results, receipt },
        }
    }
}
