//! The score of every memory of a scope for one prompt.

use std::collections::{HashMap, HashSet};

use super::ask::{Asked, ask};
use super::float;
use super::span::Span;
use super::tally::Tally;
use crate::index::{self, Posting, Slots};
use crate::ledger::{Reading, StoreError};

/// Most words of one query that are scored; the rarest in the scope are kept.
const WORDS_MAX: usize = 32;
/// A long prompt need not be covered as a whole: coverage is measured against this many average words at most.
const COVERED_WORDS_MAX: f64 = 7.0;
/// Records a scope is taken to have at least, so that in a new scope one common word is not a match.
const SMOOTHING_RECORDS: f64 = 50.0;

/// A memory with a score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Hit {
    pub(super) offset: u32,
    /// Score over what the prompt's words could give.
    pub(super) coverage: f64,
    /// Which words stand in the memory itself, the first in the lowest bit.
    pub(super) matched: u32,
}

impl Hit {
    /// Coverage in thousandths: what is closer than that is equal.
    pub(super) fn rank(&self) -> u64 {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // between 0 and some ten thousands
        let thousandths = (self.coverage * 1000.0).round() as u64;
        thousandths
    }
}

/// Which memories count as hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Take {
    /// Those that share a word with the prompt.
    Matching,
    /// Also those whose neighbours do.
    All,
}

/// Words with their weights, and what each memory has of them.
pub(super) struct Board {
    words: Vec<(String, f64)>,
    hits: Vec<Hit>,
}

impl Board {
    /// Scores the whole scope.
    pub(super) fn of(reading: &Reading<'_>, span: &Span, text: &str) -> Result<Self, StoreError> {
        let asked = ask(text);
        if asked.is_empty() {
            return Ok(Self { words: Vec::new(), hits: Vec::new() });
        }
        let terms: HashSet<&str> =
            asked.iter().flat_map(|word| &word.terms).map(|(term, _)| term.as_str()).collect();
        let fresh = index::fresh(&reading.tx, span.scope_no, |term| terms.contains(term))?;
        let reader = Reader { reading, span, fresh };
        let asked = reader.rarest(asked)?;
        let mut tally = Tally::new(Slots::load(&reading.tx, span.scope_no, span.last)?, span);
        let mut words = Vec::with_capacity(asked.len());
        for (bit, word) in asked.into_iter().enumerate() {
            for (term, weight) in &word.terms {
                tally.see(&reader.postings(term)?, *weight);
            }
            let idf = span.idf(tally.seen());
            tally.close(idf, 1u32.checked_shl(u32::try_from(bit).unwrap_or(u32::MAX)).unwrap_or(0));
            words.push((word.surface, idf));
        }
        Ok(Self { hits: tally.hits(possible(&words)), words })
    }

    /// How many memories share a word with the prompt.
    pub(super) fn matching(&self) -> usize {
        self.hits.iter().filter(|hit| hit.matched > 0).count()
    }

    /// The best, by coverage rounded to a thousandth; among equals the newest row.
    pub(super) fn best(&self, limit: usize, take: Take) -> Vec<Hit> {
        let order = |a: &Hit, b: &Hit| b.rank().cmp(&a.rank()).then(b.offset.cmp(&a.offset));
        let wanted = |hit: &&Hit| take == Take::All || hit.matched > 0;
        let mut hits: Vec<Hit> = self.hits.iter().filter(wanted).copied().collect();
        if limit < hits.len() && limit > 0 {
            hits.select_nth_unstable_by(limit - 1, order);
        }
        hits.truncate(limit);
        hits.sort_unstable_by(order);
        hits
    }

    /// The words that stand in the memory, the rarest first.
    pub(super) fn why(&self, hit: &Hit) -> String {
        let has = |bit: usize| {
            u32::try_from(bit).is_ok_and(|bit| hit.matched.checked_shr(bit).unwrap_or(0) & 1 == 1)
        };
        let mut words: Vec<&(String, f64)> =
            self.words.iter().enumerate().filter(|(bit, _)| has(*bit)).map(|(_, word)| word).collect();
        words.sort_by(|a, b| b.1.total_cmp(&a.1));
        let words: Vec<&str> = words.iter().map(|(surface, _)| surface.as_str()).collect();
        if words.is_empty() {
            "stands beside what matches".to_owned()
        } else {
            format!("matches: {}", words.join(", "))
        }
    }
}

/// What the words could give: their weights, for a long prompt that of [`COVERED_WORDS_MAX`] average ones.
fn possible(words: &[(String, f64)]) -> f64 {
    let number = words.iter().map(|_| 1.0).sum::<f64>();
    let sum = words.iter().map(|(_, idf)| idf).sum::<f64>();
    if number > COVERED_WORDS_MAX { sum / number * COVERED_WORDS_MAX } else { sum.max(f64::MIN_POSITIVE) }
}

impl Span {
    fn idf(&self, with: usize) -> f64 {
        let with = float(u64::try_from(with).unwrap_or(u64::MAX));
        let records = float(self.records).max(with) + SMOOTHING_RECORDS;
        (1.0 + (records - with + 0.5) / (with + 0.5)).ln()
    }
}

/// Postings of one scope: those that are settled, and the newest rows.
struct Reader<'a> {
    reading: &'a Reading<'a>,
    span: &'a Span,
    fresh: HashMap<String, Vec<Posting>>,
}

impl Reader<'_> {
    fn postings(&self, term: &str) -> Result<Vec<Posting>, StoreError> {
        self.reading.go_on()?;
        let mut found = Vec::new();
        index::postings(&self.reading.tx, self.span.scope_no, term, &mut found)?;
        found.extend(self.fresh.get(term).into_iter().flatten());
        Ok(found)
    }

    /// At most [`WORDS_MAX`] words. Words that no memory has are dropped first: they only say how much of the prompt is
    /// not covered.
    fn rarest(&self, asked: Vec<Asked>) -> Result<Vec<Asked>, StoreError> {
        if asked.len() <= WORDS_MAX {
            return Ok(asked);
        }
        let mut counted = Vec::with_capacity(asked.len());
        for word in asked {
            let with = match word.terms.first() {
                Some((term, _)) => self.postings(term)?.len(),
                None => 0,
            };
            counted.push((with, word));
        }
        counted.sort_by_key(|(with, _)| if *with == 0 { usize::MAX } else { *with });
        Ok(counted.into_iter().take(WORDS_MAX).map(|(_, word)| word).collect())
    }
}
