//! The Responses dialect where it differs: exact bytes, reasoning there and back, and every way an answer ends.

use agentspine_model::{
    AssistantBlock, Dialect, Message, ModelError, ModelEvent, StopReason, Target, ToolResult, Usage, draft,
};
use serde_json::{Value, json};

use crate::fake_model::{Answer, completed, named};
use crate::{blocks_of, conversation, drain, once, says, target, text_of, user};

const BASE: &str = "http://127.0.0.1:1";
const USAGE: ModelEvent = ModelEvent::Usage(Usage { input: 39, output: 5, cache_read: 30 });

async fn answer(events: &[String]) -> (Vec<ModelEvent>, Option<ModelError>) {
    once(Dialect::OpenAiResponses, Answer::sse(&events.concat())).await
}

fn text_delta(text: &str) -> String {
    named("response.output_text.delta", &json!({ "output_index": 0, "delta": text }))
}

fn item_done(item: &Value) -> String {
    named("response.output_item.done", &json!({ "output_index": 0, "item": item }))
}

fn last(kind: &str, response: &Value) -> String {
    named(kind, &json!({ "response": response }))
}

fn text(text: &str) -> ModelEvent {
    ModelEvent::Text(text.into())
}

fn body_of(target: &Target, messages: Vec<Message>) -> Value {
    serde_json::from_slice(&draft(target, &conversation(messages), "s").body).unwrap()
}

#[test]
fn the_draft_is_these_bytes() {
    let talk = conversation(vec![user("Hi"), says("Hello."), user("More"), user("and more")]);
    let body = draft(&target(Dialect::OpenAiResponses, BASE), &talk, "s-1").body;
    let expected = concat!(
        r#"{"model":"m-1","stream":true,"store":false,"include":["reasoning.encrypted_content"],"#,
        r#""max_output_tokens":1024,"instructions":"You are the chat of agentspine.","#,
        r#""tools":[{"type":"function","name":"memory_search","description":"Searches what was remembered.","#,
        r#""parameters":{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]},"strict":false}],"#,
        r#""input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"Hi"}]},"#,
        r#"{"type":"message","role":"assistant","status":"completed","content":"#,
        r#"[{"type":"output_text","text":"Hello.","annotations":[]}],"id":"msg_1"},"#,
        r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"More"},"#,
        r#"{"type":"input_text","text":"and more"}]}]}"#,
    );
    assert_eq!(String::from_utf8(body.to_vec()).unwrap(), expected);
}

#[test]
fn a_growing_conversation_keeps_the_bytes_before_its_newest_message() {
    let talk = [user("one"), says("two"), user("three"), says("four"), user("five")];
    let target = target(Dialect::OpenAiResponses, BASE);
    let bytes = |length: usize| draft(&target, &conversation(talk[..length].to_vec()), "s").body;
    let whole = bytes(5);
    for length in [1, 3] {
        assert!(whole.starts_with(bytes(length).strip_suffix(b"]}").unwrap()));
    }
}

#[test]
fn openai_itself_gets_no_made_up_ids_and_is_asked_for_reasoning_only_where_there_is_some() {
    let mut target = target(Dialect::OpenAiResponses, "https://api.openai.com");
    let body = body_of(&target, vec![user("a"), says("b"), user("c")]);
    assert_eq!(body["input"][1].get("id"), None);
    for (model, asked) in [
        ("gpt-5.1", true),
        ("o3", true),
        ("openai/gpt-oss-120b", true),
        ("gpt-4o-mini", false),
        ("ft:gpt-4.1:org", false),
        ("openai/gpt-4o", false),
        ("gpt-5-chat-latest", false),
        ("chatgpt-4o-latest", false),
    ] {
        model.clone_into(&mut target.model);
        assert_eq!(body_of(&target, vec![user("a")]).get("include").is_some(), asked, "{model}");
    }
}

