//! Conversations over restarts, changed files, two processes at once, and deletion.

use crate::support::fake_model::{Answer, End};
use crate::support::law::{Shown, law};
use crate::support::live::Live;
use crate::support::served::Served;
use crate::support::{Home, Run};

#[test]
fn two_identical_prompts_in_a_row_both_work() {
    let script = || (1..=5).map(|n| Answer::text(&[&format!("answer {n}")])).collect();
    for (server, model) in Served::of_each_dialect(script) {
        let home = Home::new();
        home.write("src/project/CLAUDE.md", "Rule.\n");
        let flags = ["chat", "--instruction-host", "claude", "--model", &model, "--plain"];
        let run = home.run_with_stdin(&flags, "again\nagain\nagain\n");
        assert_eq!((run.code, run.out.as_str()), (0, "answer 1\nanswer 2\nanswer 3\n"), "{}", run.err);
        assert_eq!(home.ask_on(&model, "again").out, "answer 4\n");
        assert_eq!(home.ask_on(&model, "again").out, "answer 5\n");
        let receipts = law(&home, &[&server]);
        assert!(receipts.iter().all(|receipt| receipt.claims()["retryOf"].is_null()));
        let last = server.bodies().pop().unwrap();
        assert_eq!((last.matches("again").count(), last.matches("Rule.").count()), (5, 1));
    }
}

#[test]
fn after_a_restart_the_next_turn_has_a_fresh_receipt_and_the_spans_are_replayed() {
    let script = || vec![Answer::text(&["one"]), Answer::text(&["two"]), Answer::text(&["three"])];
    for (server, model) in Served::of_each_dialect(script) {
        let home = Home::new();
        home.write(".claude/CLAUDE.md", "Mine.\n");
        home.write("src/project/CLAUDE.md", "Ours.\n");
        let first = Run::of(home.chat(&model, &["--session", "s-mine", "-p", "1"]).output().unwrap());
        assert_eq!(first.code, 0, "{}", first.err);
        for prompt in ["2", "3"] {
            let run = Run::of(home.chat(&model, &["--resume", "s-mine", "-p", prompt]).output().unwrap());
            assert_eq!(run.code, 0, "{}", run.err);
        }
        let receipts = law(&home, &[&server]);
        assert!(receipts.iter().all(|one| one.text("sessionId") == "s-mine" && one.state() == "consumed"));
        for later in &receipts[1..] {
            assert_eq!(
                later.documents(),
                [("claude:user/CLAUDE.md", "replayed"), ("claude:project/CLAUDE.md", "replayed")]
            );
            assert_eq!(later.claims()["replayedSpans"][0], receipts[0].id());
        }
        let bodies = server.bodies();
        assert!(
            bodies[2].contains("one") && bodies[2].contains("two") && bodies[2].matches("Ours.").count() == 1
        );
    }
}

#[test]
fn a_file_changed_added_or_removed_between_two_turns_is_in_the_next_one() {
    let script = || (0..4).map(|_| Answer::text(&["ok"])).collect();
    for (server, model) in Served::of_each_dialect(script) {
        let home = Home::new();
        home.write("src/project/CLAUDE.md", "Version one.\n");
        home.ask(&model, "1");
        home.write("src/project/CLAUDE.md", "Version two.\n");
        home.ask_on(&model, "2");
        home.write("src/project/CLAUDE.local.md", "Local words.\n");
        home.ask_on(&model, "3");
        std::fs::remove_file(home.project().join("CLAUDE.local.md")).unwrap();
        home.ask_on(&model, "4");
        let receipts = law(&home, &[&server]);
        let (own, local) = ("claude:project/CLAUDE.md", "claude:project/CLAUDE.local.md");
        let states: Vec<_> = receipts.iter().map(Shown::documents).collect();
        assert_eq!(states[0], [(own, "injected")]);
        assert_eq!(states[1], [(own, "injected")]);
        assert_eq!(states[2], [(own, "replayed"), (local, "injected")]);
        assert_eq!(states[3], [(own, "replayed")]);
        assert_eq!(receipts[1].claims()["documents"][0]["changedSinceParent"], true);
        assert_eq!(receipts[3].claims()["withdrawn"][0], local);
        let bodies = server.bodies();
        assert!(
            bodies[1].contains(&format!("replaces {own}")) && bodies[1].contains("Version two."),
            "{}",
            bodies[1]
        );
        assert!(bodies[3].contains(&format!("withdrawn {local}")), "{}", bodies[3]);
    }
}

