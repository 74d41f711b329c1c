//! Import: other programs' notes become memories and candidates. Reading, judging and storing are three steps, so that a
//! plan can be shown before anything is stored.
//!
//! * [`claude`]: Claude Code's notes on a project, `MEMORY.md` and the files beside it;
//! * [`upstream`]: `must-remember.json` of the earlier AgentSpine;
//! * [`lines`]: JSON lines, an export of ours among them;
//! * `markdown`: notes in free form, cut into items.
//!
//! [`Ledger::judge`] says what would become of each item, [`Ledger::take`] stores one. Nothing is dropped: what cannot be
//! taken stays in the list with its place and the reason. Secrets are redacted before anything is compared or stored.
//! Rules never enter the ledger: each is a proposal that the person confirms.

mod claude;
mod lines;
mod markdown;
mod upstream;

use std::collections::HashSet;
use std::fmt;

use agentspine_gate::screen::{self, neutralise};
use agentspine_gate::{Digest, Id};

pub use claude::claude;
pub use lines::lines;
pub use upstream::{Unreadable, upstream};

use crate::ledger::{Ledger, StoreError};
use crate::operation::{self, Earlier, OperationId};
use crate::provenance::Provenance;
use crate::record::{Kind, MemoryScope, NewMemory, Origin, SUMMARY_BYTES_MAX, TITLE_BYTES_MAX, Trust};
use crate::remember::{RememberError, Remembered};
use crate::text::Screened;
use crate::tools::scan;

/// Longest rule, bytes; what is longer is no rule for every turn.
pub const CLAIM_BYTES_MAX: usize = agentspine_gate::remember::CLAIM_BYTES_MAX;
/// Source and extractor of what came by import.
const SOURCE: &str = "import";
const EXTRACTOR: &str = "import/v1";

/// A file as it was read.
pub struct SourceFile {
    /// Its name below the imported folder.
    pub name: String,
    /// Its text.
    pub text: String,
    /// When it was last changed, milliseconds since the Unix epoch.
    pub changed_at_ms: i64,
}

/// Where an item stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// File below the imported folder.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// Something an import holds.
#[derive(Clone, PartialEq)]
pub struct Item {
    /// Where.
    pub at: Place,
    /// What.
    pub what: What,
    /// Keys of it that mean nothing here.
    pub ignored: Vec<String>,
}

/// What an item is.
#[derive(Clone, PartialEq)]
pub enum What {
    /// A memory.
    Memory(Draft),
    /// A rule for the person to confirm.
    Rule(RuleDraft),
    /// Points to a file that is taken itself.
    Pointer(String),
    /// Cannot be taken; why.
    Left(String),
}

/// A memory that was read, neither redacted nor screened yet.
#[derive(Clone, PartialEq)]
pub struct Draft {
    /// Kind.
    pub kind: Kind,
    /// Title.
    pub title: String,
    /// Summary.
    pub summary: String,
    /// Tags.
    pub tags: Vec<String>,
    /// Subject.
    pub subject: Option<String>,
    /// Trust.
    pub trust: Trust,
    /// When it was made.
    pub created_at_ms: i64,
    /// Where an export says that it came from.
    pub origin: Option<Origin>,
}

/// A rule that was read.
#[derive(Clone, PartialEq)]
pub struct RuleDraft {
    /// Its kind, such as `rule` or `critical`.
    pub kind: Id,
    /// The rule, without secrets.
    pub claim: String,
    /// Where it is to apply.
    pub reach: Reach,
    /// Labels of what was redacted.
    pub redacted: Vec<String>,
}

/// Where a rule is to apply, within the person's own identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// The scope of the import.
    Here,
    /// As its source says; no project = every project.
    Named {
        /// Project.
        project: Option<Id>,
        /// Group.
        group: Option<Id>,
        /// Task.
        task: Option<Id>,
    },
}

impl Reach {
    /// Whether it is to apply in every project.
    pub fn is_global(&self) -> bool {
        matches!(self, Self::Named { project: None, .. })
    }
}

/// What would become of a memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It would be stored; labels of what would be redacted.
    New(Vec<String>),
    /// It is here already.
    Known,
    /// It was forgotten here; an import does not bring it back.
    Forgotten,
    /// It cannot be taken; why.
    Left(String),
}

impl Draft {
    /// The memory of this draft.
    pub fn memory(&self) -> Result<NewMemory, StoreError> {
        let fixed = |text: &str| Id::new(text).map_err(|_| StoreError::Corrupt);
        let own = || -> Result<Origin, StoreError> {
            let words = [self.kind.as_str(), &self.title, &self.summary].join("\0");
            let range_key = Digest::of(words.as_bytes()).to_hex();
            Ok(Origin {
                source: fixed(SOURCE)?,
                from_seq: 0,
                through_seq: 0,
                range_key,
                extractor: fixed(EXTRACTOR)?,
            })
        };
        Ok(NewMemory {
            kind: self.kind,
            title: self.title.clone(),
            summary: self.summary.clone(),
            tags: self.tags.clone(),
            subject: self.subject.clone(),
            trust: self.trust,
            origin: self.origin.clone().map_or_else(own, Ok)?,
            created_at_ms: self.created_at_ms,
            provenance: Provenance::default(),
            relations: Vec::new(),
        })
    }
}

