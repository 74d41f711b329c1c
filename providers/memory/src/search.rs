//! Search and recall: candidates from the full-text index over the whole scope, scored with the scope's own statistics.
//!
//! FTS5 finds the candidates; the score is BM25 over title, body and tags with inverse document frequencies counted in
//! the scope. **Coverage** = that score over what the query's terms could give in all: it is comparable between queries,
//! so recall can have a floor, which raw BM25 cannot.

use std::collections::{HashMap, HashSet};

use agentspine_gate::Id;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use crate::ledger::{Ledger, StoreError, count};
use crate::record::{Kind, MemoryScope, Trust};
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
/// Share of common terms from which two memories say the same.
const SAME: f64 = 0.8;

/// A memory that matches a search.
#[derive(Clone, PartialEq)]
pub struct Entry {
    /// Its id.
    pub memory_id: Id,
    /// Its revision, from 1.
    pub revision: u64,
    /// Its kind.
    pub kind: Kind,
    /// Title.
    pub title: String,
    /// Summary.
    pub summary: String,
    /// Who stands behind it.
    pub trust: Trust,
    /// Session or command it came from.
    pub source: Id,
    /// Milliseconds since the Unix epoch.
    pub created_at_ms: i64,
}

impl std::fmt::Debug for Entry {
    /// Without the text: memories never reach debug output.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry")
            .field("memory_id", &self.memory_id)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
}

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
#[derive(Debug, Clone, PartialEq)]
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
        let (total, ranked) = self.ranked(scope, text)?;
        let mut entries = Vec::new();
        let found = ranked.len();
        for hit in ranked.into_iter().take(limit.min(SEARCH_ENTRIES_MAX)) {
            entries.push(hit.entry);
        }
        let truncated = entries.len() < found;
        Ok(SearchResult { entries, scanned: total, total_in_scope: total, truncated })
    }

    /// The memories of exactly this scope that answer the prompt, best first, at most `limit`; none where nothing
    /// covers enough of it. Near-duplicates are folded into the best of them.
    pub fn recall(
        &self,
        scope: &MemoryScope,
        prompt: &str,
        limit: usize,
    ) -> Result<Vec<Recalled>, StoreError> {
        let (_, ranked) = self.ranked(scope, prompt)?;
        let mut kept: Vec<Hit> = Vec::new();
        for hit in ranked {
            if kept.len() >= limit || hit.coverage < FLOOR {
                break;
            }
            if !kept.iter().any(|earlier| same(&earlier.text, &hit.text)) {
                kept.push(hit);
            }
        }
        Ok(kept.into_iter().map(recalled).collect())
    }

    /// The number of memories in scope, and the matching ones in order.
    fn ranked(&self, scope: &MemoryScope, text: &str) -> Result<(u64, Vec<Hit>), StoreError> {
        // One read transaction: the statistics and the rows are of the same moment.
        let tx = self.db.unchecked_transaction()?;
        let Some(scope) = Span::of(&tx, scope)? else { return Ok((0, Vec::new())) };
        let terms = scope.terms(&tx, text)?;
        let Some(query) = any_of(terms.iter().filter(|term| term.found).map(|term| &term.word)) else {
            return Ok((scope.records, Vec::new()));
        };
        let mut hits = scope.candidates(&tx, &query, &terms)?;
        hits.sort_by(order);
        Ok((scope.records, hits))
    }
}

/// Best coverage first; recency only between equals, then the id, so that the order never depends on chance.
fn order(a: &Hit, b: &Hit) -> std::cmp::Ordering {
    let rank = |hit: &Hit| (hit.coverage * 1000.0).round();
    rank(b)
        .total_cmp(&rank(a))
        .then_with(|| b.entry.created_at_ms.cmp(&a.entry.created_at_ms))
        .then_with(|| a.entry.memory_id.cmp(&b.entry.memory_id))
}

