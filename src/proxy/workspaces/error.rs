//! Why the registry cannot be used, and what to do about it.

use std::io;

use agentspine_gate::private::Unfit;

use crate::report::Failure;

/// Where the file stands, as people write it.
const FILE: &str = "proxy.json in the state directory";

/// Why the registry cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RegistryError {
    /// Not a private file of this user.
    #[error("{FILE} {0}")]
    Unfit(&'static str),
    /// The system refused to read it.
    #[error("{FILE} cannot be read: {0}")]
    Read(io::ErrorKind),
    /// The system refused to write it.
    #[error("{FILE} cannot be written: {0}")]
    Write(io::ErrorKind),
    /// Not what this version writes: an unknown key, schema or value.
    #[error("{FILE} is not what this version of agentspine writes (line {0})")]
    Invalid(usize),
    /// Another process holds the lock.
    #[error("another agentspine has been changing {FILE} for too long")]
    Busy,
    /// The system has no randomness.
    #[error("the system gave no random bytes for a secret")]
    Random,
    /// The path of the working directory is no UTF-8.
    #[error("the path of this directory is not UTF-8, which a client could not be told")]
    Directory,
}

impl RegistryError {
    pub(super) fn unfit(why: Unfit) -> Self {
        match why {
            Unfit::Absent => Self::Read(io::ErrorKind::NotFound),
            Unfit::NotRegular => Self::Unfit("is not a regular file"),
            Unfit::Mode => Self::Unfit("can be read or written by others: its secrets are not safe"),
            Unfit::Owner => Self::Unfit("belongs to another user"),
            Unfit::TooLarge => Self::Unfit("is larger than it can be"),
            Unfit::Io(cause) => Self::Read(cause.kind()),
        }
    }

    pub(super) fn write(cause: io::Error) -> Self {
        Self::Write(cause.kind())
    }

    fn advice(&self) -> &'static str {
        match self {
            Self::Unfit(_) | Self::Invalid(_) => {
                "Move it away: the next start makes a new one with new secrets, and clients are started again"
            }
            Self::Read(_) | Self::Write(_) => "Check disk space and rights, then: agentspine doctor",
            Self::Busy => "Try again; see what is running: ps -C agentspine",
            Self::Random => "Run agentspine where getrandom is allowed",
            Self::Directory => "Start in a directory with a UTF-8 path",
        }
    }
}

impl From<RegistryError> for Failure {
    fn from(error: RegistryError) -> Self {
        Self::other(error.to_string(), error.advice())
    }
}