#[test]
fn a_session_has_one_process_at_a_time_and_the_other_is_told() {
    let (server, home) =
        (Served::start([Answer::text(&["zero"]), Answer::cut(&["one"], End::Hang)]), Home::new());
    let model = server.anthropic();
    home.ask(&model, "0");
    let mut first = Live::start(&mut home.chat(&model, &["--continue", "--plain"]));
    first.send("1");
    first.until("one");
    let second = home.ask_on(&model, "from elsewhere");
    assert_eq!((second.code, second.out.as_str()), (1, ""), "{}", second.err);
    assert!(second.err.contains("open in another agentspine"), "{}", second.err);
    assert_eq!(server.requests().len(), 2);

    first.interrupt();
    server.gone();
    for answer in ["two", "three"] {
        server.push(Answer::text(&[answer]));
    }
    first.send("2");
    first.until("two");
    first.close_stdin();
    assert_eq!(first.end().code, 0);
    assert_eq!(home.ask_on(&model, "3").out, "three\n", "free again");
    law(&home, &[&server]);
    let last = server.requests().pop().unwrap().json();
    assert_eq!(last["messages"].as_array().unwrap().len(), 7);
    assert!(!last.to_string().contains("from elsewhere"));
    let locks = home.state_files().into_iter().filter(|(name, _)| name.contains("/run/session-")).count();
    assert_eq!(locks, 0);
}

#[test]
fn a_new_session_is_nobody_elses_either_and_a_killed_owner_holds_nothing() {
    let (server, home) = (Served::start([Answer::Hang, Answer::text(&["mine now"])]), Home::new());
    let model = server.chat();
    let first = Live::ask(&mut home.chat(&model, &["--session", "s-new", "-p", "1"]));
    server.arrived();
    let resumed = Run::of(home.chat(&model, &["--resume", "s-new", "-p", "2"]).output().unwrap());
    assert_eq!(resumed.code, 1, "{}", resumed.err);
    let same = Run::of(home.chat(&model, &["--session", "s-new", "-p", "2"]).output().unwrap());
    assert_eq!(same.code, 13, "{}", same.err);
    first.kill();
    first.end();
    let same = Run::of(home.chat(&model, &["--session", "s-new", "-p", "2"]).output().unwrap());
    assert_eq!(same.code, 13, "{}", same.err);
    assert!(same.err.contains("--resume s-new"), "{}", same.err);
    let resumed = Run::of(home.chat(&model, &["--resume", "s-new", "-p", "2"]).output().unwrap());
    assert_eq!((resumed.code, resumed.out.as_str()), (0, "mine now\n"), "{}", resumed.err);
    law(&home, &[&server]);
    assert_eq!(server.requests().len(), 2);
}

#[test]
fn many_processes_that_continue_one_session_never_spend_a_receipt_twice() {
    let server = Served::start((0..9).map(|n| Answer::text(&[&format!("answer {n}")])));
    let (home, model) = (Home::new(), server.anthropic());
    home.ask(&model, "first");
    let start = |n: usize| Live::ask(&mut home.chat(&model, &["--continue", "-p", &format!("prompt {n}")]));
    let runs: Vec<Run> = (0..8).map(start).collect::<Vec<_>>().into_iter().map(Live::end).collect();
    let (answered, refused): (Vec<_>, Vec<_>) = runs.iter().partition(|run| run.code == 0);
    assert!(!answered.is_empty(), "at least one gets through");
    for run in refused {
        assert!(run.code == 1 && run.err.contains("open in another agentspine"), "{}: {}", run.code, run.err);
    }
    let receipts = law(&home, &[&server]);
    assert_eq!((receipts.len(), server.requests().len()), (answered.len() + 1, answered.len() + 1));
    let messages = server.requests().pop().unwrap().json()["messages"].as_array().unwrap().len();
    assert_eq!(messages, 2 * answered.len() + 1, "every turn that was answered is in the log");
}

