//! `update`: one event in, the new state and what to do out. Pure: no clock, no terminal, no file.

mod app;
mod chat;
mod keys;
mod screens;
pub(crate) mod watch;

pub(crate) use chat::COMMANDS;
use crossterm::event::{Event as Input, KeyEventKind};

use crate::event::{Effect, Event};
use crate::state::{Focus, Phase, Screen, State};
use crate::transcript::Body;

/// Takes an event into the state and says what the host must do.
pub fn update(state: &mut State, event: Event) -> Vec<Effect> {
    let before = state.composer.shown();
    let mut effects = match event {
        Event::Input(input) => take_input(state, input),
        Event::App(news) => app::take(state, *news),
        Event::Tick { ms } => {
            tick(state, ms);
            Vec::new()
        }
    };
    if state.composer.shown() != before {
        state.composer.settle(state.layout().composer.height);
        // Behind a Send: the prompt is durable before the draft is emptied.
        effects.push(Effect::SaveDraft(state.composer.text()));
    }
    effects
}

fn take_input(state: &mut State, input: Input) -> Vec<Effect> {
    match input {
        Input::Key(key) if key.kind != KeyEventKind::Release => keys::press(state, key),
        Input::Paste(text) => {
            paste(state, &text);
            Vec::new()
        }
        Input::Resize(columns, rows) => {
            state.setup.size = (columns, rows);
            if !state.layout().side_possible() && matches!(state.focus, Focus::Recall | Focus::Receipts) {
                state.focus = Focus::Composer;
            }
            state.measure();
            Vec::new()
        }
        Input::Key(_) | Input::FocusGained | Input::FocusLost | Input::Mouse(_) => Vec::new(),
    }
}

/// A paste always reaches a text field: the filter if one is open, else the composer.
fn paste(state: &mut State, text: &str) {
    if state.screen == Screen::Receipts && state.receipts.filtering {
        state.receipts.filter.push_str(&crate::text::scrub_line(text));
        return;
    }
    state.hint = None;
    state.composer.paste(text);
    if state.screen == Screen::Chat && state.ask.is_none() {
        state.focus = Focus::Composer;
    }
}

fn tick(state: &mut State, ms: u64) {
    state.frame = state.frame.wrapping_add(1);
    match &mut state.phase {
        Phase::Preflight { ms: shown, .. } | Phase::Calling { ms: shown } => {
            *shown = shown.saturating_add(ms);
        }
        Phase::Idle => count_down(state, ms),
        Phase::Stopping => {}
    }
}

fn count_down(state: &mut State, ms: u64) {
    if state.wait_ms() == 0 {
        return;
    }
    state.transcript.change(
        |b| matches!(b, Body::ModelError { .. }),
        |b| {
            if let Body::ModelError { left_ms, .. } = b {
                *left_ms = left_ms.saturating_sub(ms);
            }
        },
    );
}
