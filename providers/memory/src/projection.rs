//! The projection: another index that holds copies of applied memories under names of ours.
//!
//! Optional and always behind: the ledger is the truth. No call is made inside a transaction, and no call is trusted
//! before its key was read back. Delivery is at least once; names and payloads make it idempotent.

use agentspine_gate::Digest;

use crate::name::Name;
use crate::relation::Predicate;

/// Longest time one call of a [`Projection`] may take, milliseconds. Claims are made for several of these.
pub const CALL_MS_MAX: i64 = 10_000;

/// What is named outside.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Key {
    /// A memory.
    Record(Name),
    /// A relation between two names of ours.
    Relation(Triple),
}

/// An exact triple of names that the host made.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Triple {
    /// The memory that brought it.
    pub subject: Name,
    /// How it relates.
    pub predicate: Predicate,
    /// To what.
    pub object: Name,
}

/// What is written under a key.
#[derive(Clone, PartialEq, Eq)]
pub struct Projected {
    /// Its key.
    pub key: Key,
    /// The whole payload; empty for a relation. It has to come back byte for byte.
    pub data: String,
    /// The memory's tags, already part of `data`: for the other side's own filters.
    pub tags: Vec<String>,
}

impl Projected {
    /// What [`Outcome::Found`] has to give for the read-back to be verified.
    pub fn digest(&self) -> Digest {
        Digest::of(self.data.as_bytes())
    }
}

impl std::fmt::Debug for Projected {
    /// Without the text.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Projected").field("key", &self.key).finish_non_exhaustive()
    }
}

/// Why a call gave nothing; never its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// It cannot be reached.
    Unavailable,
    /// Somebody else holds it.
    Locked,
    /// It did not answer in time.
    Timeout,
    /// It answered with an error.
    Refused,
    /// Its answer cannot be read.
    Malformed,
    /// It acknowledged a write, and nothing stands there.
    Lost,
    /// It acknowledged a removal, and it still stands there.
    Kept,
    /// Something that is not ours stands there.
    Foreign,
    /// Another connection still reads old pages of the ledger's log.
    LogInUse,
}

impl Fault {
    /// Stored text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Locked => "locked",
            Self::Timeout => "timeout",
            Self::Refused => "refused",
            Self::Malformed => "malformed",
            Self::Lost => "lost",
            Self::Kept => "kept",
            Self::Foreign => "foreign",
            Self::LogInUse => "log-in-use",
        }
    }
}

/// What a call gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A write or a removal was acknowledged; a read will tell.
    Done,
    /// This stands there: the digest of its `data`, for a relation any digest.
    Found(Digest),
    /// Nothing stands there; the other side said so.
    Absent,
    /// The call never reached the other side, so nothing changed there.
    Undispatched(Fault),
    /// The call reached it, and what it did is not known.
    Unknown(Fault),
}

/// Another index. Calls are synchronous, end within [`CALL_MS_MAX`], and are never made inside a transaction.
pub trait Projection {
    /// Creates this, or leaves it where it stands already.
    fn write(&self, what: &Projected) -> Outcome;
    /// What stands under exactly this key.
    fn read(&self, key: &Key) -> Outcome;
    /// Removes what stands under exactly this key.
    fn remove(&self, key: &Key) -> Outcome;
    /// The callers' clock, milliseconds: calls take time, and claims are renewed by it.
    fn now_ms(&self) -> i64;
}
