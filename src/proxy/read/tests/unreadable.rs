//! Bodies that are refused, and how the refusal is worded.

use super::*;

fn refused(path: PromptPath, body: impl AsRef<[u8]>) -> String {
    error(read(Host::Claude, path, &headers(&[]), body.as_ref()))
}

/// A second message with these fields.
fn message(fields: &str) -> String {
    format!(r#"{{"model":"m","messages":[{{"role":"user","content":"s"}},{{{fields}}}]}}"#)
}

/// One item with these fields.
fn item(fields: &str) -> String {
    format!(r#"{{"model":"m","input":[{{{fields}}}]}}"#)
}

#[test]
fn what_cannot_be_read_is_named_by_pointer_and_never_by_content() {
    use PromptPath::{CountTokens, Messages};
    for (path, body, error) in [
        (Messages, String::new(), "the body is not one JSON object (line 1, column 0)"),
        (Messages, "{\n \"model\": tru".to_owned(), "the body is not one JSON object (line 2, column 13)"),
        (
            Messages,
            r#"{"model":"m","messages":[]} {}"#.to_owned(),
            "the body is not one JSON object (line 1, column 29)",
        ),
        (Messages, "\u{feff}{}".to_owned(), "the body is not one JSON object (line 1, column 1)"),
        (Messages, "[]".to_owned(), "the body is not an object"),
        (Messages, "{}".to_owned(), "/model is missing"),
        (Messages, r#"{"model":""}"#.to_owned(), "/model is missing"),
        (CountTokens, r#"{"model":3}"#.to_owned(), "/model is not a string"),
        (Messages, r#"{"model":"m"}"#.to_owned(), "/messages is missing"),
        (Messages, r#"{"model":"m","messages":null}"#.to_owned(), "/messages is missing"),
        (Messages, r#"{"model":"m","messages":{}}"#.to_owned(), "/messages is not a list"),
        (Messages, r#"{"model":"m","messages":[[]]}"#.to_owned(), "/messages/0 is not an object"),
        (Messages, r#"{"model":"m","model":"n","messages":[]}"#.to_owned(), "/model stands twice"),
        (Messages, r#"{"model":null,"mo\u0064el":"n","messages":[]}"#.to_owned(), "/model stands twice"),
        (Messages, message(r#""role":"user""#), "/messages/1/content is missing"),
        (Messages, message(r#""content":"a""#), "/messages/1/role is missing"),
        (Messages, message(r#""role":"user","content":7"#), "/messages/1/content is not a string or a list"),
        (Messages, message(r#""role":"user","role":"user","content":"a""#), "/messages/1/role stands twice"),
        (Messages, message(r#""role":"user","content":["a"]"#), "/messages/1/content/0 is not an object"),
        (
            Messages,
            message(r#""role":"user","content":[{"text":"a"}]"#),
            "/messages/1/content/0/type is missing",
        ),
        (
            Messages,
            message(r#""role":"user","content":[{"type":"text"}]"#),
            "/messages/1/content/0/text is missing",
        ),
        (
            Messages,
            message(r#""role":"user","content":[{"type":"text","text":"a","text":"b"}]"#),
            "/messages/1/content/0/text stands twice",
        ),
        (
            Messages,
            message(r#""role":"user","content":"\ud800 secret""#),
            "/messages/1/content is not Unicode text",
        ),
        (
            Messages,
            r#"{"model":"m","messages":[],"metadata":{"user_id":"a","user_id":"b"}}"#.to_owned(),
            "/metadata/user_id stands twice",
        ),
    ] {
        assert_eq!(refused(path, &body), error, "{body}");
    }
    assert_eq!(refused(Messages, b"{\"model\":\"\xff\"}"), "the body is not UTF-8 at byte 10");
}

#[test]
fn items_and_chat_messages_are_named_the_same_way() {
    use PromptPath::{ChatCompletions, Responses};
    for (path, body, error) in [
        (ChatCompletions, message(r#""role":7"#), "/messages/1/role is not a string"),
        (
            ChatCompletions,
            message(r#""role":"assistant","tool_calls":[{"id":"a","id":"b"}]"#),
            "/messages/1/tool_calls/0/id stands twice",
        ),
        (Responses, r#"{"model":"m"}"#.to_owned(), "/input is missing"),
        (Responses, r#"{"model":"m","input":4}"#.to_owned(), "/input is not a list"),
        (Responses, item(""), "/input/0/type is missing"),
        (Responses, item(r#""type":"message""#), "/input/0/role is missing"),
        (Responses, item(r#""type":"message","role":"user""#), "/input/0/content is missing"),
        (
            Responses,
            item(r#""type":"function_call","call_id":"a","call_id":"b""#),
            "/input/0/call_id stands twice",
        ),
    ] {
        assert_eq!(refused(path, &body), error, "{body}");
    }
}

#[test]
fn a_list_that_is_too_long_is_refused() {
    let body = format!(r#"{{"model":"m","messages":[{}0]}}"#, "0,".repeat(100_000));
    assert_eq!(refused(PromptPath::Messages, body), "/messages has more than 100000 elements");
}

#[test]
fn what_is_not_read_may_be_as_deep_and_as_odd_as_it_likes() {
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let body = format!(
        r#"{{"x":{deep},"x":1,"model":"m","metadata":7,"output_config":[],"system":"s","tools":{{}},"messages":[
        {{"role":"system"}},{{"role":"user","content":[{{"type":"text","text":"hi","x":{deep},"cache_control":null}}]}}]}}"#
    );
    let asked = read(Host::Claude, PromptPath::Messages, &headers(&[]), body.as_bytes()).unwrap();
    assert_eq!((asked.sort, asked.prompt.as_str()), (Sort::Human, "hi"));
}
