//! Anthropic Messages: a signed thinking block where thinking is asked for, then a text or a tool call.

use serde_json::{Value, json};

use super::cache::{TOKEN_BYTES, Usage};
use super::{Call, Reply, Say, event, prefix};

/// The whole answer, streamed or not as the request asks.
pub fn reply(call: &Call, say: &Say, n: u32, usage: Usage) -> Reply {
    let mut blocks = Vec::new();
    let thinks = call.body["thinking"]["type"].as_str().is_some_and(|kind| kind != "disabled");
    if thinks {
        let signature = prefix::sign_messages(call.body);
        blocks.push(json!({ "type": "thinking", "thinking": "", "signature": signature }));
    }
    let stop = match say {
        Say::Text(text) => {
            blocks.push(json!({ "type": "text", "text": text }));
            "end_turn"
        }
        Say::Tool(name, input) => {
            let id = format!("toolu_scripted{n:04}");
            blocks.push(json!({ "type": "text", "text": "One moment." }));
            blocks.push(json!({ "type": "tool_use", "id": id, "name": name, "input": input }));
            "tool_use"
        }
        Say::Refuse(_) => unreachable!("refused before"),
    };
    let id = format!("msg_scripted{n:04}");
    let usage = json!({
        "input_tokens": usage.fresh / TOKEN_BYTES, "cache_creation_input_tokens": usage.written / TOKEN_BYTES,
        "cache_read_input_tokens": usage.read / TOKEN_BYTES, "output_tokens": 5,
    });
    let head = json!({
        "id": id, "type": "message", "role": "assistant", "model": call.body["model"], "stop_sequence": null,
        "usage": usage,
    });
    if call.body["stream"] == true { stream(head, &blocks, stop) } else { whole(head, &blocks, stop) }
}

fn whole(mut head: Value, blocks: &[Value], stop: &str) -> Reply {
    head["content"] = json!(blocks);
    head["stop_reason"] = json!(stop);
    Reply::json(200, &head)
}

fn stream(mut head: Value, blocks: &[Value], stop: &str) -> Reply {
    head["content"] = json!([]);
    head["stop_reason"] = Value::Null;
    let mut events = event("message_start", &json!({ "message": head }));
    events.push_str(&event("ping", &json!({})));
    for (index, block) in blocks.iter().enumerate() {
        let (opening, deltas) = opened(block);
        events.push_str(&event("content_block_start", &json!({ "index": index, "content_block": opening })));
        for delta in deltas {
            events.push_str(&event("content_block_delta", &json!({ "index": index, "delta": delta })));
        }
        events.push_str(&event("content_block_stop", &json!({ "index": index })));
    }
    let delta = json!({ "stop_reason": stop, "stop_sequence": null });
    events.push_str(&event("message_delta", &json!({ "delta": delta, "usage": { "output_tokens": 5 } })));
    events.push_str(&event("message_stop", &json!({})));
    Reply::events(events)
}

/// A block as it opens, and the deltas that fill it.
fn opened(block: &Value) -> (Value, Vec<Value>) {
    let mut opening = block.clone();
    let deltas = match block["type"].as_str().unwrap() {
        "thinking" => {
            opening["signature"] = json!("");
            vec![json!({ "type": "signature_delta", "signature": block["signature"] })]
        }
        "text" => {
            opening["text"] = json!("");
            let text = block["text"].as_str().unwrap();
            let half = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
            let pieces = [&text[..half], &text[half..]];
            pieces.iter().map(|piece| json!({ "type": "text_delta", "text": piece })).collect()
        }
        _ => {
            opening["input"] = json!({});
            vec![json!({ "type": "input_json_delta", "partial_json": block["input"].to_string() })]
        }
    };
    (opening, deltas)
}
