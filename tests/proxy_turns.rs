//! What a call of another program is bound as, and what of its history is replayed: real binary, requests of the shapes
//! that the clients were seen to send, a recording API behind it.

use serde_json::{Value, json};

use crate::proxy_http::{Got, Proxy, RULE};
use crate::support::fake_model::Answer;

fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}

fn said(text: &str) -> Value {
    json!({"role": "assistant", "content": [{"type": "text", "text": text}]})
}

/// A tool's call and its answer.
fn step(id: &str) -> [Value; 2] {
    let call = json!({"type": "tool_use", "id": id, "name": "Bash", "input": {"command": "ls"}});
    let answer = json!({"type": "tool_result", "tool_use_id": id, "content": "out"});
    [json!({"role": "assistant", "content": [call]}), json!({"role": "user", "content": [answer]})]
}

/// Sends these messages in a session; the answer, and the body that reached the API, if one did.
fn send(proxy: &Proxy, session: &str, messages: &[Value]) -> (Got, Option<String>) {
    let before = proxy.api.requests().len();
    let body = json!({"model": "claude-test", "max_tokens": 1, "messages": messages}).to_string();
    let lines = format!("x-claude-code-session-id: {session}\r\n");
    let got = proxy.post("/v1/messages", &lines, body.as_bytes()).answer();
    let sent = proxy.api.requests().get(before).map(|sent| String::from_utf8(sent.body.clone()).unwrap());
    (got, sent)
}

fn kinds(proxy: &Proxy) -> Vec<String> {
    let list = proxy.home.json(&["receipts", "list", "--json"]);
    let kind = |receipt: &Value| {
        format!("{} {}", receipt["kind"].as_str().unwrap(), receipt["state"].as_str().unwrap())
    };
    list["receipts"].as_array().unwrap().iter().rev().map(kind).collect()
}

/// The span of the first message of a body.
fn first_span(sent: &str) -> String {
    let body: Value = serde_json::from_str(sent).unwrap();
    body["messages"][0]["content"][1]["text"].as_str().unwrap().to_owned()
}

fn aye(n: usize) -> Vec<Answer> {
    (0..n).map(|_| Answer::text(&["aye"])).collect()
}

#[test]
fn a_compaction_inside_a_turn_that_keeps_the_newest_steps_gets_everything_again() {
    let proxy = Proxy::of_claude(aye(4));
    let (_, sent) = send(&proxy, "s-1", &[user("do it")]);
    assert!(sent.unwrap().contains(RULE));
    let summary =
        user("This session is being continued from a previous conversation: it was asked to do it.");
    let kept = [&[summary][..], &step("t1"), &step("t2")].concat();
    let (got, sent) = send(&proxy, "s-1", &kept);
    assert_eq!(got.status, 200, "{}", String::from_utf8_lossy(&got.body));
    let sent = sent.unwrap();
    assert_eq!(sent.matches(RULE).count(), 1);
    let span = first_span(&sent);
    // It stands there for the rest of the conversation.
    let later = [&kept[..], &step("t3")].concat();
    let (_, sent) = send(&proxy, "s-1", &later);
    let sent = sent.unwrap();
    assert_eq!((first_span(&sent), sent.matches(RULE).count()), (span, 1));
    assert_eq!(kinds(&proxy), ["turn consumed", "turn consumed", "continuation consumed"]);
}

#[test]
fn a_fork_keeps_what_the_conversation_before_it_was_told() {
    let proxy = Proxy::of_claude(aye(4));
    let begun = vec![user("first of all")];
    let (_, sent) = send(&proxy, "s-1", &begun);
    let span = first_span(&sent.unwrap());
    // The same history under a new id.
    let forked = [&begun[..], &[said("aye"), user("or rather this")]].concat();
    let (_, sent) = send(&proxy, "s-2", &forked);
    let sent = sent.unwrap();
    assert_eq!((first_span(&sent), sent.matches(RULE).count()), (span.clone(), 1));
    let later = [&forked[..], &step("t1")].concat();
    let (_, sent) = send(&proxy, "s-2", &later);
    assert_eq!(first_span(&sent.unwrap()), span);
    // Another history is another conversation.
    let other = [user("something else"), said("aye"), user("and this")];
    let (_, sent) = send(&proxy, "s-3", &other);
    let sent: Value = serde_json::from_str(&sent.unwrap()).unwrap();
    assert_eq!(sent["messages"][0]["content"].as_array().unwrap().len(), 1);
    assert!(sent["messages"][2]["content"].to_string().contains(RULE));
}

