//! The terminal: taken once, given back always — on exit, error, panic and signals.

use std::io::{self, Stdout, Write as _, stdout};
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::event::{
    DisableBracketedPaste, EnableBracketedPaste, KeyboardEnhancementFlags, PopKeyboardEnhancementFlags,
    PushKeyboardEnhancementFlags,
};
use crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use crossterm::{cursor, execute, queue};
use ratatui::backend::CrosstermBackend;
use ratatui::{Frame, Terminal as Ratatui};

/// Whether the terminal is ours right now; the one restore function needs no more to know.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The full screen. Dropping it gives the terminal back.
///
/// The library's own drop is never run: it would complain on stderr about a terminal that is gone, where nothing can be
/// written any more either, and end the process in a panic before a running turn could close its books.
pub(super) struct Terminal(ManuallyDrop<Ratatui<CrosstermBackend<Stdout>>>);

impl Terminal {
    /// Takes the terminal: raw mode, alternate screen, bracketed paste, the keyboard protocol where there is one.
    pub(super) fn take() -> io::Result<Self> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore();
            before(info);
        }));
        enter()?;
        Ratatui::new(CrosstermBackend::new(stdout())).map(ManuallyDrop::new).map(Self)
    }

    /// Draws one frame inside a synchronized update.
    pub(super) fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        queue!(stdout(), BeginSynchronizedUpdate)?;
        self.0.draw(render)?;
        execute!(stdout(), EndSynchronizedUpdate)
    }

    /// Forgets what was drawn, so that the next frame draws everything.
    ///
    /// Not by clearing through the library: that asks the terminal where the cursor is, and the reader of keys takes the
    /// answer.
    pub(super) fn forget(&mut self) -> io::Result<()> {
        let size = self.0.size()?;
        self.0.resize(size.into())
    }

    /// Gives the terminal back for a while, for an editor or a suspended process.
    pub(super) fn leave() {
        restore();
    }

    /// Takes it again.
    pub(super) fn retake(&mut self) -> io::Result<()> {
        enter()?;
        self.forget()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore();
    }
}

fn enter() -> io::Result<()> {
    TAKEN.store(true, Ordering::SeqCst);
    enable_raw_mode()?;
    let keys = KeyboardEnhancementFlags::DISAMBIGUATE_ESCAPE_CODES;
    execute!(stdout(), EnterAlternateScreen, EnableBracketedPaste, PushKeyboardEnhancementFlags(keys))
}

/// Gives the terminal back; a second call does nothing.
pub(super) fn restore() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    // Each step is tried whatever became of the one before: half a restored terminal is better than none.
    let _ = execute!(stdout(), PopKeyboardEnhancementFlags, DisableBracketedPaste, EndSynchronizedUpdate);
    let _ = execute!(stdout(), LeaveAlternateScreen, cursor::Show);
    let _ = disable_raw_mode();
    let _ = stdout().flush();
}
