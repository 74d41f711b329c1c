//! Chat Completions, and Messages of clients that are not Claude Code.

use serde_json::{Value, json};

use super::*;

fn ask(path: PromptPath, messages: &Value) -> Asked {
    let body = json!({ "model": "m", "messages": messages }).to_string();
    read(Host::Generic, path, &headers(&[]), body.as_bytes()).unwrap()
}

fn said(role: &str, text: &str) -> Value {
    json!({ "role": role, "content": text })
}

fn calls(id: &str) -> Value {
    let function = json!({ "name": "ls", "arguments": "{}" });
    json!({ "role": "assistant", "content": null, "tool_calls": [{ "id": id, "type": "function", "function": function }] })
}

fn tool(id: &str) -> Value {
    json!({ "role": "tool", "tool_call_id": id, "content": "x" })
}

#[test]
fn a_chat_turn_ends_with_a_user_s_message() {
    let image = json!({ "role": "user", "content": [{ "type": "image_url", "image_url": {} }] });
    let (system, hi) = (said("system", "s"), said("user", "hi"));
    for (messages, sort, prompt) in [
        (json!([system, hi]), Sort::Human, "hi"),
        (json!([hi, said("developer", "d")]), Sort::Human, "hi"),
        (json!([hi, said("assistant", "so ")]), Sort::Human, "hi"),
        (json!([hi, calls("c"), tool("c")]), Sort::Continuation, ""),
        (json!([hi, calls("c"), tool("c"), said("user", "wait")]), Sort::Queued, "wait"),
        (json!([hi, said("assistant", "x"), said("user", "more")]), Sort::Human, "more"),
        (json!([image]), Sort::Human, "[image_url]"),
        (json!([said("user", "")]), Sort::Continuation, ""),
        (json!([system]), Sort::Continuation, ""),
        (json!([]), Sort::Continuation, ""),
    ] {
        let asked = ask(PromptPath::ChatCompletions, &messages);
        assert_eq!((asked.sort, asked.prompt.as_str()), (sort, prompt), "{messages}");
        assert!(asked.conversation.as_str().starts_with("generic:"));
    }
}

#[test]
fn a_chat_span_stands_inside_a_string_and_beside_blocks() {
    let body = concat!(
        r#"{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},"#,
        r#"{"role":"user","content":[{"type":"text","text":"c"}]}],"model":"m"}"#
    );
    let asked = read(Host::Generic, PromptPath::ChatCompletions, &headers(&[]), body.as_bytes()).unwrap();
    let expected = concat!(
        r#"{"messages":[{"role":"user","content":"a\n\n+"},{"role":"assistant","content":"b"},"#,
        r#"{"role":"user","content":[{"type":"text","text":"c"},{"type":"text","text":"+"}]}],"model":"m"}"#
    );
    assert_eq!(filled(&asked, "+"), expected);
}

#[test]
fn a_generic_conversation_is_named_by_its_first_message_that_counts() {
    let id = |messages: Value| ask(PromptPath::ChatCompletions, &messages).conversation;
    let hi = id(json!([said("user", "hi")]));
    assert_eq!(id(json!([said("system", "at noon"), said("user", "hi"), said("assistant", "x")])), hi);
    assert_eq!(id(json!([{ "role": "user", "content": [{ "type": "text", "text": "hi" }] }])), hi);
    assert_ne!(id(json!([said("user", "ho")])), hi);
}

#[test]
fn other_clients_of_messages_are_read_by_structure_alone() {
    let text = |text: &str| json!({ "type": "text", "text": text });
    let result = json!({ "type": "tool_result", "tool_use_id": "t", "content": "x" });
    let of = |content: Value| json!([{ "role": "user", "content": content }]);
    for (messages, sort, prompt) in [
        (of(json!("hi")), Sort::Human, "hi"),
        (of(json!([text("<system-reminder>\nx"), text("a")])), Sort::Human, "<system-reminder>\nx\na"),
        (
            of(json!([text("CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.")])),
            Sort::Human,
            "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.",
        ),
        (of(json!([result])), Sort::Continuation, ""),
        (of(json!([result, text("and")])), Sort::Queued, "and"),
        (of(json!([{ "type": "document", "source": {} }])), Sort::Human, "[document]"),
        (of(json!([])), Sort::Continuation, ""),
    ] {
        let asked = ask(PromptPath::Messages, &messages);
        assert_eq!((asked.sort, asked.prompt.as_str()), (sort, prompt), "{messages}");
        assert_eq!(asked.draft.host_slots, Vec::<String>::new());
    }
}

#[test]
fn sorts_have_kinds_and_stable_words() {
    use agentspine_gate::turn::CallKind::{Continuation, Side, Subagent, Turn};
    let all = [
        (Sort::Human, Turn, "human"),
        (Sort::Queued, Turn, "queued"),
        (Sort::Afresh, Turn, "afresh"),
        (Sort::Continuation, Continuation, "continuation"),
        (Sort::Background, Continuation, "background"),
        (Sort::Bash, Continuation, "bash"),
        (Sort::Subagent, Subagent, "subagent"),
        (Sort::Title, Side, "title"),
        (Sort::Compaction, Side, "compaction"),
        (Sort::Count, Side, "count"),
        (Sort::Prewarm, Side, "prewarm"),
    ];
    for (sort, kind, word) in all {
        assert_eq!((sort.kind(), sort.as_str()), (kind, word));
    }
}