#[test]
fn many_new_sessions_at_once_all_pass() {
    let server = Served::start((0..8).map(|_| Answer::text(&["ok"])));
    let (home, model) = (Home::new(), server.chat());
    home.write("src/project/CLAUDE.md", "Rule.\n");
    let start = |n: usize| Live::ask(&mut home.chat(&model, &["-p", &format!("prompt {n}")]));
    let runs: Vec<Run> = (0..8).map(start).collect::<Vec<_>>().into_iter().map(Live::end).collect();
    for run in runs {
        assert_eq!((run.code, run.out.as_str()), (0, "ok\n"), "{}", run.err);
    }
    assert_eq!(law(&home, &[&server]).len(), 8);
}

#[test]
fn a_deleted_session_is_gone_and_its_receipts_stay() {
    let (server, home) = (Served::start([Answer::text(&["canary-answer"])]), Home::new());
    let model = server.chat();
    home.write("src/project/CLAUDE.md", "canary-rule\n");
    Run::of(home.chat(&model, &["--session", "s-gone", "-p", "canary-prompt"]).output().unwrap());
    home.ok(&["sessions", "delete", "s-gone", "--confirm"]);
    for (name, bytes) in home.state_files() {
        assert!(!bytes.windows(7).any(|window| window == b"canary-"), "{name}");
    }
    for flags in [&["--continue", "-p", "x"][..], &["--resume", "s-gone", "-p", "x"]] {
        assert_eq!(Run::of(home.chat(&model, flags).output().unwrap()).code, 2);
    }
    let receipts = law(&home, &[&server]);
    assert_eq!((receipts.len(), receipts[0].outcome()), (1, "answered"));
}

#[test]
fn a_resumed_session_keeps_its_instruction_host_and_resume_without_an_id_lists() {
    let (server, home) = (Served::start([Answer::text(&["a"]), Answer::text(&["b"])]), Home::new());
    let model = server.chat();
    home.write("src/project/AGENTS.md", "For agents.\n");
    let run = |args: &[&str]| home.run(&[&["chat", "--model", &model], args].concat());
    assert_eq!(run(&["--instruction-host", "codex", "--session", "s-1", "-p", "1"]).out, "a\n");
    let which = run(&["--resume", "-p", "2"]);
    assert_eq!(which.code, 2);
    assert!(which.err.contains("s-1"), "{}", which.err);
    assert_eq!(run(&["--resume", "s-1", "-p", "2"]).out, "b\n");
    let receipts = law(&home, &[&server]);
    assert_eq!(receipts[1].text("instructionHost"), "codex");
    assert_eq!(receipts[1].documents(), [("codex:project/AGENTS.md", "replayed")]);
}

#[test]
fn a_rule_purged_while_a_chat_is_open_is_not_sent_again() {
    let (server, home) = (Served::start([Answer::text(&["one"]), Answer::text(&["two"])]), Home::new());
    home.write("src/project/CLAUDE.md", "The document.\n");
    let claim = [
        "remember-propose",
        "--claim",
        "The lark sings at dawn",
        "--user",
        "local-user",
        "--tenant",
        "local-tenant",
    ];
    let candidate = home.json(&claim)["candidate"]["id"].as_str().unwrap().to_owned();
    let entry = home.json(&["remember-confirm", &candidate, "--confirm-local-user"])["entry"]["id"].clone();
    let mut live = Live::start(&mut home.chat(&server.chat(), &["--plain"]));
    live.send("first");
    live.until("one");
    home.ok(&["remember-purge", entry.as_str().unwrap(), "--confirm-local-purge"]);
    live.send("second");
    live.until("two");
    live.close_stdin();
    assert_eq!(live.end().code, 0);
    let bodies = server.bodies();
    assert!(bodies[0].contains("The lark sings at dawn") && bodies[0].contains("The document."));
    assert!(!bodies[1].contains("lark") && bodies[1].contains("The document."), "{}", bodies[1]);
}
