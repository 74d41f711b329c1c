//! The one voice: everything a person or a script reads from this program goes through here.
//!
//! [`Report`] writes results to stdout, [`Failure`] becomes one message, one next step and one exit code on stderr (and
//! one JSON object on stdout where a script listens). What leaves is scrubbed: known secrets are replaced, control and
//! invisible characters made visible. A closed pipe ends the output quietly. Never Debug text, never a panic's payload.

mod scrub;
#[cfg(test)]
mod tests;

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use agentspine_gate::screen::redact;
use agentspine_gate::{Code, Refusal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde_json::json;

use crate::config::Secret;

/// For whom output is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// Lines for a person.
    People,
    /// JSON for a script.
    Json,
}

/// How the process ends (contract, section 9). Zero is success and needs no value here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Anything without a code of its own.
    Other,
    /// Wrong usage, or a confirmation is missing.
    Usage,
    /// A refusal of the gate.
    Refused(Code),
    /// The model's server answered with an error.
    Model,
    /// The answer's stream was cut.
    CutStream,
    /// The person interrupted.
    Interrupted,
    /// The client that `run` ran ended with this code.
    Client(u8),
}

impl Exit {
    /// The number.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Other => 1,
            Self::Usage => 2,
            Self::Refused(code) => code.exit_code(),
            Self::Model => 20,
            Self::CutStream => 21,
            Self::Interrupted => 130,
            Self::Client(code) => code,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Other => "failed",
            Self::Usage => "usage",
            Self::Refused(code) => code.as_str(),
            Self::Model => "model-error",
            Self::CutStream => "cut-stream",
            Self::Interrupted => "interrupted",
            Self::Client(_) => "client",
        }
    }
}

/// Why a command did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// The gate refused.
    Refused(Refusal),
    /// Anything else: what happened, and what to do next.
    Said {
        /// How the process ends.
        exit: Exit,
        /// One sentence.
        message: String,
        /// The next step.
        advice: String,
    },
    /// The command has told everything itself; only the exit code is left.
    Told(Exit),
}

impl Failure {
    /// A failure without a code of its own.
    pub(crate) fn other(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::said(Exit::Other, message, advice)
    }

    /// Wrong usage, or a confirmation is missing.
    pub(crate) fn usage(message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::said(Exit::Usage, message, advice)
    }

    /// A failure with this exit code.
    pub(crate) fn said(exit: Exit, message: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::Said { exit, message: message.into(), advice: advice.into() }
    }

