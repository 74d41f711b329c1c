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
/// Best memories that are looked at for one recall.
const LOOKED_AT_MAX: usize = 64;
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
}

/// Fills the places: first by shares, then what is left with the best that had no share.
pub(super) fn choose(
    db: &Connection,
    span: &Span,
    board: &Board,
    limit: usize,
) -> Result<Recall, StoreError> {
    let mut candidates = Vec::new();
    for hit in board.best(LOOKED_AT_MAX, Take::All) {
        let entry = entry(db, span.row(hit.offset))?;
        let words = spoken(&entry);
        candidates.push(Candidate { entry, hit, words });
    }
    candidates.sort_by(order);
    let mut places = Places::new(limit);
    let fates: Vec<Option<Why>> = candidates.iter().map(|candidate| places.offer(candidate)).collect();
    Ok(told(board, &candidates, fates, limit))
}

/// Best coverage first; recency only between equals, then the id, so that the order never depends on chance.
fn order(a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
    let rank = |candidate: &Candidate| (candidate.hit.coverage * 1000.0).round();
    rank(b)
        .total_cmp(&rank(a))
        .then_with(|| b.entry.created_at_ms.cmp(&a.entry.created_at_ms))
        .then_with(|| a.entry.memory_id.cmp(&b.entry.memory_id))
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
        let says_the_same = self.taken.iter().find(|(_, words)| same(words, &candidate.words));
        if let Some((id, _)) = says_the_same {
            return Some(Why::SameAs(id.clone()));
        }
        if self.taken.len() >= self.limit {
            return Some(Why::Limit);
        }
        // A person's own memories all come from one place, the command line: that is no session that crowds others out.
        let of_session = self.by_source.entry(entry.source.clone()).or_default();
        if entry.trust == Trust::Derived && *of_session >= self.share {
            return Some(Why::SourceFull);
        }
        let of_kind = self.by_kind.entry(entry.kind).or_default();
        if *of_kind >= self.share {
            return Some(Why::KindFull);
        }
        *of_session += 1;
        *of_kind += 1;
        self.taken.push((entry.memory_id.clone(), candidate.words.clone()));
        None
    }
}

/// Whether two memories share [`SAME`] of their words.
fn same(a: &BTreeSet<String>, b: &BTreeSet<String>) -> bool {
    let number = |n: usize| float(u64::try_from(n).unwrap_or(u64::MAX));
    number(a.intersection(b).count()) >= SAME * number(a.union(b).count())
}

/// A share only decides between memories that want the same place: what is free at the end goes to the best without one.
fn told(board: &Board, candidates: &[Candidate], mut fates: Vec<Option<Why>>, limit: usize) -> Recall {
    let mut free = limit.saturating_sub(fates.iter().filter(|fate| fate.is_none()).count());
    for fate in &mut fates {
        if free > 0 && matches!(fate, Some(Why::SourceFull | Why::KindFull)) {
            (*fate, free) = (None, free - 1);
        }
    }
    let mut recall = Recall::default();
    for (candidate, fate) in candidates.iter().zip(fates) {
        match fate {
            None => recall.recalled.push(Recalled {
                entry: candidate.entry.clone(),
                confidence: candidate.hit.coverage.clamp(0.0, 1.0),
                why: board.why(&candidate.hit),
            }),
            Some(why) if recall.left_out.len() < LEFT_OUT_MAX => {
                recall.left_out.push(LeftOut { memory_id: candidate.entry.memory_id.clone(), why });
            }
            Some(_) => {}
        }
    }
    recall
}
