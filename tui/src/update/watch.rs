//! The watch's keys and news. News never moves what a person reads; only while following does the selection go with it.

use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use super::app::{clean_detail, clean_verdict};
use super::keys::ctrl;
use super::screens::step;
use crate::data::Verdict;
use crate::text::{scrub, scrub_line};
use crate::view::watch::{KEYS, lines_of, reading_columns, reading_rows};
use crate::watch::{CALLS_MAX, CallDetail, CallRow, Effect, Event, Injected, Mode, Watch};

/// Takes an event into the state and says what the host must do.
pub fn update(watch: &mut Watch, event: Event) -> Vec<Effect> {
    match event {
        Event::Input(input) => return input_of(watch, input),
        Event::Calls(rows) => return calls(watch, rows),
        Event::Waiting => (watch.waiting, watch.trouble) = (true, None),
        Event::Anew => anew(watch),
        Event::Trouble { message, advice } => {
            watch.trouble = Some((scrub_line(&message), scrub_line(&advice)));
        }
        Event::Detail(detail) => watch.detail = Some(clean(*detail)),
        Event::Verified(verdict) => verified(watch, clean_verdict(verdict)),
    }
    watch.keep_in_view();
    Vec::new()
}

/// The sentence stands until the next key, the verdict until the next verification.
fn verified(watch: &mut Watch, verdict: Verdict) {
    let word = if verdict.ok { "Verified" } else { "Does not verify" };
    watch.hint = Some(format!("{word}: {}", verdict.text));
    watch.verdict = Some(verdict);
}

fn anew(watch: &mut Watch) {
    watch.rows.clear();
    (watch.cursor, watch.top, watch.unseen, watch.mode) = (0, 0, 0, Mode::Following);
    (watch.detail, watch.reading, watch.verdict) = (None, None, None);
    (watch.waiting, watch.trouble) = (false, None);
}

fn clean(detail: CallDetail) -> CallDetail {
    let CallDetail { summary, injected, receipt } = detail;
    let injected = match injected {
        Injected::Nothing(why) => Injected::Nothing(scrub_line(&why)),
        Injected::Text { text, check } => Injected::Text { text: scrub(&text), check: clean_verdict(check) },
    };
    let summary = summary.iter().map(|(label, value)| (scrub_line(label), scrub_line(value))).collect();
    CallDetail { summary, injected, receipt: clean_detail(receipt) }
}

fn calls(watch: &mut Watch, rows: Vec<CallRow>) -> Vec<Effect> {
    (watch.waiting, watch.trouble) = (false, None);
    let before = watch.selected().map(|row| row.id.clone());
    let mut changed = false;
    for row in rows.into_iter().map(CallRow::scrubbed) {
        changed |= before.as_ref() == Some(&row.id);
        if let Some(known) = watch.rows.iter_mut().find(|known| known.id == row.id) {
            *known = row;
        } else {
            watch.rows.push(row);
            watch.unseen += usize::from(watch.mode == Mode::Still);
        }
    }
    forget_oldest(watch);
    if watch.mode == Mode::Following {
        watch.cursor = watch.shown().len().saturating_sub(1);
    } else if let Some(id) = &before {
        // A filter on the state may have taken rows above it away.
        let stands = watch.shown().iter().position(|row| row.id == *id);
        watch.cursor = stands.unwrap_or(watch.cursor);
    }
    watch.keep_in_view();
    if changed { reload(watch) } else { show_selected(watch) }
}

/// Above the limit the oldest go, without moving what is shown.
fn forget_oldest(watch: &mut Watch) {
    let over = watch.rows.len().saturating_sub(CALLS_MAX);
    if over > 0 {
        let shown = watch.shown().len();
        watch.rows.drain(..over);
        let gone = shown - watch.shown().len();
        (watch.cursor, watch.top) = (watch.cursor.saturating_sub(gone), watch.top.saturating_sub(gone));
    }
}

fn input_of(watch: &mut Watch, input: Input) -> Vec<Effect> {
    match input {
        Input::Key(key) if key.kind != KeyEventKind::Release => press(watch, key),
        Input::Paste(text) if watch.filtering => {
            watch.filter.push_str(&scrub_line(&text));
            refilter(watch)
        }
        Input::Resize(columns, rows) => {
            watch.size = (columns, rows);
            watch.keep_in_view();
            Vec::new()
        }
        Input::Key(_) | Input::Paste(_) | Input::FocusGained | Input::FocusLost | Input::Mouse(_) => {
            Vec::new()
        }
    }
}

