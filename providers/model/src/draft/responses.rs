//! OpenAI Responses: a list of items, kept by us and not by the server; a span is one more text after the human one.
//!
//! Item ids are the server's own and mean nothing where it stores nothing; calls are matched by `call_id`.

use agentspine_gate::span::{Draft, Place};
use serde_json::{Value, json};

use super::{Page, arguments, wire_id, with};
use crate::conversation::{AssistantBlock, Conversation, Message, ToolResult, ToolSpec};
use crate::decode::responses::own_item;
use crate::spec::{Target, is_openai};

/// Longest id of a call, in characters.
const CALL_ID_CHARS_MAX: usize = 64;
/// Models that do not reason, by the beginning of their name: OpenAI refuses to be asked for their reasoning.
const NOT_REASONING: [&str; 4] = ["gpt-3", "gpt-4", "gpt-5-chat", "chatgpt-"];

pub(super) fn render(target: &Target, conversation: &Conversation, placed: &[(Place, &Message)]) -> Draft {
    let mut page = Page::open(&head(target, conversation), "input");
    let is_user = |message: &Message| matches!(message, Message::User { .. });
    for group in placed.chunk_by(|(_, a), (_, b)| is_user(a) && is_user(b)) {
        match group {
            [(_, Message::Assistant { blocks })] => answer(&mut page, target, blocks),
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

fn head(target: &Target, conversation: &Conversation) -> Value {
    let mut head = json!({ "model": target.model, "stream": true, "store": false });
    if may_reason(&target.model) {
        head = with(head, "include", vec!["reasoning.encrypted_content"]);
    }
    head = with(head, "max_output_tokens", conversation.max_tokens);
    if !conversation.system.is_empty() {
        head = with(head, "instructions", conversation.system);
    }
    if !conversation.tools.is_empty() {
        head = with(head, "tools", conversation.tools.iter().map(tool).collect::<Vec<_>>());
    }
    head
}

/// Gateways put a vendor before the name (`openai/gpt-4o`), OpenAI puts `ft:` before a tuned one.
fn may_reason(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let name = name.strip_prefix("ft:").unwrap_or(name);
    !NOT_REASONING.iter().any(|family| name.starts_with(family))
}

/// `strict` is on where nothing is said, and refuses schemas with optional members.
fn tool(tool: &ToolSpec) -> Value {
    json!({
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": false,
    })
}

/// Human messages in a row become one: local chat templates insist that roles alternate.
fn users(page: &mut Page, group: &[(Place, &Message)]) {
    const CLOSING: &str = "]}";
    page.message(&json!({ "type": "message", "role": "user", "content": [] }));
    for (n, (place, message)) in group.iter().enumerate() {
        if let Message::User { text } = message {
            let comma = if n > 0 { "," } else { "" };
            let part = json!({ "type": "input_text", "text": text });
            page.insert_before(CLOSING, &format!("{comma}{part}"));
            page.slot_before(CLOSING, *place, r#",{"type":"input_text","text":""#, r#""}"#);
        }
    }
}

/// One item a block, in order. Reasoning with nothing after it belongs to an answer that was cut: servers refuse it.
fn answer(page: &mut Page, target: &Target, blocks: &[AssistantBlock]) {
    let sent = blocks.iter().rposition(AssistantBlock::is_sent).map_or(0, |last| last + 1);
    for block in blocks.iter().take(sent) {
        let item = match block {
            AssistantBlock::Raw(raw) => own_item(raw, target).cloned(),
            AssistantBlock::Text(text) => block.is_sent().then(|| said(target, text, page.messages)),
            AssistantBlock::ToolUse { id, name, input } => {
                let arguments = arguments(input);
                Some(
                    json!({ "type": "function_call", "call_id": call_id(id), "name": name, "arguments": arguments }),
                )
            }
        };
        if let Some(item) = item {
            page.message(&item);
        }
    }
}

/// Compatible servers check for every field of an answer that they would have sent; OpenAI itself wants no made-up id.
fn said(target: &Target, text: &str, number: usize) -> Value {
    let part = json!({ "type": "output_text", "text": text, "annotations": [] });
    let item = json!({ "type": "message", "role": "assistant", "status": "completed", "content": [part] });
    if is_openai(target) { item } else { with(item, "id", format!("msg_{number}")) }
}

fn tool_result(result: &ToolResult) -> Value {
    json!({ "type": "function_call_output", "call_id": call_id(&result.id), "output": result.text })
}

/// Of a longer id of another server, the end: there ids differ.
fn call_id(id: &str) -> String {
    let id = wire_id(id);
    id.get(id.len().saturating_sub(CALL_ID_CHARS_MAX)..).unwrap_or(&id).to_owned()
}
