//! Compaction: a summary stands in for what was said, behind a receipt of its own.

use serde_json::{Value, json};

use crate::support::fake_model::{Answer, End};
use crate::support::law::{Shown, law};
use crate::support::live::Live;
use crate::support::served::Served;
use crate::support::{Home, Run};

/// Part of the words that ask for a summary.
const ASKS: &str = "Summarise this conversation";
/// Part of the words that introduce one.
const OPENS: &str = "only your own summary";

fn texts(answers: &[&str]) -> Vec<Answer> {
    answers.iter().map(|text| Answer::text(&[text])).collect()
}

fn kinds(receipts: &[Shown]) -> Vec<&str> {
    receipts.iter().map(|receipt| receipt.text("kind")).collect()
}

fn events(run: &Run) -> Vec<Value> {
    run.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ask_json(home: &Home, model: &str, prompt: &str) -> Run {
    Run::of(home.chat(model, &["--continue", "--json", "-p", prompt]).output().unwrap())
}

/// A window so small that a long answer fills it.
fn small_window(home: &Home, more: &str) {
    let config = format!("[compaction]\ncontext_tokens = 1024\nat_percent = 50\n{more}");
    home.write(".config/agentspine/config.toml", &config);
}

#[test]
fn after_a_compaction_the_summary_stands_in_and_everything_mandatory_is_injected_again() {
    let script = || texts(&["one", "two", "The valve is blue.", "three", "four"]);
    for (server, model) in Served::of_each_dialect(script) {
        let home = Home::new();
        home.write(".claude/CLAUDE.md", "Mine.\n");
        home.write("src/project/CLAUDE.md", "Ours.\n");
        home.ask(&model, "first words");
        home.ask_on(&model, "second words");
        let done = home.ask_on(&model, "/compact");
        assert_eq!((done.code, done.out.as_str()), (0, ""), "{}", done.err);
        assert!(done.err.contains("compacted: events 1 to 6"), "{}", done.err);
        assert_eq!(home.ask_on(&model, "third words").out, "three\n");
        assert_eq!(home.ask_on(&model, "fourth words").out, "four\n");

        let receipts = law(&home, &[&server]);
        assert_eq!(kinds(&receipts), ["turn", "turn", "side", "turn", "turn"]);
        assert!(
            receipts.iter().all(|receipt| (receipt.state(), receipt.outcome()) == ("consumed", "answered"))
        );
        let both = |state| [("claude:user/CLAUDE.md", state), ("claude:project/CLAUDE.md", state)];
        assert_eq!(receipts[2].documents(), both("replayed"));
        assert_eq!(receipts[2].claims()["providers"], json!([]));
        assert_eq!(receipts[2].claims()["replayedSpans"], json!([receipts[0].id()]));
        assert_eq!(receipts[3].documents(), both("injected"));
        assert_eq!(receipts[3].claims()["replayedSpans"], json!([]));
        assert_eq!(receipts[4].documents(), both("replayed"));

        let bodies = server.bodies();
        assert!(bodies[2].contains(ASKS) && bodies[2].contains("first words") && bodies[2].contains("two"));
        for (n, body) in bodies[3..].iter().enumerate() {
            assert!(!body.contains("first words") && !body.contains(ASKS), "{body}");
            for once in [OPENS, "The valve is blue.", "third words", "Ours.", "Mine."] {
                assert_eq!(body.matches(once).count(), 1, "{once}, {n}: {body}");
            }
        }
    }
}

#[test]
fn a_summary_is_bound_to_files_that_changed_and_the_next_turn_carries_the_new_ones() {
    let server = Served::start(texts(&["one", "A summary.", "two"]));
    let (home, model) = (Home::new(), server.anthropic());
    home.write("src/project/CLAUDE.md", "Version one.\n");
    home.ask(&model, "first words");
    home.write("src/project/CLAUDE.md", "Version two.\n");
    home.write("src/project/CLAUDE.local.md", "New here.\n");
    assert_eq!(home.ask_on(&model, "/compact").code, 0);
    home.ask_on(&model, "second words");
    let receipts = law(&home, &[&server]);
    let (own, local) = ("claude:project/CLAUDE.md", "claude:project/CLAUDE.local.md");
    assert_eq!(receipts[1].documents(), [(own, "replayed"), (local, "unverified")]);
    assert_eq!(receipts[1].claims()["documents"][0]["changedSinceParent"], true);
    assert_eq!(receipts[2].documents(), [(own, "injected"), (local, "injected")]);
    let bodies = server.bodies();
    assert!(!bodies[1].contains("Version two.") && !bodies[1].contains("New here."), "{}", bodies[1]);
    assert!(bodies[2].contains("Version two.") && !bodies[2].contains("Version one."), "{}", bodies[2]);
}

#[test]
fn a_second_compaction_is_made_from_the_first_summary_and_what_followed() {
    let server = Served::start(texts(&["one", "Summary one.", "two", "Summary two.", "three"]));
    let (home, model) = (Home::new(), server.chat());
    home.ask(&model, "first words");
    for prompt in ["/compact", "second words", "/compact"] {
        assert_eq!(home.ask_on(&model, prompt).code, 0);
    }
    assert_eq!(home.ask_on(&model, "third words").out, "three\n");
    law(&home, &[&server]);
    let bodies = server.bodies();
    assert!(bodies[3].contains("Summary one.") && bodies[3].contains("second words"), "{}", bodies[3]);
    assert!(bodies[4].contains("Summary two.") && !bodies[4].contains("Summary one."), "{}", bodies[4]);
    let again = Run::of(home.chat(&model, &["--continue", "-p", "/compact"]).output().unwrap());
    assert_eq!(again.code, 20, "there is something new, and the script is at its end: {}", again.err);
}

#[test]
fn with_nothing_answered_nothing_is_called() {
    let server = Served::start(texts(&["one", "A summary."]));
    let (home, model) = (Home::new(), server.chat());
    let fresh = Run::of(home.chat(&model, &["-p", "/compact"]).output().unwrap());
    assert!(fresh.code == 2 && fresh.err.contains("nothing to summarise"), "{}", fresh.err);
    home.ask(&model, "first words");
    assert_eq!(home.ask_on(&model, "/compact").code, 0);
    assert_eq!(home.ask_on(&model, "/compact").code, 2);
    assert_eq!(law(&home, &[&server]).len(), 2);
}

#[test]
fn a_failed_cut_or_useless_summary_changes_nothing_and_says_so() {
    let limited = json!({ "type": "message_delta", "delta": { "stop_reason": "max_tokens" }, "usage": { "output_tokens": 5 } });
    let limited = format!(
        "event: message_start\ndata: {}\n\nevent: content_block_start\ndata: {}\n\nevent: content_block_delta\ndata: {}\n\n\
         event: content_block_stop\ndata: {}\n\nevent: message_delta\ndata: {limited}\n\nevent: message_stop\ndata: {}\n\n",
        json!({ "type": "message_start", "message": { "id": "m", "role": "assistant", "content": [], "usage": { "input_tokens": 1, "output_tokens": 1 } } }),
        json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } }),
        json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "half a" } }),
        json!({ "type": "content_block_stop", "index": 0 }),
        json!({ "type": "message_stop" }),
    );
    let server = Served::start([
        Answer::text(&["one"]),
        Answer::json(500, &json!({ "error": { "message": "kaputt" } })),
        Answer::cut(&["half a summary"], End::Reset),
        Answer::tool("call_1", "memory_search", json!({ "query": "x" })),
        Answer::text(&["   "]),
        Answer::sse(&limited),
        Answer::text(&["two"]),
    ]);
    let (home, model) = (Home::new(), server.anthropic());
    home.write("src/project/CLAUDE.md", "Ours.\n");
    home.ask(&model, "first words");
    let expected =
        [(20, "kaputt"), (21, ""), (20, "called a tool"), (20, "empty"), (20, "reached its limit")];
    for (code, words) in expected {
        let run = home.ask_on(&model, "/compact");
        assert_eq!((run.code, run.out.as_str()), (code, ""), "{words}: {}", run.err);
        assert!(run.err.contains(words) && run.err.contains("\n  next: "), "{words}: {}", run.err);
    }
    assert_eq!(home.ask_on(&model, "second words").out, "two\n");
    let receipts = law(&home, &[&server]);
    let outcomes: Vec<&str> = receipts.iter().map(Shown::outcome).collect();
    assert_eq!(outcomes, ["answered", "failed", "cut", "answered", "answered", "answered", "answered"]);
    assert_eq!(receipts[6].documents(), [("claude:project/CLAUDE.md", "replayed")]);
    let last = server.requests().pop().unwrap().json();
    assert_eq!(last["messages"].as_array().unwrap().len(), 3, "{last}");
}

