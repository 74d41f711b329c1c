//! The model room through its public doors, against a real HTTP server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

#[path = "../../../../tests/support/fake_model.rs"]
mod fake_model;

mod demo;
mod drafts;
mod failures;
mod quiet;
mod relay;
mod responses;
mod specs;
mod streams;

use std::time::Duration;

use agentspine_gate::receipt::Admitted;
use agentspine_model::{
    Answer, AssistantBlock, Conversation, Dialect, HttpConfig, Message, ModelClient, ModelError, ModelEvent,
    Reply, Secret, Target, ToolSpec,
};
use fake_model::FakeModel;
use serde_json::json;

const KEY: &str = "sk-canary-0123456789";
const ALL: [Dialect; 3] = [Dialect::AnthropicMessages, Dialect::OpenAiChat, Dialect::OpenAiResponses];

/// A target at the fake server, with a key.
fn target(dialect: Dialect, base: &str) -> Target {
    let path = match dialect {
        Dialect::AnthropicMessages => "/v1/messages",
        Dialect::OpenAiChat => "/v1/chat/completions",
        Dialect::OpenAiResponses => "/v1/responses",
        Dialect::Demo => "",
    };
    let endpoint = if dialect == Dialect::Demo { "demo:".to_owned() } else { format!("{base}{path}") };
    Target { dialect, endpoint, model: "m-1".into(), credential: Secret::new(format!(" {KEY}\n")) }
}

fn client() -> ModelClient {
    ModelClient::new(HttpConfig::default()).unwrap()
}

/// A client with one limit made so short that it must be the one to end the call.
fn hasty(shorten: impl FnOnce(&mut HttpConfig, Duration)) -> ModelClient {
    let mut config = HttpConfig::default();
    shorten(&mut config, Duration::from_millis(300));
    ModelClient::new(config).unwrap()
}

async fn call(client: &ModelClient, target: &Target, body: &[u8]) -> Result<Reply, ModelError> {
    client.call(target, Admitted::for_tests(&target.endpoint, body.to_vec())).await
}

/// Everything a reply gives, and the error it ends with, if any.
async fn drain(mut reply: Reply) -> (Vec<ModelEvent>, Option<ModelError>) {
    let mut events = Vec::new();
    while let Some(event) = reply.next().await {
        match event {
            Ok(event) => events.push(event),
            Err(error) => {
                assert!(reply.next().await.is_none(), "nothing follows an error");
                return (events, Some(error));
            }
        }
    }
    (events, None)
}

/// One call to a server that answers once.
async fn once(dialect: Dialect, answer: fake_model::Answer) -> (Vec<ModelEvent>, Option<ModelError>) {
    let server = FakeModel::start([answer]).await;
    let outcome = match call(&client(), &target(dialect, server.base()), b"{}").await {
        Ok(reply) => drain(reply).await,
        Err(error) => (Vec::new(), Some(error)),
    };
    assert_eq!(server.requests().len(), 1, "one receipt, one request");
    outcome
}

fn text_of(events: &[ModelEvent]) -> String {
    let texts =
        events.iter().filter_map(|e| if let ModelEvent::Text(text) = e { Some(text.as_str()) } else { None });
    texts.collect()
}

fn blocks_of(events: &[ModelEvent]) -> Vec<AssistantBlock> {
    let mut answer = Answer::default();
    for event in events {
        answer.absorb(event);
    }
    answer.into_blocks()
}

fn search_tool() -> ToolSpec {
    ToolSpec {
        name: "memory_search".into(),
        description: "Searches what was remembered.".into(),
        parameters: json!({ "type": "object", "properties": { "query": { "type": "string" } }, "required": ["query"] }),
    }
}

fn conversation(messages: Vec<Message>) -> Conversation {
    Conversation {
        system: "You are the chat of agentspine.",
        messages,
        tools: vec![search_tool()],
        max_tokens: 1024,
    }
}

fn user(text: &str) -> Message {
    Message::User { text: text.into() }
}

fn says(text: &str) -> Message {
    Message::Assistant { blocks: vec![AssistantBlock::Text(text.into())] }
}
