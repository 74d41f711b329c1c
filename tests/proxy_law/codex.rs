//! A client that writes its requests as Codex does: a list of items, its own words among them, marks in headers.

use serde_json::{Value, json};

use super::stage::Stage;
use crate::support::proxied::Got;

const PATH: &str = "/v1/responses";

/// One thread of the client.
#[derive(Clone)]
pub struct Codex {
    pub thread: String,
    window: u32,
    source: &'static str,
    pub items: Vec<Value>,
}

impl Codex {
    /// A thread that has just begun in the stage's project.
    pub fn new(stage: &Stage, thread: &str) -> Self {
        let items = opening(stage);
        Self { thread: thread.to_owned(), window: 0, source: "user", items }
    }

    /// Another thread that the client begins by itself.
    pub fn other(stage: &Stage, thread: &str, source: &'static str) -> Self {
        Self { source, ..Self::new(stage, thread) }
    }

    pub fn user(&mut self, text: &str) {
        self.items.push(user(text, "user.text"));
    }

    /// Answers the open call.
    pub fn result(&mut self) {
        let call = self.items.last().unwrap()["call_id"].clone();
        assert!(call.is_string(), "{:?}", self.items.last());
        self.items.push(json!({ "type": "function_call_output", "call_id": call, "output": "hi" }));
    }

    /// What a `!` command printed.
    pub fn bash(&mut self) {
        let text = "<user_shell_command>\n<command>\nls\n</command>\n<result>\nExit code: 0\n</result>\n</user_shell_command>";
        self.items.push(user(text, "unknown"));
    }

    pub fn rewind(&mut self, count: usize) {
        self.items.truncate(self.items.len() - count);
    }

    pub fn send(&mut self, stage: &mut Stage, kind: &'static str) {
        let got = self.post(stage, kind, "turn", &self.body());
        self.take(&got);
    }

    pub fn post(&self, stage: &mut Stage, kind: &'static str, request: &str, body: &Value) -> Got {
        let window = format!("{}:{}", self.thread, self.window);
        let marks = json!({
            "session_id": self.thread, "thread_id": self.thread, "turn_id": "t", "request_kind": request,
            "thread_source": self.source, "window_number": self.window,
        });
        let marks = marks.to_string();
        let headers = [
            ("session-id", self.thread.as_str()),
            ("thread-id", &self.thread),
            ("x-codex-window-id", &window),
            ("x-codex-turn-metadata", &marks),
            ("authorization", "Bearer dummy"),
        ];
        stage.call(kind, PATH, &headers, body)
    }

    pub fn take(&mut self, got: &Got) {
        let text = got.text();
        let last = text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().unwrap();
        let last: Value = serde_json::from_str(last).unwrap();
        assert_eq!(last["type"], "response.completed");
        for item in last["response"]["output"].as_array().unwrap() {
            let mut item = item.clone();
            item.as_object_mut().unwrap().shift_remove("status");
            self.items.push(item);
        }
    }

    pub fn body(&self) -> Value {
        json!({
            "model": "gpt-test", "input": self.items, "tools": [{ "type": "function", "name": "exec_command" }],
            "tool_choice": "auto", "parallel_tool_calls": true, "reasoning": { "effort": "high" }, "store": false,
            "stream": true, "include": ["reasoning.encrypted_content"], "prompt_cache_key": self.thread,
        })
    }

    /// Warms the provider's cache.
    pub fn prewarm(&self, stage: &mut Stage) {
        let mut body = self.body();
        body["input"] = json!(self.items[..1]);
        body["generate"] = json!(false);
        self.post(stage, "side", "prewarm", &body);
    }

    /// Asks for a compaction, and goes on in a new window with `text`.
    pub fn compact(&mut self, stage: &mut Stage, text: &str) {
        let mut body = self.body();
        body["input"].as_array_mut().unwrap().push(json!({ "type": "compaction_trigger" }));
        let got = self.post(stage, "side", "compaction", &body);
        let mut after = self.clone();
        after.items = opening(stage);
        after.take(&got);
        after.window += 1;
        after.user(text);
        *self = after;
    }
}

/// What every thread opens with.
fn opening(stage: &Stage) -> Vec<Value> {
    let dir = stage.home().project().canonicalize().unwrap();
    let text = std::fs::read_to_string(dir.join("AGENTS.md")).unwrap();
    let files =
        format!("# AGENTS.md instructions for {}\n\n<INSTRUCTIONS>\n{text}\n</INSTRUCTIONS>", dir.display());
    let developer = |text: &str| json!({ "type": "message", "role": "developer", "content": [{ "type": "input_text", "text": text }] });
    vec![
        developer("You are a coding agent."),
        developer("Skills and permissions."),
        user(&files, "instructions.user_instructions"),
        user(
            "<environment_context>\n<cwd>/p</cwd>\n</environment_context>",
            "environments.environment_context",
        ),
    ]
}

fn user(text: &str, kind: &str) -> Value {
    json!({
        "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }],
        "internal_chat_message_metadata_passthrough": { "turn_id": "t", "content_item_kinds": [kind] },
    })
}
