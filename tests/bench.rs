//! `agentspine bench recall`: figures over a set, and nothing touched.

use std::path::Path;

use serde_json::{Value, json};

use crate::support::Home;

fn write(folder: &Path, file: &str, lines: &[Value]) {
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    std::fs::write(folder.join(file), lines.join("\n")).unwrap();
}

/// A conversation of three turns and two questions; the second is answered by the turn after the one it resembles.
fn dialogue(folder: &Path) {
    let turn = |id: &str, turn: u64, text: &str| json!({ "scope": "c", "id": id, "text": text, "ts": "2023-05-08T13:56:00Z", "speaker": "Mel", "session": 1, "turn": turn });
    write(
        folder,
        "records.jsonl",
        &[
            turn("D1:1", 1, "The kiln was delivered yesterday."),
            turn("D1:2", 2, "Which colour did your landlord want?"),
            turn("D1:3", 3, "Green."),
        ],
    );
    let query = |text: &str, gold: &str, category: u8| json!({ "scope": "c", "query": text, "gold": [gold], "category": category });
    write(
        folder,
        "queries.jsonl",
        &[
            query("When was the kiln delivered?", "D1:1", 2),
            query("What did the landlord want?", "D1:3", 4),
            query("What is the name of the dog?", "D9:9", 5),
        ],
    );
}

fn rules(folder: &Path) {
    let memory = |id: &str, title: &str, summary: &str| json!({ "id": id, "lang": "en", "kind": "decision", "title": title, "summary": summary, "tags": [] });
    write(
        folder,
        "memories.jsonl",
        &[
            memory("en-1", "Package manager", "We use pnpm because of the workspace protocol."),
            memory("en-2", "Staging", "Postgres runs on port 5433 in staging."),
        ],
    );
    let query = |text: &str, expect: &[&str], split: &str| json!({ "id": "q", "lang": "en", "query": text, "expect": expect, "paraphrase": false, "related": !expect.is_empty(), "split": split });
    write(
        folder,
        "queries.jsonl",
        &[
            query("which package manager do we use?", &["en-1"], "tune"),
            query("how long do I boil an egg?", &[], "tune"),
            query("which port does staging use?", &["en-2"], "kept"),
        ],
    );
}

#[test]
fn a_folder_of_conversations_is_measured_with_and_without_neighbours() {
    let home = Home::new();
    let folder = tempfile::tempdir().unwrap();
    dialogue(folder.path());
    let run = home.run(&["bench", "recall", "--json", "--folder", folder.path().to_str().unwrap()]);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!((&report["schema"], &report["memories"]), (&json!("agentspine.bench/v1"), &json!(3)));
    let figures = |run: usize| {
        (report["runs"][run]["neighbours"].clone(), report["runs"][run]["all"]["recallAt5"].clone())
    };
    assert_eq!(figures(0), (json!(true), json!(1.0)));
    assert_eq!(figures(1), (json!(false), json!(0.5)));
    assert_eq!(report["runs"][0]["all"]["queries"], 2, "category 5 is left out");
    assert!(!home.state().exists(), "the person's own memories are not touched");
}

#[test]
fn a_folder_of_rules_is_measured_by_the_part_that_was_asked_for() {
    let home = Home::new();
    let folder = tempfile::tempdir().unwrap();
    rules(folder.path());
    let run = |part: &str| {
        let run = home.run(&[
            "bench",
            "recall",
            "--json",
            "--split",
            part,
            "--folder",
            folder.path().to_str().unwrap(),
        ]);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{}", run.out);
        serde_json::from_str::<Value>(&run.out).unwrap()
    };
    let tune = run("tune");
    let of = |report: &Value| (report["groups"][0]["queries"].clone(), report["groups"][0]["hitAt1"].clone());
    assert_eq!(of(&tune), (json!(1), json!(1.0)));
    assert_eq!((&tune["unrelated"], &tune["silent"]), (&json!(1), &json!(1.0)));
    assert_eq!(of(&run("kept")), (json!(1), json!(1.0)));
}

#[test]
fn a_folder_without_a_set_is_skipped_and_a_broken_line_is_named() {
    let home = Home::new();
    let folder = tempfile::tempdir().unwrap();
    let args = ["bench", "recall", "--folder", folder.path().to_str().unwrap()];
    let run = home.run(&args);
    assert_eq!(run.code, 0);
    assert!(run.out.starts_with("skipped: "), "{}", run.out);
    dialogue(folder.path());
    std::fs::write(folder.path().join("queries.jsonl"), "{\"scope\": \"c\"}\n").unwrap();
    let run = home.run(&args);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("queries.jsonl, line 1"), "{}", run.err);
    assert_eq!(home.run(&["bench", "recall"]).code, 2);
}
