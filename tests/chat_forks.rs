//! Forks: a session that begins with what was said in another one, and goes its own way.

use serde_json::Value;

use crate::support::fake_model::Answer;
use crate::support::law::law;
use crate::support::live::Live;
use crate::support::served::Served;
use crate::support::{Home, Run};

/// Resumes a session with one prompt.
fn resume(home: &Home, model: &str, session: &str, prompt: &str) -> Run {
    Run::of(home.chat(model, &["--resume", session, "-p", prompt]).output().unwrap())
}

/// Starts a session of this name with these prompts.
fn session(home: &Home, model: &str, name: &str, prompts: &[&str]) {
    for (n, prompt) in prompts.iter().enumerate() {
        let flag = if n == 0 { "--session" } else { "--resume" };
        let run = Run::of(home.chat(model, &[flag, name, "-p", prompt]).output().unwrap());
        assert_eq!(run.code, 0, "{}", run.err);
    }
}

fn fork(home: &Home, args: &[&str]) -> Value {
    home.json(&[&["sessions", "fork"], args, &["--json"]].concat())["session"].clone()
}

#[test]
fn a_fork_replays_what_its_parent_was_told_and_its_receipts_name_the_fork() {
    let script = || ["answer-a", "answer-b", "answer-c", "answer-d"].map(|text| Answer::text(&[text])).into();
    for (server, model) in Served::of_each_dialect(script) {
        let home = Home::new();
        home.write("src/project/CLAUDE.md", "Ours.\n");
        session(&home, &model, "s-parent", &["first words", "second words"]);
        let child = fork(&home, &["s-parent"]);
        assert_eq!((&child["parent"], &child["seedLength"]), (&"s-parent".into(), &6.into()));
        assert_eq!(child["title"], "first words");
        let id = child["id"].as_str().unwrap();
        assert_eq!(resume(&home, &model, id, "third words").out, "answer-c\n");
        home.ok(&["sessions", "delete", "s-parent", "--confirm"]);
        assert_eq!(resume(&home, &model, id, "fourth words").out, "answer-d\n");

        let receipts = law(&home, &[&server]);
        let sessions: Vec<&str> = receipts.iter().map(|receipt| receipt.text("sessionId")).collect();
        assert_eq!(sessions, ["s-parent", "s-parent", id, id]);
        for later in &receipts[1..] {
            assert_eq!(later.documents(), [("claude:project/CLAUDE.md", "replayed")]);
            assert_eq!(later.claims()["replayedSpans"][0], receipts[0].id());
        }
        // The parent's own next request would have begun with the very same bytes.
        let bodies = server.bodies();
        let until = |body: &str| body.find("second words").unwrap();
        assert_eq!(bodies[1][..until(&bodies[1])], bodies[2][..until(&bodies[2])]);
        let last = server.bodies().pop().unwrap();
        for said in
            ["first words", "answer-a", "second words", "answer-b", "third words", "answer-c", "fourth words"]
        {
            assert_eq!(last.matches(said).count(), 1, "{said}: {last}");
        }
    }
}

#[test]
fn a_fork_begins_where_a_turn_ended_and_parent_and_fork_go_their_own_ways() {
    let server = Served::start(["one", "two", "mine", "theirs"].map(|text| Answer::text(&[text])));
    let (home, model) = (Home::new(), server.anthropic());
    session(&home, &model, "s-parent", &["first words", "second words"]);
    // Event 4 is the second prompt: its turn had not ended there.
    let child = fork(&home, &["s-parent", "--at", "5"]);
    assert_eq!(child["seedLength"], 3);
    let id = child["id"].as_str().unwrap().to_owned();
    resume(&home, &model, &id, "fork's words");
    resume(&home, &model, "s-parent", "parent's words");
    let bodies = server.bodies();
    assert!(bodies[2].contains("first words") && !bodies[2].contains("second words"), "{}", bodies[2]);
    assert!(bodies[3].contains("second words") && !bodies[3].contains("fork's words"), "{}", bodies[3]);
    law(&home, &[&server]);

    let again = fork(&home, &[&id]);
    assert_eq!((again["parent"].as_str(), &again["seedLength"]), (Some(id.as_str()), &6.into()));
    let table = home.ok(&["sessions", "list"]);
    assert!(table.contains("s-parent@3") && table.contains(&format!("{id}@6")), "{table}");
    let early = home.run(&["sessions", "fork", "s-parent", "--at", "2"]);
    assert!(early.code == 1 && early.err.contains("no turn has ended"), "{}", early.err);
    assert_eq!(home.run(&["sessions", "fork", "s-none"]).code, 1);
}

#[test]
fn a_fork_of_a_fork_still_replays_the_first_ones_text() {
    let server = Served::start(["one", "two", "three"].map(|text| Answer::text(&[text])));
    let (home, model) = (Home::new(), server.chat());
    home.write("src/project/CLAUDE.md", "Ours.\n");
    session(&home, &model, "s-parent", &["first words"]);
    let child = fork(&home, &["s-parent"])["id"].as_str().unwrap().to_owned();
    resume(&home, &model, &child, "second words");
    let grandchild = fork(&home, &[&child])["id"].as_str().unwrap().to_owned();
    for gone in ["s-parent", child.as_str()] {
        home.ok(&["sessions", "delete", gone, "--confirm"]);
    }
    assert_eq!(resume(&home, &model, &grandchild, "third words").out, "three\n");
    let receipts = law(&home, &[&server]);
    assert_eq!(receipts[2].documents(), [("claude:project/CLAUDE.md", "replayed")]);
    assert_eq!(server.bodies()[2].matches("Ours.").count(), 1);
}

#[test]
fn a_chat_forks_itself_and_leaves_its_session_as_it_was() {
    let server = Served::start(["one", "two", "three"].map(|text| Answer::text(&[text])));
    let (home, model) = (Home::new(), server.chat());
    home.write("src/project/CLAUDE.md", "Ours.\n");
    let mut live = Live::start(&mut home.chat(&model, &["--session", "s-parent", "--plain", "--json"]));
    live.send("/fork");
    live.until("nothing to fork");
    live.send("first words");
    live.until("\"answered\"");
    live.send("/fork");
    live.until("\"forked\"");
    // The parent is free: another process may go on with it.
    assert_eq!(resume(&home, &model, "s-parent", "elsewhere").code, 0);
    live.send("second words");
    live.until("three");
    live.close_stdin();
    let run = live.end();
    assert_eq!(run.code, 0, "{}", run.err);
    let forked = run.out.lines().find(|line| line.contains("\"forked\"")).unwrap();
    let forked: Value = serde_json::from_str(forked).unwrap();
    assert_eq!((&forked["parent"], &forked["seedLength"]), (&"s-parent".into(), &3.into()));
    let receipts = law(&home, &[&server]);
    assert_eq!(receipts[2].claims()["sessionId"], forked["session"]);
    assert_eq!(receipts[2].claims()["replayedSpans"][0], receipts[0].id());
    assert!(!server.bodies()[2].contains("elsewhere"));
}
