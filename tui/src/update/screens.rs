//! Keys of what covers the chat: questions, help, recall, receipts, files.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::chat;
use crate::data::InstructionHost;
use crate::event::Effect;
use crate::state::{Ask, Focus, Screen, State};
use crate::view::help::KEYS;
use crate::view::receipts::detail_lines;

pub(super) fn ask(state: &mut State, key: KeyEvent) -> Vec<Effect> {
    let Some(question) = state.ask.clone() else { return Vec::new() };
    let count = match &question {
        Ask::Host | Ask::Server(_) => 2,
        Ask::Model(choices) | Ask::Session(choices) => choices.len(),
    };
    match key.code {
        KeyCode::Up | KeyCode::Char('k') | KeyCode::BackTab => {
            state.ask_cursor = state.ask_cursor.saturating_sub(1);
        }
        KeyCode::Down | KeyCode::Char('j') | KeyCode::Tab => {
            state.ask_cursor = (state.ask_cursor + 1).min(count.saturating_sub(1));
        }
        KeyCode::Char(c) if c.to_digit(10).is_some_and(|n| n >= 1) => {
            let n = c.to_digit(10).and_then(|n| usize::try_from(n).ok()).unwrap_or(1) - 1;
            if n < count {
                state.ask_cursor = n;
            }
        }
        KeyCode::Enter => return answer(state, &question),
        KeyCode::Esc => {
            if let Ask::Server(_) = question {
                state.ask_cursor = 1;
                return answer(state, &question);
            }
            state.hint = Some("Nothing can be sent before this is answered. Ctrl+C twice leaves".to_owned());
        }
        _ => {}
    }
    Vec::new()
}

fn answer(state: &mut State, question: &Ask) -> Vec<Effect> {
    state.ask = None;
    let first = state.ask_cursor == 0;
    match question {
        Ask::Host if first => vec![Effect::ChooseInstructionHost(InstructionHost::Claude)],
        Ask::Host => vec![Effect::ChooseInstructionHost(InstructionHost::Codex)],
        Ask::Model(_) => vec![Effect::ChooseModel(state.ask_cursor)],
        Ask::Session(_) => vec![Effect::ChooseSession(state.ask_cursor)],
        Ask::Server(_) => {
            state.server = None;
            let mut effects = vec![Effect::AcceptServer(first)];
            if first {
                effects.extend(chat::send(state));
            }
            effects
        }
    }
}

pub(super) fn help(state: &mut State, key: KeyEvent) -> Vec<Effect> {
    // On a narrow screen each key takes up to three lines.
    let mut cursor = state.help_cursor;
    if list(&mut cursor, KEYS.len() * 3, key) {
        state.help_cursor = cursor;
    } else if matches!(key.code, KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q' | '?')) {
        state.screen = Screen::Chat;
        state.help_cursor = 0;
    }
    Vec::new()
}

/// Moves a cursor in a list. True where the key was one of a list's.
fn list(cursor: &mut usize, count: usize, key: KeyEvent) -> bool {
    step(cursor, count, PAGE_ROWS, key)
}

/// Rows a page key moves in a list.
const PAGE_ROWS: usize = 10;

/// [`list`] with pages of this many rows.
pub(super) fn step(cursor: &mut usize, count: usize, page: usize, key: KeyEvent) -> bool {
    let last = count.saturating_sub(1);
    *cursor = match key.code {
        KeyCode::Up | KeyCode::Char('k') => cursor.saturating_sub(1),
        KeyCode::Down | KeyCode::Char('j') => (*cursor + 1).min(last),
        KeyCode::PageUp => cursor.saturating_sub(page),
        KeyCode::PageDown => (*cursor + page).min(last),
        KeyCode::Home | KeyCode::Char('g') => 0,
        KeyCode::End | KeyCode::Char('G') => last,
        _ => return false,
    };
    true
}

/// The recall of the shown turn, in the side pane or on the whole screen.
pub(super) fn recall(state: &mut State, key: KeyEvent) -> Vec<Effect> {
    let items =
        state.shown_turn().and_then(|t| t.recall.as_ref()).map(|r| r.items.as_slice()).unwrap_or_default();
    let count = items.len();
    let text = items.get(state.recall_cursor).map(|i| i.text.clone()).unwrap_or_default();
    let mut cursor = state.recall_cursor;
    if list(&mut cursor, count, key) {
        state.recall_cursor = cursor;
        return Vec::new();
    }
    match key.code {
        KeyCode::Enter => state.recall_open = !state.recall_open,
        KeyCode::Char('y') => return chat::copy(state, text, "recalled text"),
        _ if state.screen == Screen::Chat => chat::leave(state, key),
        KeyCode::Esc | KeyCode::Char('q') => state.screen = Screen::Chat,
        _ => {}
    }
    Vec::new()
}