impl Ledger {
    /// What would become of each draft in exactly this scope; stores nothing.
    pub fn judge(&self, scope: &MemoryScope, drafts: &[Draft]) -> Result<Vec<Verdict>, StoreError> {
        let mut here = HashSet::new();
        scan::each(self, scope, |entry| {
            here.insert(words(entry.kind, &entry.title, &entry.summary));
        })?;
        drafts.iter().map(|draft| self.verdict(scope, draft, &mut here)).collect()
    }

    fn verdict(
        &self,
        scope: &MemoryScope,
        draft: &Draft,
        here: &mut HashSet<Digest>,
    ) -> Result<Verdict, StoreError> {
        let new = draft.memory()?;
        let text = match Screened::of(&new) {
            Ok(text) => text,
            Err(RememberError::Store(error)) => return Err(error),
            Err(error) => return Ok(Verdict::Left(error.to_string())),
        };
        let known = !here.insert(words(new.kind, &text.title, &text.summary));
        Ok(match operation::earlier(&self.db, OperationId::of(scope, &new, 0))? {
            _ if known => Verdict::Known,
            Earlier::Forgotten(_) => Verdict::Forgotten,
            Earlier::Never => Verdict::New(text.redacted),
            Earlier::Stored(..) => Verdict::Left("the same origin has other words here".to_owned()),
        })
    }

    /// Stores one draft; what was forgotten stays so.
    pub fn take(&mut self, scope: &MemoryScope, draft: &Draft) -> Result<Remembered, RememberError> {
        let new = draft.memory()?;
        self.remember(&new, scope)
    }
}

/// What a memory says, as an export would say it.
fn words(kind: Kind, title: &str, summary: &str) -> Digest {
    Digest::of([kind.as_str(), &neutralise(title), &neutralise(summary)].join("\0").as_bytes())
}

/// A memory that fits: a title that is too long is cut and kept in the summary, a long summary becomes several.
fn fitting(at: &Place, draft: Draft) -> Vec<Item> {
    let (title, mut summary) = (cut(&draft.title, TITLE_BYTES_MAX), draft.summary.clone());
    if title != draft.title {
        summary = format!("{}\n{summary}", draft.title);
    }
    let parts = parts(&summary);
    let number = parts.len();
    let part = |(n, summary): (usize, String)| {
        let title = if number == 1 { title.clone() } else { numbered(&title, n + 1, number) };
        // Several memories cannot have the origin of one.
        let origin = draft.origin.clone().filter(|_| number == 1);
        let draft = Draft { title, summary, origin, ..draft.clone() };
        Item { at: at.clone(), what: What::Memory(draft), ignored: Vec::new() }
    };
    parts.into_iter().enumerate().map(part).collect()
}

fn numbered(title: &str, n: usize, of: usize) -> String {
    let sign = format!(" ({n}/{of})");
    format!("{}{sign}", cut(title, TITLE_BYTES_MAX - sign.len()))
}

/// Text of at most [`SUMMARY_BYTES_MAX`] each, cut between paragraphs, else lines, else words, else anywhere.
fn parts(text: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = text.trim();
    while rest.len() > SUMMARY_BYTES_MAX {
        let head = rest.get(..rest.floor_char_boundary(SUMMARY_BYTES_MAX)).unwrap_or_default();
        let at = ["\n\n", "\n", " "].into_iter().find_map(|end| head.rfind(end).filter(|at| *at > 0));
        let (part, after) = rest.split_at(at.unwrap_or(head.len()));
        parts.push(part.trim().to_owned());
        rest = after.trim();
    }
    parts.push(rest.to_owned());
    parts
}

/// At most `bytes_max`, with a sign that something is missing.
fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(bytes_max.saturating_sub('…'.len_utf8()));
    format!("{}…", text.get(..end).unwrap_or_default())
}

/// A rule without secrets, or why it cannot be one.
fn rule(kind: &str, claim: &str, reach: Reach) -> What {
    let claim = claim.split_whitespace().collect::<Vec<_>>().join(" ");
    let (claim, redacted) = screen::redact(&claim);
    let Ok(kind) = Id::new(kind) else { return What::Left("its kind is no id".to_owned()) };
    if claim.is_empty() {
        return What::Left("it has no text".to_owned());
    }
    if claim.len() > CLAIM_BYTES_MAX {
        return What::Left(format!("a rule is at most {CLAIM_BYTES_MAX} bytes long"));
    }
    match screen::screen(&claim) {
        Ok(()) => What::Rule(RuleDraft { kind, claim, reach, redacted }),
        Err(refused) => What::Left(refused.to_string()),
    }
}
