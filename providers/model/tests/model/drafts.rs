//! Drafts: exact bytes, slots, places.

use agentspine_gate::span::{Draft, Part, Place};
use agentspine_model::{AssistantBlock, Dialect, Message, ToolResult, draft};
use serde_json::{Value, json};

use crate::{ALL, conversation, says, target, user};

/// Nasty for JSON, for terminals and for whoever searches for the end of a string.
const NASTY: &str = "a \"quoted\" \\ back\\slash\n\tnewline \u{1} \u{2028} 🌍 ]}\"}]}";

fn long_talk() -> Vec<Message> {
    let search =
        |input: Value| AssistantBlock::ToolUse { id: "c-1".into(), name: "memory_search".into(), input };
    vec![
        user(NASTY),
        Message::Assistant {
            blocks: vec![
                AssistantBlock::Text("Looking.".into()),
                search(json!({ "query": NASTY, "w": 0.1 })),
            ],
        },
        Message::ToolResults(vec![ToolResult { id: "c-1".into(), text: NASTY.into(), is_error: true }]),
        says("Found."),
        user("second"),
        Message::Assistant { blocks: vec![AssistantBlock::Text("  \n".into())] },
        user("third, after an answer that was cut before its first word"),
    ]
}

fn draft_of(dialect: Dialect, messages: &[Message]) -> Draft {
    draft(&target(dialect, "http://127.0.0.1:1"), &conversation(messages.to_vec()), "s-1")
}

#[test]
fn the_anthropic_draft_is_these_bytes() {
    let talk = vec![user("Hi"), says("Hello."), user("More")];
    let mut talk = conversation(talk);
    talk.tools.truncate(1);
    let body = draft(&target(Dialect::AnthropicMessages, ""), &talk, "s-1").body;
    let expected = concat!(
        r#"{"model":"m-1","max_tokens":1024,"stream":true,"#,
        r#""system":[{"type":"text","text":"You are the chat of agentspine.","cache_control":{"type":"ephemeral"}}],"#,
        r#""tools":[{"name":"memory_search","description":"Searches what was remembered.","input_schema":"#,
        r#"{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}}],"#,
        r#""messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]},"#,
        r#"{"role":"assistant","content":[{"type":"text","text":"Hello."}]},"#,
        r#"{"role":"user","content":[{"type":"text","text":"More","cache_control":{"type":"ephemeral"}}]}]}"#,
    );
    assert_eq!(String::from_utf8(body.to_vec()).unwrap(), expected);
}

#[test]
fn the_chat_draft_is_these_bytes() {
    let talk = conversation(vec![user("Hi"), says("Hello."), user("More")]);
    let body = draft(&target(Dialect::OpenAiChat, "http://127.0.0.1:1"), &talk, "s-1").body;
    let expected = concat!(
        r#"{"model":"m-1","stream":true,"stream_options":{"include_usage":true},"max_tokens":1024,"#,
        r#""tools":[{"type":"function","function":{"name":"memory_search","description":"Searches what was remembered.","#,
        r#""parameters":{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}}}],"#,
        r#""messages":[{"role":"system","content":"You are the chat of agentspine."},{"role":"user","content":"Hi"},"#,
        r#"{"role":"assistant","content":"Hello."},{"role":"user","content":"More"}]}"#,
    );
    assert_eq!(String::from_utf8(body.to_vec()).unwrap(), expected);
}

#[test]
fn openai_itself_gets_its_own_name_for_the_limit() {
    let target = target(Dialect::OpenAiChat, "https://api.openai.com");
    let body: Value =
        serde_json::from_slice(&draft(&target, &conversation(vec![user("Hi")]), "s").body).unwrap();
    assert_eq!((&body["max_completion_tokens"], body.get("max_tokens")), (&json!(1024), None));
}

#[test]
fn every_human_message_has_one_slot_and_slots_ascend() {
    for dialect in ALL {
        let draft = draft_of(dialect, &long_talk());
        assert_eq!(draft.slots.len(), 3);
        assert!(draft.slots.is_sorted_by(|a, b| a.at < b.at));
    }
}

#[test]
fn a_span_stands_after_its_human_text_and_its_removal_gives_the_draft_back() {
    for dialect in ALL {
        let draft = draft_of(dialect, &long_talk());
        for slot in 0..draft.slots.len() {
            let span = format!("<span {slot}> {NASTY}");
            let spliced = draft.splice(&[(slot, &span)]).unwrap();
            let body: Value = serde_json::from_slice(&spliced).unwrap();
            assert!(stands_after(dialect, &body, &human(slot), &span), "{dialect:?} slot {slot}: {body}");

            let place = &draft.slots[slot];
            let escaped = serde_json::to_string(&span).unwrap();
            let added = [place.before, &escaped[1..escaped.len() - 1], place.after].concat();
            let mut removed = spliced.clone();
            let taken: Vec<u8> = removed.drain(place.at..place.at + added.len()).collect();
            assert_eq!((taken, removed), (added.into_bytes(), draft.body.to_vec()));
        }
        let all: Vec<(usize, &str)> = (0..draft.slots.len()).map(|slot| (slot, NASTY)).collect();
        serde_json::from_slice::<Value>(&draft.splice(&all).unwrap()).unwrap();
    }
}