/// Instruction files, then the Must-Remember candidates that wait.
pub(super) fn files(state: &mut State, key: KeyEvent) -> Vec<Effect> {
    let rows = state.instructions.as_ref().map_or(0, |i| i.rows.len());
    let mut cursor = state.files_cursor;
    if list(&mut cursor, rows + state.candidates.len(), key) {
        state.files_cursor = cursor;
        return Vec::new();
    }
    match key.code {
        KeyCode::Char('c') => {
            let chosen = state.files_cursor.checked_sub(rows).and_then(|n| state.candidates.get(n));
            match chosen {
                Some(candidate) => return vec![Effect::ConfirmRemember(candidate.id.clone())],
                None => {
                    state.hint = Some("c confirms a proposed rule: choose one below the files".to_owned());
                }
            }
        }
        KeyCode::Char('y') => {
            let rows = state.instructions.as_ref().map(|i| i.rows.as_slice()).unwrap_or_default();
            let id = rows
                .get(state.files_cursor)
                .map(|r| if r.path.is_empty() { r.id.clone() } else { r.path.clone() });
            return chat::copy(state, id.unwrap_or_default(), "path");
        }
        KeyCode::Esc | KeyCode::Char('q') => state.screen = Screen::Chat,
        _ => {}
    }
    Vec::new()
}

pub(super) fn receipts(state: &mut State, key: KeyEvent) -> Vec<Effect> {
    if state.receipts.filtering {
        filter(state, key);
        return Vec::new();
    }
    let id = state.receipts.selected().map(|r| r.id.clone());
    match (key.code, id) {
        (KeyCode::Esc | KeyCode::Char('q'), _) => close_receipts(state),
        (KeyCode::Char('v'), Some(id)) => return vec![Effect::VerifyReceipt(id)],
        (KeyCode::Char('y'), Some(id)) => return copy_receipt(state, id),
        (KeyCode::Char('J'), _) => state.receipts.json = !state.receipts.json,
        _ if state.receipts.reading.is_some() => read(state, key),
        (KeyCode::Char('/'), _) => state.receipts.filtering = true,
        (KeyCode::Enter, Some(_)) => state.receipts.reading = Some(0),
        _ => {
            let count = state.receipts.shown().len();
            let mut cursor = state.receipts.cursor;
            list(&mut cursor, count, key);
            state.receipts.cursor = cursor;
            return follow_cursor(state);
        }
    }
    Vec::new()
}

/// The id, or the JSON where it is shown.
fn copy_receipt(state: &mut State, id: String) -> Vec<Effect> {
    match &state.receipts.detail {
        Some(d) if state.receipts.json && d.id == id => {
            let json = d.json.clone();
            chat::copy(state, json, "receipt as JSON")
        }
        _ => chat::copy(state, id, "receipt id"),
    }
}

/// Scrolls the open receipt, no further than its end.
fn read(state: &mut State, key: KeyEvent) {
    let (columns, rows) = state.setup.size;
    let Some(detail) = &state.receipts.detail else { return };
    let lines = detail_lines(state, detail, usize::from(columns)).len();
    let most = lines.saturating_sub(usize::from(rows.saturating_sub(4)));
    let mut first = state.receipts.reading.unwrap_or(0);
    list(&mut first, most + 1, key);
    state.receipts.reading = Some(first);
}

/// An open detail follows the cursor.
fn follow_cursor(state: &mut State) -> Vec<Effect> {
    let open = state.receipts.detail.as_ref().map(|d| &d.id);
    match state.receipts.selected().map(|r| &r.id) {
        Some(id) if open != Some(id) => vec![Effect::ShowReceipt(id.clone())],
        _ => Vec::new(),
    }
}

/// Esc: the open receipt goes, then the JSON, then the filter, then the screen.
fn close_receipts(state: &mut State) {
    if state.receipts.reading.take().is_some() {
        return;
    }
    if !state.receipts.filter.is_empty() {
        state.receipts.filter.clear();
        state.receipts.cursor = 0;
    } else if state.receipts.json {
        state.receipts.json = false;
    } else {
        state.screen = Screen::Chat;
        state.focus = Focus::Composer;
    }
}

fn filter(state: &mut State, key: KeyEvent) {
    let receipts = &mut state.receipts;
    match key.code {
        KeyCode::Enter => receipts.filtering = false,
        KeyCode::Esc => {
            receipts.filtering = false;
            receipts.filter.clear();
        }
        KeyCode::Backspace => {
            receipts.filter.pop();
        }
        KeyCode::Char(c) if !key.modifiers.contains(KeyModifiers::CONTROL) => receipts.filter.push(c),
        _ => {}
    }
    receipts.cursor = 0;
}
