//! Which of the best memories are recalled, and why others are left out.

use std::collections::{BTreeSet, HashMap};

use agentspine_gate::Id;
use rusqlite::Connection;

use super::board::{Board, Hit, Take};
use super::span::Span;
use super::{Recalled, entry, float};
use crate::entry::Entry;
use crate::ledger::StoreError;
use crate::record::{Kind, Trust};
use crate::words;

/// Coverage below which recall stays silent.
const FLOOR: f64 = 0.28;
/// Best memories that are looked at for one recall: more than anybody writes of one thing, so that copies of one memory
/// do not hide the next.
const LOOKED_AT_MAX: usize = 1024;
/// Best memories that sessions and kinds share the places among.
const SHARED_AMONG: usize = 32;
/// Most memories that are told to be left out.
const LEFT_OUT_MAX: usize = 16;
/// Share of common words from which two memories say the same.
const SAME: f64 = 0.8;

/// What a prompt recalls, and what came close.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recall {
    /// Best first.
    pub recalled: Vec<Recalled>,
    /// The best of the rest, best first, at most 16.
    pub left_out: Vec<LeftOut>,
}

/// A memory that came close.
#[derive(Debug, Clone, PartialEq)]
pub struct LeftOut {
    /// Its id.
    pub memory_id: Id,
    /// Why it is not among the recalled.
    pub why: Why,
}

/// Why a memory that came close is not recalled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// It covers too little of the prompt.
    Floor,
    /// This one, which is recalled, says the same.
    SameAs(Id),
    /// Its session already has its share of the places.
    SourceFull,
    /// Its kind already has its share of the places.
    KindFull,
    /// Better ones took every place.
    Limit,
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Floor => f.write_str("covers too little of the prompt"),
            Self::SameAs(id) => write!(f, "says the same as {id}"),
            Self::SourceFull => f.write_str("its session has its share already"),
            Self::KindFull => f.write_str("its kind has its share already"),
            Self::Limit => f.write_str("better ones took every place"),
        }
    }
}

/// A memory that is looked at.
struct Candidate {
    entry: Entry,
    hit: Hit,
    words: BTreeSet<String>,
    /// `None` = it has a place.
    fate: Option<Why>,
}

/// Fills the places: first by shares, then what is left with the best that had no share.
pub(super) fn choose(
    db: &Connection,
    span: &Span,
    board: &Board,
    limit: usize,
) -> Result<Recall, StoreError> {
    let (mut places, mut candidates) = (Places::new(limit), Vec::new());
    let hits = board.best(LOOKED_AT_MAX, Take::All);
    for equals in hits.chunk_by(|a, b| a.rank() == b.rank()) {
        let more_may_fit = places.want_more(&candidates) && equals.iter().any(|hit| hit.coverage >= FLOOR);
        if candidates.len() - places.taken.len() >= LEFT_OUT_MAX && !more_may_fit {
            break;
        }
        let mut group =
            equals.iter().map(|hit| Candidate::load(db, span, *hit)).collect::<Result<Vec<_>, _>>()?;
        group.sort_by(Candidate::order);
        for mut candidate in group {
            candidate.fate = places.offer(&candidate);
            candidates.push(candidate);
        }
    }
    places.fill(&mut candidates);
    Ok(told(board, candidates))
}

impl Candidate {
    fn load(db: &Connection, span: &Span, hit: Hit) -> Result<Self, StoreError> {
        let entry = entry(db, span.row(hit.offset))?;
        // Below the floor nobody compares it.
        let words = if hit.coverage < FLOOR { BTreeSet::new() } else { spoken(&entry) };
        Ok(Self { entry, hit, words, fate: None })
    }

    /// Whether only a share keeps it from a place.
    fn waits(&self) -> bool {
        matches!(self.fate, Some(Why::SourceFull | Why::KindFull))
    }

    /// Between equals the newer one, then the id, so that the order never depends on chance.
    fn order(a: &Self, b: &Self) -> std::cmp::Ordering {
        let newer = b.entry.created_at_ms.cmp(&a.entry.created_at_ms);
        newer.then_with(|| a.entry.memory_id.cmp(&b.entry.memory_id))
    }
}

