//! Answers as they stream, and tool loops there and back.

use agentspine_model::{AssistantBlock, Dialect, Message, ModelEvent, StopReason, ToolResult, Usage, draft};
use serde_json::{Value, json};

use crate::fake_model::{Answer, FakeModel, chunk, named};
use crate::{ALL, KEY, blocks_of, call, client, conversation, drain, once, target, text_of, user};

const USAGE: Usage = Usage { input: 39, output: 5, cache_read: 30 };

#[tokio::test]
async fn every_dialect_streams_text_then_usage_then_stop() {
    for dialect in ALL {
        let (events, error) = once(dialect, Answer::text(&["Grüß", " dich", " 🌍"])).await;
        let text = |text: &str| ModelEvent::Text(text.into());
        let expected = vec![
            text("Grüß"),
            text(" dich"),
            text(" 🌍"),
            ModelEvent::Usage(USAGE),
            ModelEvent::Stop(StopReason::EndTurn),
        ];
        assert_eq!((events, error), (expected, None), "{dialect:?}");
    }
}

#[tokio::test]
async fn exactly_the_admitted_bytes_arrive_with_the_headers_of_the_dialect() {
    let body = "{\"z\": 1 ,\n \"a\":\"\\u00e4 ä\"}  ".as_bytes();
    for dialect in ALL {
        let server = FakeModel::start([Answer::text(&["ok"])]).await;
        drain(call(&client(), &target(dialect, server.base()), body).await.unwrap()).await;
        let requests = server.requests();
        let [request] = requests.as_slice() else { panic!("one request") };
        assert_eq!((request.method.as_str(), request.body.as_slice()), ("POST", body));
        assert_eq!(request.header("content-type"), Some("application/json"));
        assert_eq!(request.header("content-length"), Some(body.len().to_string().as_str()));
        let bearer = format!("Bearer {KEY}");
        let (key, authorization, version) = match dialect {
            Dialect::AnthropicMessages => (Some(KEY), None, Some("2023-06-01")),
            _ => (None, Some(bearer.as_str()), None),
        };
        assert_eq!(request.header("x-api-key"), key);
        assert_eq!(request.header("authorization"), authorization);
        assert_eq!(request.header("anthropic-version"), version);
    }
}

#[tokio::test]
async fn a_tool_loop_goes_round_in_every_dialect() {
    for dialect in ALL {
        let input = json!({ "query": "tabs or spaces", "weight": 0.1, "limit": 5 });
        let server = FakeModel::start([
            Answer::tool("call-1", "memory_search", input.clone()),
            Answer::text(&["Tabs."]),
        ])
        .await;
        let (target, client) = (target(dialect, server.base()), client());
        let mut talk = conversation(vec![user("What did I decide?")]);

        let first = draft(&target, &talk, "s-1");
        let (events, error) = drain(call(&client, &target, &first.body).await.unwrap()).await;
        let tool_use =
            ModelEvent::ToolUse { id: "call-1".into(), name: "memory_search".into(), input: input.clone() };
        let stop = ModelEvent::Stop(StopReason::ToolUse);
        assert_eq!((events.clone(), error), (vec![tool_use, ModelEvent::Usage(USAGE), stop], None));

        talk.messages.push(Message::Assistant { blocks: blocks_of(&events) });
        let result = ToolResult { id: "call-1".into(), text: "tabs".into(), is_error: false };
        talk.messages.push(Message::ToolResults(vec![result]));
        let second = draft(&target, &talk, "s-1");
        let (events, _) = drain(call(&client, &target, &second.body).await.unwrap()).await;
        assert_eq!(text_of(&events), "Tabs.");
        assert_eq!(second.slots[0].place, first.slots[0].place);

        let bodies: Vec<Value> = server.requests().iter().map(crate::fake_model::Recorded::json).collect();
        if dialect == Dialect::OpenAiResponses {
            let call = json!({ "type": "function_call", "call_id": "call-1", "name": "memory_search", "arguments": input.to_string() });
            assert_eq!(bodies[1]["input"][1], call);
            let result = json!({ "type": "function_call_output", "call_id": "call-1", "output": "tabs" });
            assert_eq!(bodies[1]["input"][2], result);
            continue;
        }
        let messages = bodies[1]["messages"].as_array().unwrap();
        if dialect == Dialect::AnthropicMessages {
            let sent =
                json!([{ "type": "tool_use", "id": "call-1", "name": "memory_search", "input": input }]);
            assert_eq!(messages[1], json!({ "role": "assistant", "content": sent }));
            assert_eq!(messages[2]["content"][0]["tool_use_id"], "call-1");
        } else {
            let function = json!({ "name": "memory_search", "arguments": input.to_string() });
            let calls = json!([{ "id": "call-1", "type": "function", "function": function }]);
            assert_eq!(messages[2], json!({ "role": "assistant", "content": "", "tool_calls": calls }));
            assert_eq!(messages[3], json!({ "role": "tool", "tool_call_id": "call-1", "content": "tabs" }));
        }
    }
}