fn recalled(hit: Hit) -> Recalled {
    let why = format!("matches: {}", hit.matched.join(", "));
    Recalled { entry: hit.entry, confidence: hit.coverage.clamp(0.0, 1.0), why }
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

/// A scored candidate.
struct Hit {
    entry: Entry,
    coverage: f64,
    matched: Vec<String>,
    /// All its terms, for the comparison with the others.
    text: String,
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

    /// The query's words, each once, weighted by how rare it is in the scope; at most [`TERMS_MAX`], the rarest.
    fn terms(&self, db: &Connection, text: &str) -> Result<Vec<Term>, StoreError> {
        let mut seen = HashSet::new();
        let mut terms = Vec::new();
        for word in content_words(&cut(text)) {
            if terms.len() < LOOKUPS_MAX && word.terms.first().is_some_and(|term| seen.insert(term.clone())) {
                terms.push(self.weighted(db, word)?);
            }
        }
        // Words that no memory has are dropped first: they only say how much of the query is not covered.
        terms.sort_by(|a, b| b.found.cmp(&a.found).then(b.idf.total_cmp(&a.idf)));
        terms.truncate(TERMS_MAX);
        Ok(terms)
    }

    fn weighted(&self, db: &Connection, word: Word) -> Result<Term, StoreError> {
        let sql = "SELECT count(*) FROM memory_fts WHERE memory_fts MATCH ? AND rowid BETWEEN ? AND ?";
        let query = any_of([&word]).unwrap_or_default();
        let with =
            db.prepare_cached(sql)?.query_row(params![query, self.first, self.last], |row| count(row, 0))?;
        let records = float(self.records) + SMOOTHING_RECORDS;
        let idf = (1.0 + (records - float(with) + 0.5) / (float(with) + 0.5)).ln();
        Ok(Term { word, idf, found: with > 0 })
    }

    fn candidates(&self, db: &Connection, query: &str, terms: &[Term]) -> Result<Vec<Hit>, StoreError> {
        // Ranked by number first: sorting whole rows would copy the text of every match, of which most are cut.
        let sql = "SELECT r.memory_id, r.revision, r.kind, r.trust, r.title, r.summary, r.source, r.created_at,
                          f.title, f.body, f.tags, r.words
                   FROM (SELECT f.rowid AS row, bm25(memory_fts, 2.0, 1.0, 1.5) AS rank
                         FROM memory_fts f CROSS JOIN memory_record r ON r.row = f.rowid
                         WHERE memory_fts MATCH ?1 AND f.rowid BETWEEN ?2 AND ?3 AND r.state = 'applied'
                         ORDER BY rank, f.rowid DESC LIMIT ?4) best
                   CROSS JOIN memory_fts f ON f.rowid = best.row CROSS JOIN memory_record r ON r.row = best.row";
        let mut statement = db.prepare_cached(sql)?;
        let mut rows = statement.query(params![query, self.first, self.last, CANDIDATES_MAX])?;
        let (mut hits, stems) = (Vec::new(), Stems::of(terms));
        while let Some(row) = rows.next()? {
            hits.push(self.hit(row, terms, &stems)?);
        }
        Ok(hits)
    }

    fn hit(&self, row: &Row<'_>, terms: &[Term], stems: &Stems<'_>) -> Result<Hit, StoreError> {
        let mut fields = [""; 3];
        for (at, field) in (8..).zip(&mut fields) {
            *field = row.get_ref(at)?.as_str().map_err(|_| StoreError::Corrupt)?;
        }
        let length = float(count(row, 11)?) / self.average_words;
        let mut score = 0.0;
        let mut matched = Vec::new();
        for (term, times) in terms.iter().zip(stems.count(fields, terms.len())) {
            if times > 0.0 {
                score += term.idf * times * (K1 + 1.0) / (times + K1 * (1.0 - B + B * length));
                matched.push(term.word.surface.clone());
            }
        }
        Ok(Hit { entry: entry(row)?, coverage: score / possible(terms), matched, text: fields.join(" ") })
    }
}

/// What the query's terms could give: their weights, for a long query that of [`COVERED_TERMS_MAX`] average ones.
fn possible(terms: &[Term]) -> f64 {
    let number = terms.iter().map(|_| 1.0).sum::<f64>();
    let sum = terms.iter().map(|term| term.idf).sum::<f64>();
    if number > COVERED_TERMS_MAX { sum / number * COVERED_TERMS_MAX } else { sum.max(f64::MIN_POSITIVE) }
}

/// Where each stem of the query belongs: the number of its term, and its place among that term's stems.
struct Stems<'a>(HashMap<&'a str, Vec<(usize, usize)>>);

impl<'a> Stems<'a> {
    fn of(terms: &'a [Term]) -> Self {
        let mut stems: HashMap<&str, Vec<(usize, usize)>> = HashMap::new();
        for (number, term) in terms.iter().enumerate() {
            for (place, stem) in term.word.terms.iter().enumerate() {
                stems.entry(stem).or_default().push((number, place));
            }
        }
        Self(stems)
    }

    /// How often each term stands in title, body and tags, weighted. A word counts once, whichever of its stems the
    /// memory has.
    fn count(&self, fields: [&str; 3], terms: usize) -> Vec<f64> {
        let mut counts: Vec<Vec<f64>> = vec![Vec::new(); terms];
        for (field, weight) in fields.into_iter().zip(WEIGHTS) {
            for (number, place) in field.split(' ').filter_map(|term| self.0.get(term)).flatten() {
                let Some(of_term) = counts.get_mut(*number) else { continue };
                of_term.resize(of_term.len().max(place + 1), 0.0);
                if let Some(times) = of_term.get_mut(*place) {
                    *times += weight;
                }
            }
        }
        counts.into_iter().map(|of_term| of_term.into_iter().fold(0.0, f64::max)).collect()
    }
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
fn same(a: &str, b: &str) -> bool {
    let terms = |text: &'_ str| text.split(' ').map(str::to_owned).collect::<HashSet<String>>();
    let (a, b) = (terms(a), terms(b));
    let number = |n: usize| float(u64::try_from(n).unwrap_or(u64::MAX));
    number(a.intersection(&b).count()) >= SAME * number(a.union(&b).count())
}

fn entry(row: &Row<'_>) -> Result<Entry, StoreError> {
    let text = |at: usize| row.get::<_, String>(at);
    let id = |at: usize| Id::new(text(at)?).map_err(|_| StoreError::Corrupt);
    let trust = text(3)?;
    Ok(Entry {
        memory_id: id(0)?,
        revision: count(row, 1)?,
        kind: Kind::parse(&text(2)?).map_err(|_| StoreError::Corrupt)?,
        trust: Trust::ALL.into_iter().find(|t| t.as_str() == trust).ok_or(StoreError::Corrupt)?,
        title: text(4)?,
        summary: text(5)?,
        source: id(6)?,
        created_at_ms: row.get(7)?,
    })
}

/// Counts stay far below 2^53, where this is exact.
#[allow(clippy::cast_precision_loss)]
fn float(n: u64) -> f64 {
    n as f64
}
