//! What a streamed answer consists of, in every dialect alike, and how it becomes a message again.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::conversation::AssistantBlock;

/// One step of a streamed answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// More text.
    Text(String),
    /// More of the model's visible thinking: a sign of life for the screen, not part of the message.
    Thinking(String),
    /// A complete tool call.
    ToolUse {
        /// The server's id for this call.
        id: String,
        /// Which tool.
        name: String,
        /// A JSON object; a string where the arguments were no JSON.
        input: Value,
    },
    /// A complete block to be kept verbatim.
    Raw(Value),
    /// What the call cost; at most once, before [`Self::Stop`].
    Usage(Usage),
    /// The answer is complete; always the last event.
    Stop(StopReason),
}

/// Tokens of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// All tokens of the request, cached or not.
    pub input: u64,
    /// Tokens of the answer.
    pub output: u64,
    /// How many of [`Self::input`] the provider read from its prompt cache.
    pub cache_read: u64,
}

/// Why an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// The model was done.
    EndTurn,
    /// The model waits for tool results.
    ToolUse,
    /// The answer reached its token limit.
    MaxTokens,
    /// The model or its provider declined.
    Refusal,
    /// Anything else, by the server's own word (cleaned, short).
    Other(String),
}

/// Collects events into the blocks of one assistant message; what was collected stays good when the stream is cut.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    blocks: Vec<AssistantBlock>,
}

impl Answer {
    /// Takes one event in; events that are not part of the message change nothing.
    pub fn absorb(&mut self, event: &ModelEvent) {
        match event {
            ModelEvent::Text(more) => self.push_text(more),
            ModelEvent::ToolUse { id, name, input } => self.blocks.push(AssistantBlock::ToolUse {
                id: id.clone(),
                name: name.clone(),
                input: input.clone(),
            }),
            ModelEvent::Raw(value) => self.blocks.push(AssistantBlock::Raw(value.clone())),
            ModelEvent::Thinking(_) | ModelEvent::Usage(_) | ModelEvent::Stop(_) => {}
        }
    }

    /// The blocks so far.
    pub fn into_blocks(self) -> Vec<AssistantBlock> {
        self.blocks
    }

    fn push_text(&mut self, more: &str) {
        if let Some(AssistantBlock::Text(text)) = self.blocks.last_mut() {
            text.push_str(more);
        } else {
            self.blocks.push(AssistantBlock::Text(more.to_owned()));
        }
    }
}
