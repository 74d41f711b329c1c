//! Claude Code's requests.

use serde_json::{Value, json};

use super::*;

const SESSION: (&str, &str) = ("x-claude-code-session-id", "s-1");
const REMINDER: &str = "<system-reminder>\nfacts\n</system-reminder>\n";

fn ask_with(extra: &[(&'static str, &str)], body: &Value) -> Asked {
    let headers = headers(&[&[SESSION], extra].concat());
    read(Host::Claude, PromptPath::Messages, &headers, body.to_string().as_bytes()).unwrap()
}

fn ask(messages: Value) -> Asked {
    ask_with(&[], &json!({ "model": "m", "messages": messages }))
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

fn user(texts: &[&str]) -> Value {
    json!({ "role": "user", "content": texts.iter().map(|t| text(t)).collect::<Vec<_>>() })
}

fn assistant(said: &str) -> Value {
    json!({ "role": "assistant", "content": [text(said)] })
}

fn called(id: &str) -> Value {
    let call = json!({ "type": "tool_use", "id": id, "name": "Bash", "input": { "command": "ls" } });
    json!({ "role": "assistant", "content": [{ "type": "thinking", "thinking": "", "signature": "x" }, call] })
}

fn answered(id: &str, texts: &[&str]) -> Value {
    let result = json!({ "tool_use_id": id, "type": "tool_result", "content": "out", "is_error": false });
    let texts = texts.iter().map(|t| text(t));
    json!({ "role": "user", "content": std::iter::once(result).chain(texts).collect::<Vec<_>>() })
}

fn system(text: &str) -> Value {
    json!({ "role": "system", "content": text })
}

const SUMMARY: &str = "This session is being continued from a previous conversation: so far so good.";

#[test]
fn each_sort_of_request_is_told_by_its_newest_user_message() {
    let first = user(&[REMINDER, "do it"]);
    let begun = |last: Value| json!([first, system("env"), called("t1"), last]);
    for (messages, sort, prompt) in [
        (json!([first, system("env")]), Sort::Human, "do it"),
        (json!([{ "role": "user", "content": "plain" }]), Sort::Human, "plain"),
        (json!([user(&[REMINDER, "one", "two"])]), Sort::Human, "one\ntwo"),
        (begun(answered("t1", &[])), Sort::Continuation, ""),
        (begun(answered("t1", &[REMINDER])), Sort::Continuation, ""),
        (
            begun(answered("t1", &["The user sent a new message while you were working:\nstop"])),
            Sort::Queued,
            "The user sent a new message while you were working:\nstop",
        ),
        (
            begun(answered("t1", &["[Request interrupted by user for tool use]", "rather this"])),
            Sort::Human,
            "rather this",
        ),
        (begun(answered("t1", &["[Request interrupted by user for tool use]"])), Sort::Continuation, ""),
        (
            begun(user(&["<system-reminder>\n[SYSTEM NOTIFICATION - NOT USER INPUT]\nx</system-reminder>"])),
            Sort::Background,
            "",
        ),
        (begun(user(&["<task-notification>\ndone\n</task-notification>"])), Sort::Background, ""),
        (begun(user(&["<bash-input>ls</bash-input>", "<bash-stdout>a</bash-stdout>"])), Sort::Bash, ""),
        (begun(user(&["<bash-stdout>a</bash-stdout>", "and now?"])), Sort::Human, "and now?"),
        (
            begun(user(&["<local-command-caveat>c", "<command-name>/x</command-name>", "go"])),
            Sort::Human,
            "go",
        ),
        (
            begun(user(&["CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\nSum up."])),
            Sort::Compaction,
            "",
        ),
        (
            begun(answered("t1", &["CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\nSum up."])),
            Sort::Compaction,
            "",
        ),
        (json!([user(&[REMINDER, SUMMARY])]), Sort::Afresh, SUMMARY),
        (json!([user(&[REMINDER, SUMMARY, "<local-command-stdout>x", "after"])]), Sort::Afresh, "after"),
        (json!([user(&[SUMMARY]), user(&["<bash-stdout>a</bash-stdout>"])]), Sort::Afresh, SUMMARY),
        (json!([user(&[SUMMARY]), assistant("yes"), user(&["on"])]), Sort::Human, "on"),
        (json!([user(&[SUMMARY]), called("t1"), answered("t1", &[])]), Sort::Continuation, ""),
        (json!([{ "role": "user", "content": [{ "type": "image", "source": {} }] }]), Sort::Human, "[image]"),
    ] {
        let asked = ask(messages.clone());
        assert_eq!(told(&asked), ("s-1", sort, prompt), "{messages}");
        assert_eq!(asked.model, "m");
    }
}

#[test]
fn a_title_call_wants_a_title_in_json_and_has_no_tools() {
    let schema = json!({ "type": "object", "properties": { "title": { "type": "string" } } });
    let body = |tools: Value, texts: &[&str]| {
        let format = json!({ "type": "json_schema", "schema": schema });
        json!({ "model": "m", "messages": [user(texts)], "tools": tools, "output_config": { "format": format } })
    };
    let sort = |tools, texts: &[&str]| ask_with(&[], &body(tools, texts)).sort;
    assert_eq!(sort(json!([]), &["<session>\nhi\n</session>"]), Sort::Title);
    assert_eq!(sort(json!(["Bash"]), &["<session>\nhi\n</session>"]), Sort::Human);
    assert_eq!(sort(json!([]), &["hi"]), Sort::Human);
}

#[test]
fn a_subagent_has_a_conversation_of_its_own_and_one_task() {
    let agent = [("x-claude-code-agent-id", "a1")];
    let body = |messages: Value| json!({ "model": "m", "messages": messages });
    let task = user(&[REMINDER, "look into it"]);
    let first = ask_with(&agent, &body(json!([task, system("x")])));
    assert_eq!(told(&first), ("s-1:a1", Sort::Subagent, "look into it"));
    let later = ask_with(&agent, &body(json!([task, called("t1"), answered("t1", &[])])));
    assert_eq!(told(&later), ("s-1:a1", Sort::Continuation, ""));
    let more = ask_with(&agent, &body(json!([task, assistant("done"), user(&["and this"])])));
    assert_eq!(told(&more), ("s-1:a1", Sort::Subagent, "and this"));

    let attribution = "x-anthropic-billing-header: cc_version=1; cc_is_subagent=true;";
    let mut unnamed = body(json!([task]));
    unnamed["system"] = json!([text(attribution), text("more")]);
    let unnamed = ask_with(&[], &unnamed);
    assert_eq!(unnamed.sort, Sort::Subagent);
    assert!(unnamed.conversation.as_str().starts_with("s-1:task:"));
}

#[test]
fn counting_is_a_side_call_whatever_is_counted() {
    let body = br#"{"model":"m","messages":[{"role":"user","content":"foo"}],"tools":[]}"#;
    let asked = read(Host::Claude, PromptPath::CountTokens, &headers(&[SESSION]), body).unwrap();
    assert_eq!(told(&asked), ("s-1", Sort::Count, ""));
}

#[test]
fn the_conversation_is_named_by_header_else_by_metadata_else_by_its_first_message() {
    let id = |pairs: &[(&'static str, &str)], metadata: Value| {
        let body = json!({ "model": "m", "metadata": metadata, "messages": [user(&["hi"])] }).to_string();
        let asked = read(Host::Claude, PromptPath::Messages, &headers(pairs), body.as_bytes()).unwrap();
        asked.conversation.as_str().to_owned()
    };
    let metadata = json!({ "user_id": r#"{"device_id":"d","session_id":"s-2"}"# });
    assert_eq!(id(&[SESSION], metadata.clone()), "s-1");
    assert_eq!(id(&[], metadata), "s-2");
    assert_eq!(id(&[], json!({ "user_id": "user_1_account__session_s-3" })), "s-3");
    let generic = id(&[], json!(null));
    assert!(generic.starts_with("generic:") && generic.len() == 28, "{generic}");
    let odd = id(&[("x-claude-code-session-id", "no id!")], json!(null));
    assert!(odd.starts_with("x:") && odd.len() == 22, "{odd}");
}

#[test]
fn a_span_stands_after_the_last_block_of_each_human_message() {
    let body = concat!(
        r#"{"model":"m", "messages" : [ {"role":"user","content":[{"type":"text","text":"a"} ]},"#,
        r#"{"role":"assistant","content":"b"},{"content":"c\u0041","role":"user"},"#,
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"x","input":{}}]},"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"r"}]}]}"#,
    );
    let asked = read(Host::Claude, PromptPath::Messages, &headers(&[SESSION]), body.as_bytes()).unwrap();
    let expected = concat!(
        r#"{"model":"m", "messages" : [ {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"+"} ]},"#,
        r#"{"role":"assistant","content":"b"},{"content":[{"type":"text","text":"c\u0041"},{"type":"text","text":"+"}],"role":"user"},"#,
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"x","input":{}}]},"#,
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"r"}]}]}"#,
    );
    assert_eq!(filled(&asked, "+"), expected);
    assert_eq!(*asked.draft.body, *body.as_bytes());
}

