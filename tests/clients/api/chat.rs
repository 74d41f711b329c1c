//! OpenAI Chat Completions: an answer whose message carries a seal over everything before it, as some servers have it.

use serde_json::json;

use super::cache::{TOKEN_BYTES, Usage};
use super::{Call, Reply, Say, prefix};

/// The whole answer, never streamed: no client here asks for that.
pub fn reply(call: &Call, say: &Say, n: u32, usage: Usage) -> Reply {
    let mut message = match say {
        Say::Refuse(_) => unreachable!("refused before"),
        Say::Text(text) => json!({ "role": "assistant", "content": text }),
        Say::Tool(name, input) => {
            let function = json!({ "name": name, "arguments": input.to_string() });
            let call = json!({ "id": format!("call_{n:04}"), "type": "function", "function": function });
            json!({ "role": "assistant", "content": null, "tool_calls": [call] })
        }
    };
    message["seal"] = json!(prefix::seal_chat(call.body));
    let total = (usage.read + usage.written + usage.fresh) / TOKEN_BYTES;
    let usage = json!({
        "prompt_tokens": total, "prompt_tokens_details": { "cached_tokens": usage.read / TOKEN_BYTES },
        "completion_tokens": 5, "total_tokens": total + 5,
    });
    let choice = json!({ "index": 0, "message": message, "finish_reason": "stop" });
    Reply::json(
        200,
        &json!({ "id": format!("chatcmpl-{n}"), "object": "chat.completion", "choices": [choice], "usage": usage }),
    )
}