    /// How the process ends.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Refused(refusal) => Exit::Refused(refusal.code()),
            Self::Said { exit, .. } | Self::Told(exit) => *exit,
        }
    }

    /// Message and next step, for a place that is not stderr.
    pub(crate) fn words(&self) -> (&str, &str) {
        match self {
            Self::Refused(refusal) => (&refusal.message, &refusal.advice),
            Self::Said { message, advice, .. } => (message, advice),
            Self::Told(_) => ("", ""),
        }
    }

    fn as_json(&self) -> Option<serde_json::Value> {
        let exit = self.exit();
        let (detail, message, advice, receipt) = match self {
            Self::Refused(r) => (Some(r.detail.to_string()), &r.message, &r.advice, r.receipt),
            Self::Said { message, advice, .. } => (None, message, advice, None),
            Self::Told(_) => return None,
        };
        Some(json!({"error": {
            "code": exit.word(), "detail": detail, "message": redact(message).0, "advice": advice,
            "receiptId": receipt, "exit": exit.number(),
        }}))
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Where results and failures are written.
pub(crate) struct Report {
    output: Output,
    out: Box<dyn Write + Send>,
    err: Box<dyn Write + Send>,
    secrets: Vec<Secret>,
    closed: bool,
    /// Why output was lost, where its reader did not just go away.
    lost: Option<io::ErrorKind>,
}

impl Report {
    /// Writes to the process's own stdout and stderr.
    pub(crate) fn new(output: Output) -> Self {
        Self::to(output, Box::new(io::stdout()), Box::new(io::stderr()))
    }

    fn to(output: Output, out: Box<dyn Write + Send>, err: Box<dyn Write + Send>) -> Self {
        Self { output, out, err, secrets: Vec::new(), closed: false, lost: None }
    }

    /// For whom output is meant.
    pub(crate) fn output(&self) -> Output {
        self.output
    }

    /// Whether stdout was closed by its reader; a long-running command may stop then.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Never lets these values through, whoever puts them into a message.
    pub(crate) fn conceal(&mut self, secrets: impl IntoIterator<Item = Secret>) {
        self.secrets.extend(secrets);
    }

    /// One line for people.
    pub(crate) fn line(&mut self, text: impl Display) {
        self.text(format_args!("{text}\n"));
    }

    /// Lines for people.
    pub(crate) fn lines(&mut self, lines: impl IntoIterator<Item = String>) {
        for line in lines {
            self.line(line);
        }
    }

    /// Text for people without a line end, such as a piece of a streamed answer; flushed at once.
    pub(crate) fn text(&mut self, text: impl Display) {
        let text = self.clean(&text.to_string());
        self.write_out(&text);
    }

    /// One pretty JSON document.
    pub(crate) fn json(&mut self, value: &impl Serialize) {
        // Our own plain data always serialises; a failure would only drop this output, never a check.
        let text = serde_json::to_string_pretty(value).unwrap_or_default();
        let text = scrub::conceal(&text, &self.secrets);
        self.write_out(&format!("{text}\n"));
    }

    /// One JSON document on one line, for a stream of events.
    pub(crate) fn event(&mut self, value: &impl Serialize) {
        let text = serde_json::to_string(value).unwrap_or_default();
        let text = scrub::conceal(&text, &self.secrets);
        self.write_out(&format!("{text}\n"));
    }

    /// One line beside the results, on stderr.
    pub(crate) fn note(&mut self, text: impl Display) {
        let text = self.clean(&format!("agentspine: {text}\n"));
        // Nobody is left to tell if stderr is gone.
        let _ = self.err.write_all(text.as_bytes());
    }

    /// Tells a failure; the exit code of the process.
    pub(crate) fn finish(mut self, done: Result<(), Failure>) -> ExitCode {
        let failure = match (done, self.lost) {
            (Ok(()), None) => return ExitCode::SUCCESS,
            (Ok(()), Some(cause)) => Failure::other(
                format!("Not all output could be written: {cause}"),
                "Make room where the output goes; what was sent is in: agentspine receipts list",
            ),
            (Err(failure), _) => failure,
        };
        self.tell(&failure);
        ExitCode::from(failure.exit().number())
    }

    /// Tells a failure: message and next step for people; one JSON object more for scripts.
    pub(crate) fn tell(&mut self, failure: &Failure) {
        match failure {
            Failure::Refused(refusal) => self.tell_refusal(refusal),
            Failure::Said { message, advice, .. } => self.tell_lines(message, advice),
            Failure::Told(_) => {}
        }
        if let (Output::Json, Some(value)) = (self.output, failure.as_json()) {
            self.event(&value);
        }
    }

    fn tell_refusal(&mut self, refusal: &Refusal) {
        let receipt = refusal.receipt.map(|id| format!(" [receipt {id}]")).unwrap_or_default();
        self.tell_lines(&format!("{}: {}{receipt}", refusal.key(), refusal.message), &refusal.advice);
    }

    fn tell_lines(&mut self, message: &str, advice: &str) {
        // What is quoted in a message may hold a key that nobody told us about.
        self.note(redact(message).0);
        if !advice.is_empty() {
            let line = self.clean(&format!("  next: {advice}\n"));
            let _ = self.err.write_all(line.as_bytes());
        }
    }

    fn clean(&self, text: &str) -> String {
        scrub::visible(&scrub::conceal(text, &self.secrets))
    }

    fn write_out(&mut self, text: &str) {
        if self.closed {
            return;
        }
        if let Err(cause) = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush()) {
            self.closed = true;
            // A reader that went away (`| head`) wants no more; output that got lost otherwise is told at the end.
            self.lost = Some(cause.kind()).filter(|kind| *kind != io::ErrorKind::BrokenPipe);
        }
    }
}

/// Whether stdin and stdout are both a terminal: the condition for the full screen.
pub(crate) fn is_interactive() -> bool {
    io::stdin().is_terminal() && io::stdout().is_terminal()
}

/// Whether somebody still reads stdout: a pipe tells of a closed end also while nothing is written.
pub(crate) fn is_read() -> bool {
    let stdout = io::stdout();
    let mut ends = [PollFd::new(&stdout, PollFlags::empty())];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    match poll(&mut ends, Some(&at_once)) {
        Ok(_) => !ends.iter().any(|end| end.revents().intersects(PollFlags::ERR | PollFlags::NVAL)),
        // Then writing will tell.
        Err(_) => true,
    }
}

/// Help, version or a usage error, as clap words it.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    // A closed pipe is no reason to complain.
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(Exit::Usage.number()) } else { ExitCode::SUCCESS }
}

/// A panic says where it happened and nothing else: its payload may hold a slice of a prompt.
pub(crate) fn quiet_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place = info.location().map(|at| format!(" at {}:{}", at.file(), at.line())).unwrap_or_default();
        let _ = writeln!(
            io::stderr(),
            "agentspine: internal error{place}. This is a bug; nothing was sent because of it."
        );
    }));
}
