//! The supervisor's command line, written by us and read by us.

use std::ffi::{OsStr, OsString};

/// What a supervisor is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    /// Words that make our binary a supervisor, such as `__supervise`: it re-executes itself into a namespace.
    pub prefix: Vec<OsString>,
    /// Wall time of the provider, milliseconds. Our own deadline comes first; this one holds when we are stopped.
    pub deadline_ms: u64,
    /// Without network.
    pub offline: bool,
    /// Never in namespaces, as on systems that give none. Given as part of [`Self::prefix`].
    pub plain: bool,
    /// This process is the first of a fresh PID namespace.
    pub inside: bool,
    /// The provider's program, absolute.
    pub command: OsString,
    /// Its arguments, verbatim.
    pub args: Vec<OsString>,
}

/// Not an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a supervisor's command line")]
pub struct OrderError;

impl Order {
    /// The command line of this order, without the prefix.
    pub fn to_argv(&self) -> Vec<OsString> {
        let mut argv = vec!["--deadline-ms".into(), self.deadline_ms.to_string().into()];
        argv.extend(self.offline.then(|| "--offline".into()));
        argv.extend(self.inside.then(|| "--inside".into()));
        argv.extend(self.prefix.iter().flat_map(|word| ["--prefix".into(), word.clone()]));
        argv.extend(["--".into(), self.command.clone()]);
        argv.extend(self.args.iter().cloned());
        argv
    }

    /// Parses what [`Self::to_argv`] made.
    pub fn parse(mut argv: impl Iterator<Item = OsString>) -> Result<Self, OrderError> {
        let mut order = Self {
            prefix: Vec::new(),
            deadline_ms: 0,
            offline: false,
            plain: false,
            inside: false,
            command: OsString::new(),
            args: Vec::new(),
        };
        loop {
            let word = argv.next().ok_or(OrderError)?;
            match word.to_str() {
                Some("--deadline-ms") => {
                    order.deadline_ms = number(argv.next().as_deref()).ok_or(OrderError)?;
                }
                Some("--offline") => order.offline = true,
                Some("--plain") => order.plain = true,
                Some("--inside") => order.inside = true,
                Some("--prefix") => order.prefix.push(argv.next().ok_or(OrderError)?),
                Some("--") => break,
                _ => return Err(OrderError),
            }
        }
        order.command = argv.next().ok_or(OrderError)?;
        order.args = argv.collect();
        Ok(order)
    }
}

fn number(word: Option<&OsStr>) -> Option<u64> {
    word.and_then(OsStr::to_str)?.parse().ok()
}
