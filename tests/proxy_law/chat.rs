//! Any client of Chat Completions: strings, nothing that names a conversation.

use serde_json::{Value, json};

use super::stage::Stage;

/// One conversation.
#[derive(Clone, Default)]
pub struct Chat {
    pub messages: Vec<Value>,
}

impl Chat {
    pub fn user(&mut self, text: &str) {
        if self.messages.is_empty() {
            self.messages.push(json!({ "role": "system", "content": "You help." }));
        }
        self.messages.push(json!({ "role": "user", "content": text }));
    }

    pub fn result(&mut self) {
        let id = self.messages.last().unwrap()["tool_calls"][0]["id"].clone();
        assert!(id.is_string());
        self.messages.push(json!({ "role": "tool", "tool_call_id": id, "content": "hi" }));
    }

    pub fn rewind(&mut self, count: usize) {
        self.messages.truncate(self.messages.len() - count);
    }

    pub fn body(&self) -> Value {
        let function = json!({ "name": "Bash", "parameters": { "type": "object" } });
        let tools = [json!({ "type": "function", "function": function })];
        json!({ "model": "qwen-test", "messages": self.messages, "tools": tools, "stream": false })
    }

    pub fn send(&mut self, stage: &mut Stage, kind: &'static str) {
        let got =
            stage.call(kind, "/v1/chat/completions", &[("authorization", "Bearer dummy")], &self.body());
        self.messages.push(got.json()["choices"][0]["message"].clone());
    }
}
