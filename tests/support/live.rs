//! A run that is still going: its output is awaited, and it takes lines, signals and closed pipes.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::Run;

/// A running binary.
pub struct Live {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Option<BufReader<ChildStdout>>,
    read: String,
}

impl Live {
    pub fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().map(BufReader::new));
        Self { child, stdin, stdout, read: String::new() }
    }

    /// Nothing on stdin, for `-p`.
    pub fn ask(command: &mut Command) -> Self {
        let mut live = Self::start(command);
        live.close_stdin();
        live
    }

    pub fn send(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    pub fn close_stdout(&mut self) {
        self.stdout = None;
    }

    /// Reads stdout until it holds the text; everything read so far.
    pub fn until(&mut self, text: &str) -> &str {
        let stdout = self.stdout.as_mut().unwrap();
        while !self.read.contains(text) {
            let seen = stdout.fill_buf().unwrap();
            assert!(!seen.is_empty(), "the output ended before {text:?}: {}", self.read);
            let (count, piece) = (seen.len(), String::from_utf8_lossy(seen).into_owned());
            self.read.push_str(&piece);
            stdout.consume(count);
        }
        &self.read
    }

    pub fn interrupt(&self) {
        self.signal(Signal::INT);
    }

    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Lets a stopped one go on.
    pub fn proceed(&self) {
        self.signal(Signal::CONT);
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for its end; the code is -1 where a signal ended it. A stdin still open stays open until then.
    pub fn end(mut self) -> Run {
        let (mut out, mut err) = (std::mem::take(&mut self.read), String::new());
        if let Some(mut stdout) = self.stdout.take() {
            stdout.read_to_string(&mut out).unwrap();
        }
        self.child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        Run { code, out, err }
    }
}
