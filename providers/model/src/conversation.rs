//! A conversation without a dialect: what was said, what tools were called, what they answered.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What is sent, in order. Injected text is no part of it: it is spliced into the draft by the gate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Conversation {
    /// The host's system prompt, a build constant: without date, directory or instructions.
    pub system: &'static str,
    /// What was said. Every tool call must be answered by the message after it, or servers refuse the request.
    pub messages: Vec<Message>,
    /// Tools the model may call.
    pub tools: Vec<ToolSpec>,
    /// Longest answer, in tokens.
    pub max_tokens: u32,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// Human text.
    User {
        /// As typed.
        text: String,
    },
    /// The model's answer.
    Assistant {
        /// In the order received.
        blocks: Vec<AssistantBlock>,
    },
    /// Answers to the tool calls of the message before.
    ToolResults(Vec<ToolResult>),
}

/// One part of an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AssistantBlock {
    /// Text.
    Text(String),
    /// A tool call.
    ToolUse {
        /// The server's id for this call.
        id: String,
        /// Which tool.
        name: String,
        /// A JSON object; a string where the model's arguments were no JSON.
        input: Value,
    },
    /// A block that only its own dialect understands and must get back verbatim, such as signed thinking.
    Raw(Value),
}

/// One tool's answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call it answers.
    pub id: String,
    /// What the model reads.
    pub text: String,
    /// Whether the tool failed.
    pub is_error: bool,
}

/// A tool the model may call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolSpec {
    /// Name, as the model calls it.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// JSON schema of its input.
    pub parameters: Value,
}

impl Message {
    /// Whether the message is sent at all: an answer that was cut before its first word is not.
    pub(crate) fn is_sent(&self) -> bool {
        match self {
            Self::User { .. } => true,
            Self::Assistant { blocks } => blocks.iter().any(AssistantBlock::is_sent),
            Self::ToolResults(results) => !results.is_empty(),
        }
    }
}

impl AssistantBlock {
    /// Whether servers accept the block: blank text is refused, and a lone raw block is no answer.
    pub(crate) fn is_sent(&self) -> bool {
        match self {
            Self::Text(text) => !text.trim().is_empty(),
            Self::ToolUse { .. } => true,
            Self::Raw(_) => false,
        }
    }
}
