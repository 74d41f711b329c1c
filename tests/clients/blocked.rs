//! A required provider that fails: no call, and the person sees why, once.

use super::script::obliging;
use super::{Desk, Road};
use crate::support::Run;
use crate::support::law::receipts;

/// One refused call at the proxy, none at the API, the reason once in what the person sees.
fn refused_once(desk: &Desk, run: &Run) {
    assert_ne!(run.code, 0, "{run:?}");
    let shown = format!("{}{}", run.out, run.err);
    assert_eq!(shown.matches("team-notes").count(), 1, "{shown}");
    assert!(run.err.contains("1 blocked"), "{}", run.err);
    assert!(run.err.contains("1 call, 0 receipts"), "{}", run.err);
    assert_eq!(desk.api.prompts().len(), 0);
    assert!(receipts(&desk.home).iter().all(|receipt| !receipt.is_consumed()));
}

#[test]
fn claude_code_is_refused_once_and_says_why_once() {
    let Some(desk) = Desk::new(Road::Spine, obliging) else { return };
    desk.require_what_fails("claude");
    let run = desk.claude(&["-p", "hello"]);
    assert!(run.out.contains("API Error: 424"), "{run:?}");
    refused_once(&desk, &run);
}

#[test]
fn codex_is_refused_once_and_says_why_once() {
    let Some(desk) = Desk::new(Road::Spine, obliging) else { return };
    desk.require_what_fails("codex");
    let run = desk.codex(&["hello"]);
    refused_once(&desk, &run);
}
