//! Search and recall: candidates from the full-text index over the whole scope, scored with the scope's own statistics.
//!
//! FTS5 finds the candidates; the score is BM25 over title, body and tags with inverse document frequencies counted in
//! the scope. **Coverage** = that score over what the query's terms could give in all: it is comparable between queries,
//! so recall can have a floor, which raw BM25 cannot.

use std::collections::{BTreeSet, HashMap, HashSet};

use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::entry::{self, Entry};
use crate::ledger::{Ledger, StoreError, count};
use crate::record::MemoryScope;
use crate::words::{Word, content_words};

/// Longest query that is looked at, bytes; of a longer prompt the first and the last half of this.
pub const QUERY_BYTES_MAX: usize = 4096;
/// Most entries of one search.
pub const SEARCH_ENTRIES_MAX: usize = 25;
/// Most different terms of one query; the rarest in the scope are kept.
const TERMS_MAX: usize = 32;
/// Most different words that are looked up to find those.
const LOOKUPS_MAX: usize = 256;
/// Candidates that are scored exactly.
const CANDIDATES_MAX: u32 = 200;
/// Coverage below which recall stays silent.
const FLOOR: f64 = 0.35;
/// A long prompt need not be covered as a whole: coverage is measured against this many average terms at most.
const COVERED_TERMS_MAX: f64 = 5.0;
/// Records a scope is taken to have at least, so that in a new scope one common word is not a match.
const SMOOTHING_RECORDS: f64 = 50.0;
/// BM25: saturation of repeated terms, and how much length counts (tuned on development data).
const K1: f64 = 0.9;
const B: f64 = 0.3;
/// Weights of title, body and tags.
const WEIGHTS: [f64; 3] = [2.0, 1.0, 1.5];
/// Most stems of one word: English and German.
const STEMS_MAX: usize = 2;
/// Share of common terms from which two memories say the same.
const SAME: f64 = 0.8;

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
        // One read transaction: the statistics and the rows are of the same moment.
        let tx = self.db.unchecked_transaction()?;
        let Some(scope) = Span::of(&tx, scope)? else { return Ok(SearchResult::default()) };
        let ranking = scope.ranked(&tx, text)?;
        let best = ranking.hits.iter().take(limit.min(SEARCH_ENTRIES_MAX));
        let entries = best.map(|hit| hit.load(&tx).map(|(entry, _)| entry)).collect::<Result<Vec<_>, _>>()?;
        let truncated = entries.len() < ranking.hits.len();
        Ok(SearchResult { entries, scanned: scope.records, total_in_scope: scope.records, truncated })
    }

    /// The memories of exactly this scope that answer the prompt, best first, at most `limit`; none where nothing
    /// covers enough of it. Near-duplicates are folded into the best of them.
    pub fn recall(
        &self,
        scope: &MemoryScope,
        prompt: &str,
        limit: usize,
    ) -> Result<Vec<Recalled>, StoreError> {
        let tx = self.db.unchecked_transaction()?;
        let Some(scope) = Span::of(&tx, scope)? else { return Ok(Vec::new()) };
        let ranking = scope.ranked(&tx, prompt)?;
        let (mut kept, mut texts): (Vec<Recalled>, Vec<BTreeSet<String>>) = (Vec::new(), Vec::new());
        for hit in ranking.hits.iter().take_while(|hit| hit.coverage >= FLOOR) {
            if kept.len() >= limit {
                break;
            }
            let (entry, text) = hit.load(&tx)?;
            if !texts.iter().any(|earlier| same(earlier, &text)) {
                kept.push(Recalled {
                    entry,
                    confidence: hit.coverage.clamp(0.0, 1.0),
                    why: ranking.why(hit),
                });
                texts.push(text);
            }
        }
        Ok(kept)
    }
}

/// The query's terms, and the memories that match them, best first.
#[derive(Default)]
struct Ranking {
    terms: Vec<Term>,
    hits: Vec<Hit>,
}

