//! The terminal: taken once, given back always — on exit, error, panic and signals.
//!
//! [`Terminal`] is the full screen, [`Signals`] what ends it from outside; [`copy`] and [`suspend`] are its other services.

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
use rustix::process::{Signal, kill_process};

use crate::report::Failure;

/// Whether the terminal is ours right now; the one restore function needs no more to know.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The full screen. Dropping it gives the terminal back.
///
/// The library's own drop is never run: it would complain on stderr about a terminal that is gone, where nothing can be
/// written any more either, and end the process in a panic before a running turn could close its books.
pub(crate) struct Terminal(ManuallyDrop<Ratatui<CrosstermBackend<Stdout>>>);

impl Terminal {
    /// Takes the terminal: raw mode, alternate screen, bracketed paste, the keyboard protocol where there is one.
    pub(crate) fn take() -> io::Result<Self> {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            restore();
            before(info);
        }));
        enter()?;
        Ratatui::new(CrosstermBackend::new(stdout())).map(ManuallyDrop::new).map(Self)
    }

    /// Draws one frame inside a synchronized update.
    pub(crate) fn draw(&mut self, render: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        queue!(stdout(), BeginSynchronizedUpdate)?;
        self.0.draw(render)?;
        execute!(stdout(), EndSynchronizedUpdate)
    }

    /// Forgets what was drawn, so that the next frame draws everything.
    ///
    /// Not by clearing through the library: that asks the terminal where the cursor is, and the reader of keys takes the
    /// answer.
    pub(crate) fn forget(&mut self) -> io::Result<()> {
        let size = self.0.size()?;
        self.0.resize(size.into())
    }

    /// Gives the terminal back for a while, for an editor or a suspended process.
    pub(crate) fn leave() {
        restore();
    }

    /// Takes it again.
    pub(crate) fn retake(&mut self) -> io::Result<()> {
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
pub(crate) fn restore() {
    if !TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    // Each step is tried whatever became of the one before: half a restored terminal is better than none.
    let _ = execute!(stdout(), PopKeyboardEnhancementFlags, DisableBracketedPaste, EndSynchronizedUpdate);
    let _ = execute!(stdout(), LeaveAlternateScreen, cursor::Show);
    let _ = disable_raw_mode();
    let _ = stdout().flush();
}

/// Puts text on the clipboard through the terminal (OSC 52), which also works over SSH.
pub(crate) fn copy(text: &str) {
    let command = crossterm::clipboard::CopyToClipboard::to_clipboard_from(text);
    // A terminal without the sequence ignores it.
    let _ = crossterm::execute!(stdout(), command);
}

/// Stops this process as Ctrl+Z does; returns when the shell continues it.
pub(crate) fn suspend() {
    let _ = kill_process(rustix::process::getpid(), Signal::TSTP);
}

/// SIGTERM, SIGHUP and SIGINT from outside end a full screen with the terminal restored.
pub(crate) struct Signals([tokio::signal::unix::Signal; 3]);

impl Signals {
    /// Listens from now on.
    pub(crate) fn new() -> Result<Self, Failure> {
        use tokio::signal::unix::{SignalKind, signal};
        let take = |kind| signal(kind).map_err(|error| no_terminal(&error));
        Ok(Self([
            take(SignalKind::terminate())?,
            take(SignalKind::hangup())?,
            take(SignalKind::interrupt())?,
        ]))
    }

    /// [`Self::recv`], but for an interrupt: while an editor is open, that is the editor's.
    pub(crate) async fn ended(&mut self) {
        let [term, hup, _] = &mut self.0;
        tokio::select! {
            _ = term.recv() => {}
            _ = hup.recv() => {}
        }
    }

    /// Told to leave.
    pub(crate) async fn recv(&mut self) {
        let [term, hup, int] = &mut self.0;
        tokio::select! {
            _ = term.recv() => {}
            _ = hup.recv() => {}
            _ = int.recv() => {}
        }
    }
}

/// The terminal refused.
pub(crate) fn no_terminal(error: &std::io::Error) -> Failure {
    Failure::other(
        format!("The terminal cannot be used: {error}"),
        "Try without a screen: agentspine chat --plain, agentspine receipts --follow",
    )
}
