//! Anthropic Messages: content is always an array; a span is one more text block after the human one.

use agentspine_gate::span::{Draft, Place};

use super::Page;
use crate::conversation::{AssistantBlock, Conversation, Message, ToolResult, ToolSpec};
use crate::spec::Target;

/// A prompt-cache breakpoint. Two are used: system (with the tools before it) and the newest message.
const CACHE: &str = r#","cache_control":{"type":"ephemeral"}"#;

pub(super) fn render(target: &Target, conversation: &Conversation, placed: &[(Place, &Message)]) -> Draft {
    let mut page = Page::default();
    page.raw(r#"{"model":"#);
    page.string(&target.model);
    page.raw(&format!(r#","max_tokens":{},"stream":true"#, conversation.max_tokens));
    if !conversation.system.is_empty() {
        page.raw(r#","system":[{"type":"text","text":"#);
        page.string(conversation.system);
        page.raw(CACHE);
        page.raw("}]");
    }
    if !conversation.tools.is_empty() {
        page.raw(r#","tools":["#);
        page.list(&conversation.tools, tool);
        page.raw("]");
    }
    page.raw(r#","messages":["#);
    let last = placed.len().saturating_sub(1);
    page.list(placed.iter().enumerate(), |page, (n, (place, sent))| {
        message(page, *place, sent, if n == last { CACHE } else { "" });
    });
    page.raw("]}");
    page.done()
}

fn tool(page: &mut Page, tool: &ToolSpec) {
    page.raw(r#"{"name":"#);
    page.string(&tool.name);
    page.raw(r#","description":"#);
    page.string(&tool.description);
    page.raw(r#","input_schema":"#);
    page.value(&tool.parameters);
    page.raw("}");
}

fn message(page: &mut Page, place: Place, message: &Message, mark: &str) {
    match message {
        Message::User { text } => {
            page.raw(r#"{"role":"user","content":[{"type":"text","text":"#);
            page.string(text);
            page.raw(mark);
            page.raw("}");
            page.slot(place, r#",{"type":"text","text":""#, r#""}"#);
            page.raw("]}");
        }
        Message::ToolResults(results) => {
            page.raw(r#"{"role":"user","content":["#);
            let last = results.len().saturating_sub(1);
            page.list(results.iter().enumerate(), |page, (n, result)| {
                tool_result(page, result, if n == last { mark } else { "" });
            });
            page.raw("]}");
        }
        Message::Assistant { blocks } => {
            page.raw(r#"{"role":"assistant","content":["#);
            page.list(blocks.iter().filter(|block| speaks(block)), block);
            page.raw("]}");
        }
    }
}

fn tool_result(page: &mut Page, result: &ToolResult, mark: &str) {
    page.raw(r#"{"type":"tool_result","tool_use_id":"#);
    page.string(&wire_id(&result.id));
    page.raw(r#","content":"#);
    page.string(&result.text);
    if result.is_error {
        page.raw(r#","is_error":true"#);
    }
    page.raw(mark);
    page.raw("}");
}

/// What may stand in an assistant message here: raw blocks are this dialect's own where they name a type.
fn speaks(block: &AssistantBlock) -> bool {
    if let AssistantBlock::Raw(value) = block { value.get("type").is_some() } else { block.is_sent() }
}

fn block(page: &mut Page, block: &AssistantBlock) {
    match block {
        AssistantBlock::Raw(value) => page.value(value),
        AssistantBlock::Text(text) => {
            page.raw(r#"{"type":"text","text":"#);
            page.string(text);
            page.raw("}");
        }
        // This API takes an object only; input that was none goes back as an empty one.
        AssistantBlock::ToolUse { id, name, input } => {
            page.raw(r#"{"type":"tool_use","id":"#);
            page.string(&wire_id(id));
            page.raw(r#","name":"#);
            page.string(name);
            page.raw(r#","input":"#);
            if input.is_object() {
                page.value(input)
            } else {
                page.raw("{}")
            }
            page.raw("}");
        }
    }
}

/// This API takes letters, digits, `_` and `-` in ids; other servers' ids (`functions.search:0`) hold more.
fn wire_id(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}
