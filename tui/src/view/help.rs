//! The keys, on one screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::{draw_lines, lists};
use crate::state::State;
use crate::text::pad;
use crate::theme::Tone;

const KEYS: [(&str, &str); 19] = [
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
    ("/help /quit", "this page; leave"),
];

pub(super) fn draw(state: &State, area: Rect, buffer: &mut Buffer) {
    let theme = state.theme();
    let body = lists::frame(state, ("Keys", ""), "Esc back", area, buffer);
    let line = |(key, does): &(&str, &str)| {
        Line::from(vec![
            theme.span(Tone::Accent, pad(&format!("  {key}"), 21)),
            Span::raw((*does).to_owned()),
        ])
    };
    let lines: Vec<Line<'static>> = KEYS.iter().map(line).collect();
    draw_lines(&lines, body, buffer);
}
