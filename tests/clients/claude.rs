//! Claude Code: a conversation with a tool, a restart of the proxy, a subagent, a compaction, and resumption, told twice:
//! straight to the API, and through the proxy.

use super::api::Seen;
use super::law::law;
use super::script::{claude_documents, obliging, told_once};
use super::{Desk, Road};
use crate::support::Run;

/// The whole conversation; what the person saw each time.
fn conversation(desk: &Desk) -> Vec<Run> {
    let mut runs = vec![desk.claude(&["-p", "please use the shell", "--allowedTools", "Bash"])];
    runs.push(desk.claude(&["-p", "--continue", "and now?"]));
    desk.crash_the_proxy();
    runs.push(desk.claude(&["-p", "--continue", "now ask an agent", "--allowedTools", "Agent,Bash"]));
    runs.push(desk.claude(&["-p", "--continue", "/compact"]));
    runs.push(desk.claude(&["-p", "--continue", "after all that"]));
    let session = desk.api.prompts()[0].request.header("x-claude-code-session-id").unwrap().to_owned();
    runs.push(desk.claude(&[
        "-p",
        "--resume",
        &session,
        "and finally, use the shell",
        "--allowedTools",
        "Bash",
    ]));
    runs
}

const SAID: [&str; 6] = [
    "The tool has answered.",
    "Understood, and noted.",
    "The tool has answered.",
    "",
    "Understood, and noted.",
    "The tool has answered.",
];

fn said(runs: &[Run]) -> Vec<&str> {
    runs.iter().map(|run| run.out.trim()).collect()
}

#[test]
fn claude_code_through_the_proxy_answers_as_it_does_without_and_every_call_has_its_receipt() {
    let Some(direct) = Desk::new(Road::Direct, obliging) else { return };
    let lines = claude_documents(&direct);
    let runs = conversation(&direct);
    direct.dump("claude-direct");
    assert_eq!(said(&runs), SAID, "{runs:?}");

    let spine = Desk::new(Road::Spine, obliging).unwrap();
    claude_documents(&spine);
    let runs = conversation(&spine);
    spine.dump("claude-spine");
    assert_eq!(said(&runs), SAID, "{runs:?}");
    for run in &runs {
        assert_eq!(run.err.lines().filter(|line| line.contains("0 blocked")).count(), 1, "{}", run.err);
    }

    let pairs = law(&spine);
    for (seen, receipt) in &pairs {
        if receipt.text("kind") != "side" {
            told_once(seen, &lines, &format!("{} {}", receipt.text("kind"), receipt.id()));
        }
    }
    let kinds: Vec<&str> = pairs.iter().map(|(_, receipt)| receipt.text("kind")).collect();
    let wanted = [
        "turn",
        "continuation", // a tool
        "turn",         // the second prompt
        "turn",
        "subagent",
        "continuation",
        "continuation", // an agent, who uses a tool
        "side",         // the compaction
        "turn",
        "turn", // refused by the API for its stale thinking, sent again without
        "turn",
        "continuation", // a tool again
    ];
    assert_eq!(kinds, wanted);

    // The client itself keeps one signed block over its compaction, and drops it when it is refused.
    assert_eq!(direct.api.broken().len(), 1);
    assert_eq!(spine.api.broken(), direct.api.broken());
    no_cache_is_lost(&direct.api.prompts(), &spine.api.prompts());
}

/// Each request reads at least as much from the cache as without us, and nothing that its predecessor wrote is lost to
/// it that was not lost without us.
pub fn no_cache_is_lost(direct: &[Seen], spine: &[Seen]) {
    assert_eq!(direct.len(), spine.len(), "as many requests");
    let read = |seen: &[Seen]| seen.iter().map(|seen| seen.cache.read).collect::<Vec<_>>();
    let (without, with) = (read(direct), read(spine));
    assert!(without.iter().zip(&with).all(|(without, with)| with >= without), "{without:?} became {with:?}");
    let marks = spine.iter().map(|seen| seen.cache.marks).max();
    assert!(marks <= Some(super::api::cache::MARKS_MAX), "{marks:?} cache marks");
}
