//! A client that writes its requests as Claude Code does: marks that move, content that flips its form, reminders.

use serde_json::{Value, json};

use super::stage::Stage;
use crate::support::proxied::Got;

const PATH: &str = "/v1/messages?beta=true";
const REMINDER: &str = "<system-reminder>\nCodebase and user instructions are shown below. Be sure to adhere to these \
                        instructions. IMPORTANT: These instructions OVERRIDE any default behavior and you MUST follow \
                        them exactly as written.\n\n";

/// One conversation of the client.
#[derive(Clone)]
pub struct Claude {
    pub session: String,
    agent: Option<String>,
    pub messages: Vec<Value>,
    files: Value,
}

impl Claude {
    /// A session that has just begun in the stage's project.
    pub fn new(stage: &Stage, session: &str) -> Self {
        Self { session: session.to_owned(), agent: None, messages: Vec::new(), files: files(stage) }
    }

    /// A subagent of this session.
    pub fn agent(&self, id: &str) -> Self {
        Self { agent: Some(id.to_owned()), messages: Vec::new(), ..self.clone() }
    }

    /// The person's text, or whatever stands in its place.
    pub fn user(&mut self, texts: &[&str]) {
        let first = self.messages.is_empty().then(|| self.files.clone());
        let blocks = texts.iter().map(|text| json!({ "type": "text", "text": text }));
        let content: Vec<Value> = first.into_iter().chain(blocks).collect();
        let is_first = self.messages.is_empty();
        self.messages.push(json!({ "role": "user", "content": content }));
        if is_first {
            let text = json!({ "type": "text", "text": "Available agent types: general-purpose" });
            self.messages.push(json!({ "role": "system", "content": [text] }));
        }
    }

    /// Answers every open tool call, with these texts after the results.
    pub fn results(&mut self, texts: &[&str]) {
        let last = self.messages.last().unwrap();
        let calls = last["content"].as_array().unwrap().iter().filter(|block| block["type"] == "tool_use");
        let results =
            calls.map(|call| json!({ "type": "tool_result", "tool_use_id": call["id"], "content": "hi" }));
        let texts = texts.iter().map(|text| json!({ "type": "text", "text": text }));
        let content: Vec<Value> = results.chain(texts).collect();
        assert!(content[0]["type"] == "tool_result", "{last}");
        self.messages.push(json!({ "role": "user", "content": content }));
    }

    /// Everything up to the last `count` messages is kept.
    pub fn rewind(&mut self, count: usize) {
        self.messages.truncate(self.messages.len() - count);
    }

    /// Sends the conversation and takes the answer up.
    pub fn send(&mut self, stage: &mut Stage, kind: &'static str) {
        let got = self.post(stage, kind, &self.body(true));
        self.take(&got);
    }

    pub fn post(&self, stage: &mut Stage, kind: &'static str, body: &Value) -> Got {
        let mut headers = vec![("x-claude-code-session-id", self.session.as_str()), ("x-api-key", "dummy")];
        headers.extend(self.agent.as_deref().map(|agent| ("x-claude-code-agent-id", agent)));
        stage.call(kind, PATH, &headers, body)
    }

    pub fn take(&mut self, got: &Got) {
        let streamed = got.header("content-type").starts_with("text/event-stream");
        let content = if streamed { assembled(&got.text()) } else { got.json()["content"].clone() };
        self.messages.push(json!({ "role": "assistant", "content": content }));
    }