fn press(watch: &mut Watch, key: KeyEvent) -> Vec<Effect> {
    watch.hint = None;
    match key.code {
        _ if ctrl(key, 'c') => return vec![Effect::Quit],
        _ if ctrl(key, 'l') => return vec![Effect::Redraw],
        _ if ctrl(key, 'z') => return vec![Effect::Suspend],
        _ if watch.filtering => return filter(watch, key),
        _ if watch.help.is_some() => help(watch, key),
        KeyCode::Char('?') => watch.help = Some(0),
        KeyCode::Char('v') => {
            watch.hint = Some("Verifying every signature, the chain and the anchor …".to_owned());
            return vec![Effect::Verify];
        }
        KeyCode::Char('y') => return copy(watch),
        KeyCode::Char('J') => watch.json = !watch.json,
        _ if watch.reading.is_some() => read(watch, key),
        _ => return list(watch, key),
    }
    Vec::new()
}

fn list(watch: &mut Watch, key: KeyEvent) -> Vec<Effect> {
    match key.code {
        KeyCode::Char('q') => return vec![Effect::Quit],
        KeyCode::Char('/') => watch.filtering = true,
        KeyCode::Char('f') => return follow(watch),
        KeyCode::Enter if watch.selected().is_some() => {
            // What a person reads stays.
            (watch.reading, watch.mode) = (Some(0), Mode::Still);
        }
        KeyCode::Esc if !watch.filter.is_empty() => {
            watch.filter.clear();
            return refilter(watch);
        }
        _ => return go(watch, key),
    }
    Vec::new()
}

fn follow(watch: &mut Watch) -> Vec<Effect> {
    if watch.mode == Mode::Following {
        watch.mode = Mode::Still;
        return Vec::new();
    }
    (watch.mode, watch.unseen) = (Mode::Following, 0);
    watch.cursor = watch.shown().len().saturating_sub(1);
    watch.keep_in_view();
    show_selected(watch)
}

/// Moving up ends following; going to the newest by `G` takes it up again.
fn go(watch: &mut Watch, key: KeyEvent) -> Vec<Effect> {
    let (count, page) = (watch.shown().len(), usize::from(watch.areas().list.height).max(2) - 1);
    let mut cursor = watch.cursor;
    if !step(&mut cursor, count, page, key) {
        return Vec::new();
    }
    if matches!(key.code, KeyCode::End | KeyCode::Char('G')) {
        (watch.mode, watch.unseen) = (Mode::Following, 0);
    } else if cursor < watch.cursor {
        watch.mode = Mode::Still;
    }
    watch.cursor = cursor;
    watch.keep_in_view();
    show_selected(watch)
}

fn read(watch: &mut Watch, key: KeyEvent) {
    if matches!(key.code, KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q')) {
        watch.reading = None;
        return;
    }
    let (Some(mut first), Some(detail)) = (watch.reading, &watch.detail) else { return };
    let rows = reading_rows(watch);
    let most = lines_of(watch, detail, reading_columns(watch)).len().saturating_sub(rows);
    step(&mut first, most + 1, rows.max(2) - 1, key);
    watch.reading = Some(first);
}

fn help(watch: &mut Watch, key: KeyEvent) {
    let Some(mut first) = watch.help else { return };
    // On a narrow screen each key takes up to three lines.
    if step(&mut first, KEYS.len() * 3, 1, key) {
        watch.help = Some(first);
    } else if matches!(key.code, KeyCode::Esc | KeyCode::Enter | KeyCode::Char('q' | '?')) {
        watch.help = None;
    }
}

fn filter(watch: &mut Watch, key: KeyEvent) -> Vec<Effect> {
    match key.code {
        KeyCode::Enter => watch.filtering = false,
        KeyCode::Esc => {
            watch.filtering = false;
            watch.filter.clear();
        }
        KeyCode::Backspace => drop(watch.filter.pop()),
        KeyCode::Char(c) if !key.modifiers.contains(KeyModifiers::CONTROL) => watch.filter.push(c),
        _ => {}
    }
    refilter(watch)
}

/// Another filter: the newest of what is left is selected.
fn refilter(watch: &mut Watch) -> Vec<Effect> {
    watch.cursor = watch.shown().len().saturating_sub(1);
    watch.keep_in_view();
    show_selected(watch)
}

/// The id, or the JSON where it is shown.
fn copy(watch: &mut Watch) -> Vec<Effect> {
    let (text, what) = match (&watch.detail, watch.selected()) {
        (Some(detail), _) if watch.json => (detail.receipt.json.clone(), "receipt as JSON"),
        (_, Some(row)) => (row.id.clone(), "receipt id"),
        (_, None) => return Vec::new(),
    };
    watch.hint = Some(format!("Copied: {what}"));
    vec![Effect::Copy(text)]
}

/// The detail goes with the selection.
fn show_selected(watch: &mut Watch) -> Vec<Effect> {
    let open = watch.detail.as_ref().map(|detail| &detail.receipt.id);
    match watch.selected().map(|row| &row.id) {
        Some(id) if open == Some(id) => Vec::new(),
        Some(id) => vec![Effect::Show(id.clone())],
        None => {
            watch.detail = None;
            Vec::new()
        }
    }
}

fn reload(watch: &Watch) -> Vec<Effect> {
    watch.selected().map(|row| Effect::Show(row.id.clone())).into_iter().collect()
}
