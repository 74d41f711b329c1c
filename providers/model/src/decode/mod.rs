//! Stream events of each dialect, turned into [`ModelEvent`]s.

mod anthropic;
mod chat;
pub(crate) mod responses;

use serde_json::Value;

use crate::event::{ModelEvent, StopReason};
use crate::spec::{Dialect, Target};

/// What one stream event meant.
pub(crate) enum Step {
    /// Go on; these came out.
    Events(Vec<ModelEvent>),
    /// The answer is complete; these are the last.
    Done(Vec<ModelEvent>),
    /// The provider reports an error; its JSON.
    Failed(Value),
    /// Not this dialect.
    Malformed,
}

/// A decoder for one answer.
pub(crate) enum Decoder {
    Anthropic(anthropic::Anthropic),
    Chat(chat::Chat),
    Responses(responses::Responses),
}

impl Decoder {
    pub(crate) fn new(target: &Target) -> Self {
        match target.dialect {
            Dialect::AnthropicMessages | Dialect::Demo => Self::Anthropic(anthropic::Anthropic::default()),
            Dialect::OpenAiChat => Self::Chat(chat::Chat::default()),
            Dialect::OpenAiResponses => Self::Responses(responses::Responses::new(target)),
        }
    }

    /// Takes one event. Events this crate does not know are ignored; an event named `error` is one in every dialect.
    pub(crate) fn take(&mut self, name: &str, data: &str) -> Step {
        if data.trim() == "[DONE]" {
            return self.finish().map_or_else(|| Step::Events(Vec::new()), Step::Done);
        }
        let Ok(json) = serde_json::from_str::<Value>(data) else {
            return if name == "error" { Step::Failed(Value::from(data)) } else { Step::Malformed };
        };
        if name == "error" || is_error(&json) {
            return Step::Failed(json);
        }
        match self {
            Self::Anthropic(decoder) => decoder.take(&json),
            Self::Chat(decoder) => decoder.take(&json),
            Self::Responses(decoder) => decoder.take(&json),
        }
    }

    /// The last events, if the answer may end here: at `[DONE]`, or where the server just closes after its last word.
    pub(crate) fn finish(&mut self) -> Option<Vec<ModelEvent>> {
        match self {
            Self::Anthropic(_) | Self::Responses(_) => None,
            Self::Chat(decoder) => decoder.finish(),
        }
    }
}

/// A top-level `error`, vLLM's `object: error`, or OpenRouter's finish reason.
fn is_error(json: &Value) -> bool {
    let is = |at: &str| text(json, at) == "error";
    json.get("error").is_some_and(|error| !error.is_null())
        || is("/object")
        || is("/type")
        || is("/choices/0/finish_reason")
}

/// The string at a JSON pointer, or nothing.
fn text<'a>(json: &'a Value, at: &str) -> &'a str {
    json.pointer(at).and_then(Value::as_str).unwrap_or_default()
}

/// The count at a JSON pointer, or zero.
fn count(json: &Value, at: &str) -> u64 {
    json.pointer(at).and_then(Value::as_u64).unwrap_or_default()
}

/// Tool arguments as JSON; no text at all is no arguments, text that is no JSON stays text.
fn parse_arguments(text: String) -> Value {
    if text.trim().is_empty() {
        return Value::Object(serde_json::Map::new());
    }
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

fn other(reason: &str) -> StopReason {
    StopReason::Other(crate::error::for_people(reason, None))
}