#[test]
fn a_refused_or_interrupted_summary_changes_nothing() {
    let server =
        Served::start([Answer::text(&["one"]), Answer::cut(&["half"], End::Hang), Answer::text(&["two"])]);
    let (home, model) = (Home::new(), server.chat());
    home.write("src/project/CLAUDE.md", "Ours.\n");
    home.ask(&model, "first words");
    std::fs::write(home.project().join("CLAUDE.md"), [b'x', 0xff]).unwrap();
    let refused = home.ask_on(&model, "/compact");
    assert_eq!(refused.code, 10, "{}", refused.err);
    home.write("src/project/CLAUDE.md", "Ours.\n");

    let mut live = Live::start(&mut home.chat(&model, &["--continue", "--plain", "--json"]));
    live.send("/compact");
    live.until("compaction.progress");
    live.interrupt();
    live.until("\"interrupted\"");
    server.gone();
    live.send("second words");
    live.until("two");
    live.close_stdin();
    assert_eq!(live.end().code, 0);
    let receipts = law(&home, &[&server]);
    let consumed: Vec<&str> =
        receipts.iter().filter(|receipt| receipt.is_consumed()).map(Shown::outcome).collect();
    assert_eq!(consumed, ["answered", "interrupted", "answered"]);
    assert!(server.bodies()[2].contains("first words"));
}