    /// The body as the client writes it now.
    pub fn body(&self, stream: bool) -> Value {
        let newest = self.messages.len().saturating_sub(1);
        let mut messages: Vec<Value> = self.messages.clone();
        for (n, message) in messages.iter_mut().enumerate() {
            let blocks = message["content"].as_array().unwrap().clone();
            if n < newest
                && message["role"] != "assistant"
                && blocks.len() == 1
                && blocks[0]["type"] == "text"
            {
                message["content"] = blocks[0]["text"].clone();
            }
        }
        if let Some(last) = messages.last_mut().and_then(|message| message["content"].as_array_mut()) {
            last.last_mut().unwrap()["cache_control"] = json!({ "type": "ephemeral" });
        }
        let who = if self.agent.is_some() { " cc_is_subagent=true;" } else { "" };
        let billing = format!("x-anthropic-billing-header: cc_version=2.1.332.abc; cc_entrypoint=cli;{who}");
        let user = json!({ "device_id": "d", "account_uuid": "", "session_id": self.session }).to_string();
        json!({
            "model": "claude-test", "messages": messages,
            "system": [
                { "type": "text", "text": billing },
                { "type": "text", "text": "You are a coding agent.", "cache_control": { "type": "ephemeral" } },
                { "type": "text", "text": "How you work. ".repeat(40), "cache_control": { "type": "ephemeral" } },
            ],
            "tools": [{ "name": "Bash", "input_schema": { "type": "object" } }],
            "metadata": { "user_id": user }, "max_tokens": 32000, "thinking": { "type": "adaptive" },
            "context_management": { "edits": [{ "type": "clear_thinking_20251015", "keep": "all" }] },
            "stream": stream,
        })
    }

    /// Names the session.
    pub fn title(&self, stage: &mut Stage) {
        let mut body = self.body(true);
        let text = json!([{ "type": "text", "text": "<session>\nplease use the shell\n</session>" }]);
        body["messages"] = json!([{ "role": "user", "content": text }]);
        body["tools"] = json!([]);
        let schema = json!({ "type": "object", "properties": { "title": { "type": "string" } } });
        body["output_config"] = json!({ "format": { "type": "json_schema", "schema": schema } });
        self.post(stage, "side", &body);
    }

    /// Counts something.
    pub fn count(&self, stage: &mut Stage) {
        let body = json!({ "model": "claude-test", "messages": [{ "role": "user", "content": "foo" }], "tools": [] });
        let headers = [("x-claude-code-session-id", self.session.as_str())];
        stage.call("side", "/v1/messages/count_tokens?beta=true", &headers, &body);
    }

    /// Asks for a summary, and goes on from it with `text`, everything in one message.
    pub fn compact(&mut self, stage: &mut Stage, text: &str) {
        let mut asking = self.clone();
        asking.user(&["CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\nYour task is a summary."]);
        asking.send(stage, "side");
        self.files = files(stage);
        self.messages.clear();
        let summary =
            "This session is being continued from a previous conversation that ran out of room.\nThey spoke.";
        self.user(&[summary, text]);
    }
}

/// The first block, as the client makes it of the project's file now. It leaves out the rule file: what it does not
/// show must come from us.
fn files(stage: &Stage) -> Value {
    let path = stage.home().project().canonicalize().unwrap().join("CLAUDE.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let label = "project instructions, checked into the codebase";
    let text =
        format!("{REMINDER}Contents of {} ({label}):\n\n{}\n</system-reminder>", path.display(), text.trim());
    json!({ "type": "text", "text": text })
}

/// The content of a streamed answer.
fn assembled(events: &str) -> Value {
    let mut blocks: Vec<Value> = Vec::new();
    let mut input = String::new();
    let data = events.lines().filter_map(|line| line.strip_prefix("data: "));
    for event in data.map(|data| serde_json::from_str::<Value>(data).unwrap()) {
        match event["type"].as_str().unwrap() {
            "content_block_start" => {
                input.clear();
                blocks.push(event["content_block"].clone());
            }
            "content_block_delta" => {
                let (delta, block) = (&event["delta"], blocks.last_mut().unwrap());
                if let Some(text) = delta["text"].as_str() {
                    block["text"] = json!(format!("{}{text}", block["text"].as_str().unwrap()));
                }
                if let Some(signature) = delta.get("signature") {
                    block["signature"] = signature.clone();
                }
                input.push_str(delta["partial_json"].as_str().unwrap_or_default());
            }
            "content_block_stop" if !input.is_empty() => {
                blocks.last_mut().unwrap()["input"] = serde_json::from_str(&input).unwrap();
            }
            _ => {}
        }
    }
    json!(blocks)
}
