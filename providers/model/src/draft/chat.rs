//! OpenAI Chat Completions: content is a string, because many compatible servers mis-template arrays; a span stands
//! inside it after the human text.

use agentspine_gate::span::{Draft, Place};
use serde_json::{Value, json};

use super::{Page, arguments, with};
use crate::conversation::{AssistantBlock, Conversation, Message, ToolResult, ToolSpec};
use crate::spec::{Target, is_openai};

/// Opens a span inside a string: a blank line, JSON-escaped.
const BLANK_LINE: &str = r"\n\n";

pub(super) fn render(target: &Target, conversation: &Conversation, placed: &[(Place, &Message)]) -> Draft {
    let mut head =
        json!({ "model": target.model, "stream": true, "stream_options": { "include_usage": true } });
    head[limit_field(target)] = Value::from(conversation.max_tokens);
    if !conversation.tools.is_empty() {
        head = with(head, "tools", conversation.tools.iter().map(tool).collect::<Vec<_>>());
    }
    let mut page = Page::open(&head, "messages");
    if !conversation.system.is_empty() {
        page.message(&json!({ "role": "system", "content": conversation.system }));
    }
    let is_user = |message: &Message| matches!(message, Message::User { .. });
    for group in placed.chunk_by(|(_, a), (_, b)| is_user(a) && is_user(b)) {
        match group {
            [(_, Message::Assistant { blocks })] => page.message(&assistant(blocks)),
            [(_, Message::ToolResults(results))] => {
                for result in results {
                    page.message(&tool_result(result));
                }
            }
            _ => users(&mut page, group),
        }
    }
    page.close()
}

/// OpenAI's own reasoning models refuse `max_tokens`; many compatible servers know nothing else.
fn limit_field(target: &Target) -> &'static str {
    if is_openai(target) { "max_completion_tokens" } else { "max_tokens" }
}

fn tool(tool: &ToolSpec) -> Value {
    let function =
        json!({ "name": tool.name, "description": tool.description, "parameters": tool.parameters });
    json!({ "type": "function", "function": function })
}

/// Human messages in a row become one: local chat templates insist that roles alternate.
fn users(page: &mut Page, group: &[(Place, &Message)]) {
    const CLOSING: &str = r#""}"#;
    page.message(&json!({ "role": "user", "content": "" }));
    for (n, (place, message)) in group.iter().enumerate() {
        if let Message::User { text } = message {
            let gap = if n > 0 { BLANK_LINE } else { "" };
            page.insert_before(CLOSING, &format!("{gap}{}", escaped(text)));
            page.slot_before(CLOSING, *place, BLANK_LINE, "");
        }
    }
}

/// Text as it stands inside a JSON string.
fn escaped(text: &str) -> String {
    let mut quoted = Value::from(text).to_string();
    quoted.pop();
    quoted.split_off(1)
}

fn tool_result(result: &ToolResult) -> Value {
    json!({ "role": "tool", "tool_call_id": result.id, "content": result.text })
}

fn assistant(blocks: &[AssistantBlock]) -> Value {
    let text = blocks.iter().filter_map(|block| match block {
        AssistantBlock::Text(text) => Some(text.as_str()),
        AssistantBlock::ToolUse { .. } | AssistantBlock::Raw(_) => None,
    });
    let mut message = json!({ "role": "assistant", "content": text.collect::<String>() });
    let calls: Vec<Value> = blocks.iter().filter_map(|block| tool_call(block, blocks)).collect();
    if !calls.is_empty() {
        if let Some(reasoning) = own_raws(blocks).find_map(|raw| raw.get("reasoning_content")) {
            message = with(message, "reasoning_content", reasoning.clone());
        }
        message = with(message, "tool_calls", calls);
    }
    message
}

fn tool_call(block: &AssistantBlock, blocks: &[AssistantBlock]) -> Option<Value> {
    let AssistantBlock::ToolUse { id, name, input } = block else { return None };
    let function = json!({ "name": name, "arguments": arguments(input) });
    let call = json!({ "id": id, "type": "function", "function": function });
    // What Gemini's compatible API attaches to a call (its thought signature) and wants back.
    let raw = own_raws(blocks).find(|raw| raw.get("tool_call").and_then(Value::as_str) == Some(id));
    let extra = raw.and_then(|raw| raw.get("extra_content"));
    Some(extra.map_or(call.clone(), |extra| with(call, "extra_content", extra.clone())))
}

/// This dialect's own raw blocks, which name no type.
fn own_raws(blocks: &[AssistantBlock]) -> impl Iterator<Item = &Value> {
    blocks.iter().filter_map(|block| match block {
        AssistantBlock::Raw(value) if value.get("type").is_none() => Some(value),
        _ => None,
    })
}
