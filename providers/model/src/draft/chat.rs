//! OpenAI Chat Completions: content is a string, because many compatible servers mis-template arrays; a span stands
//! inside it after the human text.

use agentspine_gate::span::{Draft, Place};
use serde_json::Value;

use super::{Page, arguments};
use crate::conversation::{AssistantBlock, Conversation, Message, ToolResult, ToolSpec};
use crate::spec::Target;

/// Opens a span inside a string: a blank line, JSON-escaped.
const BLANK_LINE: &str = r"\n\n";

pub(super) fn render(target: &Target, conversation: &Conversation, placed: &[(Place, &Message)]) -> Draft {
    let mut page = Page::default();
    page.raw(r#"{"model":"#);
    page.string(&target.model);
    page.raw(r#","stream":true,"stream_options":{"include_usage":true}"#);
    page.raw(&format!(r#","{}":{}"#, limit_field(target), conversation.max_tokens));
    if !conversation.tools.is_empty() {
        page.raw(r#","tools":["#);
        page.list(&conversation.tools, tool);
        page.raw("]");
    }
    page.raw(r#","messages":["#);
    if !conversation.system.is_empty() {
        page.raw(r#"{"role":"system","content":"#);
        page.string(conversation.system);
        page.raw(if placed.is_empty() { "}" } else { "}," });
    }
    let groups = placed.chunk_by(|(_, a), (_, b)| is_user(a) && is_user(b));
    page.list(groups, group);
    page.raw("]}");
    page.done()
}

/// OpenAI's own reasoning models refuse `max_tokens`; many compatible servers know nothing else.
fn limit_field(target: &Target) -> &'static str {
    if target.endpoint.starts_with("https://api.openai.com/") {
        "max_completion_tokens"
    } else {
        "max_tokens"
    }
}

fn is_user(message: &Message) -> bool {
    matches!(message, Message::User { .. })
}

fn tool(page: &mut Page, tool: &ToolSpec) {
    page.raw(r#"{"type":"function","function":{"name":"#);
    page.string(&tool.name);
    page.raw(r#","description":"#);
    page.string(&tool.description);
    page.raw(r#","parameters":"#);
    page.value(&tool.parameters);
    page.raw("}}");
}

/// One message, or several human ones in a row as one: local chat templates insist that roles alternate.
fn group(page: &mut Page, group: &[(Place, &Message)]) {
    match group {
        [(_, Message::Assistant { blocks })] => assistant(page, blocks),
        [(_, Message::ToolResults(results))] => page.list(results, tool_result),
        _ => users(page, group),
    }
}

fn users(page: &mut Page, group: &[(Place, &Message)]) {
    page.raw(r#"{"role":"user","content":""#);
    for (n, (place, message)) in group.iter().enumerate() {
        if let Message::User { text } = message {
            page.raw(if n > 0 { BLANK_LINE } else { "" });
            page.string_inside(text);
            page.slot(*place, BLANK_LINE, "");
        }
    }
    page.raw(r#""}"#);
}

fn tool_result(page: &mut Page, result: &ToolResult) {
    page.raw(r#"{"role":"tool","tool_call_id":"#);
    page.string(&result.id);
    page.raw(r#","content":"#);
    page.string(&result.text);
    page.raw("}");
}

fn assistant(page: &mut Page, blocks: &[AssistantBlock]) {
    let text = blocks
        .iter()
        .filter_map(|block| if let AssistantBlock::Text(text) = block { Some(text.as_str()) } else { None });
    page.raw(r#"{"role":"assistant","content":"#);
    page.string(&text.collect::<String>());
    let calls: Vec<_> =
        blocks.iter().filter(|block| matches!(block, AssistantBlock::ToolUse { .. })).collect();
    if !calls.is_empty() {
        if let Some(reasoning) = raw_member(blocks, "reasoning_content") {
            page.raw(r#","reasoning_content":"#);
            page.value(reasoning);
        }
        page.raw(r#","tool_calls":["#);
        page.list(calls, |page, call| tool_call(page, call, blocks));
        page.raw("]");
    }
    page.raw("}");
}

fn tool_call(page: &mut Page, call: &AssistantBlock, blocks: &[AssistantBlock]) {
    if let AssistantBlock::ToolUse { id, name, input } = call {
        page.raw(r#"{"id":"#);
        page.string(id);
        page.raw(r#","type":"function","function":{"name":"#);
        page.string(name);
        page.raw(r#","arguments":"#);
        page.string(&arguments(input));
        page.raw("}");
        if let Some(extra) = extra_content(blocks, id) {
            page.raw(r#","extra_content":"#);
            page.value(extra);
        }
        page.raw("}");
    }
}

/// A member of this dialect's own raw blocks, which name no type.
fn raw_member<'a>(blocks: &'a [AssistantBlock], name: &str) -> Option<&'a Value> {
    own_raws(blocks).find_map(|raw| raw.get(name))
}

/// What Gemini's compatible API attaches to a call (its thought signature) and wants back.
fn extra_content<'a>(blocks: &'a [AssistantBlock], id: &str) -> Option<&'a Value> {
    let of_call = |raw: &&Value| raw.get("tool_call").and_then(Value::as_str) == Some(id);
    own_raws(blocks).find(of_call)?.get("extra_content")
}

fn own_raws(blocks: &[AssistantBlock]) -> impl Iterator<Item = &Value> {
    blocks.iter().filter_map(|block| match block {
        AssistantBlock::Raw(value) if value.get("type").is_none() => Some(value),
        _ => None,
    })
}
