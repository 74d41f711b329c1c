//! Words of alphabetic scripts: identifiers whole and in parts, stems of two languages, pieces of compounds.

use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};

use super::stop::stop;
use super::{WORD_CHARS_MAX, Word, irregular, is_dropped};

/// Shortest stem that has pieces: shorter ones are hardly compounds.
const COMPOUND_CHARS_MIN: usize = 8;
/// Shortest piece, at the beginning and at the end of a word.
const PIECE_CHARS_MIN: usize = 4;
/// What is left of a word beside a piece, at least.
const REST_CHARS_MIN: usize = 3;
/// Marks a term as the beginning, or the end, of a longer word; no term of a whole word begins so.
pub(crate) const BEGINNING: char = '<';
pub(crate) const END: char = '>';

/// A word or an identifier: the parts, and the whole where there is more than one part.
pub(super) fn words(run: &[char], out: &mut Vec<Word>) {
    let run = without_ending(run);
    let parts = parts(&run);
    if parts.len() > 1 {
        let surface: String = lower(run.iter().copied());
        out.push(word(surface, &whole(&parts)));
    }
    out.extend(parts.into_iter().map(|part| word(part.clone(), &part)));
}

/// `Caroline's` is about Caroline; `don't` stays one word without its apostrophe.
fn without_ending(run: &[char]) -> Vec<char> {
    let is_mark = |c: &char| matches!(*c, '\'' | '’');
    let kept = match run {
        [rest @ .., mark, 's' | 'S'] if is_mark(mark) => rest,
        all => all,
    };
    kept.iter().copied().filter(|c| !is_mark(c)).collect()
}

/// Splits at `_ - .` and at camel humps: `HTTPClient` = `http`, `client`.
fn parts(run: &[char]) -> Vec<String> {
    let mut parts = Vec::new();
    let mut part: Vec<char> = Vec::new();
    for (at, c) in run.iter().copied().enumerate() {
        let before = at.checked_sub(1).and_then(|i| run.get(i)).copied();
        let next_low = run.get(at + 1).is_some_and(|n| n.is_lowercase());
        let hump =
            c.is_uppercase() && before.is_some_and(|b| b.is_lowercase() || (b.is_uppercase() && next_low));
        if (hump || !c.is_alphanumeric()) && !part.is_empty() {
            parts.push(lower(std::mem::take(&mut part)));
        }
        if c.is_alphanumeric() {
            part.push(c);
        }
    }
    if !part.is_empty() {
        parts.push(lower(part));
    }
    parts
}

/// The parts in one term. Between digits a letter keeps `1.95` apart from `195`.
fn whole(parts: &[String]) -> String {
    let numeric = |c: Option<char>| c.is_some_and(char::is_numeric);
    let all = parts.iter().fold(String::new(), |mut all, part| {
        if numeric(all.chars().last()) && numeric(part.chars().next()) {
            all.push('p');
        }
        all + part
    });
    all.chars().take(WORD_CHARS_MAX).collect()
}

fn lower(chars: impl IntoIterator<Item = char>) -> String {
    let text: String = chars.into_iter().take(WORD_CHARS_MAX).flat_map(char::to_lowercase).collect();
    // `İ` becomes `i` and a combining dot, which is dropped as every accent is.
    text.chars().filter(|c| !is_dropped(*c)).collect::<String>().replace('ß', "ss")
}

fn word(surface: String, folded: &str) -> Word {
    let stop = stop(folded);
    let stems = stems(folded);
    Word { surface, stems, stop }
}

/// The English and the German stem, each of the base where the form is irregular; no duplicates.
fn stems(folded: &str) -> Vec<String> {
    static ENGLISH: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::English));
    static GERMAN: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::German));
    let mut stems = vec![ENGLISH.stem(folded).into_owned(), GERMAN.stem(folded).into_owned()];
    if let Some(base) = irregular::base(folded) {
        stems.extend([ENGLISH.stem(base).into_owned(), GERMAN.stem(base).into_owned()]);
    } else if let Some(base) = participle(folded) {
        stems.push(GERMAN.stem(&base).into_owned());
    }
    stems.sort_unstable();
    stems.dedup();
    stems
}

/// `geprüft`, `abgeschaltet` and `abzuschalten` as forms of `prüfen` and `abschalten`. Of an English word (`getting`) this
/// makes a stem that nothing else has.
fn participle(folded: &str) -> Option<String> {
    const PREFIXES: &[&str] = &[
        "", "ab", "an", "auf", "aus", "bei", "durch", "ein", "fest", "frei", "her", "hin", "hoch", "mit",
        "nach", "runter", "um", "unter", "vor", "weg", "weiter", "zu", "zuruck", "zusammen", "uber",
    ];
    let verb = |rest: &str, prefix: &str| {
        let (stem, infinitive) = match rest.strip_prefix("ge") {
            Some(stem) => (stem.strip_suffix("et").or_else(|| stem.strip_suffix('t'))?, false),
            None => (rest.strip_prefix("zu").filter(|_| !prefix.is_empty())?.strip_suffix("en")?, true),
        };
        let long = stem.chars().count() >= if infinitive { 4 } else { 3 };
        long.then(|| format!("{prefix}{stem}en"))
    };
    PREFIXES.iter().rev().find_map(|prefix| verb(folded.strip_prefix(prefix)?, prefix))
}

/// Beginnings and ends of a long word, of letters only: `quittungsablauf` begins with `quittung` and ends in `ablauf`.
pub(crate) fn pieces(stem: &str) -> impl Iterator<Item = (char, &str)> {
    let letters = stem.chars().all(char::is_alphabetic);
    let long = stem.char_indices().nth(COMPOUND_CHARS_MIN - 1).is_some();
    let chars = if letters && long { stem.chars().count() } else { 0 };
    stem.char_indices().enumerate().filter(move |_| chars > 0).flat_map(move |(number, (at, _))| {
        let begins = (PIECE_CHARS_MIN..=chars.saturating_sub(REST_CHARS_MIN)).contains(&number);
        let ends = (REST_CHARS_MIN..=chars.saturating_sub(PIECE_CHARS_MIN)).contains(&number);
        let (beginning, end) = stem.split_at(at);
        [begins.then_some((BEGINNING, beginning)), ends.then_some((END, end))].into_iter().flatten()
    })
}
