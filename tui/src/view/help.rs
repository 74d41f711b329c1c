//! The keys, on one screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::{draw_lines, lists};
use crate::state::State;
use crate::text::pad;
use crate::text::wrap::{Indent, wrap_plain};
use crate::theme::{Theme, Tone};

/// Columns of the key's name.
const NAME_COLUMNS: usize = 21;
/// Below this width what a key does stands under its name.
const NARROW_COLUMNS: u16 = 72;

/// Key and what it does.
pub(crate) const KEYS: [(&str, &str); 20] = [
    ("Enter", "send; in a list: open"),
    ("Ctrl+J", "new line (also Shift+Enter, Alt+Enter, \\ and Enter)"),
    ("Esc", "close → leave the pane → stop the running turn"),
    ("Ctrl+C", "close → stop → keep the draft in the history → twice: quit"),
    ("Ctrl+D", "quit, when nothing is written"),
    ("↑ ↓", "at the text's edge: earlier and later texts"),
    ("Ctrl+A E K U W Y", "line start, end, cut to end, to start, word, put back"),
    ("Alt+B F D, Ctrl+_", "word back, forward, delete; undo"),
    ("Ctrl+G", "write in your editor"),
    ("PgUp PgDn", "scroll; Shift+↑↓ by line, Ctrl+Home, End"),
    ("Tab", "next pane: text, transcript, recall, receipts"),
    ("F2  /recall", "recall: strip, narrow, wide; whole screen if small"),
    ("F3  /receipts", "receipts: list, every bound field, verify"),
    ("F4  /files", "instruction files and proposed rules (c confirms)"),
    ("transcript", "↑↓ an earlier turn, Enter its recall, y copy answer"),
    ("recall", "↑↓ entry, Enter whole text, y copy"),
    ("not sent", "r again, e edit, d detail, Esc back to the text"),
    ("Ctrl+L Ctrl+Z", "draw again; suspend"),
    ("/compact /fork", "summarise to make room; go on in a copy"),
    ("/help /quit", "this page; leave"),
];

pub(super) fn draw(state: &State, area: Rect, buffer: &mut Buffer) {
    let body = lists::frame(state, ("Keys", ""), "↑↓ move · Esc back", area, buffer);
    let lines: Vec<Line<'static>> =
        KEYS.iter().flat_map(|(key, does)| entry(state.theme(), area.width, key, does)).collect();
    let first = state.help_cursor.min(lines.len().saturating_sub(usize::from(body.height)));
    draw_lines(lines.get(first..).unwrap_or_default(), body, buffer);
}

/// One key and what it does.
pub(super) fn entry(theme: Theme, columns: u16, key: &str, does: &str) -> Vec<Line<'static>> {
    let key = theme.span(Tone::Accent, pad(&format!("  {key}"), NAME_COLUMNS));
    let plain = theme.style(Tone::Plain);
    if columns >= NARROW_COLUMNS {
        let indent = Indent { first: vec![key], rest: vec![" ".repeat(NAME_COLUMNS).into()] };
        return wrap_plain(does, plain, usize::from(columns), &indent);
    }
    let mut lines = vec![Line::from(key)];
    lines.extend(wrap_plain(does, plain, usize::from(columns), &Indent::plain("    ")));
    lines
}
