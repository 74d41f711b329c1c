//! A required provider that fails: no call, and the person sees why, once.

use super::api::Say;
use super::script::obliging;
use super::{Desk, Road};
use crate::support::Run;
use crate::support::law::receipts;

const WORDS: &str = "agentspine blocked this call";
const FAILS: &str = "exit 3\n";

/// One refused call at the proxy, none at the API, the reason as often in what the person sees as the client says any
/// refusal of an API's.
fn refused_once(desk: &Desk, run: &Run, times: usize) {
    assert_ne!(run.code, 0, "{run:?}");
    let shown = format!("{}{}", run.out, run.err);
    assert_eq!(shown.matches(WORDS).count(), times, "{shown}");
    assert!(shown.contains("Provider team-notes exited with status 3"), "{shown}");
    assert!(run.err.contains("1 call, 0 receipts, 1 blocked"), "{}", run.err);
    assert_eq!(desk.api.prompts().len(), 0);
    assert!(receipts(&desk.home).iter().all(|receipt| !receipt.is_consumed()));
}

#[test]
fn claude_code_is_refused_once_and_says_why_once() {
    let Some(desk) = Desk::new(Road::Spine, obliging) else { return };
    desk.require(&["claude"], FAILS);
    let run = desk.claude(&["-p", "hello"]);
    assert!(run.out.contains("API Error: 424"), "{run:?}");
    refused_once(&desk, &run, 1);
}

#[test]
fn codex_is_refused_once_and_says_why_as_it_says_any_refusal() {
    let Some(direct) = Desk::new(Road::Direct, |_| Say::Refuse(WORDS)) else { return };
    let run = direct.codex(&["hello"]);
    assert_eq!(direct.api.prompts().len(), 1);
    let times = format!("{}{}", run.out, run.err).matches(WORDS).count();

    let desk = Desk::new(Road::Spine, obliging).unwrap();
    desk.require(&["codex"], FAILS);
    refused_once(&desk, &desk.codex(&["hello"]), times);
}
