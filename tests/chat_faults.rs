//! What a model's server and a person can do to a call: errors, cuts, interrupts, kills. One request a receipt, always.

use std::io::Read as _;
use std::net::TcpListener;

use serde_json::json;

use crate::support::fake_model::{Answer, End};
use crate::support::law::{Shown, law};
use crate::support::live::Live;
use crate::support::served::Served;
use crate::support::{Home, Run};

/// An error body of both dialects.
fn error(status: u16, message: &str) -> Answer {
    Answer::json(status, &json!({ "type": "error", "error": { "type": "x_error", "message": message } }))
}

fn busy(status: u16) -> Answer {
    let body = json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" } });
    let headers = [("content-type", "application/json"), ("retry-after", "7")];
    Answer::status(status, &headers, &body.to_string())
}

#[test]
fn an_error_status_is_told_once_with_its_wait_and_is_never_tried_again_by_us() {
    let cases = || {
        vec![
            (error(500, "kaputt"), "kaputt", "failed"),
            (busy(429), "wait 7 s", "failed"),
            (busy(529), "wait 7 s", "failed"),
            (busy(503), "wait 7 s", "failed"),
            (error(401, "who are you"), "key", "failed"),
            (
                Answer::status(502, &[("content-type", "text/html")], "<html>bad gateway</html>"),
                "502",
                "failed",
            ),
            (Answer::json(200, &json!({ "id": "x" })), "one JSON document", "cut"),
            (Answer::status(200, &[("content-type", "text/html")], "<html>"), "a web page", "cut"),
            (Answer::sse("data: {broken\n\n"), "no ", "cut"),
            (
                Answer::sse(
                    "data: {\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
                ),
                "Overloaded",
                "cut",
            ),
        ]
    };
    let script = || cases().into_iter().map(|(answer, _, _)| answer).collect();
    for (server, model) in Served::of_each_dialect(script) {
        let home = Home::new();
        for (_, words, _) in cases() {
            let run = home.ask(&model, "hi");
            assert_eq!((run.code, run.out.as_str()), (20, ""), "{words}: {}", run.err);
            assert!(run.err.contains(words) && run.err.contains("\n  next: "), "{words}: {}", run.err);
        }
        let receipts = law(&home, &[&server]);
        assert_eq!(server.requests().len(), cases().len());
        let outcomes: Vec<&str> = receipts.iter().map(Shown::outcome).collect();
        assert_eq!(outcomes, cases().iter().map(|(_, _, outcome)| *outcome).collect::<Vec<_>>());
        assert_eq!(receipts[1].0["outcome"]["body"]["status"], 429);
    }
}

#[test]
fn a_cut_stream_ends_with_21_and_what_came_is_kept() {
    let script = || {
        let empty = Answer::cut(&[], End::Reset);
        vec![
            Answer::cut(&["half an ", "answer"], End::Reset),
            Answer::cut(&["half"], End::Clean),
            empty,
            Answer::text(&["whole"]),
        ]
    };
    for (server, model) in Served::of_each_dialect(script) {
        let home = Home::new();
        let cut = home.ask(&model, "one");
        assert_eq!((cut.code, cut.out.as_str()), (21, "half an answer\n"), "{}", cut.err);
        assert_eq!(home.ask_on(&model, "two").code, 21);
        assert_eq!(home.ask_on(&model, "three").code, 21);
        assert_eq!(home.ask_on(&model, "four").out, "whole\n");
        let receipts = law(&home, &[&server]);
        let outcomes: Vec<&str> = receipts.iter().map(Shown::outcome).collect();
        assert_eq!(outcomes, ["cut", "cut", "cut", "answered"]);
        let last = server.bodies().pop().unwrap();
        assert!(last.contains("half an answer") && last.contains("two") && !last.contains("three"), "{last}");
    }
}

#[test]
fn a_connection_that_breaks_before_the_head_leaves_the_outcome_unknown() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let model = format!("chat:m@http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // Unread bytes at the close make it a reset.
        stream.read_exact(&mut [0; 20]).unwrap();
        drop(stream);
        listener
    });
    let home = Home::new();
    let run = home.ask(&model, "hi");
    let listener = server.join().unwrap();
    assert_eq!(run.code, 20, "{}", run.err);
    assert_eq!(law(&home, &[])[0].outcome(), "unknown");
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "no second connection");
}