impl Ranking {
    fn why(&self, hit: &Hit) -> String {
        let matched = self.terms.iter().zip(&hit.times).filter(|(_, times)| **times > 0.0);
        let mut terms: Vec<&Term> = matched.map(|(term, _)| term).collect();
        terms.sort_by(|a, b| b.idf.total_cmp(&a.idf));
        let words: Vec<&str> = terms.iter().map(|term| term.word.surface.as_str()).collect();
        format!("matches: {}", words.join(", "))
    }
}

/// Best coverage first; recency only between equals, then the id, so that the order never depends on chance.
fn order(a: &Hit, b: &Hit) -> std::cmp::Ordering {
    let rank = |hit: &Hit| (hit.coverage * 1000.0).round();
    rank(b)
        .total_cmp(&rank(a))
        .then_with(|| b.created_at_ms.cmp(&a.created_at_ms))
        .then_with(|| a.memory_id.cmp(&b.memory_id))
}

/// A scope's row numbers and statistics.
struct Span {
    first: i64,
    last: i64,
    records: u64,
    average_words: f64,
}

/// A word of the query with its weight.
struct Term {
    word: Word,
    idf: f64,
    /// Whether any memory of the scope has it.
    found: bool,
}

/// A candidate: what its score needs. Its text is read once it is among the best.
struct Hit {
    row: i64,
    memory_id: String,
    created_at_ms: i64,
    /// Its length in words.
    words: f64,
    /// How often each term stands in it, weighted by field.
    times: Vec<f64>,
    coverage: f64,
}

impl Span {
    fn of(db: &Connection, scope: &MemoryScope) -> Result<Option<Self>, StoreError> {
        let sql =
            "SELECT no << 32, (no << 32) | 0xffffffff, records, words FROM memory_scope WHERE digest = ?";
        let span = db.prepare_cached(sql)?.query_row([scope.digest().to_hex()], |row| {
            let (records, words) = (count(row, 2)?, count(row, 3)?);
            let average_words = (float(words) / float(records.max(1))).max(1.0);
            Ok(Self { first: row.get(0)?, last: row.get(1)?, records, average_words })
        });
        Ok(span.optional()?)
    }

    fn ranked(&self, db: &Connection, text: &str) -> Result<Ranking, StoreError> {
        let words = words(text);
        let few = if words.len() <= TERMS_MAX { self.few(db, &words)? } else { None };
        let mut ranking = match few {
            Some(hits) => self.counted(words, hits),
            None => self.best(db, words)?,
        };
        let possible = possible(&ranking.terms);
        for hit in &mut ranking.hits {
            let length = hit.words / self.average_words;
            let given = |(term, times): (&Term, &f64)| {
                term.idf * times * (K1 + 1.0) / (times + K1 * (1.0 - B + B * length))
            };
            hit.coverage = ranking.terms.iter().zip(&hit.times).map(given).sum::<f64>() / possible;
        }
        ranking.hits.sort_by(order);
        Ok(ranking)
    }

    /// Every match of the words; `None` where they are more than [`CANDIDATES_MAX`].
    fn few(&self, db: &Connection, words: &[Word]) -> Result<Option<Vec<Hit>>, StoreError> {
        let sql = "SELECT r.row, r.memory_id, r.created_at, r.words, c.c0, c.c1, c.c2
                   FROM memory_fts f CROSS JOIN memory_fts_content c ON c.id = f.rowid
                   CROSS JOIN memory_record r ON r.row = f.rowid
                   WHERE memory_fts MATCH ?1 AND f.rowid BETWEEN ?2 AND ?3 AND r.state = 'applied' LIMIT ?4 + 1";
        let hits = self.hits(db, sql, words)?;
        Ok((hits.len() <= CANDIDATES_MAX as usize).then_some(hits))
    }

    /// All matches are here, so they say themselves how rare each word is.
    fn counted(&self, words: Vec<Word>, hits: Vec<Hit>) -> Ranking {
        let with = |at: usize| hits.iter().filter(|hit| hit.times.get(at).is_some_and(|n| *n > 0.0)).count();
        let terms = words.into_iter().enumerate();
        let terms = terms.map(|(at, word)| self.weighted(word, with(at) as u64)).collect();
        Ranking { terms, hits }
    }