#[test]
fn the_same_request_after_a_pause_is_no_repetition_of_the_paused_one() {
    let proxy = Proxy::of_claude(aye(3));
    proxy.home.ok(&["proxy", "--pause"]);
    let (got, sent) = send(&proxy, "s-1", &[user("do it")]);
    assert_eq!((got.status, sent.unwrap().contains(RULE)), (200, false));
    let list = proxy.home.json(&["receipts", "list", "--json"]);
    let shown = proxy.home.ok(&["receipts", "show", list["receipts"][0]["id"].as_str().unwrap()]);
    assert!(shown.contains("paused"), "{shown}");
    let doctor = proxy.home.run(&["doctor"]);
    assert!(doctor.out.contains("injection is paused there"), "{}", doctor.out);
    proxy.home.ok(&["proxy", "--resume"]);
    let (got, sent) = send(&proxy, "s-1", &[user("do it")]);
    assert_eq!((got.status, sent.is_some_and(|sent| sent.contains(RULE))), (200, true));
    // Now it is one.
    let (got, sent) = send(&proxy, "s-1", &[user("do it")]);
    assert_eq!((got.status, sent.unwrap().matches(RULE).count()), (200, 1));
}

#[test]
fn the_same_request_after_its_injected_text_was_erased_is_said_anew() {
    let proxy = Proxy::of_claude(aye(3));
    let (_, sent) = send(&proxy, "s-1", &[user("do it")]);
    assert!(sent.unwrap().contains(RULE));
    let store = rusqlite::Connection::open(proxy.home.state().join("conversations.sqlite")).unwrap();
    assert_eq!(store.execute("DELETE FROM span", []).unwrap(), 1);
    let (got, sent) = send(&proxy, "s-1", &[user("do it")]);
    assert_eq!(got.status, 200, "{}", String::from_utf8_lossy(&got.body));
    assert_eq!(sent.unwrap().matches(RULE).count(), 1);
}

#[test]
fn an_address_that_could_hold_a_key_is_refused_because_receipts_keep_addresses() {
    let proxy = Proxy::of_claude(aye(1));
    let body = json!({"model": "claude-test", "max_tokens": 1, "messages": [user("hi")]}).to_string();
    let got = proxy.post("/v1/messages?beta=true&api_key=sk-dummy", "", body.as_bytes()).answer();
    assert_eq!(got.status, 424);
    assert!(String::from_utf8_lossy(&got.body).contains("send it in a header"));
    assert_eq!(proxy.api.requests().len(), 0);
}

#[test]
fn the_status_names_the_hosts_whose_calls_come_through() {
    let proxy = Proxy::of_claude(aye(1));
    send(&proxy, "s-1", &[user("hi")]);
    let status = proxy.home.json(&["preflight-status", "--json"]);
    let modes = json!({
        "agentspine": "wrapper-hard", "claude": "wrapper-hard", "codex": "not-enforced", "king": "not-enforced",
        "generic": "not-enforced",
    });
    assert_eq!(status["enforcement"], modes);
    assert_eq!(status["hostTrust"]["claude"], "unverified");
    assert_eq!(
        (&status["pausedDirectories"], &status["sessions"][0]["sessionId"]),
        (&json!(0), &json!("s-1"))
    );
    assert!(
        proxy
            .home
            .ok(&["preflight-status"])
            .contains("claude: wrapper-hard where started with agentspine run")
    );
}

#[test]
fn an_api_that_points_elsewhere_is_an_error_and_its_client_is_not_sent_there() {
    let proxy = Proxy::of_claude([Answer::redirect("http://127.0.0.1:1/")]);
    let (got, _) = send(&proxy, "s-1", &[user("hi")]);
    assert_eq!((got.status, got.header("location")), (502, None));
    let list = proxy.home.json(&["receipts", "list", "--json"]);
    assert_eq!(list["receipts"][0]["outcome"], "failed", "{list}");
}
