//! Anthropic Messages: content is always an array; a span is one more text block after the human one.

use agentspine_gate::span::{Draft, Place};
use serde_json::{Value, json};

use super::{Page, wire_id, with};
use crate::conversation::{AssistantBlock, Conversation, Message, ToolResult, ToolSpec};
use crate::spec::Target;

pub(super) fn render(target: &Target, conversation: &Conversation, placed: &[(Place, &Message)]) -> Draft {
    let mut head = json!({ "model": target.model, "max_tokens": conversation.max_tokens, "stream": true });
    if !conversation.system.is_empty() {
        let system = cached(json!({ "type": "text", "text": conversation.system }));
        head = with(head, "system", vec![system]);
    }
    if !conversation.tools.is_empty() {
        head = with(head, "tools", conversation.tools.iter().map(tool).collect::<Vec<_>>());
    }
    let mut page = Page::open(&head, "messages");
    for (n, (place, message)) in placed.iter().enumerate() {
        let role = if let Message::Assistant { .. } = message { "assistant" } else { "user" };
        let mut content = content(message);
        if n + 1 == placed.len() && role == "user" {
            content = mark_last(content);
        }
        page.message(&json!({ "role": role, "content": content }));
        if let Message::User { .. } = message {
            page.slot_before("]}", *place, r#",{"type":"text","text":""#, r#""}"#);
        }
    }
    page.close()
}

fn tool(tool: &ToolSpec) -> Value {
    json!({ "name": tool.name, "description": tool.description, "input_schema": tool.parameters })
}

fn content(message: &Message) -> Vec<Value> {
    match message {
        Message::User { text } => vec![json!({ "type": "text", "text": text })],
        Message::ToolResults(results) => results.iter().map(tool_result).collect(),
        Message::Assistant { blocks } => blocks.iter().filter_map(block).collect(),
    }
}

fn tool_result(result: &ToolResult) -> Value {
    let mut value =
        json!({ "type": "tool_result", "tool_use_id": wire_id(&result.id), "content": result.text });
    if result.is_error {
        value["is_error"] = Value::from(true);
    }
    value
}

/// A block as this API takes it: raw blocks are its own where they name a type; input that was no object goes empty.
fn block(block: &AssistantBlock) -> Option<Value> {
    match block {
        AssistantBlock::Raw(value) => value.get("type").map(|_| value.clone()),
        AssistantBlock::Text(text) => block.is_sent().then(|| json!({ "type": "text", "text": text })),
        AssistantBlock::ToolUse { id, name, input } => {
            let input = if input.is_object() { input.clone() } else { json!({}) };
            Some(json!({ "type": "tool_use", "id": wire_id(id), "name": name, "input": input }))
        }
    }
}

/// A prompt-cache breakpoint. Two are used: the system prompt (with the tools before it) and the newest message.
fn cached(block: Value) -> Value {
    with(block, "cache_control", json!({ "type": "ephemeral" }))
}

fn mark_last(mut content: Vec<Value>) -> Vec<Value> {
    let last = content.pop().map(cached);
    content.extend(last);
    content
}