    /// The best of very many matches. Words that no memory has are dropped first: they only say how much of the query is
    /// not covered.
    fn best(&self, db: &Connection, words: Vec<Word>) -> Result<Ranking, StoreError> {
        let sql = "SELECT count(*) FROM memory_fts WHERE memory_fts MATCH ? AND rowid BETWEEN ? AND ?";
        let mut with = db.prepare_cached(sql)?;
        let mut terms = Vec::with_capacity(words.len());
        for word in words {
            let key = params![any_of([&word]).unwrap_or_default(), self.first, self.last];
            let with = with.query_row(key, |row| count(row, 0))?;
            terms.push(self.weighted(word, with));
        }
        terms.sort_by(|a, b| b.found.cmp(&a.found).then(b.idf.total_cmp(&a.idf)));
        terms.truncate(TERMS_MAX);
        // Ranked by number first: sorting whole rows would copy the text of every match, of which most are cut.
        let sql = "SELECT r.row, r.memory_id, r.created_at, r.words, c.c0, c.c1, c.c2
                   FROM (SELECT f.rowid AS row, bm25(memory_fts, 2.0, 1.0, 1.5) AS rank
                         FROM memory_fts f CROSS JOIN memory_record r ON r.row = f.rowid
                         WHERE memory_fts MATCH ?1 AND f.rowid BETWEEN ?2 AND ?3 AND r.state = 'applied'
                         ORDER BY rank, f.rowid DESC LIMIT ?4) best
                   CROSS JOIN memory_fts_content c ON c.id = best.row CROSS JOIN memory_record r ON r.row = best.row";
        let hits = self.hits(db, sql, terms.iter().map(|term| &term.word))?;
        Ok(Ranking { terms, hits })
    }

    fn weighted(&self, word: Word, with: u64) -> Term {
        let (records, of) = (float(self.records) + SMOOTHING_RECORDS, float(with));
        Term { word, idf: (1.0 + (records - of + 0.5) / (of + 0.5)).ln(), found: with > 0 }
    }

    fn hits<'w>(
        &self,
        db: &Connection,
        sql: &str,
        words: impl IntoIterator<Item = &'w Word> + Clone,
    ) -> Result<Vec<Hit>, StoreError> {
        let Some(query) = any_of(words.clone()) else { return Ok(Vec::new()) };
        let stems = Stems::of(words);
        let mut statement = db.prepare_cached(sql)?;
        let mut rows = statement.query(params![query, self.first, self.last, CANDIDATES_MAX])?;
        let mut hits = Vec::new();
        while let Some(row) = rows.next()? {
            hits.push(hit(row, &stems)?);
        }
        Ok(hits)
    }
}

fn hit(row: &Row<'_>, stems: &Stems<'_>) -> Result<Hit, StoreError> {
    let mut fields = [""; 3];
    for (at, field) in (4..).zip(&mut fields) {
        *field = row.get_ref(at)?.as_str().map_err(|_| StoreError::Corrupt)?;
    }
    Ok(Hit {
        row: row.get(0)?,
        memory_id: row.get(1)?,
        created_at_ms: row.get(2)?,
        words: float(count(row, 3)?),
        times: stems.count(fields),
        coverage: 0.0,
    })
}

impl Hit {
    /// The memory, and all its terms for the comparison with others.
    fn load(&self, db: &Connection) -> Result<(Entry, BTreeSet<String>), StoreError> {
        let sql = format!(
            "SELECT {}, c.c0, c.c1, c.c2
             FROM memory_record r CROSS JOIN memory_fts_content c ON c.id = r.row WHERE r.row = ?",
            entry::COLUMNS
        );
        let mut statement = db.prepare_cached(&sql)?;
        let mut rows = statement.query([self.row])?;
        let row = rows.next()?.ok_or(StoreError::Corrupt)?;
        let mut terms = BTreeSet::new();
        for at in entry::COLUMNS_LEN..entry::COLUMNS_LEN + 3 {
            let field = row.get_ref(at)?.as_str().map_err(|_| StoreError::Corrupt)?;
            terms.extend(field.split(' ').map(str::to_owned));
        }
        Ok((Entry::read(row)?, terms))
    }
}

