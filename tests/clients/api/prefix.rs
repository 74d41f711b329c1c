//! The prefix law: each turn of the model is signed over everything before it, as the vendor signs thinking blocks; a
//! later request in which anything before a signed block differs is answered 400.
//!
//! "Differs" is meant as the vendor means it: a string is one text block, cache marks and ids do not count.

use agentspine_gate::Digest;
use serde_json::{Value, json};

/// Signature of the turn that answers this request.
pub fn sign_messages(body: &Value) -> String {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    signature(&before(body, messages, &[]))
}

/// The first signed block whose past differs, as the vendor says it.
pub fn messages(body: &Value) -> Option<String> {
    let messages = body["messages"].as_array()?;
    for (i, message) in messages.iter().enumerate().filter(|(_, message)| message["role"] == "assistant") {
        let blocks = message["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        for (j, block) in blocks.iter().enumerate().filter(|(_, block)| block["type"] == "thinking") {
            if block["signature"] != json!(signature(&before(body, &messages[..i], &blocks[..j]))) {
                return Some(format!(
                    "messages.{i}.content.{j}: Invalid `signature` in `thinking` block. The block is bound to a \
                     different conversation."
                ));
            }
        }
    }
    None
}

/// Sealed content of the reasoning item that answers this request.
pub fn seal_responses(body: &Value) -> String {
    let items = body["input"].as_array().map(Vec::as_slice).unwrap_or_default();
    signature(&json!([body["tools"], items.iter().map(item).collect::<Vec<_>>()]))
}

/// The first reasoning item whose past differs.
pub fn responses(body: &Value) -> Option<String> {
    let items = body["input"].as_array()?;
    for (i, reasoning) in items.iter().enumerate().filter(|(_, item)| item["type"] == "reasoning") {
        let past = json!([body["tools"], items[..i].iter().map(item).collect::<Vec<_>>()]);
        if reasoning["encrypted_content"] != json!(signature(&past)) {
            return Some(format!("input.{i}: the reasoning item belongs to a different conversation"));
        }
    }
    None
}

/// Seal of the message that answers this request.
pub fn seal_chat(body: &Value) -> String {
    let messages = body["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    signature(&json!([unmarked(&body["tools"]), messages]))
}

/// The first sealed message whose past differs.
pub fn chat(body: &Value) -> Option<String> {
    let messages = body["messages"].as_array()?;
    let sealed = messages.iter().enumerate().filter(|(_, message)| message["role"] == "assistant");
    for (i, message) in sealed {
        let past = json!([unmarked(&body["tools"]), messages[..i]]);
        if message["seal"] != json!(signature(&past)) {
            return Some(format!("messages.{i}: the message belongs to a different conversation"));
        }
    }
    None
}

fn signature(past: &Value) -> String {
    format!("scripted-{}", Digest::of(past.to_string().as_bytes()).to_hex())
}

fn before(body: &Value, messages: &[Value], blocks: &[Value]) -> Value {
    let messages: Vec<Value> =
        messages.iter().map(|message| json!([message["role"], content(&message["content"])])).collect();
    json!([content(&body["system"]), unmarked(&body["tools"]), messages, unmarked(&json!(blocks))])
}

/// A content as a list of blocks without cache marks.
pub fn content(content: &Value) -> Value {
    match content {
        Value::String(text) => json!([{ "text": text, "type": "text" }]),
        other => unmarked(other),
    }
}

/// Without cache marks, members in order of their names.
pub fn unmarked(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().filter(|(name, _)| *name != "cache_control").collect();
            members.sort_unstable_by_key(|(name, _)| name.as_str());
            Value::Object(members.into_iter().map(|(name, value)| (name.clone(), unmarked(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(unmarked).collect()),
        other => other.clone(),
    }
}

/// An item without what the service itself gave it.
pub fn item(item: &Value) -> Value {
    let mut item = item.clone();
    if let Some(members) = item.as_object_mut() {
        for given in ["id", "status", "internal_chat_message_metadata_passthrough"] {
            members.remove(given);
        }
        for block in members.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten() {
            block.as_object_mut().map(|block| block.remove("annotations"));
        }
    }
    unmarked(&item)
}
