//! Keys: the ones that always work, then whoever has the focus. No letter acts while the composer has it.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::{chat, screens};
use crate::event::Effect;
use crate::state::{Ask, Focus, Pane, Phase, Screen, State};

/// Rows Shift+arrow scrolls.
const STEP_ROWS: usize = 1;

pub(super) fn press(state: &mut State, key: KeyEvent) -> Vec<Effect> {
    let armed = std::mem::take(&mut state.quit_armed);
    state.hint = None;
    if let Some(effects) = anywhere(state, key, armed) {
        return effects;
    }
    if state.ask.is_some() {
        return screens::ask(state, key);
    }
    match state.screen {
        Screen::Chat => {}
        Screen::Help => return screens::help(state, key),
        Screen::Recall => return screens::recall(state, key),
        Screen::Receipts => return screens::receipts(state, key),
        Screen::Files => return screens::files(state, key),
    }
    if scroll(state, key) {
        return Vec::new();
    }
    match state.focus {
        Focus::Composer => chat::composer(state, key),
        Focus::Transcript => chat::transcript(state, key),
        Focus::Recall => screens::recall(state, key),
        Focus::Receipts => chat::receipts(state, key),
        Focus::Card => chat::card(state, key),
    }
}

/// The key without case of the modifiers that matter to it.
pub(super) fn ctrl(key: KeyEvent, letter: char) -> bool {
    key.code == KeyCode::Char(letter) && key.modifiers == KeyModifiers::CONTROL
}

fn anywhere(state: &mut State, key: KeyEvent, armed: bool) -> Option<Vec<Effect>> {
    match key.code {
        KeyCode::Char('c') if ctrl(key, 'c') => Some(interrupt(state, armed)),
        KeyCode::Char('l') if ctrl(key, 'l') => Some(vec![Effect::Redraw]),
        KeyCode::Char('z') if ctrl(key, 'z') => Some(vec![Effect::Suspend]),
        KeyCode::F(n @ 1..=4) if state.ask.is_none() => Some(function(state, n)),
        _ => None,
    }
}

fn function(state: &mut State, n: u8) -> Vec<Effect> {
    match n {
        1 => toggle(state, Screen::Help),
        2 => return recall_pane(state),
        3 => return open_receipts(state),
        _ => toggle(state, Screen::Files),
    }
    Vec::new()
}

fn toggle(state: &mut State, screen: Screen) {
    state.screen = if state.screen == screen { Screen::Chat } else { screen };
}

/// Where there is room: strip, narrow, wide. Else the whole screen.
pub(super) fn recall_pane(state: &mut State) -> Vec<Effect> {
    if state.screen == Screen::Chat && state.layout().side_possible() {
        state.pane = match state.pane {
            Pane::Wide => Pane::Strip,
            Pane::Strip => Pane::Narrow,
            Pane::Narrow => Pane::Wide,
        };
        if state.pane == Pane::Strip && matches!(state.focus, Focus::Recall | Focus::Receipts) {
            state.focus = Focus::Composer;
        }
        state.measure();
    } else {
        toggle(state, Screen::Recall);
    }
    Vec::new()
}

pub(super) fn open_receipts(state: &mut State) -> Vec<Effect> {
    toggle(state, Screen::Receipts);
    if state.screen == Screen::Receipts { vec![Effect::LoadReceipts] } else { Vec::new() }
}

/// Ctrl+C: what covers the chat → the running turn → the draft → quit on the second press.
fn interrupt(state: &mut State, armed: bool) -> Vec<Effect> {
    if matches!(state.ask, Some(Ask::Server(_))) {
        state.ask = None;
        return Vec::new();
    }
    if state.screen != Screen::Chat && state.ask.is_none() {
        state.screen = Screen::Chat;
        return Vec::new();
    }
    if state.is_running() && state.phase != Phase::Stopping {
        return chat::cancel(state);
    }
    if state.composer.stash() {
        state.hint = Some("Your text is kept: ↑ brings it back".to_owned());
        return Vec::new();
    }
    if armed {
        return vec![Effect::Quit];
    }
    state.quit_armed = true;
    state.hint = Some("Ctrl+C again to quit".to_owned());
    Vec::new()
}

/// Scrolling works whoever has the focus.
fn scroll(state: &mut State, key: KeyEvent) -> bool {
    let window = state.window();
    let page = window.rows.saturating_sub(2).max(1);
    let (shift, control) =
        (key.modifiers.contains(KeyModifiers::SHIFT), key.modifiers.contains(KeyModifiers::CONTROL));
    let in_text = state.focus == Focus::Composer && !state.composer.is_empty();
    match key.code {
        KeyCode::PageUp => state.transcript.up(page, window),
        KeyCode::PageDown => state.transcript.down(page, window),
        KeyCode::Up if shift => state.transcript.up(STEP_ROWS, window),
        KeyCode::Down if shift => state.transcript.down(STEP_ROWS, window),
        KeyCode::Home if control => state.transcript.go_to_start(window),
        KeyCode::End if control || !in_text => state.transcript.follow(),
        _ => return false,
    }
    true
}
