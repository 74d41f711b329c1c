//! Drafts: the exact bytes of a request as it would be sent without us, and the slots where spans go.
//!
//! Bytes are deterministic: fixed field order, nothing dated, nothing random, so provider prompt caches match.

mod anthropic;
mod chat;

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

/// A body being written.
#[derive(Default)]
struct Page {
    body: Vec<u8>,
    slots: Vec<Slot>,
}

impl Page {
    fn raw(&mut self, json: &str) {
        self.body.extend_from_slice(json.as_bytes());
    }

    fn value(&mut self, value: &Value) {
        self.raw(&value.to_string());
    }

    fn string(&mut self, text: &str) {
        self.value(&Value::from(text));
    }

    /// Text inside a string that is already open.
    fn string_inside(&mut self, text: &str) {
        let quoted = Value::from(text).to_string();
        self.raw(quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default());
    }

    fn slot(&mut self, place: Place, before: &'static str, after: &'static str) {
        self.slots.push(Slot { place, at: self.body.len(), before, after });
    }

    /// Writes items with commas between them.
    fn list<T>(&mut self, items: impl IntoIterator<Item = T>, mut write: impl FnMut(&mut Self, T)) {
        for (n, item) in items.into_iter().enumerate() {
            if n > 0 {
                self.raw(",");
            }
            write(self, item);
        }
    }

    fn done(self) -> Draft {
        Draft { body: self.body, slots: self.slots, present: Vec::new() }
    }
}