/// What the memory says, as words.
fn spoken(entry: &Entry) -> BTreeSet<String> {
    let texts = [&entry.title, &entry.summary].into_iter().chain(&entry.tags);
    texts.flat_map(|text| words::indexed(text)).map(|word| word.surface).collect()
}

/// The places of one recall while they fill.
struct Places {
    limit: usize,
    /// Most places of one session, or of one kind, while others want them.
    share: usize,
    taken: Vec<(Id, BTreeSet<String>)>,
    by_source: HashMap<Id, usize>,
    by_kind: HashMap<Kind, usize>,
}

impl Places {
    fn new(limit: usize) -> Self {
        let share = (limit / 2 + 1).min(limit);
        Self { limit, share, taken: Vec::new(), by_source: HashMap::new(), by_kind: HashMap::new() }
    }

    /// Gives the candidate a place, or says why not.
    fn offer(&mut self, candidate: &Candidate) -> Option<Why> {
        let entry = &candidate.entry;
        if candidate.hit.coverage < FLOOR {
            return Some(Why::Floor);
        }
        if let Some(id) = self.says_the_same(candidate) {
            return Some(Why::SameAs(id));
        }
        if self.are_full() {
            return Some(Why::Limit);
        }
        if self.source_is_full(entry) {
            return Some(Why::SourceFull);
        }
        if self.by_kind.get(&entry.kind).is_some_and(|taken| *taken >= self.share) {
            return Some(Why::KindFull);
        }
        self.take(candidate);
        None
    }

    /// A share only decides between memories that want the same place: what is free at the end goes to the best without
    /// one, of sessions that have not theirs yet before others.
    fn fill(&mut self, candidates: &mut [Candidate]) {
        for turn in [Why::KindFull, Why::SourceFull] {
            for candidate in &mut *candidates {
                let passes = turn == Why::SourceFull || !self.source_is_full(&candidate.entry);
                if candidate.waits() && passes && !self.are_full() {
                    candidate.fate = self.says_the_same(candidate).map(Why::SameAs);
                    if candidate.fate.is_none() {
                        self.take(candidate);
                    }
                }
            }
        }
    }

    fn take(&mut self, candidate: &Candidate) {
        let entry = &candidate.entry;
        *self.by_source.entry(entry.source.clone()).or_default() += 1;
        *self.by_kind.entry(entry.kind).or_default() += 1;
        self.taken.push((entry.memory_id.clone(), candidate.words.clone()));
    }

    /// A person's own memories all come from one place, the command line: that is no session that crowds others out.
    fn source_is_full(&self, entry: &Entry) -> bool {
        let taken = self.by_source.get(&entry.source).copied().unwrap_or(0);
        entry.trust == Trust::Derived && taken >= self.share
    }

    /// Whether a memory that was not looked at yet could get a place. Those that only wait because others had a better
    /// right take what is free, once enough were looked at to find the others.
    fn want_more(&self, candidates: &[Candidate]) -> bool {
        let waiting = candidates.iter().filter(|candidate| candidate.waits()).count();
        let filled = waiting >= self.limit.saturating_sub(self.taken.len());
        let enough = filled && candidates.len() >= SHARED_AMONG;
        !(enough || self.are_full())
    }

    fn are_full(&self) -> bool {
        self.taken.len() >= self.limit
    }

    fn says_the_same(&self, candidate: &Candidate) -> Option<Id> {
        let earlier = self.taken.iter().find(|(_, words)| same(words, &candidate.words));
        earlier.map(|(id, _)| id.clone())
    }
}

/// Whether two memories share [`SAME`] of their words.
fn same(a: &BTreeSet<String>, b: &BTreeSet<String>) -> bool {
    let number = |n: usize| float(u64::try_from(n).unwrap_or(u64::MAX));
    number(a.intersection(b).count()) >= SAME * number(a.union(b).count())
}

fn told(board: &Board, candidates: Vec<Candidate>) -> Recall {
    let mut recall = Recall::default();
    for Candidate { entry, hit, fate, .. } in candidates {
        match fate {
            None => recall.recalled.push(Recalled {
                entry,
                confidence: hit.coverage.clamp(0.0, 1.0),
                why: board.why(&hit),
            }),
            Some(why) if recall.left_out.len() < LEFT_OUT_MAX => {
                recall.left_out.push(LeftOut { memory_id: entry.memory_id, why });
            }
            Some(_) => {}
        }
    }
    recall
}
