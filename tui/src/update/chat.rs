//! Keys of the chat itself: composer, transcript, receipts in the side pane, a blocked or failed turn.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui_textarea::CursorMove;

use super::keys;
use crate::event::Effect;
use crate::state::{Ask, Focus, Pane, Phase, Screen, State};
use crate::transcript::Body;

/// Commands and what they open.
pub(crate) const COMMANDS: [&str; 7] =
    ["/help", "/recall", "/receipts", "/files", "/compact", "/fork", "/quit"];

pub(super) fn composer(state: &mut State, key: KeyEvent) -> Vec<Effect> {
    let alt = key.modifiers.contains(KeyModifiers::ALT);
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Enter => return enter(state, key),
        KeyCode::Esc => return escape(state),
        KeyCode::Tab => return tab(state),
        KeyCode::BackTab => cycle(state, true),
        KeyCode::Up => state.composer.up(),
        KeyCode::Down => state.composer.down(),
        KeyCode::Char('?') if state.composer.is_empty() => state.screen = Screen::Help,
        KeyCode::Char('d') if control && state.composer.is_empty() => return vec![Effect::Quit],
        KeyCode::Char('g') if control => return vec![Effect::OpenEditor(state.composer.text())],
        KeyCode::Char('p') if control => state.composer.up(),
        KeyCode::Char('n') if control => state.composer.down(),
        KeyCode::Backspace if !alt && !control => state.composer.backspace(),
        KeyCode::Char('h') if control => state.composer.backspace(),
        KeyCode::Char(c) if control && !alt => control_key(state, c),
        KeyCode::Char(c) if alt && !control => alt_key(state, c),
        KeyCode::Char(c) => state.composer.edit(|a| a.insert_char(c)),
        code => edit_key(state, code, control || alt),
    }
    Vec::new()
}

/// Readline's control keys.
fn control_key(state: &mut State, c: char) {
    state.composer.edit(|a| match c {
        'a' => a.move_cursor(CursorMove::Head),
        'e' => a.move_cursor(CursorMove::End),
        'b' => a.move_cursor(CursorMove::Back),
        'f' => a.move_cursor(CursorMove::Forward),
        'j' => a.insert_newline(),
        'd' => drop(a.delete_next_char()),
        'k' => drop(a.delete_line_by_end()),
        'u' => drop(a.delete_line_by_head()),
        'w' => drop(a.delete_word()),
        'y' => drop(a.paste()),
        // Terminals send Ctrl+_ as Ctrl+7.
        '_' | '7' => drop(a.undo()),
        _ => {}
    });
}

fn alt_key(state: &mut State, c: char) {
    state.composer.edit(|a| match c {
        'b' => a.move_cursor(CursorMove::WordBack),
        'f' => a.move_cursor(CursorMove::WordForward),
        'd' => drop(a.delete_next_word()),
        _ => {}
    });
}

fn edit_key(state: &mut State, code: KeyCode, word: bool) {
    state.composer.edit(|a| match code {
        KeyCode::Left if word => a.move_cursor(CursorMove::WordBack),
        KeyCode::Right if word => a.move_cursor(CursorMove::WordForward),
        KeyCode::Left => a.move_cursor(CursorMove::Back),
        KeyCode::Right => a.move_cursor(CursorMove::Forward),
        KeyCode::Home => a.move_cursor(CursorMove::Head),
        KeyCode::End => a.move_cursor(CursorMove::End),
        KeyCode::Delete if word => drop(a.delete_next_word()),
        KeyCode::Delete => drop(a.delete_next_char()),
        KeyCode::Backspace => drop(a.delete_word()),
        _ => {}
    });
}

fn enter(state: &mut State, key: KeyEvent) -> Vec<Effect> {
    if key.modifiers.intersects(KeyModifiers::SHIFT | KeyModifiers::ALT) {
        state.composer.edit(ratatui_textarea::TextArea::insert_newline);
        return Vec::new();
    }
    if state.composer.before_caret().ends_with('\\') {
        state.composer.edit(|a| {
            a.delete_char();
            a.insert_newline();
        });
        return Vec::new();
    }
    submit(state)
}

