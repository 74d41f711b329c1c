//! Why an operation of Must-Remember did nothing.

use super::{CLAIM_BYTES_MAX, ROWS_MAX, rows};
use crate::failure::Refusal;
use crate::ids::Id;
use crate::screen::Refused;

/// Why an operation did nothing. Never holds a claim.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum RememberError {
    /// The store itself refuses.
    #[error(transparent)]
    Store(#[from] Refusal),
    /// The claim does not pass the screen.
    #[error("the rule was not taken: {0}")]
    Screened(#[from] Refused),
    /// The claim is blank.
    #[error("the rule is blank")]
    Blank,
    /// The claim is too long.
    #[error("the rule is {bytes} bytes, at most {CLAIM_BYTES_MAX} fit")]
    TooLong {
        /// Its size.
        bytes: usize,
    },
    /// The store is full.
    #[error("at most {ROWS_MAX} rules and candidates are kept; purge some first")]
    Full,
    /// No such candidate or entry.
    #[error("there is no {0} in Must-Remember")]
    Unknown(Id),
    /// The candidate was confirmed before.
    #[error("{0} was confirmed before")]
    NotPending(Id),
    /// The entry to supersede does not apply.
    #[error("{0} is not active, so it can't be superseded")]
    NotActive(Id),
    /// The entry to roll back to applies already.
    #[error("{0} is active already")]
    AlreadyActive(Id),
    /// The entry to supersede has another scope.
    #[error("{0} is for another scope (user, tenant, project, group or task)")]
    OtherScope(Id),
}

impl RememberError {
    /// The next thing to do.
    pub fn advice(&self) -> &str {
        match self {
            Self::Store(refusal) => &refusal.advice,
            Self::Screened(_) => {
                "Word it as a fact or a preference, without credentials and without granting anything."
            }
            Self::Blank | Self::TooLong { .. } => {
                "Give one short sentence with `agentspine remember-propose --claim TEXT`."
            }
            Self::Full
            | Self::Unknown(_)
            | Self::NotPending(_)
            | Self::NotActive(_)
            | Self::AlreadyActive(_) => "See what is stored with `agentspine remember-list`.",
            Self::OtherScope(_) => "Propose the rule with the scope of the entry it shall replace.",
        }
    }
}

impl From<rusqlite::Error> for RememberError {
    fn from(e: rusqlite::Error) -> Self {
        Self::Store(rows::unreadable(&e))
    }
}
