//! A real terminal: a program in a PTY, its bytes parsed as a terminal parses them.
//!
//! Nobody sleeps here. A reader thread feeds the parser; a test waits until the screen shows what it expects, and fails
//! with the screen it saw. Frames are judged whole: while a synchronized update is open, the screen before it counts.

use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use portable_pty::{Child, CommandBuilder, ExitStatus, MasterPty, PtySize, native_pty_system};
use rustix::process::{Pid, Signal, kill_process};

/// Nothing on a screen takes this long; a test that waits so long has failed.
const DEADLINE: Duration = Duration::from_secs(30);
/// A synchronized update begins and ends (DEC private mode 2026).
const SYNC_BEGIN: &[u8] = b"\x1b[?2026h";
const SYNC_END: &[u8] = b"\x1b[?2026l";
/// The question for the cursor's place, which a terminal answers.
const CURSOR_QUERY: &[u8] = b"\x1b[6n";

/// What the terminal got so far.
struct Seen {
    parser: vt100::Parser,
    /// The screen after the last whole frame.
    frame: vt100::Screen,
    raw: Vec<u8>,
    ended: bool,
}

type Shared = Arc<(Mutex<Seen>, Condvar)>;

/// A program in a terminal. Dropping it kills the program.
pub struct Terminal {
    shared: Shared,
    master: Box<dyn MasterPty + Send>,
    writer: Arc<Mutex<Box<dyn std::io::Write + Send>>>,
    pid: Pid,
    exit: mpsc::Receiver<ExitStatus>,
    reader: Option<JoinHandle<()>>,
}

/// What is started, where and how large.
pub struct Start<'a> {
    pub program: &'a str,
    pub args: &'a [&'a str],
    pub cwd: &'a Path,
    /// The whole environment.
    pub env: Vec<(&'a str, String)>,
    /// Columns and rows.
    pub size: (u16, u16),
}

/// How a program left its terminal.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // Each is a mode of the terminal.
pub struct Left {
    pub code: u32,
    pub signal: Option<String>,
    /// Every byte from first to last.
    pub raw: Vec<u8>,
    /// The screen a person sees then.
    pub text: String,
    /// What a shell would still find changed.
    pub unrestored: Vec<&'static str>,
}

impl Left {
    /// The terminal is as a shell needs it.
    pub fn is_restored(&self) -> bool {
        self.unrestored.is_empty()
    }
}

impl Terminal {
    pub fn start(start: Start<'_>) -> Self {
        let (columns, rows) = start.size;
        let pair = native_pty_system().openpty(pty_size(columns, rows)).unwrap();
        let mut command = CommandBuilder::new(start.program);
        command.args(start.args);
        command.env_clear();
        command.cwd(start.cwd);
        for (name, value) in start.env {
            command.env(name, value);
        }
        let child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let pid = Pid::from_raw(i32::try_from(child.process_id().unwrap()).unwrap()).unwrap();

        let parser = vt100::Parser::new(non_zero(rows), non_zero(columns), 0);
        let frame = parser.screen().clone();
        let seen = Seen { parser, frame, raw: Vec::new(), ended: false };
        let shared: Shared = Arc::new((Mutex::new(seen), Condvar::new()));
        let writer = Arc::new(Mutex::new(pair.master.take_writer().unwrap()));
        let reader = std::thread::spawn({
            let (source, shared, writer) =
                (pair.master.try_clone_reader().unwrap(), Arc::clone(&shared), Arc::clone(&writer));
            move || read(source, &shared, &writer)
        });
        Self { shared, master: pair.master, writer, pid, exit: reap(child), reader: Some(reader) }
    }

    /// The text of the last whole frame, a line a row.
    pub fn text(&self) -> String {
        text_of(&self.screen())
    }

    /// The last whole frame.
    pub fn screen(&self) -> vt100::Screen {
        self.shared.0.lock().unwrap().frame.clone()
    }

    /// Waits until the screen holds this text.
    pub fn wait_for(&self, text: &str) {
        self.wait_until(&format!("{text:?}"), |screen| screen.contents().contains(text));
    }

    /// Waits until the screen does not hold this text any more.
    pub fn wait_gone(&self, text: &str) {
        self.wait_until(&format!("no {text:?}"), |screen| !screen.contents().contains(text));
    }

    /// Waits until the screen is as told.
    pub fn wait_until(&self, what: &str, holds: impl Fn(&vt100::Screen) -> bool) {
        let begun = Instant::now();
        let (lock, grew) = &*self.shared;
        let mut seen = lock.lock().unwrap();
        while !holds(&seen.frame) {
            let left = DEADLINE.saturating_sub(begun.elapsed());
            if seen.ended || left.is_zero() {
                let (shown, ended) = (seen.frame.contents(), seen.ended);
                // Failing with the lock held would fail the reader thread too.
                drop(seen);
                let why = if ended { "the program ended".to_owned() } else { format!("waited {DEADLINE:?}") };
                panic!("{why}; expected {what} on:\n{shown}");
            }
            seen = grew.wait_timeout(seen, left).unwrap().0;
        }
    }