const FILES: &str = "<system-reminder>\nCodebase and user instructions are shown below. Mind them.\n\n\
    Contents of /p/CLAUDE.md (project):\n\nrule\n</system-reminder>";

#[test]
fn the_hosts_own_slot_is_the_reminder_with_documents_before_the_persons_words() {
    let slot = |messages: Value| ask(messages).draft.host_slots.into_iter().next();
    let files = Some(FILES.to_owned());
    assert_eq!(slot(json!([user(&[FILES, REMINDER, "hi"])])), files);
    assert_eq!(slot(json!([user(&["<system-reminder>\nx\n\nContents of y", FILES, "hi"])])), files);
    assert_eq!(slot(json!([user(&[SUMMARY]), assistant("kept"), user(&[FILES, "hi"])])), files);
    assert_eq!(slot(json!([user(&["hi", FILES])])), None);
    // Under another opening, told by its documents, in the first message only.
    let other = FILES.replace("Codebase and", "All");
    assert_eq!(slot(json!([user(&[REMINDER, &other, "hi"])])), Some(other.clone()));
    assert_eq!(slot(json!([user(&["hi"]), assistant("x"), user(&[&other, "hi"])])), None);
}

#[test]
fn a_compaction_that_keeps_the_last_answer_has_one_first_call() {
    let empty = json!({ "role": "system", "content": [], "output_config": {} });
    let start = [json!({ "role": "user", "content": SUMMARY }), empty, assistant("kept")];
    let with = |more: &[Value]| ask(Value::from([&start[..], more].concat()));
    let next = user(&[FILES, "<local-command-stdout>Compacted", "go on"]);
    let first = with(std::slice::from_ref(&next));
    assert_eq!((told(&first), first.draft.slots.len()), (("s-1", Sort::Afresh, "go on"), 2));
    let later = with(&[next.clone(), called("t1"), answered("t1", &[])]);
    assert_eq!(told(&later), ("s-1", Sort::Continuation, ""));
    let later = with(&[next, assistant("done"), user(&["more"])]);
    assert_eq!(told(&later), ("s-1", Sort::Human, "more"));
    // In the middle of a turn nobody wrote anything: the span joins the summary.
    let middle = [json!({ "role": "user", "content": SUMMARY }), called("t1"), answered("t1", &[FILES])];
    let middle = ask(Value::from(&middle[..]));
    assert_eq!((told(&middle), middle.draft.slots.len()), (("s-1", Sort::Afresh, SUMMARY), 1));
}
