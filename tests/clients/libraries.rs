//! The vendors' own libraries before a proxy that refuses: one request, and a message that a person can read.

use super::script::obliging;
use super::{Desk, Road};

/// Each asked once whole and once as a stream.
const ASKED: [(&str, &str); 6] = [
    ("anthropic", "424"),
    ("anthropic", "424"),
    ("openai-chat", "400"),
    ("openai-chat", "400"),
    ("openai-responses", "400"),
    ("openai-responses", "400"),
];

#[test]
fn each_official_library_asks_once_and_raises_a_readable_message() {
    let Some(desk) = Desk::new(Road::Spine, obliging) else { return };
    desk.require(&["generic"], "exit 3\n");
    let scripts = crate::support::root().join("tests/clients");
    for (program, script) in [(desk.library("py/bin/python"), "ask.py"), ("node".to_owned(), "ask.mjs")] {
        let run = desk.program(&[&program, scripts.join(script).to_str().unwrap()]);
        assert_eq!(run.code, 0, "{run:?}");
        let raised: Vec<(&str, &str)> = run.out.lines().map(first_words).collect();
        assert_eq!(raised, ASKED, "{run:?}");
        for line in run.out.lines() {
            assert_eq!(line.matches("agentspine blocked this call").count(), 1, "{line}");
            assert_eq!(line.matches("Provider team-notes exited with status 3").count(), 1, "{line}");
        }
        // As many requests as questions: nothing was asked again.
        assert!(run.err.contains("6 calls, 0 receipts, 6 blocked"), "{script}: {}", run.err);
    }
    assert_eq!(desk.api.prompts().len(), 0);
}

fn first_words(line: &str) -> (&str, &str) {
    let (name, rest) = line.split_once(' ').unwrap();
    (name, rest.split(' ').next().unwrap())
}
