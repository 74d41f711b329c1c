//! The score of every memory of a scope for one prompt.

use std::collections::{HashMap, HashSet};

use super::ask::{Asked, ask};
use super::float;
use super::span::Span;
use crate::index::{self, Field, Fields, Posting, Slots};
use crate::ledger::{Reading, StoreError};

/// Most words of one query that are scored; the rarest in the scope are kept.
const WORDS_MAX: usize = 32;
/// A long prompt need not be covered as a whole: coverage is measured against this many average words at most.
const COVERED_WORDS_MAX: f64 = 7.0;
/// Records a scope is taken to have at least, so that in a new scope one common word is not a match.
const SMOOTHING_RECORDS: f64 = 50.0;
/// BM25: saturation of repeated words, and how much length counts.
const K1: f32 = 0.9;
const B: f32 = 0.3;
/// Weights of the fields; the body has 1.
const TITLE: f32 = 2.0;
const TAGS: f32 = 1.5;
const SUBJECT: f32 = 2.0;
const DATE: f32 = 1.0;
/// Weights of the text of neighbours: one and two before, one and two after.
const BEFORE: [f32; 2] = [0.5, 0.25];
const AFTER: [f32; 2] = [0.35, 0.2];

/// A memory with a score.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Hit {
    pub(super) offset: u32,
    /// Score over what the prompt's words could give.
    pub(super) coverage: f64,
    /// Which words stand in the memory itself, the first in the lowest bit.
    matched: u32,
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

/// Scores while they are summed up, one word after the other. All lists have one place for each offset.
struct Tally {
    slots: Slots,
    average_words: f32,
    /// Of the word at hand: its weight in the text of each memory, and in subject and date.
    text: Vec<f32>,
    side: Vec<f32>,
    /// Memories that have the word at hand, and those beside them.
    seen: Vec<u32>,
    reached: Vec<u32>,
    is_reached: Vec<bool>,
    /// Of all words: score and matched words.
    score: Vec<f32>,
    matched: Vec<u32>,
}

impl Tally {
    fn new(slots: Slots, span: &Span) -> Self {
        let places = usize::try_from(span.last).unwrap_or(0) + 1;
        #[allow(clippy::cast_possible_truncation)] // an average needs no more digits
        let average_words = span.average_words as f32;
        Self {
            slots,
            average_words,
            text: vec![0.0; places],
            side: vec![0.0; places],
            seen: Vec::new(),
            reached: Vec::new(),
            is_reached: vec![false; places],
            score: vec![0.0; places],
            matched: vec![0; places],
        }
    }

    /// How many memories have the word at hand.
    fn seen(&self) -> usize {
        self.seen.len()
    }

    /// Takes the postings of one term of the word at hand. A memory counts a word once, by the best of its terms.
    fn see(&mut self, postings: &[Posting], weight: f32) {
        for Posting { offset, fields } in postings.iter().copied() {
            let at = place(offset);
            let (Some(text), Some(side)) = (self.text.get_mut(at), self.side.get_mut(at)) else { continue };
            if *text == 0.0 && *side == 0.0 {
                self.seen.push(offset);
            }
            *text = text.max(weight * in_text(fields));
            *side = side.max(weight * beside_text(fields));
        }
    }

    /// Adds the word at hand to the scores.
    fn close(&mut self, idf: f64, bit: u32) {
        self.reach();
        #[allow(clippy::cast_possible_truncation)] // a weight needs no more digits
        let idf = idf as f32;
        for offset in std::mem::take(&mut self.reached) {
            let times =
                self.own(offset) + self.side.get(place(offset)).copied().unwrap_or(0.0) + self.around(offset);
            if let Some(score) = self.score.get_mut(place(offset)) {
                *score += idf * times * (K1 + 1.0) / (times + K1);
            }
            if let Some(is_reached) = self.is_reached.get_mut(place(offset)) {
                *is_reached = false;
            }
        }
        for offset in std::mem::take(&mut self.seen) {
            let at = place(offset);
            if let (Some(text), Some(side), Some(matched)) =
                (self.text.get_mut(at), self.side.get_mut(at), self.matched.get_mut(at))
            {
                (*text, *side, *matched) = (0.0, 0.0, *matched | bit);
            }
        }
    }

    /// Lists the memories that have the word, and two to each side of those.
    fn reach(&mut self) {
        for at in 0..self.seen.len() {
            let Some(offset) = self.seen.get(at).copied() else { break };
            self.reach_one(offset);
            // Subject and date are the memory's own: only its text says something about its neighbours.
            if self.text.get(place(offset)).is_some_and(|text| *text > 0.0) {
                for next in [|slot: index::Slot| slot.before, |slot: index::Slot| slot.after] {
                    let near = next(self.slots.get(offset));
                    self.reach_one(near);
                    if near > 0 {
                        self.reach_one(next(self.slots.get(near)));
                    }
                }
            }
        }
    }

    fn reach_one(&mut self, offset: u32) {
        if let Some(is_reached) = self.is_reached.get_mut(place(offset))
            && offset > 0
            && !*is_reached
        {
            *is_reached = true;
            self.reached.push(offset);
        }
    }

    /// The word's weight in the memory's own text, by its length.
    fn own(&self, offset: u32) -> f32 {
        let text = self.text.get(place(offset)).copied().unwrap_or(0.0);
        if text == 0.0 {
            return 0.0;
        }
        text / (1.0 - B + B * f32::from(self.slots.get(offset).words) / self.average_words)
    }

    /// The word's weight in the neighbours' texts.
    fn around(&self, offset: u32) -> f32 {
        self.along(offset, BEFORE, |slot| slot.before) + self.along(offset, AFTER, |slot| slot.after)
    }

    fn along(&self, offset: u32, weights: [f32; 2], next: impl Fn(index::Slot) -> u32) -> f32 {
        let (mut sum, mut at) = (0.0, offset);
        for weight in weights {
            at = next(self.slots.get(at));
            if at == 0 {
                break;
            }
            sum += weight * self.own(at);
        }
        sum
    }

    fn hits(self, possible: f64) -> Vec<Hit> {
        let scored = (0u32..).zip(self.score).zip(self.matched).filter(|((_, score), _)| *score > 0.0);
        let hit = |((offset, score), matched)| Hit { offset, coverage: f64::from(score) / possible, matched };
        scored.map(hit).collect()
    }
}

fn in_text(fields: Fields) -> f32 {
    let tags = if fields.has(Field::Tags) { TAGS } else { 0.0 };
    TITLE * f32::from(fields.title()) + f32::from(fields.body()) + tags
}

fn beside_text(fields: Fields) -> f32 {
    let subject = if fields.has(Field::Subject) { SUBJECT } else { 0.0 };
    let date = if fields.has(Field::Date) { DATE } else { 0.0 };
    subject + date
}

fn place(offset: u32) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}
