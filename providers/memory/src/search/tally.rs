//! Sums the score of every memory up, one word of the prompt after the other.

use super::board::Hit;
use super::span::Span;
use crate::index::{Field, Fields, Posting, Slots};

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
/// Parts of one that a word's weight in a memory is counted in: whole numbers add up the same in any order.
const PARTS: f32 = 65_536.0;

/// Scores while they are summed up.
pub(super) struct Tally {
    slots: Slots,
    average_words: f32,
    /// One for each offset.
    cells: Vec<Cell>,
    /// Memories that have the word at hand, and those that it counts for.
    seen: Vec<u32>,
    reached: Vec<u32>,
}

/// What one memory has.
#[derive(Clone, Copy, Default)]
struct Cell {
    /// Weight of the word at hand in its text, and in subject and date.
    text: f32,
    side: f32,
    /// Weight of the word at hand in all, with neighbours, in [`PARTS`].
    times: u32,
    /// Of all words.
    score: f32,
    matched: u32,
}

impl Tally {
    pub(super) fn new(slots: Slots, span: &Span) -> Self {
        #[allow(clippy::cast_possible_truncation)] // an average needs no more digits
        let average_words = span.average_words as f32;
        let cells = vec![Cell::default(); place(span.last).saturating_add(1)];
        Self { slots, average_words, cells, seen: Vec::new(), reached: Vec::new() }
    }

    /// How many memories have the word at hand.
    pub(super) fn seen(&self) -> usize {
        self.seen.len()
    }

    /// Takes the postings of one term of the word at hand. A memory counts a word once, by the best of its terms.
    pub(super) fn see(&mut self, postings: &[Posting], weight: f32) {
        for Posting { offset, fields } in postings.iter().copied() {
            let Some(cell) = self.cells.get_mut(place(offset)) else { continue };
            if cell.text == 0.0 && cell.side == 0.0 {
                self.seen.push(offset);
            }
            cell.text = cell.text.max(weight * in_text(fields));
            cell.side = cell.side.max(weight * beside_text(fields));
        }
    }

    /// Adds the word at hand to the scores.
    pub(super) fn close(&mut self, idf: f64, bit: u32) {
        for offset in std::mem::take(&mut self.seen) {
            self.spread(offset, bit);
        }
        #[allow(clippy::cast_possible_truncation)] // a weight needs no more digits
        let idf = idf as f32;
        for offset in self.reached.drain(..) {
            if let Some(cell) = self.cells.get_mut(place(offset)) {
                let times = whole(std::mem::take(&mut cell.times)) / PARTS;
                cell.score += idf * times * (K1 + 1.0) / (times + K1);
            }
        }
    }

    /// Counts the word at hand for a memory that has it, and its text for two memories to each side.
    fn spread(&mut self, offset: u32, bit: u32) {
        let Some(cell) = self.cells.get_mut(place(offset)) else { return };
        cell.matched |= bit;
        let (text, side) = (std::mem::take(&mut cell.text), std::mem::take(&mut cell.side));
        let slot = self.slots.get(offset);
        let text = text / (1.0 - B + B * f32::from(slot.words) / self.average_words);
        self.count(offset, text + side);
        // Subject and date are the memory's own: only its text says something about its neighbours.
        if text > 0.0 {
            self.count_along(slot.before, text, AFTER, |slot| slot.before);
            self.count_along(slot.after, text, BEFORE, |slot| slot.after);
        }
    }

    fn count_along(
        &mut self,
        first: u32,
        text: f32,
        weights: [f32; 2],
        next: impl Fn(crate::index::Slot) -> u32,
    ) {
        let mut at = first;
        for weight in weights {
            if at == 0 {
                break;
            }
            self.count(at, text * weight);
            at = next(self.slots.get(at));
        }
    }

    fn count(&mut self, offset: u32, times: f32) {
        let Some(cell) = self.cells.get_mut(place(offset)) else { return };
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // never negative, and saturates
        let parts = (times * PARTS) as u32;
        if cell.times == 0 && parts > 0 {
            self.reached.push(offset);
        }
        cell.times = cell.times.saturating_add(parts);
    }

    /// Every memory with a score, over what the prompt could give.
    pub(super) fn hits(self, possible: f64) -> Vec<Hit> {
        let scored = (0u32..).zip(self.cells).filter(|(_, cell)| cell.score > 0.0);
        let hit = |(offset, cell): (u32, Cell)| Hit {
            offset,
            coverage: f64::from(cell.score) / possible,
            matched: cell.matched,
        };
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

/// Exact up to 2^24, which is 256 times one; beyond, saturation has made all equal.
#[allow(clippy::cast_precision_loss)]
fn whole(parts: u32) -> f32 {
    parts as f32
}
