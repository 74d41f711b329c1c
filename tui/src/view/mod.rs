//! `view`: the state as cells. Nothing here changes anything but caches of lines.

mod ask;
mod bar;
mod chrome;
pub(crate) mod entry;
pub(crate) mod help;
pub(crate) mod layout;
mod lists;
mod panes;
pub(crate) mod receipts;
pub(crate) mod watch;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Widget;

use crate::state::{Screen, State};
use crate::theme::to_ascii;
use layout::Layout;

/// Draws the whole screen and places the terminal's own cursor at the caret.
pub fn view(state: &State, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.is_empty() {
        return;
    }
    if state.ask.is_some() {
        ask::draw(state, frame);
    } else {
        match state.screen {
            Screen::Chat => chat(state, frame),
            Screen::Help => help::draw(state, area, frame.buffer_mut()),
            Screen::Recall => lists::recall(state, area, frame.buffer_mut()),
            Screen::Receipts => receipts::draw(state, area, frame.buffer_mut()),
            Screen::Files => lists::files(state, area, frame.buffer_mut()),
        }
    }
    if state.theme().ascii {
        to_ascii(frame.buffer_mut());
    }
}

fn chat(state: &State, frame: &mut Frame<'_>) {
    let area = frame.area();
    let layout = Layout::of(state, (area.width, area.height));
    let buffer = frame.buffer_mut();
    chrome::draw(state, &layout, buffer);
    panes::draw(state, &layout, buffer);
    if let Some(caret) = chrome::composer(state, &layout, buffer) {
        frame.set_cursor_position(caret);
    }
}

/// Draws lines one below the other, as many as fit.
fn draw_lines(lines: &[Line<'_>], area: Rect, buffer: &mut Buffer) {
    for (line, row) in lines.iter().zip(area.rows()) {
        line.render(row, buffer);
    }
}

/// The part of a list that shows the line `cursor`, near the middle where the list is longer than the area.
fn window_of<'a>(lines: &'a [Line<'static>], cursor: usize, rows: usize) -> &'a [Line<'static>] {
    let most = lines.len().saturating_sub(rows);
    let first = cursor.saturating_sub(rows / 2).min(most);
    lines.get(first..).unwrap_or_default()
}