    /// The bytes that arrive within a window after now; the one place where a test waits for nothing to happen.
    pub fn bytes_within(&self, window: Duration) -> Vec<u8> {
        let begun = Instant::now();
        let (lock, grew) = &*self.shared;
        let mut seen = lock.lock().unwrap();
        let before = seen.raw.len();
        while let Some(left) = window.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) {
            seen = grew.wait_timeout(seen, left).unwrap().0;
        }
        seen.raw.get(before..).unwrap().to_vec()
    }

    /// Types bytes.
    pub fn send(&self, keys: &str) {
        let mut writer = self.writer.lock().unwrap();
        writer.write_all(keys.as_bytes()).unwrap();
        writer.flush().unwrap();
    }

    /// Types a text, waits for it to be shown, and presses Enter.
    pub fn submit(&self, text: &str) {
        self.send(text);
        self.wait_for(text);
        self.send(keys::ENTER);
    }

    /// Pastes as a terminal with bracketed paste does.
    pub fn paste(&self, text: &str) {
        self.send(&format!("\x1b[200~{text}\x1b[201~"));
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        let mut seen = self.shared.0.lock().unwrap();
        seen.parser.screen_mut().set_size(non_zero(rows), non_zero(columns));
        seen.frame.set_size(non_zero(rows), non_zero(columns));
        drop(seen);
        self.master.resize(pty_size(columns, rows)).unwrap();
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).unwrap();
    }

    /// Waits for the program's end and for its last byte.
    pub fn left(mut self) -> Left {
        let status = self.exit.recv_timeout(DEADLINE);
        let status = status.unwrap_or_else(|_| panic!("the program did not end; it shows:\n{}", self.text()));
        self.reader.take().unwrap().join().unwrap();
        let seen = self.shared.0.lock().unwrap();
        let screen = seen.parser.screen();
        let changed = [
            (screen.alternate_screen(), "alternate screen"),
            (screen.hide_cursor(), "hidden cursor"),
            (screen.bracketed_paste(), "bracketed paste"),
            (!self.is_cooked(), "raw mode"),
        ];
        Left {
            code: status.exit_code(),
            signal: status.signal().map(ToOwned::to_owned),
            raw: seen.raw.clone(),
            text: screen.contents(),
            unrestored: changed.iter().filter(|(changed, _)| *changed).map(|(_, what)| *what).collect(),
        }
    }

    /// Line editing and echo are on.
    pub fn is_cooked(&self) -> bool {
        let modes = self.master.get_termios().unwrap().local_flags;
        // The names, because the bits differ between systems.
        let names = format!("{modes:?}");
        let on = |name| names.split(|c: char| !c.is_ascii_alphanumeric()).any(|known| known == name);
        on("ICANON") && on("ECHO")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Not there any more is as good.
        let _ = kill_process(self.pid, Signal::KILL);
    }
}

/// A screen's text without trailing blanks: whether a blank was written or left is no matter of what a person sees.
pub fn text_of(screen: &vt100::Screen) -> String {
    let (_, columns) = screen.size();
    let lines: Vec<String> = screen.rows(0, columns.get()).map(|row| row.trim_end().to_owned()).collect();
    lines.join("\n")
}

/// What keys send.
#[allow(dead_code)] // The house and the pictures press different ones.
pub mod keys {
    pub const ENTER: &str = "\r";
    pub const ESC: &str = "\x1b";
    pub const CTRL_C: &str = "\x03";
    pub const CTRL_Z: &str = "\x1a";
    pub const DOWN: &str = "\x1b[B";
    pub const F3: &str = "\x1bOR";
}

fn pty_size(cols: u16, rows: u16) -> PtySize {
    PtySize { rows, cols, pixel_width: 0, pixel_height: 0 }
}

fn non_zero(n: u16) -> NonZeroU16 {
    NonZeroU16::new(n).unwrap()
}

/// Waits for the child on a thread of its own, so that a test can wait with a deadline.
fn reap(mut child: Box<dyn Child + Send + Sync>) -> mpsc::Receiver<ExitStatus> {
    let (told, exit) = mpsc::channel();
    std::thread::spawn(move || {
        if let Ok(status) = child.wait() {
            // Nobody listens any more where the test has ended.
            let _ = told.send(status);
        }
    });
    exit
}

fn read(
    mut source: Box<dyn std::io::Read + Send>,
    shared: &Shared,
    writer: &Mutex<Box<dyn std::io::Write + Send>>,
) {
    let (lock, grew) = &**shared;
    let mut piece = [0; 16 * 1024];
    loop {
        // The kernel answers EIO once the last process has let go of the terminal.
        let n = source.read(&mut piece).unwrap_or(0);
        let mut seen = lock.lock().unwrap();
        let piece = piece.get(..n).unwrap();
        if piece.is_empty() {
            seen.ended = true;
            seen.frame = seen.parser.screen().clone();
            grew.notify_all();
            return;
        }
        seen.raw.extend_from_slice(piece);
        seen.parser.process(piece);
        if !within_update(&seen.raw) {
            seen.frame = seen.parser.screen().clone();
            grew.notify_all();
        }
        let (row, column) = seen.parser.screen().cursor_position();
        drop(seen);
        if find(piece, CURSOR_QUERY).is_some() {
            let mut writer = writer.lock().unwrap();
            let _ = write!(writer, "\x1b[{};{}R", row + 1, column + 1);
        }
    }
}

/// A synchronized update is open.
fn within_update(raw: &[u8]) -> bool {
    /// Longest frame looked at, bytes.
    const TAIL_BYTES: usize = 256 * 1024;
    let tail = raw.get(raw.len().saturating_sub(TAIL_BYTES)..).unwrap_or_default();
    match (rfind(tail, SYNC_BEGIN), rfind(tail, SYNC_END)) {
        (Some(begin), Some(end)) => begin > end,
        (begin, _) => begin.is_some(),
    }
}

/// Where `needle` first stands.
pub fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    hay.windows(needle.len()).position(|window| window == needle)
}

fn rfind(hay: &[u8], needle: &[u8]) -> Option<usize> {
    hay.windows(needle.len()).rposition(|window| window == needle)
}
