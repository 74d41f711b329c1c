//! Codex: a conversation with a tool, a restart of the proxy, a compaction, and resumption, told twice: straight to the
//! API, and through the proxy.

use super::api::Seen;
use super::claude::no_cache_is_lost;
use super::law::law;
use super::script::{obliging, told_once};
use super::{Desk, Road};
use crate::support::Run;

/// Below what the long answer makes of the conversation, above what is left after its compaction.
const COMPACT: &str = "model_auto_compact_token_limit=30000";

fn conversation(desk: &Desk) -> Vec<Run> {
    let mut runs = vec![desk.codex(&["please use the shell"])];
    runs.push(desk.codex(&["resume", "--last", "and now at length?"]));
    desk.crash_the_proxy();
    runs.push(desk.codex(&["-c", COMPACT, "resume", "--last", "after all that, use the shell"]));
    runs.push(desk.codex(&["resume", "--last", "and finally"]));
    runs
}

/// Documents of every level; one telling line of each.
fn documents(desk: &Desk) -> Vec<&'static str> {
    desk.home.write(".codex/AGENTS.md", "The global file of the person.\n");
    desk.home.write(
        "src/project/AGENTS.md",
        "---\nfront: matter\n---\n<!-- a comment -->\nThe project's <b>own</b> @file.md \"rules\".\n",
    );
    vec!["The global file of the person.", "The project's <b>own</b> @file.md \"rules\"."]
}

fn said(runs: &[Run]) -> Vec<&str> {
    runs.iter().map(|run| run.out.trim().get(..22).unwrap_or_default()).collect()
}

const SAID: [&str; 4] =
    ["The tool has answered.", "All of it, word by wor", "The tool has answered.", "Understood, and noted."];

#[test]
fn codex_through_the_proxy_answers_as_it_does_without_and_every_call_has_its_receipt() {
    let Some(direct) = Desk::new(Road::Direct, obliging) else { return };
    let lines = documents(&direct);
    let runs = conversation(&direct);
    direct.dump("codex-direct");
    assert_eq!(said(&runs), SAID, "{runs:?}");
    assert_eq!(direct.api.broken(), Vec::<String>::new());

    let spine = Desk::new(Road::Spine, obliging).unwrap();
    documents(&spine);
    let runs = conversation(&spine);
    spine.dump("codex-spine");
    assert_eq!(said(&runs), SAID, "{runs:?}");
    let pairs = law(&spine);
    for (seen, receipt) in &pairs {
        if receipt.text("kind") != "side" {
            told_once(seen, &lines, &format!("{} {}", receipt.text("kind"), receipt.id()));
        }
    }
    let kinds: Vec<&str> = pairs.iter().map(|(_, receipt)| receipt.text("kind")).collect();
    assert_eq!(kinds, ["turn", "continuation", "turn", "side", "turn", "continuation", "turn"]);
    assert_eq!(spine.api.broken(), Vec::<String>::new());
    no_cache_is_lost(&direct.api.prompts(), &spine.api.prompts());
}

#[test]
fn a_file_that_codex_cuts_reaches_the_model_whole() {
    let Some(desk) = Desk::new(Road::Spine, obliging) else { return };
    let long = format!(
        "# Agents\n\n{}The very last line of it.\n",
        "A line of a long file of agents.\n".repeat(1200)
    );
    desk.home.write("src/project/AGENTS.md", &long);
    let refused = desk.codex(&["hello"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(refused.err.contains("instructionBudget.hardLimitBytes"), "{}", refused.err);
    assert_eq!(desk.api.prompts().len(), 0);

    desk.home.ok(&[
        "preflight-policy",
        "--set",
        "instructionBudget.hardLimitBytes=65536",
        "--confirm-local-policy",
    ]);
    let run = desk.codex(&["hello"]);
    assert_eq!(said(&[run]), ["Understood, and noted."]);
    let pairs = law(&desk);
    assert_eq!(pairs.len(), 1);
    let (seen, receipt): &(Seen, _) = &pairs[0];
    told_once(seen, &["The very last line of it."], "the end of a file that is cut");
    assert_eq!(receipt.documents(), [("codex:project/AGENTS.md", "cut-by-host")]);
}
