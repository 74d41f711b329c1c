//! `--model` values.

use agentspine_model::{Dialect, ModelSpec, PlainHttp, SpecError};

fn parse(text: &str) -> Result<ModelSpec, SpecError> {
    ModelSpec::parse(text, PlainHttp::LoopbackOnly)
}

#[test]
fn every_form_names_its_model_endpoint_and_key() {
    let (anthropic, chat) = (Dialect::AnthropicMessages, Dialect::OpenAiChat);
    let table = [
        ("demo", Dialect::Demo, "agentspine-demo", "demo:", None),
        (
            "anthropic:claude-x",
            anthropic,
            "claude-x",
            "https://api.anthropic.com/v1/messages",
            Some("ANTHROPIC_API_KEY"),
        ),
        (
            "chat:qwen3:8b@http://127.0.0.1:11434",
            chat,
            "qwen3:8b",
            "http://127.0.0.1:11434/v1/chat/completions",
            None,
        ),
        ("chat:q@http://localhost:8080/v1/", chat, "q", "http://localhost:8080/v1/chat/completions", None),
        ("chat:q@http://[::1]:1/v1", chat, "q", "http://[::1]:1/v1/chat/completions", None),
        (
            "chat:a/b@https://openrouter.ai/api/v1",
            chat,
            "a/b",
            "https://openrouter.ai/api/v1/chat/completions",
            Some("AGENTSPINE_API_KEY"),
        ),
        (
            "chat:m@2025@https://h.example",
            chat,
            "m@2025",
            "https://h.example/v1/chat/completions",
            Some("AGENTSPINE_API_KEY"),
        ),
        (
            "anthropic:c@https://gw.example/a",
            anthropic,
            "c",
            "https://gw.example/a/v1/messages",
            Some("AGENTSPINE_API_KEY"),
        ),
    ];
    table.into_iter().for_each(names);
}

#[test]
fn openai_is_asked_through_responses_and_both_its_dialects_can_be_named_for_any_server() {
    let (chat, responses) = (Dialect::OpenAiChat, Dialect::OpenAiResponses);
    let table = [
        ("openai:gpt-x", responses, "gpt-x", "https://api.openai.com/v1/responses", Some("OPENAI_API_KEY")),
        ("responses:g@http://127.0.0.1:8080", responses, "g", "http://127.0.0.1:8080/v1/responses", None),
        (
            "responses:a/b@https://gw.example/v1",
            responses,
            "a/b",
            "https://gw.example/v1/responses",
            Some("AGENTSPINE_API_KEY"),
        ),
        (
            "chat:gpt-x@https://api.openai.com",
            chat,
            "gpt-x",
            "https://api.openai.com/v1/chat/completions",
            Some("OPENAI_API_KEY"),
        ),
        (
            "openai:c@https://API.openai.com",
            responses,
            "c",
            "https://api.openai.com/v1/responses",
            Some("OPENAI_API_KEY"),
        ),
    ];
    table.into_iter().for_each(names);
}

/// One `--model` value: its dialect, model, endpoint and key variable.
fn names((text, dialect, model, endpoint, key): (&str, Dialect, &str, &str, Option<&str>)) {
    let spec = parse(text).unwrap();
    assert_eq!(spec.needs_key(), key.is_some_and(|key| key != "AGENTSPINE_API_KEY"));
    assert_eq!(
        (spec.dialect(), spec.model(), spec.endpoint(), spec.key_variable()),
        (dialect, model, endpoint, key)
    );
}

#[test]
fn everything_else_is_refused_with_its_reason() {
    let table = [
        ("", SpecError::Form),
        ("gpt-4", SpecError::Form),
        ("gemini:x", SpecError::Form),
        ("anthropic:", SpecError::Name),
        ("openai:a b", SpecError::Name),
        ("chat:a\u{1b}@http://127.0.0.1", SpecError::Name),
        ("chat:x", SpecError::NoBase),
        ("responses:x", SpecError::NoBase),
        ("chat:x@127.0.0.1:8080", SpecError::NoBase),
        ("chat:x@ftp://127.0.0.1", SpecError::Base),
        ("chat:x@https://user:pw@h.example", SpecError::Base),
        ("chat:x@https://h.example/?key=1", SpecError::Base),
        ("chat:x@https://h.example/#v1", SpecError::Base),
        ("chat:x@http://", SpecError::Base),
        ("chat:x@http://10.0.0.5:11434", SpecError::Plain { host: "10.0.0.5".into() }),
        ("chat:x@http://localhost.evil.example", SpecError::Plain { host: "localhost.evil.example".into() }),
        ("chat:x@http://127.0.0.1.evil.example", SpecError::Plain { host: "127.0.0.1.evil.example".into() }),
    ];
    for (text, expected) in table {
        assert_eq!(parse(text), Err(expected), "{text}");
    }
}

#[test]
fn plain_http_to_another_machine_needs_the_persons_word() {
    let spec = ModelSpec::parse("chat:x@http://10.0.0.5:11434", PlainHttp::Anywhere).unwrap();
    assert_eq!(spec.endpoint(), "http://10.0.0.5:11434/v1/chat/completions");
}
