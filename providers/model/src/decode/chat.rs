//! OpenAI Chat Completions: chunks with deltas, a finish reason, perhaps a usage chunk, `[DONE]`.
//!
//! Written for the servers that differ: all calls with index 0, missing ids, `stop` after tool calls, no `[DONE]`.

use serde_json::{Value, json};

use super::{Step, count, other, parse_arguments, text};
use crate::event::{ModelEvent, StopReason, Usage};

/// Most tool calls in one answer.
const CALLS_MAX: usize = 128;

/// State of one answer.
#[derive(Default)]
pub(crate) struct Chat {
    calls: Vec<Call>,
    any_call: bool,
    reasoning: String,
    usage: Option<Usage>,
    stop: Option<StopReason>,
}

#[derive(Default)]
struct Call {
    index: u64,
    id: String,
    name: String,
    arguments: String,
    extra: Option<Value>,
}

impl Chat {
    pub(super) fn take(&mut self, chunk: &Value) -> Step {
        let Some(choices) = chunk.get("choices").and_then(Value::as_array) else { return Step::Malformed };
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            self.usage = Some(read_usage(usage));
        }
        let Some(choice) = choices.first() else { return Step::Events(Vec::new()) };
        let mut events = self.words(choice);
        for delta in choice.pointer("/delta/tool_calls").and_then(Value::as_array).into_iter().flatten() {
            if self.call(delta).is_none() {
                return Step::Malformed;
            }
        }
        let reason = text(choice, "/finish_reason");
        if !reason.is_empty() {
            events.extend(self.flush());
            self.stop = Some(self.stop_reason(reason));
        }
        Step::Events(events)
    }

    /// The last events; `None` while the model is not done.
    pub(super) fn finish(&mut self) -> Option<Vec<ModelEvent>> {
        let stop = self.stop.take()?;
        Some(self.usage.take().map(ModelEvent::Usage).into_iter().chain([ModelEvent::Stop(stop)]).collect())
    }

    fn words(&mut self, choice: &Value) -> Vec<ModelEvent> {
        let said = |at: &str| Some(text(choice, at)).filter(|text| !text.is_empty());
        let mut events = Vec::new();
        if let Some(more) = said("/delta/reasoning_content") {
            self.reasoning.push_str(more);
        }
        let thinking = said("/delta/reasoning_content").or_else(|| said("/delta/reasoning"));
        events.extend(thinking.map(|more| ModelEvent::Thinking(more.to_owned())));
        let words = said("/delta/content").or_else(|| said("/delta/refusal"));
        events.extend(words.map(|more| ModelEvent::Text(more.to_owned())));
        events
    }

    /// Adds one piece of a tool call; `None` when there are too many.
    fn call(&mut self, delta: &Value) -> Option<()> {
        let call = self.call_for(delta)?;
        call.name.push_str(text(delta, "/function/name"));
        match delta.pointer("/function/arguments") {
            Some(Value::String(more)) => call.arguments.push_str(more),
            Some(object @ Value::Object(_)) => call.arguments = object.to_string(),
            _ => {}
        }
        if let Some(extra) = delta.get("extra_content") {
            call.extra = Some(extra.clone());
        }
        Some(())
    }

    /// The call a piece belongs to: by index; a second id under one index is a second call.
    fn call_for(&mut self, delta: &Value) -> Option<&mut Call> {
        let id = text(delta, "/id");
        let index = delta.get("index").and_then(Value::as_u64);
        let known = self.calls.iter().rposition(|call| match index {
            Some(index) => call.index == index && (id.is_empty() || id == call.id),
            None => id.is_empty() || id == call.id,
        });
        let at = match known {
            Some(at) => at,
            None if self.calls.len() >= CALLS_MAX => return None,
            None => {
                let number = self.calls.len();
                let id = if id.is_empty() { format!("call_{number}") } else { id.to_owned() };
                self.calls.push(Call { index: index.unwrap_or_default(), id, ..Call::default() });
                number
            }
        };
        self.calls.get_mut(at)
    }

    /// Everything that was being assembled. Reasoning is kept only beside tool calls: there servers want it back.
    fn flush(&mut self) -> Vec<ModelEvent> {
        let reasoning = std::mem::take(&mut self.reasoning);
        let calls = std::mem::take(&mut self.calls);
        self.any_call |= !calls.is_empty();
        let mut events = Vec::new();
        if !reasoning.is_empty() && !calls.is_empty() {
            events.push(ModelEvent::Raw(json!({ "reasoning_content": reasoning })));
        }
        for call in calls {
            if let Some(extra) = call.extra {
                events.push(ModelEvent::Raw(json!({ "tool_call": call.id, "extra_content": extra })));
            }
            let input = parse_arguments(call.arguments);
            events.push(ModelEvent::ToolUse { id: call.id, name: call.name, input });
        }
        events
    }

    fn stop_reason(&self, reason: &str) -> StopReason {
        match reason {
            "stop" if self.any_call => StopReason::ToolUse,
            "stop" => StopReason::EndTurn,
            "tool_calls" | "function_call" => StopReason::ToolUse,
            "length" => StopReason::MaxTokens,
            "content_filter" => StopReason::Refusal,
            reason => other(reason),
        }
    }
}

fn read_usage(usage: &Value) -> Usage {
    let cached =
        count(usage, "/prompt_tokens_details/cached_tokens").max(count(usage, "/prompt_cache_hit_tokens"));
    Usage {
        input: count(usage, "/prompt_tokens"),
        output: count(usage, "/completion_tokens"),
        cache_read: cached,
    }
}
