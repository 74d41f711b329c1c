//! How text becomes index terms, the same way when a memory is stored and when a prompt asks.
//!
//! Fold (NFKC, accents and invisible characters off) → runs of letters and digits → identifiers whole *and* in parts
//! (`parse_config`, `HttpClient`), CJK runs as bigrams → lower case → English and German stem. A term holds letters and
//! digits only, so nothing in it can be FTS5 syntax.

use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

mod irregular;
pub(crate) mod latin;
mod stop;

use stop::Stop;

/// Longest word that is looked at, characters; the rest of a longer one is dropped.
const WORD_CHARS_MAX: usize = 64;
/// Most words of one text: a 4 KiB summary has fewer, whatever its script.
const WORDS_MAX: usize = 8192;

/// One word of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Word {
    /// As written, folded and in lower case; what a person is shown as the reason of a match.
    pub(crate) surface: String,
    /// Its stems, English and German, or one bigram. At least one, no duplicates.
    pub(crate) stems: Vec<String>,
    /// Whether it is a stop word in this text.
    pub(crate) stop: Stop,
}

/// All words of a text that carry meaning, in order.
///
/// A German-only stop word stays when the text shows no sign of German; `index` keeps them in any case, so that a
/// German memory can be asked for in English.
pub(crate) fn content_words(text: &str) -> Vec<Word> {
    let folded = fold(text);
    let all = split(&folded);
    let german = all.iter().any(|word| word.stop == Stop::Plain && is_german(&word.surface));
    all.into_iter()
        .filter(|word| match word.stop {
            Stop::No => true,
            Stop::Plain => false,
            Stop::GermanOnly => !german,
        })
        .collect()
}

/// The words of a text that the index holds, in order.
pub(crate) fn indexed(text: &str) -> Vec<Word> {
    split(&fold(text)).into_iter().filter(|word| word.stop != Stop::Plain).collect()
}

/// A few stop words that occur in almost every German sentence and in no English one.
fn is_german(word: &str) -> bool {
    const SIGNS: &[&str] = &[
        "aber", "auch", "auf", "aus", "bei", "bitte", "das", "dass", "dem", "der", "du", "ein", "eine",
        "einen", "fur", "ich", "im", "ist", "mein", "nicht", "oder", "sie", "sind", "und", "uns", "von",
        "wann", "warum", "welche", "wer", "werden", "wie", "wir", "wird", "wo", "zu", "zum", "zur",
    ];
    SIGNS.contains(&word)
}

fn fold(text: &str) -> String {
    let nfkd = DecomposingNormalizerBorrowed::new_nfkd();
    let nfc = ComposingNormalizerBorrowed::new_nfc();
    let bare: String = nfkd.normalize(text).chars().filter(|c| !is_dropped(*c)).collect();
    // Composed again, because a Hangul syllable is one character of a bigram, not three.
    nfc.normalize(&bare).into_owned()
}

/// Combining accents and characters that are drawn as nothing.
fn is_dropped(c: char) -> bool {
    matches!(c, '\u{300}'..='\u{36f}' | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fe00}'..='\u{fe0f}'
        | '\u{e0000}'..='\u{e0fff}')
}

fn split(folded: &str) -> Vec<Word> {
    let mut out = Vec::new();
    let mut run = Vec::new();
    let mut chars = folded.chars().peekable();
    while let Some(c) = chars.next() {
        let inside = !run.is_empty() && chars.peek().is_some_and(|next| next.is_alphanumeric());
        let joins = inside && matches!(c, '_' | '-' | '.' | '\'' | '’');
        let breaks = run.last().is_some_and(|last| is_cjk(*last) != is_cjk(c));
        if (!c.is_alphanumeric() && !joins) || breaks {
            flush(&mut run, &mut out);
        }
        if c.is_alphanumeric() || (joins && !breaks) {
            run.push(c);
        }
        if out.len() >= WORDS_MAX {
            break;
        }
    }
    flush(&mut run, &mut out);
    out.truncate(WORDS_MAX);
    out
}

/// Han, Kana and Hangul: written without spaces, or with long inflected words.
fn is_cjk(c: char) -> bool {
    matches!(c, '\u{1100}'..='\u{11ff}' | '\u{3040}'..='\u{30ff}' | '\u{3130}'..='\u{318f}' | '\u{31f0}'..='\u{31ff}'
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{323af}')
}

/// Turns one run into words and empties it.
fn flush(run: &mut Vec<char>, out: &mut Vec<Word>) {
    let taken = std::mem::take(run);
    match taken.as_slice() {
        [] => {}
        [first, ..] if is_cjk(*first) => bigrams(&taken, out),
        _ => latin::words(&taken, out),
    }
}

fn bigrams(run: &[char], out: &mut Vec<Word>) {
    let size = run.len().min(2);
    for pair in run.windows(size) {
        let term: String = pair.iter().collect();
        out.push(Word { surface: term.clone(), stems: vec![term], stop: Stop::No });
    }
}
