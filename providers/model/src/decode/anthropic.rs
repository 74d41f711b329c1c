//! Anthropic Messages: `message_start`, blocks with deltas, `message_delta`, `message_stop`.

use serde_json::Value;

use super::{Step, count, other, parse_arguments, text};
use crate::event::{ModelEvent, StopReason, Usage};

/// State of one answer. Blocks never interleave in this dialect, so one is open at a time.
#[derive(Default)]
pub(crate) struct Anthropic {
    open: Option<Open>,
    usage: Usage,
    stop: Option<StopReason>,
}

enum Open {
    Text,
    Tool { id: String, name: String, json: String, whole: Option<Value> },
    Raw(Value),
}

impl Anthropic {
    pub(super) fn take(&mut self, json: &Value) -> Step {
        match text(json, "/type") {
            "message_start" => self.start(json),
            "content_block_start" => return Step::Events(self.open(json).into_iter().collect()),
            "content_block_delta" => return Step::Events(self.delta(json).into_iter().collect()),
            "content_block_stop" => return Step::Events(self.close().into_iter().collect()),
            "message_delta" => self.message_delta(json),
            "message_stop" => return Step::Done(self.last()),
            "" => return Step::Malformed,
            _ => {}
        }
        Step::Events(Vec::new())
    }

    fn start(&mut self, json: &Value) {
        let at = |field: &str| count(json, &format!("/message/usage/{field}"));
        self.usage.cache_read = at("cache_read_input_tokens");
        let fresh = at("input_tokens").saturating_add(at("cache_creation_input_tokens"));
        self.usage.input = fresh.saturating_add(self.usage.cache_read);
        self.usage.output = at("output_tokens");
    }

    fn open(&mut self, json: &Value) -> Option<ModelEvent> {
        let block = json.get("content_block")?;
        let (open, event) = match text(block, "/type") {
            "text" => (Open::Text, Some(text(block, "/text")).filter(|text| !text.is_empty())),
            "tool_use" => (tool(block), None),
            _ => (Open::Raw(block.clone()), None),
        };
        self.open = Some(open);
        event.map(|text| ModelEvent::Text(text.to_owned()))
    }

    fn delta(&mut self, json: &Value) -> Option<ModelEvent> {
        let delta = json.get("delta")?;
        match (text(delta, "/type"), self.open.as_mut()?) {
            ("text_delta", _) => Some(ModelEvent::Text(text(delta, "/text").to_owned())),
            ("input_json_delta", Open::Tool { json, .. }) => {
                json.push_str(text(delta, "/partial_json"));
                None
            }
            ("thinking_delta", Open::Raw(block)) => {
                append(block, "thinking", text(delta, "/thinking"));
                Some(ModelEvent::Thinking(text(delta, "/thinking").to_owned()))
            }
            ("signature_delta", Open::Raw(block)) => {
                append(block, "signature", text(delta, "/signature"));
                None
            }
            _ => None,
        }
    }

    fn close(&mut self) -> Option<ModelEvent> {
        match self.open.take()? {
            Open::Text => None,
            Open::Raw(block) => Some(ModelEvent::Raw(block)),
            Open::Tool { id, name, json, whole } => {
                let input = whole.filter(|_| json.is_empty()).unwrap_or_else(|| parse_arguments(json));
                Some(ModelEvent::ToolUse { id, name, input })
            }
        }
    }

    fn message_delta(&mut self, json: &Value) {
        self.usage.output = count(json, "/usage/output_tokens").max(self.usage.output);
        self.stop = match text(json, "/delta/stop_reason") {
            "" => self.stop.take(),
            "end_turn" | "stop_sequence" => Some(StopReason::EndTurn),
            "tool_use" => Some(StopReason::ToolUse),
            "max_tokens" | "model_context_window_exceeded" => Some(StopReason::MaxTokens),
            "refusal" => Some(StopReason::Refusal),
            reason => Some(other(reason)),
        };
    }

    fn last(&mut self) -> Vec<ModelEvent> {
        let stop = self.stop.take().unwrap_or(StopReason::EndTurn);
        vec![ModelEvent::Usage(self.usage), ModelEvent::Stop(stop)]
    }
}

/// An open tool call. Some gateways put the whole input here and send no deltas.
fn tool(block: &Value) -> Open {
    let whole = block.get("input").filter(|input| input.as_object().is_some_and(|map| !map.is_empty()));
    Open::Tool {
        id: text(block, "/id").into(),
        name: text(block, "/name").into(),
        json: String::new(),
        whole: whole.cloned(),
    }
}

/// Appends to a string member, in the place it has.
fn append(block: &mut Value, member: &str, more: &str) {
    if let Some(Value::String(old)) = block.get_mut(member) {
        old.push_str(more);
    } else if let Some(block) = block.as_object_mut() {
        block.insert(member.to_owned(), Value::from(more));
    }
}
