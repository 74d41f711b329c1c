//! What a memory is: kind, text, scope, origin, and the limit of each.

use std::fmt;

use agentspine_gate::{Digest, Id};

use crate::provenance::Provenance;
use crate::relation::Relation;

/// Longest title, bytes.
pub const TITLE_BYTES_MAX: usize = 200;
/// Longest summary, bytes.
pub const SUMMARY_BYTES_MAX: usize = 4096;
/// Most tags of one memory.
pub const TAGS_MAX: usize = 8;
/// Longest tag, bytes.
pub const TAG_BYTES_MAX: usize = 40;
/// Longest subject, bytes.
pub const SUBJECT_BYTES_MAX: usize = 80;
/// Longest range key of an [`Origin`], bytes.
pub const RANGE_KEY_BYTES_MAX: usize = 256;

/// The kinds the ledger holds. Rules and taboos are Must-Remember entries and live in the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Something that was decided.
    Decision,
    /// How somebody likes things.
    Preference,
    /// A piece of work: what was done, what is open.
    WorkUnit,
}

/// A kind the ledger does not take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KindError {
    /// `rule` or `taboo`: only a person can confirm those.
    #[error(
        "rules and taboos are not kept in the memory ledger: they bind only once a person confirmed them"
    )]
    MustRemember,
    /// Any other word.
    #[error("unknown kind of memory: decision, preference or work-unit")]
    Unknown,
}

impl KindError {
    /// The next thing to do.
    pub fn advice(self) -> &'static str {
        match self {
            Self::MustRemember => "propose it with: agentspine remember-propose",
            Self::Unknown => "choose one of: decision, preference, work-unit",
        }
    }
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Decision, Self::Preference, Self::WorkUnit];

    /// Parses the wire text.
    pub fn parse(text: &str) -> Result<Self, KindError> {
        match text {
            "rule" | "taboo" => Err(KindError::MustRemember),
            _ => Self::ALL.into_iter().find(|kind| kind.as_str() == text).ok_or(KindError::Unknown),
        }
    }

    /// Wire text, such as `work-unit`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Decision => "decision",
            Self::Preference => "preference",
            Self::WorkUnit => "work-unit",
        }
    }
}

/// Who stands behind a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trust {
    /// A person asked for it.
    Explicit,
    /// Made from something else, such as a compaction summary.
    Derived,
}

impl Trust {
    /// Every trust.
    pub const ALL: [Self; 2] = [Self::Explicit, Self::Derived];

    /// Wire text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Explicit => "explicit",
            Self::Derived => "derived",
        }
    }
}

/// Whose memory it is. Exact: a query of one scope sees no row of another, not even of a wider one.
///
/// Sessions and tasks are no part of it, a memory outlives both.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MemoryScope {
    /// Tenant.
    pub tenant_id: Id,
    /// User.
    pub user_id: Id,
    /// `None` = memories of no project.
    pub project_id: Option<Id>,
    /// `None` = turns without a group.
    pub group_id: Option<Id>,
}

impl MemoryScope {
    /// Digest of all four ids, absent ones distinct from every present one.
    pub fn digest(&self) -> Digest {
        let some = |id: &Id| format!("+{id}");
        let none = || "-".to_owned();
        let project = self.project_id.as_ref().map_or_else(none, some);
        let group = self.group_id.as_ref().map_or_else(none, some);
        // Ids cannot hold a NUL, so joining by it is injective.
        Digest::of(
            ["scope v1", self.tenant_id.as_str(), self.user_id.as_str(), &project, &group]
                .join("\0")
                .as_bytes(),
        )
    }
}

/// Where a memory comes from: the immutable, host-owned fields that name one operation.
///
/// Two calls with the same origin in the same scope are the same operation and make one record.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Session, or `cli`.
    pub source: Id,
    /// First event of the source it is made from.
    pub from_seq: u64,
    /// Last event of the source it is made from.
    pub through_seq: u64,
    /// What tells apart several memories of one range, such as a tool call id. Not the text or its digest: the operation
    /// id is kept after a forget, and a short text could be guessed from it.
    pub range_key: String,
    /// What made it, with its version, such as `memory-tool/v1`.
    pub extractor: Id,
}

/// A memory to be remembered, not yet redacted or screened.
#[derive(Clone, PartialEq, Eq)]
pub struct NewMemory {
    /// Its kind.
    pub kind: Kind,
    /// One line, at most [`TITLE_BYTES_MAX`].
    pub title: String,
    /// At most [`SUMMARY_BYTES_MAX`].
    pub summary: String,
    /// At most [`TAGS_MAX`] of [`TAG_BYTES_MAX`].
    pub tags: Vec<String>,
    /// Who or what it is about, such as a speaker; at most [`SUBJECT_BYTES_MAX`].
    pub subject: Option<String>,
    /// Who stands behind it.
    pub trust: Trust,
    /// Where it comes from.
    pub origin: Origin,
    /// What else is known of where it comes from.
    pub provenance: Provenance,
    /// What it relates to, at most [`crate::relation::RELATIONS_MAX`].
    pub relations: Vec<Relation>,
    /// Wall clock of the caller, milliseconds since the Unix epoch.
    pub created_at_ms: i64,
}

impl fmt::Debug for NewMemory {
    /// Without the text: memories never reach debug output.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewMemory")
            .field("kind", &self.kind)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}