#[test]
fn a_prompt_that_got_no_answer_may_still_be_sent_again_after_a_failed_summary() {
    let failed = || Answer::json(500, &json!({ "error": { "message": "kaputt" } }));
    let server = Served::start([Answer::text(&["one"]), failed(), failed(), Answer::text(&["two"])]);
    let (home, model) = (Home::new(), server.anthropic());
    home.ask(&model, "first words");
    for prompt in ["second words", "/compact"] {
        assert_eq!(home.ask_on(&model, prompt).code, 20);
    }
    assert_eq!(home.ask_on(&model, "/retry").out, "two\n");
    let receipts = law(&home, &[&server]);
    assert_eq!(receipts[3].claims()["retryOf"], receipts[1].id());
}

#[test]
fn a_window_that_fills_up_is_compacted_before_the_next_prompt() {
    let long = "A long answer about the valve. ".repeat(90);
    let script = || texts(&[&long, "The valve is blue.", "two"]);
    for (server, model) in Served::of_each_dialect(script) {
        let home = Home::new();
        small_window(&home, "");
        home.write("src/project/CLAUDE.md", "Ours.\n");
        home.ask(&model, "first words");
        let run = ask_json(&home, &model, "second words");
        assert_eq!(run.code, 0, "{}", run.err);
        let types: Vec<String> =
            events(&run).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
        let at = |name: &str| {
            types.iter().position(|one| one == name).unwrap_or_else(|| panic!("{name}: {types:?}"))
        };
        assert!(
            at("compaction.started") < at("compaction.done") && at("compaction.done") < at("turn.started")
        );
        let done = &events(&run)[at("compaction.done")];
        assert_eq!(
            (&done["automatic"], &done["status"], &done["fromSeq"], &done["throughSeq"]),
            (&json!(true), &json!("compacted"), &json!(1), &json!(3))
        );
        assert_eq!(done["usage"]["output"], 5);
        let receipts = law(&home, &[&server]);
        assert_eq!(kinds(&receipts), ["turn", "side", "turn"]);
        assert_eq!(receipts[2].documents(), [("claude:project/CLAUDE.md", "injected")]);
        assert!(!server.bodies()[2].contains("A long answer"));
    }
}

#[test]
fn an_automatic_summary_that_fails_does_not_stop_the_turn_and_is_not_tried_again_by_itself() {
    let long = "A long answer about the valve. ".repeat(90);
    let failed = Answer::json(500, &json!({ "error": { "message": "kaputt" } }));
    let server =
        Served::start([Answer::text(&[&long]), failed, Answer::text(&["two"]), Answer::text(&["three"])]);
    let (home, model) = (Home::new(), server.chat());
    small_window(&home, "");
    home.ask(&model, "first words");
    let mut live = Live::start(&mut home.chat(&model, &["--continue", "--plain"]));
    live.send("second words");
    live.until("two");
    live.send("third words");
    live.until("three");
    live.close_stdin();
    let run = live.end();
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.err.contains("not compacted") && run.err.contains("/compact tries again"), "{}", run.err);
    assert_eq!(kinds(&law(&home, &[&server])), ["turn", "side", "turn", "turn"]);
}

