//! OpenAI Responses: named events around output items, then `response.completed`, `.incomplete` or `.failed`.
//!
//! Written for the servers that differ: items without deltas, deltas without items, a last event that repeats it all.

use serde_json::{Value, json};

use super::{Step, count, other, parse_arguments, text};
use crate::event::{ModelEvent, StopReason, Usage};
use crate::spec::Target;

/// State of one answer. Items do not interleave, so one is open at a time.
pub(crate) struct Responses {
    /// Whose reasoning this is: nobody else can read it.
    origin: Value,
    /// Whether text of the open item came as deltas.
    spoken: bool,
    /// Arguments of the open call.
    arguments: String,
    calls: usize,
    said_anything: bool,
    refused: bool,
}

impl Responses {
    pub(super) fn new(target: &Target) -> Self {
        Self {
            origin: origin(target),
            spoken: false,
            arguments: String::new(),
            calls: 0,
            said_anything: false,
            refused: false,
        }
    }

    pub(super) fn take(&mut self, json: &Value) -> Step {
        let delta = || text(json, "/delta");
        match text(json, "/type") {
            "response.output_text.delta" => return self.words(delta()),
            "response.refusal.delta" => {
                self.refused = true;
                return self.words(delta());
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                return Step::Events(vec![ModelEvent::Thinking(delta().to_owned())]);
            }
            "response.function_call_arguments.delta" => self.arguments.push_str(delta()),
            "response.output_item.added" => self.open(),
            "response.output_item.done" => return Step::Events(self.item(json.get("item"))),
            "response.completed" | "response.incomplete" => return Step::Done(self.last(json)),
            "response.failed" => return Step::Failed(json.get("response").cloned().unwrap_or_default()),
            "" => return Step::Malformed,
            _ => {}
        }
        Step::Events(Vec::new())
    }

    fn words(&mut self, delta: &str) -> Step {
        self.spoken = true;
        self.said_anything = true;
        Step::Events(vec![ModelEvent::Text(delta.to_owned())])
    }

    fn open(&mut self) {
        self.spoken = false;
        self.arguments.clear();
    }

    /// A whole item. Items that nobody asked for, such as a server's own tools, are not part of the message.
    fn item(&mut self, item: Option<&Value>) -> Vec<ModelEvent> {
        let Some(item) = item else { return Vec::new() };
        let event = match text(item, "/type") {
            "message" if !self.spoken => self.whole_text(item),
            "function_call" => Some(self.call(item)),
            "reasoning" => {
                kept(item).map(|item| ModelEvent::Raw(json!({ "responses": self.origin, "item": item })))
            }
            _ => None,
        };
        self.open();
        self.said_anything |= event.is_some();
        event.into_iter().collect()
    }

    fn whole_text(&mut self, item: &Value) -> Option<ModelEvent> {
        let parts = item.get("content").and_then(Value::as_array)?;
        self.refused |= parts.iter().any(|part| text(part, "/type") == "refusal");
        let texts = parts.iter().flat_map(|part| [text(part, "/text"), text(part, "/refusal")]);
        Some(ModelEvent::Text(texts.collect())).filter(|event| *event != ModelEvent::Text(String::new()))
    }

    fn call(&mut self, item: &Value) -> ModelEvent {
        let ids = [text(item, "/call_id"), text(item, "/id")].into_iter().find(|id| !id.is_empty());
        let id = ids.map_or_else(|| format!("call_{}", self.calls), str::to_owned);
        self.calls = self.calls.saturating_add(1);
        let arguments = match text(item, "/arguments") {
            "" => std::mem::take(&mut self.arguments),
            whole => whole.to_owned(),
        };
        ModelEvent::ToolUse { id, name: text(item, "/name").to_owned(), input: parse_arguments(arguments) }
    }

    fn last(&mut self, json: &Value) -> Vec<ModelEvent> {
        let mut events = Vec::new();
        if !self.said_anything {
            let items = json.pointer("/response/output").and_then(Value::as_array).into_iter().flatten();
            items.for_each(|item| events.extend(self.item(Some(item))));
        }
        let usage = json.pointer("/response/usage").filter(|usage| usage.is_object());
        events.extend(usage.map(|usage| ModelEvent::Usage(read_usage(usage))));
        events.push(ModelEvent::Stop(self.stop_reason(json)));
        events
    }

    fn stop_reason(&self, json: &Value) -> StopReason {
        match text(json, "/response/incomplete_details/reason") {
            "max_output_tokens" => return StopReason::MaxTokens,
            "content_filter" => return StopReason::Refusal,
            "" if text(json, "/type") == "response.incomplete" => return other("incomplete"),
            "" => {}
            reason => return other(reason),
        }
        match (self.calls, self.refused) {
            (0, false) => StopReason::EndTurn,
            (0, true) => StopReason::Refusal,
            _ => StopReason::ToolUse,
        }
    }
}

/// Reasoning as it is sent back: only what holds something, without empty members. Sealed reasoning goes without its id,
/// which a server that stores nothing would look for.
fn kept(item: &Value) -> Option<Value> {
    let sealed = !text(item, "/encrypted_content").is_empty();
    let open = item.get("content").and_then(Value::as_array).is_some_and(|parts| !parts.is_empty());
    let mut item = item.as_object().filter(|_| sealed || open)?.clone();
    item.retain(|_, value| !value.is_null());
    if sealed {
        // Not `remove`: it would move the last member to this place.
        item.shift_remove("id");
    }
    Some(Value::Object(item))
}

/// The item of a raw block, if this very model wrote it: reasoning of another model, server or dialect is refused.
pub(crate) fn own_item<'a>(raw: &'a Value, target: &Target) -> Option<&'a Value> {
    (raw.get("responses")? == &origin(target)).then(|| raw.get("item")).flatten()
}

fn origin(target: &Target) -> Value {
    json!({ "endpoint": target.endpoint, "model": target.model })
}

fn read_usage(usage: &Value) -> Usage {
    Usage {
        input: count(usage, "/input_tokens"),
        output: count(usage, "/output_tokens"),
        cache_read: count(usage, "/input_tokens_details/cached_tokens"),
    }
}