#[tokio::test]
async fn sealed_reasoning_goes_back_before_its_call_and_only_to_the_model_that_wrote_it() {
    let reasoning = json!({ "id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "c2VhbA", "status": null });
    let call = json!({ "id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "memory_search", "arguments": "{\"query\":\"x\"}" });
    let forgotten =
        json!({ "id": "rs_2", "type": "reasoning", "summary": [{ "type": "summary_text", "text": "s" }] });
    let search = json!({ "id": "ws_1", "type": "web_search_call", "status": "completed" });
    let events = [
        named("response.created", &json!({ "response": { "error": null } })),
        named("response.reasoning_summary_text.delta", &json!({ "delta": "Hm." })),
        item_done(&reasoning),
        item_done(&forgotten),
        item_done(&search),
        item_done(&call),
        completed(&[&reasoning, &call]),
    ];
    let server = crate::FakeModel::start([Answer::sse(&events.concat())]).await;
    let here = target(Dialect::OpenAiResponses, server.base());
    let (events, error) = drain(crate::call(&crate::client(), &here, b"{}").await.unwrap()).await;
    let sealed = json!({ "type": "reasoning", "summary": [], "encrypted_content": "c2VhbA" });
    let origin = json!({ "endpoint": here.endpoint, "model": "m-1" });
    let expected = vec![
        ModelEvent::Thinking("Hm.".into()),
        ModelEvent::Raw(json!({ "responses": origin, "item": sealed })),
        ModelEvent::ToolUse {
            id: "call_1".into(),
            name: "memory_search".into(),
            input: json!({ "query": "x" }),
        },
        USAGE,
        ModelEvent::Stop(StopReason::ToolUse),
    ];
    assert_eq!((events.clone(), error), (expected, None));

    let result = ToolResult { id: "call_1".into(), text: "found".into(), is_error: false };
    let talk = vec![
        user("a"),
        Message::Assistant { blocks: blocks_of(&events) },
        Message::ToolResults(vec![result]),
    ];
    let kinds = |target: &Target| -> Vec<String> {
        let body = body_of(target, talk.clone());
        let items = body["input"].as_array().unwrap();
        items.iter().map(|item| item["type"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(body_of(&here, talk.clone())["input"][1], sealed);
    assert_eq!(kinds(&here), ["message", "reasoning", "function_call", "function_call_output"]);
    let (mut other_model, other_server) = (here.clone(), target(Dialect::OpenAiResponses, BASE));
    "m-2".clone_into(&mut other_model.model);
    for other in [other_model, other_server] {
        assert_eq!(kinds(&other), ["message", "function_call", "function_call_output"]);
    }
    for dialect in [Dialect::AnthropicMessages, Dialect::OpenAiChat] {
        assert!(!body_of(&target(dialect, server.base()), talk.clone()).to_string().contains("c2VhbA"));
    }
}

#[test]
fn raw_blocks_of_other_dialects_and_reasoning_of_a_cut_answer_are_not_sent() {
    let here = target(Dialect::OpenAiResponses, BASE);
    let own = json!({ "responses": { "endpoint": here.endpoint, "model": "m-1" }, "item": { "type": "reasoning", "content": [1] } });
    let foreign = [
        json!({ "type": "thinking", "thinking": "secret", "signature": "s" }),
        json!({ "reasoning_content": "secret" }),
        json!({ "tool_call": "c", "extra_content": { "sig": "secret" } }),
        json!({ "item": { "type": "reasoning", "content": ["secret"] } }),
    ];
    let mut blocks: Vec<AssistantBlock> = foreign.into_iter().map(AssistantBlock::Raw).collect();
    blocks.push(AssistantBlock::Text("Half".into()));
    blocks.push(AssistantBlock::Raw(own));
    let body = body_of(&here, vec![user("a"), Message::Assistant { blocks }, user("b")]);
    assert_eq!(body["input"].as_array().unwrap().len(), 3);
    assert!(!body.to_string().contains("secret"));
}

#[test]
fn ids_of_other_servers_become_ids_this_api_takes_alike_in_call_and_answer() {
    let long = format!("functions.search:{}", "7".repeat(80));
    for (id, sent) in [("functions.search:0", "functions_search_0".to_owned()), (&long, "7".repeat(64))] {
        let call = AssistantBlock::ToolUse { id: id.into(), name: "s".into(), input: json!({}) };
        let result = ToolResult { id: id.into(), text: "r".into(), is_error: false };
        let talk =
            vec![user("a"), Message::Assistant { blocks: vec![call] }, Message::ToolResults(vec![result])];
        let body = body_of(&target(Dialect::OpenAiResponses, BASE), talk);
        assert_eq!(
            (&body["input"][1]["call_id"], &body["input"][2]["call_id"]),
            (&json!(sent), &json!(sent))
        );
    }
}

#[tokio::test]
async fn every_ending_has_its_reason() {
    let refusal = named("response.refusal.delta", &json!({ "delta": "I can not." }));
    let cut = |reason: &str| {
        last(
            "response.incomplete",
            &json!({ "status": "incomplete", "incomplete_details": { "reason": reason } }),
        )
    };
    let table = [
        (vec![text_delta("a"), completed(&[])], "a", StopReason::EndTurn),
        (vec![refusal, completed(&[])], "I can not.", StopReason::Refusal),
        (vec![text_delta("a"), cut("max_output_tokens")], "a", StopReason::MaxTokens),
        (vec![text_delta("a"), cut("content_filter")], "a", StopReason::Refusal),
        (vec![cut("steered\u{1b}")], "", StopReason::Other("steered".into())),
        (vec![last("response.incomplete", &json!({}))], "", StopReason::Other("incomplete".into())),
    ];
    for (events, said, stop) in table {
        let (got, error) = answer(&events).await;
        assert_eq!((text_of(&got).as_str(), error), (said, None));
        assert_eq!(got.last(), Some(&ModelEvent::Stop(stop)));
    }
}

#[tokio::test]
async fn a_failed_response_and_an_error_event_are_errors_with_their_message() {
    let failed = |code: &str| {
        last(
            "response.failed",
            &json!({ "status": "failed", "error": { "code": code, "message": "no sk-canary-0123456789" } }),
        )
    };
    let bare = named("error", &json!({ "code": "server_error", "message": "it broke", "param": null }));
    let table = [
        (failed("server_error"), "no ***", false),
        (failed("rate_limit_exceeded"), "no ***", true),
        (failed("server_is_overloaded"), "no ***", true),
        (bare, "it broke", false),
        (last("response.failed", &Value::Null), "it gave no reason", false),
    ];
    for (event, message, busy) in table {
        let (events, error) = answer(&[text_delta("half"), event, text_delta("never")]).await;
        assert_eq!(text_of(&events), "half");
        assert_eq!(error, Some(ModelError::Provider { message: message.into(), busy }));
    }
}

#[tokio::test]
async fn only_the_last_event_completes_an_answer_and_unknown_events_are_passed_over() {
    let unknown = named("response.some_future.delta", &json!({ "delta": "x" }));
    let item = json!({ "type": "message", "content": [{ "type": "output_text", "text": "half" }] });
    let cut = [text_delta("half"), unknown.clone(), ": comment\n\n".to_owned(), item_done(&item)];
    for tail in ["", "data: [DONE]\n\n"] {
        let events = [cut.concat(), tail.to_owned()];
        let (events, error) = answer(&events).await;
        assert_eq!(events, vec![text("half")]);
        assert!(matches!(error, Some(ModelError::Cut { .. })), "{error:?}");
    }
    let (events, error) = answer(&[unknown, named("keepalive", &json!({})), completed(&[])]).await;
    assert_eq!((events, error), (vec![USAGE, ModelEvent::Stop(StopReason::EndTurn)], None));
    for other in ["data: {\"choices\":[]}\n\n", "data: [1]\n\n", "event: response.created\ndata: {\"a\":\n\n"]
    {
        let (_, error) = answer(&[other.to_owned()]).await;
        assert!(matches!(error, Some(ModelError::Malformed { dialect: "Responses", .. })), "{error:?}");
    }
}

#[tokio::test]
async fn servers_that_send_less_are_understood() {
    let message = json!({ "type": "message", "content": [{ "type": "output_text", "text": "whole" }] });
    let call = json!({ "type": "function_call", "id": "fc_9", "name": "t" });
    let done = |events: Vec<ModelEvent>| (events, None);
    let stop = |reason| ModelEvent::Stop(reason);
    let tool = |id: &str, input: Value| ModelEvent::ToolUse { id: id.into(), name: "t".into(), input };
    // No deltas at all.
    let expected = vec![text("whole"), USAGE, stop(StopReason::EndTurn)];
    assert_eq!(answer(&[item_done(&message), completed(&[&message])]).await, done(expected.clone()));
    // Nothing but the last event.
    assert_eq!(answer(&[completed(&[&message])]).await, done(expected));
    // Arguments only as deltas, no call id; then no id at all.
    let piece = |text: &str| named("response.function_call_arguments.delta", &json!({ "delta": text }));
    let nameless = json!({ "type": "function_call", "name": "t", "arguments": "not json" });
    let added = named("response.output_item.added", &json!({ "item": call }));
    let events =
        [added, piece("{\"a\""), piece(":1}"), item_done(&call), item_done(&nameless), completed(&[])];
    let expected = vec![
        tool("fc_9", json!({ "a": 1 })),
        tool("call_1", json!("not json")),
        USAGE,
        stop(StopReason::ToolUse),
    ];
    assert_eq!(answer(&events).await, done(expected));
}