#[test]
fn without_automatic_compaction_only_the_person_compacts() {
    let long = "A long answer about the valve. ".repeat(90);
    let server = Served::start(texts(&[&long, "two"]));
    let (home, model) = (Home::new(), server.chat());
    small_window(&home, "automatic = false\n");
    home.ask(&model, "first words");
    home.ask_on(&model, "second words");
    assert_eq!(kinds(&law(&home, &[&server])), ["turn", "turn"]);
    home.write(".config/agentspine/config.toml", "[compaction]\nat_percent = 99\n");
    let wrong = home.ask(&model, "x");
    assert!(wrong.code == 2 && wrong.err.contains("at_percent is 99"), "{}", wrong.err);
}

#[test]
fn files_that_fill_a_small_window_by_themselves_are_no_reason_to_summarise() {
    let server = Served::start(texts(&["one", "two", "three"]));
    let (home, model) = (Home::new(), server.chat());
    small_window(&home, "");
    home.write("src/project/CLAUDE.md", &"A rule of this house.\n".repeat(200));
    home.ask(&model, "first words");
    home.ask_on(&model, "second words");
    home.ask_on(&model, "third words");
    assert_eq!(kinds(&law(&home, &[&server])), ["turn", "turn", "turn"]);
}

#[test]
fn the_demo_summarises_the_same_way_every_time() {
    let summary = || {
        let home = Home::new();
        home.ask("demo", "first words");
        home.ask_on("demo", "second words");
        let run = ask_json(&home, "demo", "/compact");
        assert_eq!(run.code, 0, "{}", run.err);
        let done = events(&run).into_iter().find(|event| event["type"] == "compaction.done").unwrap();
        let next = home.ask_on("demo", "third words").out;
        assert!(next.contains("third words") && !next.contains("first words"), "{next}");
        let again = ask_json(&home, "demo", "/compact");
        let second = events(&again).into_iter().find(|event| event["type"] == "compaction.done").unwrap();
        law(&home, &[]);
        (done["summary"].as_str().unwrap().to_owned(), second["summary"].as_str().unwrap().to_owned())
    };
    let (first, second) = summary();
    assert!(first.starts_with("- You wrote: “first words”\n- You wrote: “second words”\n"), "{first}");
    assert!(
        second.starts_with(
            "- You wrote: “first words”\n- You wrote: “second words”\n- You wrote: “third words”\n"
        ),
        "{second}"
    );
    assert_eq!(summary(), (first, second));
}

#[test]
fn a_frame_that_the_model_copied_into_its_summary_is_not_said_again() {
    let server = Served::start(texts(&["one"]));
    let (home, model) = (Home::new(), server.anthropic());
    home.write("src/project/CLAUDE.md", "Ours.\n");
    home.ask(&model, "first words");
    let body = server.requests().pop().unwrap().json();
    let frame = body["messages"][0]["content"][1]["text"].as_str().unwrap().to_owned();
    assert!(frame.contains("Ours."), "{frame}");
    server.push(Answer::text(&[&format!("The valve is blue.\n{frame}")]));
    server.push(Answer::text(&["two"]));
    home.ask_on(&model, "/compact");
    home.ask_on(&model, "second words");
    law(&home, &[&server]);
    let last = server.bodies().pop().unwrap();
    assert_eq!((last.matches("Ours.").count(), last.matches("The valve is blue.").count()), (1, 1));
}

#[test]
fn a_process_killed_while_it_summarises_loses_nothing() {
    let server =
        Served::start([Answer::text(&["one"]), Answer::cut(&["half"], End::Hang), Answer::text(&["two"])]);
    let (home, model) = (Home::new(), server.chat());
    home.ask(&model, "first words");
    let mut live = Live::ask(&mut home.chat(&model, &["--continue", "--json", "-p", "/compact"]));
    live.until("compaction.progress");
    live.kill();
    live.end();
    assert_eq!(home.ask_on(&model, "second words").out, "two\n");
    let receipts = law(&home, &[&server]);
    assert_eq!(receipts[1].state(), "spent-outcome-unknown");
    assert!(server.bodies()[2].contains("first words"));
}