fn human(slot: usize) -> String {
    let texts = long_talk()
        .into_iter()
        .filter_map(|m| if let Message::User { text } = m { Some(text) } else { None });
    texts.collect::<Vec<_>>()[slot].clone()
}

/// Whether some user message holds the human text directly followed by the span.
fn stands_after(dialect: Dialect, body: &Value, human: &str, span: &str) -> bool {
    let (messages, kind) =
        if dialect == Dialect::OpenAiResponses { ("input", "input_text") } else { ("messages", "text") };
    let mut users = body[messages].as_array().unwrap().iter().filter(|message| message["role"] == "user");
    users.any(|message| {
        if dialect == Dialect::OpenAiChat {
            return message["content"].as_str().unwrap().contains(&format!("{human}\n\n{span}"));
        }
        let blocks = message["content"].as_array().unwrap();
        blocks
            .windows(2)
            .any(|pair| pair[0]["text"] == human && pair[1] == json!({ "type": kind, "text": span }))
    })
}

#[test]
fn places_follow_the_rule_and_leave_out_raw_blocks_blank_text_and_the_system_prompt() {
    let messages = vec![
        user("Hi"),
        Message::Assistant {
            blocks: vec![
                AssistantBlock::Raw(json!({ "type": "thinking", "thinking": "hm" })),
                AssistantBlock::Text(" ".into()),
                AssistantBlock::Text("Hello.".into()),
                AssistantBlock::ToolUse {
                    id: "c".into(),
                    name: "t".into(),
                    input: json!({ "b": 1, "a": 2 }),
                },
            ],
        },
        Message::ToolResults(vec![ToolResult { id: "c".into(), text: "r".into(), is_error: false }]),
        user("More"),
    ];
    let first = Place::start("s-1").then("user", &[Part::Text("Hi")]);
    let last = first
        .then("assistant", &[Part::Text("Hello."), Part::ToolUse("c", r#"{"b":1,"a":2}"#)])
        .then("user", &[Part::ToolResult("c", "r")])
        .then("user", &[Part::Text("More")]);
    for dialect in ALL {
        let places: Vec<Place> = draft_of(dialect, &messages).slots.iter().map(|slot| slot.place).collect();
        assert_eq!(places, vec![first, last]);
    }
}

#[test]
fn places_stay_as_the_conversation_grows_is_stored_and_changes_its_model() {
    let talk = long_talk();
    let whole: Vec<Place> =
        draft_of(Dialect::AnthropicMessages, &talk).slots.iter().map(|slot| slot.place).collect();
    for length in 1..=talk.len() {
        let stored = serde_json::to_string(&talk[..length]).unwrap();
        let resumed: Vec<Message> = serde_json::from_str(&stored).unwrap();
        assert_eq!(resumed, talk[..length]);
        for dialect in ALL {
            let places: Vec<Place> =
                draft_of(dialect, &resumed).slots.iter().map(|slot| slot.place).collect();
            assert_eq!(places, whole[..places.len()]);
        }
    }
}

#[test]
fn two_equal_prompts_have_two_places_and_two_conversations_share_none() {
    let draft_a = draft_of(Dialect::OpenAiChat, &[user("same"), says("x"), user("same")]);
    assert_ne!(draft_a.slots[0].place, draft_a.slots[1].place);
    let talk = conversation(vec![user("same")]);
    let draft_b = draft(&target(Dialect::OpenAiChat, ""), &talk, "s-2");
    assert_ne!(draft_a.slots[0].place, draft_b.slots[0].place);
}

#[test]
fn a_growing_conversation_keeps_the_bytes_before_its_newest_message() {
    let talk = [user("one"), says("two"), user("three"), says("four"), user("five")];
    let unmarked = |messages: &[Message]| {
        let body = String::from_utf8(draft_of(Dialect::AnthropicMessages, messages).body.to_vec()).unwrap();
        let (_, messages) = body.split_once(r#""messages":["#).unwrap();
        messages.replace(r#","cache_control":{"type":"ephemeral"}"#, "").trim_end_matches("]}").to_owned()
    };
    for length in [1, 3] {
        assert!(unmarked(&talk).starts_with(&unmarked(&talk[..length])));
    }
}

#[test]
fn the_same_conversation_gives_the_same_bytes() {
    for dialect in ALL {
        assert_eq!(draft_of(dialect, &long_talk()).body, draft_of(dialect, &long_talk()).body);
    }
}

#[test]
fn human_messages_in_a_row_are_one_message_where_templates_insist() {
    let body: Value =
        serde_json::from_slice(&draft_of(Dialect::OpenAiChat, &[user("a \"b\""), user("c")]).body).unwrap();
    let system = json!({ "role": "system", "content": "You are the chat of agentspine." });
    assert_eq!(body["messages"], json!([system, { "role": "user", "content": "a \"b\"\n\nc" }]));
}
