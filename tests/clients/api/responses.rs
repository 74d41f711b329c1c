//! OpenAI Responses: a reasoning item with sealed content, then a message, a function call or a compaction.

use serde_json::{Value, json};

use super::cache::{TOKEN_BYTES, Usage};
use super::{Call, Reply, Say, event, prefix};

/// The whole answer, always streamed: every client here asks for that.
pub fn reply(call: &Call, say: &Say, n: u32, usage: Usage) -> Reply {
    let items = items(call, say, n);
    let id = format!("resp_scripted{n:04}");
    let head = |status: &str| json!({ "id": id, "object": "response", "status": status, "model": call.body["model"] });
    let mut sequence = 0_u32;
    let mut events = String::new();
    let mut send = |name: &str, mut data: Value| {
        data["sequence_number"] = json!(sequence);
        sequence += 1;
        events.push_str(&event(name, &data));
    };
    send("response.created", json!({ "response": head("in_progress") }));
    for (index, item) in items.iter().enumerate() {
        send("response.output_item.added", json!({ "output_index": index, "item": opened(item) }));
        if let Some(text) = item["content"][0]["text"].as_str() {
            let place =
                json!({ "item_id": item["id"], "output_index": index, "content_index": 0, "delta": text });
            send("response.output_text.delta", place);
        }
        send("response.output_item.done", json!({ "output_index": index, "item": item }));
    }
    let mut done = head("completed");
    done["output"] = json!(items);
    let total = (usage.read + usage.written + usage.fresh) / TOKEN_BYTES;
    done["usage"] = json!({
        "input_tokens": total, "input_tokens_details": { "cached_tokens": usage.read / TOKEN_BYTES }, "output_tokens": 5,
        "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": total + 5,
    });
    send("response.completed", json!({ "response": done }));
    Reply::events(events)
}

fn items(call: &Call, say: &Say, n: u32) -> Vec<Value> {
    let last = call.body["input"].as_array().and_then(|items| items.last());
    if last.is_some_and(|item| item["type"] == "compaction_trigger") {
        let sealed = format!("sealed summary {n}");
        return vec![
            json!({ "type": "compaction", "id": format!("cmp_{n:04}"), "encrypted_content": sealed }),
        ];
    }
    let sealed = prefix::seal_responses(call.body);
    let reasoning = json!({
        "type": "reasoning", "id": format!("rs_{n:04}"), "summary": [], "encrypted_content": sealed,
    });
    let item = match say {
        Say::Text(text) => json!({
            "type": "message", "id": format!("msg_{n:04}"), "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }],
        }),
        Say::Tool(name, input) => named(
            name,
            json!({
                "type": "function_call", "id": format!("fc_{n:04}"), "call_id": format!("call_{n:04}"),
                "arguments": input.to_string(), "status": "completed",
            }),
        ),
        Say::Refuse(_) => unreachable!("refused before"),
    };
    vec![reasoning, item]
}

/// With the name of the tool, which may stand in a namespace: `NAMESPACE.NAME`.
fn named(name: &str, mut call: Value) -> Value {
    let (namespace, name) = name.split_once('.').map_or((None, name), |(space, name)| (Some(space), name));
    call["name"] = json!(name);
    if let Some(namespace) = namespace {
        call["namespace"] = json!(namespace);
    }
    call
}

fn opened(item: &Value) -> Value {
    let mut opened = item.clone();
    if item["type"] == "message" {
        opened["content"] = json!([]);
        opened["status"] = json!("in_progress");
    }
    opened
}
