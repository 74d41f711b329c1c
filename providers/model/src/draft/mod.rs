//! Drafts: the exact bytes of a request as it would be sent without us, and the slots where spans go.
//!
//! Bytes are deterministic: fixed field order, nothing dated, nothing random, so provider prompt caches match.

mod anthropic;
mod chat;
mod responses;

use agentspine_gate::span::{Draft, Part, Place, Slot};
use serde_json::Value;

use crate::conversation::{AssistantBlock, Conversation, Message};
use crate::spec::{Dialect, Target};

/// Renders the body for `target`'s dialect (streaming) with one slot per human message, in order.
///
/// Places run over user and assistant messages; the system prompt, tools, raw blocks and blank text are left out. They
/// do not depend on the dialect, so a conversation that changes its model keeps its spans.
pub fn draft(target: &Target, conversation: &Conversation, conversation_id: &str) -> Draft {
    let placed = placed(conversation, conversation_id);
    match target.dialect {
        Dialect::AnthropicMessages | Dialect::Demo => anthropic::render(target, conversation, &placed),
        Dialect::OpenAiChat => chat::render(target, conversation, &placed),
        Dialect::OpenAiResponses => responses::render(target, conversation, &placed),
    }
}

/// The messages that are sent, each with its place.
fn placed<'a>(conversation: &'a Conversation, id: &str) -> Vec<(Place, &'a Message)> {
    let sent = conversation.messages.iter().filter(|message| message.is_sent());
    sent.scan(Place::start(id), |place, message| {
        *place = after(*place, message);
        Some((*place, message))
    })
    .collect()
}

fn after(place: Place, message: &Message) -> Place {
    match message {
        Message::User { text } => place.then("user", &[Part::Text(text)]),
        Message::ToolResults(results) => {
            let parts: Vec<Part<'_>> = results.iter().map(|r| Part::ToolResult(&r.id, &r.text)).collect();
            place.then("user", &parts)
        }
        Message::Assistant { blocks } => {
            let blocks: Vec<_> = blocks.iter().filter(|block| block.is_sent()).collect();
            let inputs: Vec<String> = blocks.iter().map(|block| input_text(block)).collect();
            let parts = blocks.iter().zip(&inputs).filter_map(|(block, input)| match block {
                AssistantBlock::Text(text) => Some(Part::Text(text)),
                AssistantBlock::ToolUse { id, .. } => Some(Part::ToolUse(id, input)),
                AssistantBlock::Raw(_) => None,
            });
            place.then("assistant", &parts.collect::<Vec<_>>())
        }
    }
}

fn input_text(block: &AssistantBlock) -> String {
    if let AssistantBlock::ToolUse { input, .. } = block { arguments(input) } else { String::new() }
}

/// Tool input as the argument text the model wrote: JSON, or its own words where they were none.
fn arguments(input: &Value) -> String {
    if let Value::String(text) = input { text.clone() } else { input.to_string() }
}

/// Letters, digits, `_` and `-` only, as vendors' own APIs want ids; other servers' (`functions.search:0`) hold more.
fn wire_id(id: &str) -> String {
    id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

/// A JSON object with one more member, at its end.
fn with(mut object: Value, member: &str, value: impl Into<Value>) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.insert(member.to_owned(), value.into());
    }
    object
}

/// A body being written, message by message. The order of fields is the order of `json!`: maps keep it.
struct Page {
    body: String,
    slots: Vec<Slot>,
    messages: usize,
}

impl Page {
    /// Starts with every field but the messages, which stand last under this name.
    fn open(head: &Value, messages: &str) -> Self {
        let mut body = head.to_string();
        body.pop();
        for part in [r#",""#, messages, r#"":["#] {
            body.push_str(part);
        }
        Self { body, slots: Vec::new(), messages: 0 }
    }

    fn message(&mut self, message: &Value) {
        if self.messages > 0 {
            self.body.push(',');
        }
        self.messages += 1;
        self.body.push_str(&message.to_string());
    }

    /// Where the closing bytes of the newest message begin.
    fn before(&self, closing: &str) -> usize {
        self.body.len() - closing.len()
    }

    fn slot_before(&mut self, closing: &str, place: Place, before: &'static str, after: &'static str) {
        self.slots.push(Slot { place, at: self.before(closing), before, after, wrap: None });
    }

    /// Puts JSON text before the closing bytes of the newest message.
    fn insert_before(&mut self, closing: &str, json: &str) {
        self.body.insert_str(self.before(closing), json);
    }

    fn close(mut self) -> Draft {
        self.body.push_str("]}");
        Draft { body: self.body.into_bytes().into(), slots: self.slots, host_slots: Vec::new() }
    }
}
