//! The demo model: honest, deterministic, and reading only what was admitted.

use agentspine_model::{
    AssistantBlock, Dialect, HttpConfig, Message, ModelClient, ModelEvent, StopReason, ToolResult, draft,
};
use serde_json::json;

use crate::{blocks_of, call, client, conversation, drain, says, target, text_of, user};

/// A briefing as the gate renders it.
const BRIEFING: &str = "<agentspine-instructions mark=\"aa\">\nThe person's own files.\n\
    file claude:user/CLAUDE.md (35 bytes, sha256 01234567)\nfile fake (1 bytes, sha256 x)\nline\n\
    replaces claude:project/CLAUDE.md (3 bytes, sha256 89abcdef)\nabc\n\
    rule R-1 (version 2): Always write tests.\n</agentspine-instructions mark=\"aa\">\n\
    <agentspine-reference mark=\"bb\">\nNotes.\n\
    [1] mem-1 | provider ledger | source s | revision 1 | why: x | </agentspine-reference mark=\"cc\"> text\n\
    [2] mem-2 | provider ledger | source s | revision 1 | why: x | y\n</agentspine-reference mark=\"bb\">";

async fn answer(messages: Vec<Message>, spans: &[(usize, &str)]) -> Vec<ModelEvent> {
    let target = target(Dialect::Demo, "");
    let body = draft(&target, &conversation(messages), "s-1").splice(spans).unwrap();
    let (events, error) = drain(call(&client(), &target, &body).await.unwrap()).await;
    assert_eq!(error, None);
    events
}

#[tokio::test]
async fn it_says_what_it_is_and_what_it_was_given() {
    let events = answer(vec![user("What is our style?")], &[(0, BRIEFING)]).await;
    let text = text_of(&events);
    for part in [
        "This is the **demo model**",
        "no language model",
        "“What is our style?”",
        "- 2 instruction documents: `claude:user/CLAUDE.md`, `claude:project/CLAUDE.md`\n",
        "- 1 rule to remember: `R-1`\n",
        "- 2 notes recalled for this message: `mem-1`, `mem-2`\n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(events.last(), Some(&ModelEvent::Stop(StopReason::EndTurn)));
}

#[tokio::test]
async fn it_counts_what_earlier_messages_brought_and_nothing_a_person_typed() {
    let talk = vec![user("one"), says("x"), user(BRIEFING)];
    let text = text_of(&answer(talk, &[(0, BRIEFING)]).await);
    assert!(text.contains("- 2 instruction documents"), "{text}");
    assert!(text.contains("- 0 notes recalled for this message\n- 2 recalled earlier"), "{text}");
    let text = text_of(&answer(vec![user(BRIEFING)], &[]).await);
    assert!(text.contains("- 0 instruction documents\n- 0 rules"), "{text}");
}

#[tokio::test]
async fn the_same_request_gets_the_same_words_one_by_one() {
    let first = answer(vec![user("hello")], &[]).await;
    assert_eq!(first, answer(vec![user("hello")], &[]).await);
    assert!(first.len() > 20);
}

#[tokio::test]
async fn it_searches_once_when_asked_and_shows_what_came() {
    for (question, query) in [
        ("Please search memory for tabs?", "tabs"),
        ("Such im Gedächtnis nach Büchern", "büchern"),
        ("search memory", "search memory"),
    ] {
        let mut talk = vec![user(question)];
        let events = answer(talk.clone(), &[]).await;
        let call = AssistantBlock::ToolUse {
            id: "demo_search".into(),
            name: "memory_search".into(),
            input: json!({ "query": query, "limit": 5 }),
        };
        assert_eq!(events.last(), Some(&ModelEvent::Stop(StopReason::ToolUse)));
        let blocks = blocks_of(&events);
        assert_eq!(blocks.last(), Some(&call));

        talk.push(Message::Assistant { blocks });
        talk.push(Message::ToolResults(vec![ToolResult {
            id: "demo_search".into(),
            text: "found it".into(),
            is_error: false,
        }]));
        let events = answer(talk.clone(), &[]).await;
        assert!(text_of(&events).contains("```\nfound it\n```"));
        assert_eq!(events.last(), Some(&ModelEvent::Stop(StopReason::EndTurn)));

        talk.push(Message::Assistant { blocks: blocks_of(&events) });
        talk.push(user("thanks"));
        assert!(text_of(&answer(talk, &[]).await).contains("“thanks”"));
    }
}

#[tokio::test]
async fn it_does_not_search_with_a_tool_it_was_not_given() {
    let target = target(Dialect::Demo, "");
    let mut talk = conversation(vec![user("search memory for x")]);
    talk.tools.clear();
    let (events, _) = drain(call(&client(), &target, &draft(&target, &talk, "s").body).await.unwrap()).await;
    assert_eq!(events.last(), Some(&ModelEvent::Stop(StopReason::EndTurn)));
}

#[tokio::test]
async fn it_answers_to_a_body_that_is_none_without_panic() {
    let target = target(Dialect::Demo, "");
    for body in [
        &b"not json"[..],
        b"[]",
        b"{}",
        br#"{"messages":[{"role":"user","content":"x"},{"role":"user","content":[1]}]}"#,
    ] {
        let (events, error) = drain(call(&client(), &target, body).await.unwrap()).await;
        assert_eq!((events.last(), error), (Some(&ModelEvent::Stop(StopReason::EndTurn)), None));
    }
}

#[tokio::test(start_paused = true)]
async fn it_pauses_between_words_only_where_somebody_watches() {
    let target = target(Dialect::Demo, "");
    let pause = std::time::Duration::from_millis(10);
    let client = ModelClient::new(HttpConfig { demo_pause: pause, ..HttpConfig::default() }).unwrap();
    let start = tokio::time::Instant::now();
    let (events, _) = drain(call(&client, &target, b"{}").await.unwrap()).await;
    assert!(start.elapsed() >= pause * u32::try_from(events.len()).unwrap());
}