#[tokio::test]
async fn signed_thinking_comes_back_verbatim_and_in_order() {
    let start = |block: Value| named("content_block_start", &json!({ "index": 0, "content_block": block }));
    let delta = |delta: Value| named("content_block_delta", &json!({ "index": 0, "delta": delta }));
    let stop = named("content_block_stop", &json!({ "index": 0 }));
    let body = [
        named("message_start", &json!({ "message": { "usage": { "input_tokens": 1 } } })),
        start(json!({ "type": "thinking", "thinking": "", "signature": "" })),
        delta(json!({ "type": "thinking_delta", "thinking": "Let me " })),
        delta(json!({ "type": "thinking_delta", "thinking": "see." })),
        delta(json!({ "type": "signature_delta", "signature": "c2ln" })),
        stop.clone(),
        start(json!({ "type": "redacted_thinking", "data": "xyz" })),
        stop.clone(),
        start(json!({ "type": "text", "text": "" })),
        delta(json!({ "type": "text_delta", "text": "Here." })),
        delta(json!({ "type": "citations_delta", "citation": {} })),
        stop,
        named("some_future_event", &json!({ "x": 1 })),
        named(
            "message_delta",
            &json!({ "delta": { "stop_reason": "max_tokens" }, "usage": { "output_tokens": 9 } }),
        ),
        named("message_stop", &json!({})),
    ];
    let (events, error) = once(Dialect::AnthropicMessages, Answer::sse(&body.concat())).await;
    assert_eq!(error, None);
    assert_eq!(events.last(), Some(&ModelEvent::Stop(StopReason::MaxTokens)));
    let thinking = json!({ "type": "thinking", "thinking": "Let me see.", "signature": "c2ln" });
    let redacted = json!({ "type": "redacted_thinking", "data": "xyz" });
    let text = AssistantBlock::Text("Here.".into());
    let blocks = blocks_of(&events);
    assert_eq!(
        blocks,
        vec![AssistantBlock::Raw(thinking.clone()), AssistantBlock::Raw(redacted.clone()), text]
    );

    let talk = conversation(vec![user("a"), Message::Assistant { blocks }, user("b")]);
    let sent: Value =
        serde_json::from_slice(&draft(&target(Dialect::AnthropicMessages, ""), &talk, "s").body).unwrap();
    assert_eq!(
        sent["messages"][1]["content"],
        json!([thinking, redacted, { "type": "text", "text": "Here." }])
    );
    let elsewhere: Value =
        serde_json::from_slice(&draft(&target(Dialect::OpenAiChat, ""), &talk, "s").body).unwrap();
    assert_eq!(elsewhere["messages"][2], json!({ "role": "assistant", "content": "Here." }));
}

#[tokio::test]
async fn comments_pings_and_odd_line_ends_are_no_events() {
    let body = format!(
        ": OPENROUTER PROCESSING\n\n\u{feff}: x\r\n\r\n{}: PROCESSING\n\n{}data: [DONE]\r\n\r\n",
        chunk(&json!({ "role": "assistant", "content": "a" }), None),
        chunk(&json!({ "content": "b" }), Some("stop"))
    );
    let (events, error) = once(Dialect::OpenAiChat, Answer::sse(&body)).await;
    assert_eq!((text_of(&events).as_str(), error), ("ab", None));
}

