//! What can go wrong with the store. Never holds a text that was stored.

use agentspine_gate::Id;

use crate::report::Failure;

/// Why the store refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConversationsError {
    /// Written by a later version of this program.
    #[error("conversations.sqlite has schema {found}, this program knows {known}")]
    Newer {
        /// Schema of the file.
        found: i64,
        /// Newest schema known here.
        known: i64,
    },
    /// Another program's database.
    #[error("conversations.sqlite belongs to another program")]
    Foreign,
    /// The file cannot be created or looked at.
    #[error("conversations.sqlite cannot be opened: {0}")]
    File(std::io::ErrorKind),
    /// Moved, removed or replaced while it was open.
    #[error("conversations.sqlite is no longer the file that was opened; this process must be started again")]
    Vanished,
    /// SQLite refused; its extended result code.
    #[error("conversations.sqlite cannot be read or written (SQLite code {0})")]
    Sqlite(i32),
    /// A row that this program did not write.
    #[error("conversations.sqlite holds a row that cannot be read ({0})")]
    Corrupt(&'static str),
    /// No such session.
    #[error("there is no session {0}")]
    UnknownSession(Id),
    /// Its text was erased.
    #[error("session {0} was redacted: what was said in it is erased")]
    Redacted(Id),
    /// A conversation that another program holds.
    #[error("session {0} is a conversation of another program, which keeps what was said in it")]
    NotOurs(Id),
    /// No turn ended up to there.
    #[error("in session {0} no turn has ended up to there")]
    NothingEnded(Id),
    /// Over a limit.
    #[error("the {what} is over its limit of {limit}")]
    TooLarge {
        /// What.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The directory's name is not UTF-8.
    #[error("the working directory's name is not UTF-8")]
    CwdNotUtf8,
}

impl From<rusqlite::Error> for ConversationsError {
    /// Keeps only the code: SQLite's own words may quote a statement.
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error.sqlite_error().map_or(0, |cause| cause.extended_code))
    }
}

impl ConversationsError {
    fn advice(&self) -> &'static str {
        match self {
            Self::Newer { .. } => {
                "Use the newer agentspine, or move conversations.sqlite in the state directory aside"
            }
            Self::Foreign | Self::Corrupt(_) => {
                "Move conversations.sqlite in the state directory aside; a new one is made"
            }
            Self::Vanished => "Start agentspine again; a daemon: kill it, the next run starts one",
            Self::File(_) | Self::Sqlite(_) => {
                "Check space and permissions of the state directory: agentspine doctor"
            }
            Self::UnknownSession(_) => "agentspine sessions list",
            Self::Redacted(_) => "Start another one: agentspine chat",
            Self::NotOurs(_) => {
                "Fork or erase it in that program; what was injected: agentspine sessions delete ID"
            }
            Self::NothingEnded(_) => "Name a later event with --at, or leave --at out",
            Self::TooLarge { .. } => "Shorten it",
            Self::CwdNotUtf8 => "Rename the directory, or start in another one",
        }
    }
}

impl From<ConversationsError> for Failure {
    fn from(error: ConversationsError) -> Self {
        Self::other(error.to_string(), error.advice())
    }
}
