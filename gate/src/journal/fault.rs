//! What the journal's refusals say.

use rusqlite::ErrorCode;

use crate::failure::{Detail, Field, Refusal};
use crate::private::Unfit;

/// What to do where the three files do not agree.
const ADVICE_RESET: &str = "Run `agentspine state check` to see which piece is wrong; `agentspine state reset --confirm` \
    keeps the old files aside and starts new ones.";

pub(super) fn rolled_back(message: impl Into<String>) -> Refusal {
    Refusal::new(Detail::JournalRolledBack, message, ADVICE_RESET)
}

pub(super) fn missing(message: impl Into<String>) -> Refusal {
    Refusal::new(Detail::JournalMissing, message, ADVICE_RESET)
}

pub(super) fn io(message: impl Into<String>) -> Refusal {
    Refusal::new(
        Detail::JournalIo,
        message,
        "Check the disk's space and the directory's rights with `agentspine state check`, then start again.",
    )
}

pub(super) fn file(doing: &str, e: &std::io::Error) -> Refusal {
    io(format!("the journal's files cannot be used ({doing}): {}", e.kind()))
}

pub(super) fn busy() -> Refusal {
    Refusal::new(
        Detail::JournalBusy,
        "the receipt journal stayed locked by another process",
        "Try again; if it stays locked, end the agentspine process that hangs.",
    )
}

pub(super) fn poisoned() -> Refusal {
    io("an earlier write to the receipt journal failed, so nothing more is written through this handle")
}

pub(super) fn consumed() -> Refusal {
    Refusal::new(
        Detail::Consumed,
        "this receipt was consumed before; the second attempt is recorded",
        "Send the prompt again: it gets a new receipt. `agentspine receipts list` shows the incident.",
    )
}

pub(super) fn replay() -> Refusal {
    Refusal::new(
        Detail::Replay,
        "this delivery was consumed before",
        "Send the prompt again: it gets a new delivery and a new receipt.",
    )
}

pub(super) fn unknown() -> Refusal {
    Refusal::new(
        Detail::Mismatch(Field::Journal),
        "this journal has issued no such receipt",
        "Send the prompt again: it gets a new receipt.",
    )
}

pub(super) fn void() -> Refusal {
    Refusal::new(
        Detail::Expired,
        "this receipt was declared void",
        "Send the prompt again: it gets a new receipt.",
    )
}

pub(super) fn foreign_key() -> Refusal {
    mac("the receipt is not signed with the current key")
}

pub(super) fn mac(message: &str) -> Refusal {
    Refusal::new(Detail::Mac, message, "Send the prompt again: it gets a new receipt.")
}

/// A refusal for what SQLite says. Only its code is shown: messages can hold names and values.
pub(super) fn sql(e: &rusqlite::Error) -> Refusal {
    match e.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => busy(),
        Some(ErrorCode::DiskFull) => {
            io("the receipt journal cannot grow: the disk is full or its limit is reached")
        }
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
            Refusal::new(Detail::JournalIo, "the receipt journal is damaged", ADVICE_RESET)
        }
        Some(code) => io(format!("the receipt journal failed: {code:?}")),
        None => {
            Refusal::new(Detail::JournalIo, "the receipt journal holds something unreadable", ADVICE_RESET)
        }
    }
}

/// A refusal for a journal or anchor file that is not as we made it.
pub(super) fn unfit(what: &str, unfit: &Unfit, shown: &str) -> Refusal {
    match unfit {
        Unfit::Absent => missing(format!("the {what} is missing")),
        Unfit::TooLarge => rolled_back(format!("the {what} is too large")),
        Unfit::NotRegular => rolled_back(format!("the {what} is not a regular file")),
        Unfit::Mode => Refusal::new(
            Detail::JournalIo,
            format!("the {what}'s mode is not 0600"),
            format!("Run `chmod 600 {shown}`."),
        ),
        Unfit::Owner => Refusal::new(
            Detail::JournalIo,
            format!("the {what} belongs to another user"),
            format!("Look at it with `ls -l {shown}`; if it is yours, run `sudo chown \"$USER\" {shown}`."),
        ),
        Unfit::Io(e) => file(what, e),
    }
}