fn submit(state: &mut State) -> Vec<Effect> {
    let shown = state.composer.shown();
    if shown.trim().is_empty() {
        return Vec::new();
    }
    if let Some(effects) = command(state, &shown) {
        return effects;
    }
    if state.is_running() {
        state.hint = Some("A turn is running: Esc stops it. Your text stays here".to_owned());
        return Vec::new();
    }
    if let Some(name) = state.server.clone() {
        state.ask = Some(Ask::Server(name));
        state.ask_cursor = 0;
        return Vec::new();
    }
    send(state)
}

/// Sends what the composer holds.
pub(super) fn send(state: &mut State) -> Vec<Effect> {
    let prompt = state.composer.take();
    state.in_flight = Some(prompt.clone());
    state.phase = Phase::Preflight { done: 0, total: 4, ms: 0 };
    state.selected = None;
    state.focus = Focus::Composer;
    state.transcript.follow();
    vec![Effect::Send { prompt }]
}

fn command(state: &mut State, shown: &str) -> Option<Vec<Effect>> {
    let word = shown.trim_end();
    let named =
        word.len() > 1 && word.starts_with('/') && word.chars().skip(1).all(|c| c.is_ascii_lowercase());
    if !named {
        return None;
    }
    if !COMMANDS.contains(&word) {
        state.hint = Some(format!("No command {word}. A space in front sends it as text"));
        return Some(Vec::new());
    }
    if state.is_running() && matches!(word, "/compact" | "/fork") {
        state.hint = Some(format!("A turn is running: Esc stops it, then {word}"));
        return Some(Vec::new());
    }
    state.composer.edit(|a| {
        a.clear();
    });
    Some(match word {
        "/compact" => {
            state.phase = Phase::Preflight { done: 0, total: 4, ms: 0 };
            state.transcript.follow();
            vec![Effect::Compact]
        }
        "/fork" => vec![Effect::Fork],
        "/help" => {
            state.screen = Screen::Help;
            Vec::new()
        }
        "/recall" => {
            state.screen = Screen::Recall;
            Vec::new()
        }
        "/receipts" => keys::open_receipts(state),
        "/files" => {
            state.screen = Screen::Files;
            Vec::new()
        }
        _ => vec![Effect::Quit],
    })
}

/// Esc: leave the pane → stop the running turn. The draft stays.
fn escape(state: &mut State) -> Vec<Effect> {
    if state.selected.take().is_some() {
        return Vec::new();
    }
    if state.is_running() {
        return cancel(state);
    }
    Vec::new()
}

pub(super) fn cancel(state: &mut State) -> Vec<Effect> {
    if state.phase == Phase::Stopping {
        return Vec::new();
    }
    state.phase = Phase::Stopping;
    vec![Effect::Cancel]
}

/// Completes a command, else moves on to the next pane.
fn tab(state: &mut State) -> Vec<Effect> {
    let shown = state.composer.shown();
    if shown.starts_with('/') {
        if let Some(full) = COMMANDS.iter().find(|c| c.starts_with(shown.as_str())) {
            let rest = full.get(shown.len()..).unwrap_or_default();
            state.composer.edit(|a| {
                a.insert_str(rest);
            });
        }
        return Vec::new();
    }
    cycle(state, false);
    Vec::new()
}

/// Composer → transcript → recall → receipts → a card that waits.
pub(super) fn cycle(state: &mut State, back: bool) {
    let mut ring = vec![Focus::Composer, Focus::Transcript];
    if state.pane != Pane::Strip && state.layout().side_possible() {
        ring.extend([Focus::Recall, Focus::Receipts]);
    }
    if state.card().is_some() {
        ring.push(Focus::Card);
    }
    let place = ring.iter().position(|f| *f == state.focus).unwrap_or(0);
    let step = if back { ring.len() - 1 } else { 1 };
    state.focus = ring.get((place + step) % ring.len()).copied().unwrap_or(Focus::Composer);
}

/// Tab, Shift+Tab and Esc in a pane; a letter that means nothing here says how to get back.
pub(super) fn leave(state: &mut State, key: KeyEvent) {
    match key.code {
        KeyCode::Tab => cycle(state, false),
        KeyCode::BackTab => cycle(state, true),
        KeyCode::Esc => state.focus = Focus::Composer,
        KeyCode::Char(_) => state.hint = Some("Esc returns to your text".to_owned()),
        _ => {}
    }
}

