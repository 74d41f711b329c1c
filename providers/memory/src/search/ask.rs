//! The prompt as words, each with the terms of the index that it stands for.

use std::collections::HashSet;

use super::QUERY_BYTES_MAX;
use crate::index::DATE;
use crate::words::latin::{BEGINNING, END, pieces};
use crate::words::{self, Word};

/// Most different words of one query that are looked at.
const WORDS_MAX: usize = 256;
/// What a piece of a word counts beside the whole.
const PIECE: f32 = 0.4;
/// Most pieces of one word that are looked up.
const PIECES_MAX: usize = 24;

/// A word of the prompt.
pub(super) struct Asked {
    /// As written, folded and in lower case.
    pub(super) surface: String,
    /// Terms that answer it, with what each counts.
    pub(super) terms: Vec<(String, f32)>,
}

/// The prompt's words, each once, at most [`WORDS_MAX`].
pub(super) fn ask(text: &str) -> Vec<Asked> {
    let mut seen = HashSet::new();
    let mut words = words::content_words(&cut(text));
    words.retain(|word| word.stems.first().is_some_and(|stem| seen.insert(stem.clone())));
    words.truncate(WORDS_MAX);
    words.into_iter().map(asked).collect()
}

fn asked(word: Word) -> Asked {
    let mut terms: Vec<(String, f32)> = word.stems.iter().map(|stem| (stem.clone(), 1.0)).collect();
    for stem in &word.stems {
        // Longer words that begin or end with this one, and shorter ones that this one begins or ends with.
        terms.extend([BEGINNING, END].map(|end| (format!("{end}{stem}"), PIECE)));
        terms.extend(pieces(stem).take(PIECES_MAX).map(|(_, piece)| (piece.to_owned(), PIECE)));
    }
    terms.extend(date(&word).map(|term| (term, 1.0)));
    let mut seen = HashSet::new();
    terms.retain(|(term, _)| seen.insert(term.clone()));
    Asked { surface: word.surface, terms }
}

/// The term of the index's date field: a year or whole date, or a month.
fn date(word: &Word) -> Option<String> {
    const MONTHS: [&[&str]; 12] = [
        &["january", "januar"],
        &["february", "februar"],
        &["march", "marz"],
        &["april"],
        &["may", "mai"],
        &["june", "juni"],
        &["july", "juli"],
        &["august"],
        &["september"],
        &["october", "oktober"],
        &["november"],
        &["december", "dezember"],
    ];
    if word.surface.starts_with(|c: char| c.is_ascii_digit()) {
        return word.stems.first().map(|stem| format!("{DATE}{stem}"));
    }
    let month = MONTHS.iter().position(|names| names.contains(&word.surface.as_str()))?;
    Some(format!("{DATE}m{}", month + 1))
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
