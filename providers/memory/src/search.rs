//! Search and recall: every memory of the scope that the index knows of, scored with the scope's own statistics.
//!
//! **The formula.** A word of the prompt stands for its stems and, in long words, for pieces. How much of it a memory has
//! is counted over weighted fields (BM25F):
//!
//! ```text
//! tf    = (2·title + body + 1.5·tags) / norm + 2·subject + date
//!       + Σ w(neighbour) · (the same text of the neighbour) / norm(neighbour)        two before, two after
//! norm  = 1 - b + b · length / average length                                        b = 0.3
//! idf   = ln(1 + (N - n + 0.5) / (n + 0.5))      n of N memories have the word; N is at least 50 more than there are
//! score = Σ idf · tf · (k1 + 1) / (tf + k1)                                          k1 = 0.9
//! ```
//!
//! **Coverage** = score over what the prompt's words could give in all (the sum of their idf): it is comparable between
//! prompts, so recall can have a floor, which raw BM25 cannot. Neighbours are memories derived from the same session;
//! what a person said explicitly has none.
//!
//! * `ask`: the prompt as words with the terms each of them stands for;
//! * `board`: the score of every memory;
//! * `span`: a scope's rows and statistics;
//! * `choose`: which of the best are recalled, and why others are left out.

mod ask;
mod board;
mod choose;
mod span;

use rusqlite::Connection;

use crate::entry::{self, Entry};
use crate::ledger::{Ledger, StoreError};
use crate::record::MemoryScope;
use board::Board;
use span::Span;

pub use choose::{LeftOut, Recall, Why};

/// Longest query that is looked at, bytes; of a longer prompt the first and the last half of this.
pub const QUERY_BYTES_MAX: usize = 4096;
/// Most entries of one search.
pub const SEARCH_ENTRIES_MAX: usize = 25;

/// A memory that answers a prompt, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Recalled {
    /// The memory.
    pub entry: Entry,
    /// Coverage of the prompt, capped at 1.
    pub confidence: f64,
    /// Such as `matches: receipt, expire`.
    pub why: String,
}

/// Answer of a search.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SearchResult {
    /// Best first.
    pub entries: Vec<Entry>,
    /// Memories that were looked through: always the whole scope.
    pub scanned: u64,
    /// Memories in the scope.
    pub total_in_scope: u64,
    /// Whether more memories match than are listed.
    pub truncated: bool,
}

impl Ledger {
    /// Every memory of exactly this scope that shares a word with the text, best first, at most `limit` and
    /// [`SEARCH_ENTRIES_MAX`].
    pub fn search(&self, scope: &MemoryScope, text: &str, limit: usize) -> Result<SearchResult, StoreError> {
        let reading = self.reading()?;
        let Some(span) = Span::of(&reading.tx, scope)? else { return Ok(SearchResult::default()) };
        let board = Board::of(&reading, &span, text)?;
        let hits = board.best(limit.min(SEARCH_ENTRIES_MAX), board::Take::Matching);
        let entries = hits.iter().map(|hit| entry(&reading.tx, span.row(hit.offset)));
        let entries = entries.collect::<Result<Vec<_>, StoreError>>()?;
        let truncated = entries.len() < board.matching();
        Ok(SearchResult { entries, scanned: span.records, total_in_scope: span.records, truncated })
    }

    /// The memories of exactly this scope in the order of their coverage, with no floor and no choice among them.
    ///
    /// For measuring, and for fusing with another arm; `confidence` is not capped.
    pub fn ranked(&self, scope: &MemoryScope, text: &str, limit: usize) -> Result<Vec<Recalled>, StoreError> {
        let reading = self.reading()?;
        let Some(span) = Span::of(&reading.tx, scope)? else { return Ok(Vec::new()) };
        let board = Board::of(&reading, &span, text)?;
        let hits = board.best(limit, board::Take::All);
        let recalled = hits.iter().map(|hit| {
            let entry = entry(&reading.tx, span.row(hit.offset))?;
            Ok(Recalled { entry, confidence: hit.coverage, why: board.why(hit) })
        });
        recalled.collect()
    }

    /// The memories of exactly this scope that answer the prompt, best first, at most `limit`; none where nothing
    /// covers enough of it. Near-duplicates are folded into the best of them.
    pub fn recall(
        &self,
        scope: &MemoryScope,
        prompt: &str,
        limit: usize,
    ) -> Result<Vec<Recalled>, StoreError> {
        Ok(self.recall_with_rest(scope, prompt, limit)?.recalled)
    }

    /// As [`Ledger::recall`], with what came close and was left out.
    pub fn recall_with_rest(
        &self,
        scope: &MemoryScope,
        prompt: &str,
        limit: usize,
    ) -> Result<Recall, StoreError> {
        let reading = self.reading()?;
        let Some(span) = Span::of(&reading.tx, scope)? else { return Ok(Recall::default()) };
        let board = Board::of(&reading, &span, prompt)?;
        choose::choose(&reading.tx, &span, &board, limit)
    }
}

/// The memory of a row.
fn entry(db: &Connection, row: i64) -> Result<Entry, StoreError> {
    let columns = entry::COLUMNS;
    let sql = format!("SELECT {columns} FROM memory_record r WHERE r.row = ? AND r.state = 'applied'");
    let mut statement = db.prepare_cached(&sql)?;
    let mut rows = statement.query([row])?;
    Entry::read(rows.next()?.ok_or(StoreError::Corrupt)?)
}

/// Counts stay far below 2^53, where this is exact.
#[allow(clippy::cast_precision_loss)]
fn float(n: u64) -> f64 {
    n as f64
}