#[tokio::test]
async fn counts_that_no_model_has_do_not_end_the_answer() {
    let usage =
        json!({ "input_tokens": u64::MAX, "cache_creation_input_tokens": 1, "cache_read_input_tokens": 1 });
    let start = named("message_start", &json!({ "message": { "usage": usage } }));
    let body = [start, named("message_stop", &json!({}))].concat();
    let (events, error) = once(Dialect::AnthropicMessages, Answer::sse(&body)).await;
    let expected = Usage { input: u64::MAX, output: 0, cache_read: 1 };
    assert_eq!((events.first(), error), (Some(&ModelEvent::Usage(expected)), None));
}

#[tokio::test]
async fn a_server_without_done_is_complete_after_its_finish_reason() {
    let body = chunk(&json!({ "content": "all" }), Some("length"));
    let (events, error) = once(Dialect::OpenAiChat, Answer::sse(&body)).await;
    let expected = vec![ModelEvent::Text("all".into()), ModelEvent::Stop(StopReason::MaxTokens)];
    assert_eq!((events, error), (expected, None));
}

#[tokio::test]
async fn tool_calls_survive_what_compatible_servers_do_to_them() {
    let call = |call: Value| chunk(&json!({ "tool_calls": [call] }), None);
    let body = [
        chunk(&json!({ "reasoning_content": "I should look." }), None),
        call(json!({ "index": 0, "id": "a:0", "function": { "name": "one", "arguments": "{\"x\":" } })),
        call(json!({ "index": 0, "function": { "arguments": "1}" } })),
        call(
            json!({ "index": 0, "id": "b:1", "function": { "name": "two", "arguments": "" }, "extra_content": { "sig": "s" } }),
        ),
        call(json!({ "index": 2, "function": { "name": "three", "arguments": "not json" } })),
        chunk(&json!({}), Some("stop")),
        "data: [DONE]\n\n".to_owned(),
    ];
    let (events, error) = once(Dialect::OpenAiChat, Answer::sse(&body.concat())).await;
    let tool =
        |id: &str, name: &str, input: Value| ModelEvent::ToolUse { id: id.into(), name: name.into(), input };
    let expected = vec![
        ModelEvent::Thinking("I should look.".into()),
        ModelEvent::Raw(json!({ "reasoning_content": "I should look." })),
        tool("a:0", "one", json!({ "x": 1 })),
        ModelEvent::Raw(json!({ "tool_call": "b:1", "extra_content": { "sig": "s" } })),
        tool("b:1", "two", json!({})),
        tool("call_2", "three", json!("not json")),
        ModelEvent::Stop(StopReason::ToolUse),
    ];
    assert_eq!((events.clone(), error), (expected, None));

    let talk = conversation(vec![user("a"), Message::Assistant { blocks: blocks_of(&events) }]);
    let body: Value =
        serde_json::from_slice(&draft(&target(Dialect::OpenAiChat, ""), &talk, "s").body).unwrap();
    let sent = &body["messages"][2];
    assert_eq!(sent["reasoning_content"], "I should look.");
    assert_eq!(sent["tool_calls"][1]["extra_content"], json!({ "sig": "s" }));
    assert_eq!(sent["tool_calls"][2]["function"]["arguments"], "not json");
    let body: Value =
        serde_json::from_slice(&draft(&target(Dialect::AnthropicMessages, ""), &talk, "s").body).unwrap();
    let three = json!({ "type": "tool_use", "id": "call_2", "name": "three", "input": {} });
    assert_eq!(body["messages"][1]["content"][2], three);
    assert_eq!(body["messages"][1]["content"][0]["id"], "a_0");
}

#[tokio::test]
async fn a_slow_first_byte_is_waited_for() {
    let (answer, release) = Answer::text(&["late"]).held();
    let server = FakeModel::start([answer]).await;
    let (client, target) = (client(), target(Dialect::AnthropicMessages, server.base()));
    let released = async {
        server.arrived().await;
        release.send(()).unwrap();
    };
    let (reply, ()) = tokio::join!(call(&client, &target, b"{}"), released);
    assert_eq!(text_of(&drain(reply.unwrap()).await.0), "late");
}
