//! Codex's requests, and Responses requests of other clients.

use serde_json::{Value, json};

use super::*;

fn ask_as(host: Host, pairs: &[(&'static str, &str)], body: &Value) -> Asked {
    read(host, PromptPath::Responses, &headers(pairs), body.to_string().as_bytes()).unwrap()
}

/// A request of thread `t` in its window, as the client's headers tell it.
fn ask_in(window: u32, metadata: &Value, input: &[Value]) -> Asked {
    let (window, metadata) = (format!("t:{window}"), metadata.to_string());
    let pairs = [("thread-id", "t"), ("x-codex-window-id", &*window), ("x-codex-turn-metadata", &*metadata)];
    ask_as(Host::Codex, &pairs, &json!({ "model": "m", "stream": true, "input": input }))
}

fn turn(input: &[Value]) -> Asked {
    ask_in(0, &json!({ "request_kind": "turn", "thread_source": "user", "turn_trigger": "exec" }), input)
}

fn message(role: &str, kind: &str, texts: &[&str]) -> Value {
    let blocks: Vec<Value> = texts.iter().map(|text| json!({ "type": kind, "text": text })).collect();
    json!({ "type": "message", "id": "msg_1", "role": role, "content": blocks })
}

fn user(texts: &[&str]) -> Value {
    message("user", "input_text", texts)
}

fn developer(text: &str) -> Value {
    message("developer", "input_text", &[text])
}

fn assistant(text: &str) -> Value {
    message("assistant", "output_text", &[text])
}

fn call(id: &str) -> Value {
    json!({ "type": "function_call", "id": "fc", "name": "exec", "arguments": "{\"cmd\":\"ls\"}", "call_id": id })
}

fn output(id: &str) -> Value {
    json!({ "type": "function_call_output", "id": "fco", "call_id": id, "output": "x" })
}

fn context() -> Value {
    user(&[
        "# AGENTS.md instructions for /p\n\n<INSTRUCTIONS>\nrule\n</INSTRUCTIONS>",
        "<environment_context>\n</environment_context>",
    ])
}

const SUMMARY: &str = "Another language model started to solve this problem and got this far.";

#[test]
fn a_person_s_item_after_the_model_s_last_makes_a_turn() {
    let start = [developer("base"), context(), user(&["do it"])];
    let with = |more: &[Value]| [&start[..], more].concat();
    let reasoning = json!({ "type": "reasoning", "summary": [], "encrypted_content": "x" });
    for (input, sort, prompt) in [
        (with(&[]), Sort::Human, "do it"),
        (with(&[developer("hook")]), Sort::Human, "do it"),
        (with(&[reasoning, call("c"), output("c")]), Sort::Continuation, ""),
        (with(&[call("c"), output("c"), user(&["stop"]), developer("hook")]), Sort::Queued, "stop"),
        (with(&[call("c"), output("c"), user(&["a"]), user(&["b"])]), Sort::Queued, "a\nb"),
        (with(&[assistant("done"), user(&["next", "more"])]), Sort::Human, "next\nmore"),
        (
            with(&[call("c"), output("c"), user(&["<turn_aborted>\n</turn_aborted>"]), user(&["rather"])]),
            Sort::Human,
            "rather",
        ),
        (with(&[assistant("done"), user(&["<user_shell_command>\nls"])]), Sort::Bash, ""),
        (with(&[assistant("done"), user(&["<subagent_notification>\n{}"])]), Sort::Background, ""),
        (with(&[assistant("done"), context()]), Sort::Continuation, ""),
        (
            with(&[assistant("x"), user(&["You are performing a CONTEXT CHECKPOINT COMPACTION. Sum up."])]),
            Sort::Compaction,
            "",
        ),
        (with(&[assistant("x"), json!({ "type": "compaction_trigger" })]), Sort::Compaction, ""),
        (
            vec![
                user(&["<image name=[Image #1]>"]),
                json!({ "type": "message", "role": "user", "content": [{ "type": "input_image", "image_url": "data:" }] }),
            ],
            Sort::Human,
            "<image name=[Image #1]>",
        ),
        (
            vec![json!({ "role": "user", "content": [{ "type": "input_image", "image_url": "data:" }] })],
            Sort::Human,
            "[input_image]",
        ),
    ] {
        let asked = turn(&input);
        assert_eq!(told(&asked), ("t:0", sort, prompt), "{input:?}");
        assert_eq!(asked.model, "m");
    }
}

#[test]
fn the_client_s_marks_name_side_calls_subagents_and_windows() {
    let input = [developer("base"), user(&["do it"])];
    let sort = |window: u32, metadata: Value| ask_in(window, &metadata, &input).sort;
    assert_eq!(sort(0, json!({ "request_kind": "compaction" })), Sort::Compaction);
    assert_eq!(sort(0, json!({ "request_kind": "prewarm" })), Sort::Prewarm);
    assert_eq!(sort(0, json!({ "request_kind": "turn", "thread_source": "thread_title" })), Sort::Title);
    assert_eq!(sort(0, json!({ "thread_source": "subagent" })), Sort::Subagent);
    assert_eq!(sort(0, json!({ "thread_source": "memory_consolidation" })), Sort::Subagent);
    assert_eq!(sort(0, json!({ "thread_source": "an_editor", "turn_trigger": "user" })), Sort::Human);
    assert_eq!(sort(1, json!({ "request_kind": "turn", "thread_source": "user" })), Sort::Afresh);
    assert_eq!(sort(0, json!({ "window_number": 3 })), Sort::Human, "the window's id wins");
    assert_eq!(sort(0, json!("broken")), Sort::Human);

    let pairs = [("thread-id", "t"), ("x-openai-subagent", "review")];
    let body = json!({ "model": "m", "input": input });
    assert_eq!(told(&ask_as(Host::Codex, &pairs, &body)), ("t:0", Sort::Subagent, "do it"));
    let cold = json!({ "model": "m", "input": input, "generate": false });
    assert_eq!(ask_as(Host::Codex, &[], &cold).sort, Sort::Prewarm);
}

#[test]
fn a_subagent_goes_on_by_itself_until_it_is_told_something() {
    let metadata = json!({ "thread_source": "subagent" });
    let sort = |input: &[Value]| ask_in(0, &metadata, input).sort;
    let (start, more) = ([context(), user(&["task"])], user(&["and this"]));
    assert_eq!(sort(&[&start[..], &[call("c"), output("c")]].concat()), Sort::Continuation);
    assert_eq!(sort(&[&start[..], &[assistant("x"), more]].concat()), Sort::Subagent);
    // Its task may stand in an item that is sealed: a span then joins what the client tells it.
    let sealed = ask_in(0, &metadata, &[context(), json!({ "type": "agent_message", "content": [] })]);
    assert_eq!((sealed.sort, sealed.draft.slots.len()), (Sort::Subagent, 1));
}

#[test]
fn the_first_call_of_a_new_window_is_a_turn_with_what_is_new_in_it() {
    let user_turn = json!({ "request_kind": "turn", "thread_source": "user" });
    let kept = [user(&["first"]), context(), user(&["second"]), user(&[SUMMARY])];
    let next = [&kept[..], &[user(&["third"])]].concat();
    let asked = ask_in(1, &user_turn, &next);
    assert_eq!((told(&asked), asked.draft.slots.len()), (("t:1", Sort::Afresh, "third"), 4));
    // In the middle of a turn nobody wrote anything new.
    let asked = ask_in(1, &user_turn, &kept);
    assert_eq!((told(&asked), asked.draft.slots.len()), (("t:1", Sort::Afresh, "second"), 3));
    let asked = ask_in(1, &user_turn, &[context(), user(&[SUMMARY])]);
    assert_eq!((told(&asked), asked.draft.slots.len()), (("t:1", Sort::Afresh, SUMMARY), 1));
    // Sealed by the provider.
    let sealed = json!({ "type": "compaction", "encrypted_content": "x" });
    let asked = ask_in(1, &user_turn, &[user(&["first"]), sealed, user(&["next"])]);
    assert_eq!(told(&asked), ("t:1", Sort::Afresh, "next"));
    // The same in the middle of a turn: nothing follows the seal.
    let sealed = json!({ "type": "compaction", "encrypted_content": "x" });
    let asked = ask_in(1, &user_turn, &[user(&["old"]), context(), user(&["running"]), sealed]);
    assert_eq!((told(&asked), asked.draft.slots.len()), (("t:1", Sort::Afresh, "running"), 2));
    let later = [&next[..], &[call("c"), output("c")]].concat();
    assert_eq!(ask_in(1, &user_turn, &later).sort, Sort::Continuation);
}

#[test]
fn the_client_s_settings_among_the_items_change_nothing() {
    let tools = json!({ "type": "additional_tools", "id": "at_1", "role": "developer", "tools": [] });
    let update = json!({ "type": "configuration_update" });
    let plain = turn(&[context(), user(&["do it"]), assistant("x"), user(&["next"])]);
    let set =
        turn(&[tools, context(), user(&["do it"]), update.clone(), assistant("x"), user(&["next"]), update]);
    assert_eq!(told(&set), ("t:0", Sort::Human, "next"));
    let places = |asked: &Asked| asked.draft.slots.iter().map(|slot| slot.place).collect::<Vec<_>>();
    assert_eq!(places(&set), places(&plain));
}

#[test]
fn kinds_named_by_the_client_tell_its_items_from_the_person_s() {
    let kinds = |mut item: Value, kinds: &[&str]| {
        item["internal_chat_message_metadata_passthrough"] = json!({ "content_item_kinds": kinds });
        item
    };
    let said = kinds(user(&["<environment_context> is what I ask about"]), &["user.text"]);
    assert_eq!(told(&turn(&[said])), ("t:0", Sort::Human, "<environment_context> is what I ask about"));
    let skill = kinds(user(&["looks like words"]), &["skills.selected_skill_instructions"]);
    assert_eq!(turn(&[skill]).sort, Sort::Continuation);
    let mixed = kinds(user(&["told", "said"]), &["agents_md.instructions", "user.text"]);
    assert_eq!(told(&turn(&[mixed])), ("t:0", Sort::Human, "said"));
    let odd = kinds(user(&["a", "b"]), &["skills.x"]);
    assert_eq!(told(&turn(&[odd])), ("t:0", Sort::Human, "a\nb"), "as many kinds as blocks, or none");
}

#[test]
fn the_conversation_is_thread_and_window_by_header_else_by_body() {
    let body = |client: Value, metadata: &str| {
        let mut client = client;
        client["x-codex-turn-metadata"] = json!(metadata);
        json!({ "model": "m", "input": [user(&["hi"])], "client_metadata": client })
    };
    let id = |pairs: &[(&'static str, &str)], body: Value| {
        ask_as(Host::Codex, pairs, &body).conversation.as_str().to_owned()
    };
    let client = json!({ "x-codex-window-id": "u:2", "thread_id": "u" });
    assert_eq!(id(&[("x-codex-window-id", "t:1")], body(client.clone(), "{}")), "t:1");
    assert_eq!(id(&[], body(client, "{}")), "u:2");
    assert_eq!(id(&[("thread-id", "t")], body(json!({}), r#"{"window_number":4}"#)), "t:4");
    assert_eq!(id(&[("session-id", "s")], body(json!({}), "")), "s:0");
    assert_eq!(id(&[], body(json!({}), r#"{"thread_id":"t","window_id":"t:5"}"#)), "t:5");
    assert!(id(&[], body(json!({}), "{")).starts_with("generic:"));
    assert!(id(&[("thread-id", "ä b")], body(json!({}), "")).starts_with("generic:"), "no header text");
}

#[test]
fn what_the_server_keeps_is_a_conversation_of_its_own() {
    let pairs = [("thread-id", "t")];
    let body = |key: &str, value: Value| json!({ "model": "m", "input": [user(&["hi"])], key: value });
    let asked = |key, value| ask_as(Host::Codex, &pairs, &body(key, value));
    let (one, two) = (asked("previous_response_id", json!("r1")), asked("previous_response_id", json!("r2")));
    assert!(one.conversation.as_str().starts_with("generic:"));
    assert_ne!(one.conversation, two.conversation);
    assert_eq!((one.sort, one.prompt.as_str()), (Sort::Human, "hi"));
    assert!(asked("conversation", json!({ "id": "c" })).conversation.as_str().starts_with("generic:"));
    assert_eq!(asked("previous_response_id", json!(null)).conversation.as_str(), "t:0");
}

#[test]
fn a_span_joins_each_form_of_a_person_s_words() {
    let fill = |body: &str| {
        filled(&read(Host::Generic, PromptPath::Responses, &headers(&[]), body.as_bytes()).unwrap(), "+")
    };
    assert_eq!(
        fill(r#"{"model":"m","input": "a\"b" ,"x":1}"#),
        concat!(
            r#"{"model":"m","input": [{"type":"message","role":"user","content":[{"type":"input_text","text":"a\"b"},"#,
            r#"{"type":"input_text","text":"+"}]}] ,"x":1}"#
        )
    );
    assert_eq!(
        fill(
            r#"{"model":"m","input":[{"role":"user","content":"a"},{"role":"user","content":[]},{"role":"user","content":[ {"type":"input_text","text":"b"} ]}]}"#
        ),
        concat!(
            r#"{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_text","text":"+"}]},"#,
            r#"{"role":"user","content":[]},{"role":"user","content":[ {"type":"input_text","text":"b"},{"type":"input_text","text":"+"} ]}]}"#
        )
    );
}

#[test]
fn the_hosts_own_slot_is_the_client_s_item_with_instructions() {
    let slot = "# AGENTS.md instructions for /p\n\n<INSTRUCTIONS>\nrule\n</INSTRUCTIONS>";
    assert_eq!(turn(&[user(&["x"]), context()]).draft.host_slots, [slot]);
    assert_eq!(turn(&[user(&["x"])]).draft.host_slots, Vec::<String>::new());
    let generic = ask_as(Host::Generic, &[], &json!({ "model": "m", "input": [context()] }));
    assert_eq!((generic.draft.host_slots, generic.sort), (Vec::new(), Sort::Human));
}