/// The query's words, each once, at most [`LOOKUPS_MAX`].
fn words(text: &str) -> Vec<Word> {
    let mut seen = HashSet::new();
    let mut words = content_words(&cut(text));
    words.retain(|word| word.terms.first().is_some_and(|term| seen.insert(term.clone())));
    words.truncate(LOOKUPS_MAX);
    words
}

/// What the query's terms could give: their weights, for a long query that of [`COVERED_TERMS_MAX`] average ones.
fn possible(terms: &[Term]) -> f64 {
    let number = terms.iter().map(|_| 1.0).sum::<f64>();
    let sum = terms.iter().map(|term| term.idf).sum::<f64>();
    if number > COVERED_TERMS_MAX { sum / number * COVERED_TERMS_MAX } else { sum.max(f64::MIN_POSITIVE) }
}

/// Where each stem of the query belongs: the number of its word, and its place among that word's stems.
struct Stems<'a> {
    of: HashMap<&'a str, Vec<(usize, usize)>>,
    words: usize,
    /// First bytes of the stems, each modulo 64: most terms of a memory are told apart by these.
    firsts: u64,
}

impl<'a> Stems<'a> {
    fn of(words: impl IntoIterator<Item = &'a Word>) -> Self {
        let mut stems = Self { of: HashMap::new(), words: 0, firsts: 0 };
        for word in words {
            for (place, stem) in word.terms.iter().enumerate() {
                stems.of.entry(stem).or_default().push((stems.words, place));
                stems.firsts |= first(stem);
            }
            stems.words += 1;
        }
        stems
    }

    /// How often each word stands in title, body and tags, weighted. A word counts once, whichever of its stems the
    /// memory has.
    fn count(&self, fields: [&str; 3]) -> Vec<f64> {
        let mut counts = vec![[0.0; STEMS_MAX]; self.words];
        for (field, weight) in fields.into_iter().zip(WEIGHTS) {
            let terms = field.split(' ').filter(|term| self.firsts & first(term) != 0);
            for (word, place) in terms.filter_map(|term| self.of.get(term)).flatten() {
                if let Some(times) = counts.get_mut(*word).and_then(|of_word| of_word.get_mut(*place)) {
                    *times += weight;
                }
            }
        }
        counts.into_iter().map(|of_word| of_word.into_iter().fold(0.0, f64::max)).collect()
    }
}

fn first(term: &str) -> u64 {
    term.bytes().next().map_or(0, |byte| 1 << (byte % 64))
}

/// `"a" OR "b"` over all terms of the words. Terms hold letters and digits only, so a quoted term ends at its quote.
fn any_of<'a>(words: impl IntoIterator<Item = &'a Word>) -> Option<String> {
    let terms: Vec<String> =
        words.into_iter().flat_map(|w| &w.terms).map(|term| format!("\"{term}\"")).collect();
    if terms.is_empty() { None } else { Some(terms.join(" OR ")) }
}

/// Of a long prompt the beginning and the end: the question stands at one of them, pasted text between.
fn cut(text: &str) -> String {
    if text.len() <= QUERY_BYTES_MAX {
        return text.to_owned();
    }
    let half = QUERY_BYTES_MAX / 2;
    let head = text.get(..text.floor_char_boundary(half)).unwrap_or_default();
    let tail = text.get(text.ceil_char_boundary(text.len() - half)..).unwrap_or_default();
    format!("{head}\n{tail}")
}

/// Whether two memories share [`SAME`] of their terms.
fn same(a: &BTreeSet<String>, b: &BTreeSet<String>) -> bool {
    let number = |n: usize| float(u64::try_from(n).unwrap_or(u64::MAX));
    number(a.intersection(b).count()) >= SAME * number(a.union(b).count())
}

/// Counts stay far below 2^53, where this is exact.
#[allow(clippy::cast_precision_loss)]
fn float(n: u64) -> f64 {
    n as f64
}
