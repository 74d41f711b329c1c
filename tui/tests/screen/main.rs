//! The screen through its public door: pictures, keys, laws.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod keys;
mod laws;
mod pictures;
mod scripts;
mod watch;

use agentspine_tui::{State, view};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;

/// The cells of a state at a size.
pub(crate) fn cells(state: &State, (columns, rows): (u16, u16)) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| view(state, frame)).unwrap();
    terminal.backend().buffer().clone()
}

/// The text of a state at a size, lines without trailing blanks.
pub(crate) fn picture(state: &State, size: (u16, u16)) -> String {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    terminal.draw(|frame| view(state, frame)).unwrap();
    let text = terminal.backend().to_string();
    text.lines().map(|l| l.trim_matches('"').trim_end()).collect::<Vec<_>>().join("\n")
}