#[test]
fn without_a_server_nothing_was_sent_and_the_receipt_says_so() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let model = format!("anthropic:m@http://{}", listener.local_addr().unwrap());
    drop(listener);
    let home = Home::new();
    let run = home.ask(&model, "hi");
    assert_eq!(run.code, 20, "{}", run.err);
    assert!(run.err.contains("no connection to 127.0.0.1"), "{}", run.err);
    assert_eq!(law(&home, &[])[0].outcome(), "not-sent");
}

#[test]
fn a_redirect_is_never_followed_and_the_key_stays_where_it_was_sent() {
    const KEY: &str = "sk-canary-0123456789abcdef";
    let home = Home::new();
    let elsewhere = Served::start([]);
    let to = format!("{}/v1/chat/completions", elsewhere.base());
    let statuses = [301, 302, 303, 307, 308].map(|status| Answer::status(status, &[("location", &to)], ""));
    // A forward proxy on this machine stands in for a host elsewhere: only such a host is sent a key.
    let proxy = Served::start(statuses);
    let config = format!("[http]\nproxy = \"{}\"\nallow_plain = true\n", proxy.base());
    home.write(".config/agentspine/config.toml", &config);
    for _ in 0..5 {
        let mut command = home.chat("chat:m@http://models.example", &["-p", "hi"]);
        let run = Run::of(command.env("AGENTSPINE_API_KEY", KEY).output().unwrap());
        assert_eq!(run.code, 20, "{}", run.err);
        assert!(run.err.contains("redirects are not followed"), "{}", run.err);
        assert!(!run.err.contains("canary"), "{}", run.err);
    }
    let requests = proxy.requests();
    assert_eq!((requests.len(), elsewhere.requests().len()), (5, 0));
    assert_eq!(requests[0].header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(requests[0].header("host"), Some("models.example"));
}

#[test]
fn a_key_that_a_server_throws_back_is_not_shown() {
    const KEY: &str = "sk-canary-0123456789abcdef";
    let home = Home::new();
    let proxy = Served::start([error(401, &format!("Incorrect API key provided: {KEY}")), error(400, KEY)]);
    let config = format!("[http]\nproxy = \"{}\"\nallow_plain = true\n", proxy.base());
    home.write(".config/agentspine/config.toml", &config);
    for flags in [&["-p", "hi"][..], &["--json", "-p", "hi"]] {
        let mut command = home.chat("chat:m@http://models.example", flags);
        let run = Run::of(command.env("AGENTSPINE_API_KEY", KEY).output().unwrap());
        assert_eq!(run.code, 20, "{}", run.err);
        assert!(!run.err.contains("canary") && !run.out.contains("canary"), "{}{}", run.out, run.err);
    }
}

#[test]
fn retry_makes_the_same_call_again_with_a_new_receipt() {
    for (server, model) in Served::of_each_dialect(|| vec![busy(429), busy(529), Answer::text(&["finally"])])
    {
        let home = Home::new();
        home.write("src/project/CLAUDE.md", "Rule.\n");
        let flags = ["chat", "--instruction-host", "claude", "--model", &model, "--plain"];
        let run = home.run_with_stdin(&flags, "hi\n/retry\n/retry\n");
        assert_eq!((run.code, run.out.as_str()), (0, "finally\n"), "{}", run.err);
        let receipts = law(&home, &[&server]);
        assert_eq!(receipts[0].claims()["retryOf"], json!(null));
        assert_eq!(receipts[1].text("retryOf"), receipts[0].id());
        assert_eq!(receipts[2].text("retryOf"), receipts[1].id());
        let requests = server.requests();
        assert!(requests.iter().all(|request| request.body == requests[0].body), "the same body");
        let deliveries: std::collections::BTreeSet<&str> =
            receipts.iter().map(|one| one.text("deliveryId")).collect();
        assert_eq!(deliveries.len(), 3);
    }
}

#[test]
fn retry_after_a_failed_continuation_makes_that_continuation_again() {
    let script = || {
        let call = Answer::tool("call_1", "memory_search", json!({ "query": "x" }));
        vec![call, busy(529), Answer::text(&["done"]), Answer::text(&["more"])]
    };
    for (server, model) in Served::of_each_dialect(script) {
        let home = Home::new();
        home.write("src/project/CLAUDE.md", "Rule.\n");
        let flags = ["chat", "--instruction-host", "claude", "--model", &model, "--plain"];
        let run = home.run_with_stdin(&flags, "hi\n/retry\nand?\n");
        assert_eq!((run.code, run.out.as_str()), (0, "done\nmore\n"), "{}", run.err);
        let receipts = law(&home, &[&server]);
        assert_eq!(
            (receipts[2].text("kind"), receipts[2].text("retryOf")),
            ("continuation", receipts[1].id())
        );
        assert_eq!(receipts[2].text("parent"), receipts[0].id());
        assert_eq!(server.requests()[1].body, server.requests()[2].body);
    }
}

#[test]
fn retry_without_a_failed_call_says_so_and_calls_nobody() {
    let (server, home) = (Served::start([busy(429), Answer::text(&["b"])]), Home::new());
    let model = server.chat();
    let flags = ["chat", "--instruction-host", "claude", "--model", &model, "--plain"];
    let run = home.run_with_stdin(&flags, "/retry\na\nb\n/retry\n");
    assert_eq!((run.code, run.out.as_str()), (2, "b\n"), "{}", run.err);
    assert_eq!(run.err.matches("nothing to retry").count(), 2, "{}", run.err);
    assert_eq!(law(&home, &[&server]).len(), 2);
}

#[test]
fn a_prompt_whose_call_failed_may_be_typed_again_and_is_a_retry_of_that_call() {
    for (server, model) in Served::of_each_dialect(|| vec![busy(429), Answer::text(&["yes"])]) {
        let home = Home::new();
        home.write("src/project/CLAUDE.md", "The rule.\n");
        assert_eq!(home.ask(&model, "the same words").code, 20);
        let again = home.ask_on(&model, "the same words");
        assert_eq!((again.code, again.out.as_str()), (0, "yes\n"), "{}", again.err);
        let receipts = law(&home, &[&server]);
        assert_eq!(receipts[1].text("retryOf"), receipts[0].id());
        assert_eq!(receipts[1].documents(), [("claude:project/CLAUDE.md", "replayed")]);
        assert_eq!(server.requests()[0].body, server.requests()[1].body);
    }
}

#[test]
fn a_prompt_typed_again_after_a_file_changed_is_a_turn_of_its_own_with_the_new_version() {
    for (server, model) in Served::of_each_dialect(|| vec![busy(429), Answer::text(&["yes"])]) {
        let home = Home::new();
        home.write("src/project/CLAUDE.md", "Old rule.\n");
        assert_eq!(home.ask(&model, "the same words").code, 20);
        home.write("src/project/CLAUDE.md", "New rule.\n");
        let again = home.ask_on(&model, "the same words");
        assert_eq!((again.code, again.out.as_str()), (0, "yes\n"), "{}", again.err);
        let receipts = law(&home, &[&server]);
        assert_eq!(receipts[1].claims()["retryOf"], serde_json::Value::Null);
        assert_eq!(receipts[1].documents(), [("claude:project/CLAUDE.md", "injected")]);
        let body = String::from_utf8(server.requests()[1].body.clone()).unwrap();
        assert!(body.contains("New rule.") && !body.contains("Old rule."), "{body}");
    }
}

#[test]
fn an_interrupt_in_the_middle_of_an_answer_ends_with_130_and_keeps_what_came() {
    let script = || vec![Answer::cut(&["so far"], End::Hang), Answer::text(&["next"])];
    for (server, model) in Served::of_each_dialect(script) {
        let home = Home::new();
        let mut live = Live::ask(&mut home.chat(&model, &["-p", "go"]));
        live.until("so far");
        live.interrupt();
        server.gone();
        let run = live.end();
        assert_eq!(run.code, 130, "{}", run.err);
        assert_eq!(home.ask_on(&model, "and?").out, "next\n");
        let receipts = law(&home, &[&server]);
        assert_eq!(receipts[0].outcome(), "interrupted");
        assert!(server.bodies()[1].contains("so far"));
    }
}

#[test]
fn an_interrupt_before_the_first_byte_leaves_the_outcome_unknown() {
    let (server, home) = (Served::start([Answer::Hang]), Home::new());
    let live = Live::ask(&mut home.chat(&server.anthropic(), &["-p", "go"]));
    server.arrived();
    live.interrupt();
    assert_eq!(live.end().code, 130);
    assert_eq!(law(&home, &[&server])[0].outcome(), "unknown");

    // A machine that takes the connection and nothing else: whether it saw the request, nobody can tell.
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let live =
        Live::ask(&mut home.chat(&format!("chat:m@http://{}", deaf.local_addr().unwrap()), &["-p", "go"]));
    let (stream, _) = deaf.accept().unwrap();
    live.interrupt();
    assert_eq!(live.end().code, 130);
    drop(stream);
    assert!(law(&home, &[&server]).iter().all(|receipt| receipt.outcome() == "unknown"));
}

#[test]
fn an_interrupt_between_two_lines_ends_a_plain_chat() {
    let (server, home) = (Served::start([Answer::text(&["one"])]), Home::new());
    let mut live = Live::start(&mut home.chat(&server.chat(), &["--plain"]));
    live.send("hi");
    live.until("one\n");
    live.interrupt();
    let run = live.end();
    assert_eq!(run.code, 130, "{}", run.err);
    assert_eq!(law(&home, &[&server])[0].outcome(), "answered");
}

#[test]
fn an_interrupt_stops_one_turn_of_a_plain_chat_and_the_next_line_is_read() {
    let (server, home) =
        (Served::start([Answer::cut(&["half"], End::Hang), Answer::text(&["two"])]), Home::new());
    let mut live = Live::start(&mut home.chat(&server.chat(), &["--plain"]));
    live.send("a");
    live.until("half");
    live.interrupt();
    server.gone();
    live.send("b");
    live.until("two\n");
    live.close_stdin();
    assert_eq!(live.end().code, 0);
    law(&home, &[&server]);
}

#[test]
fn head_gets_its_line_and_nobody_complains() {
    let many = vec!["line of text\n".repeat(64); 4096];
    for flags in [&["-p", "go"][..], &["--json", "-p", "go"], &["--plain"]] {
        let (server, home) = (Served::start([Answer::Text(many.clone())]), Home::new());
        let mut live = Live::start(&mut home.chat(&server.anthropic(), flags));
        match flags {
            ["--plain"] => live.send("go"),
            _ => live.close_stdin(),
        }
        live.until("\n");
        live.close_stdout();
        // With `--plain` stdin is still open here: the chat must not wait for it.
        let run = live.end();
        assert_eq!(run.code, 0, "{flags:?}: {}", run.err);
        assert!(!run.err.contains("Interrupted"), "{flags:?}: {}", run.err);
        law(&home, &[&server]);
    }
}

#[test]
fn a_process_killed_before_the_answer_leaves_a_spent_receipt_and_nothing_is_sent_again() {
    for (server, model) in Served::of_each_dialect(|| vec![Answer::Hang, Answer::text(&["fresh"])]) {
        let home = Home::new();
        home.write("src/project/CLAUDE.md", "Rule.\n");
        let live = Live::ask(&mut home.chat(&model, &["-p", "lost words"]));
        server.arrived();
        live.kill();
        assert_eq!(live.end().code, -1);
        assert!(home.ok(&["receipts", "list"]).contains("spent-outcome-unknown"));
        assert_eq!(home.json(&["receipts", "verify", "--json"])["ok"], true);
        assert_eq!(server.requests().len(), 1, "nothing is sent again by itself");

        let next = home.ask_on(&model, "other words");
        assert_eq!((next.code, next.out.as_str()), (0, "fresh\n"), "{}", next.err);
        assert!(next.err.contains("is spent, its outcome unknown"), "{}", next.err);
        let receipts = law(&home, &[&server]);
        assert_eq!(receipts[0].state(), "spent-outcome-unknown");
        assert_eq!(receipts[1].documents(), [("claude:project/CLAUDE.md", "injected")]);
        let body = server.bodies().pop().unwrap();
        assert!(!body.contains("lost words") && body.contains("other words"));
    }
}

#[test]
fn an_answer_that_is_not_whole_says_so() {
    let cut = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":1,\"output_tokens\":1}}}\n\n\
        event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n\
        event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"half\"}}\n\n\
        event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n\
        event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"max_tokens\"},\"usage\":{\"output_tokens\":2}}\n\n\
        event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n";
    let (server, home) = (Served::start([Answer::sse(cut)]), Home::new());
    let run = home.ask(&server.anthropic(), "go");
    assert_eq!((run.code, run.out.as_str()), (0, "half\n"), "{}", run.err);
    assert!(run.err.contains("reached its limit of 8192 tokens and is not whole"), "{}", run.err);
}