/// Choosing a turn: the panes show its recall and its receipt.
pub(super) fn transcript(state: &mut State, key: KeyEvent) -> Vec<Effect> {
    match key.code {
        KeyCode::Esc => {
            state.selected = None;
            state.focus = Focus::Composer;
        }
        KeyCode::Up | KeyCode::Char('k') => select(state, true),
        KeyCode::Down | KeyCode::Char('j') => select(state, false),
        KeyCode::Enter => state.screen = Screen::Recall,
        KeyCode::Char('y') => return copy_answer(state),
        _ => leave(state, key),
    }
    Vec::new()
}

fn select(state: &mut State, up: bool) {
    let last = state.turns.len().saturating_sub(1);
    let now = state.selected.unwrap_or(state.turns.len());
    let next = if up { now.saturating_sub(1) } else { (now + 1).min(last) };
    let Some(turn) = state.turns.get(next).map(|t| t.number) else { return };
    state.selected = Some(next);
    state.recall_cursor = 0;
    let window = state.window();
    if let Some(n) = state.transcript.entries().iter().position(|e| e.turn == turn) {
        state.transcript.show(n, window);
    }
}

/// The answer's source, as the model wrote it.
fn copy_answer(state: &mut State) -> Vec<Effect> {
    let Some(turn) = state.shown_turn().map(|t| t.number) else { return Vec::new() };
    let parts = state.transcript.entries().iter().filter(|e| e.turn == turn);
    let answers = parts.filter(|e| matches!(e.body, Body::Answer { .. })).filter_map(|e| e.source());
    let text = answers.collect::<Vec<_>>().join("\n\n");
    copy(state, text, "answer")
}

pub(super) fn copy(state: &mut State, text: String, what: &str) -> Vec<Effect> {
    if text.is_empty() {
        return Vec::new();
    }
    state.hint = Some(format!("Copied the {what}"));
    vec![Effect::Copy(text)]
}

/// The receipts of the shown turn in the side pane.
pub(super) fn receipts(state: &mut State, key: KeyEvent) -> Vec<Effect> {
    match key.code {
        KeyCode::Enter => {
            state.receipts.cursor = 0;
            return keys::open_receipts(state);
        }
        KeyCode::Char('y') => {
            let id = state.shown_turn().and_then(|t| t.receipts.last()).map(|r| r.id.clone());
            return copy(state, id.unwrap_or_default(), "receipt id");
        }
        _ => leave(state, key),
    }
    Vec::new()
}

/// A blocked turn or a failed call: r again, e edit, d detail, Esc.
pub(super) fn card(state: &mut State, key: KeyEvent) -> Vec<Effect> {
    match key.code {
        KeyCode::Char('r') => return again(state),
        KeyCode::Char('e') => state.focus = Focus::Composer,
        KeyCode::Char('d') => return detail(state),
        _ => leave(state, key),
    }
    Vec::new()
}

/// Shows the screen of what failed.
fn detail(state: &mut State) -> Vec<Effect> {
    let code = match state.card().map(|e| &e.body) {
        Some(Body::Blocked { blocked }) => blocked.code.clone(),
        _ => return Vec::new(),
    };
    match code.as_str() {
        "provider-failed" => state.screen = Screen::Recall,
        "instructions-failed" | "budget-failed" => state.screen = Screen::Files,
        "receipt-failed" => return keys::open_receipts(state),
        _ => state.hint = Some("There is no more to it than stands here".to_owned()),
    }
    Vec::new()
}

fn again(state: &mut State) -> Vec<Effect> {
    if state.is_running() {
        return Vec::new();
    }
    let retry = match state.card().map(|e| (e.turn, &e.body)) {
        Some((turn, Body::ModelError { error, .. })) => error.retryable.then_some(turn),
        Some((_, Body::Blocked { .. })) => {
            state.focus = Focus::Composer;
            return submit(state);
        }
        _ => None,
    };
    let Some(turn) = retry else { return Vec::new() };
    state.focus = Focus::Composer;
    state.transcript.follow();
    state.phase = Phase::Preflight { done: 0, total: 4, ms: 0 };
    vec![Effect::Retry { turn }]
}
