//! What became of a provider, as one line.

use std::fmt;

/// What became of a provider. Everything it started is dead when this is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It exited with this status.
    Exit(i32),
    /// It was ended by this signal, not by us.
    Signal(i32),
    /// The deadline passed.
    Timeout,
    /// We were told to stop, or whoever started us is gone.
    Cancelled,
    /// It wrote more than the caps allow.
    Oversize,
    /// It could not be started; the system's error number.
    Exec(i32),
    /// `network: none` cannot be held here, so it was not started.
    NoNetworkNamespace,
}

impl Fate {
    /// Parses the line without its end.
    pub fn parse(line: &str) -> Option<Self> {
        let number = |text: &str| text.parse().ok();
        match line.split_once(' ') {
            Some(("exit", n)) => number(n).map(Self::Exit),
            Some(("signal", n)) => number(n).map(Self::Signal),
            Some(("exec", n)) => number(n).map(Self::Exec),
            Some(_) => None,
            None => [Self::Timeout, Self::Cancelled, Self::Oversize, Self::NoNetworkNamespace]
                .into_iter()
                .find(|fate| fate.to_string() == line),
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(n) => write!(f, "exit {n}"),
            Self::Signal(n) => write!(f, "signal {n}"),
            Self::Exec(n) => write!(f, "exec {n}"),
            Self::Timeout => f.write_str("timeout"),
            Self::Cancelled => f.write_str("cancelled"),
            Self::Oversize => f.write_str("oversize"),
            Self::NoNetworkNamespace => f.write_str("no-network-namespace"),
        }
    }
}
