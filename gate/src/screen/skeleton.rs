//! What a reader sees when invisible characters and disguises are taken away: the text that rules are matched against.

/// Text for matching, with the way back: byte `n` of it came from byte `origin[n]` of the text it was made from.
pub(super) struct Skeleton {
    pub(super) text: String,
    origin: Vec<usize>,
}

impl Skeleton {
    /// Drops invisible and combining characters, folds look-alikes to ASCII and every line break to `\n`.
    pub(super) fn of(text: &str) -> Self {
        let mut skeleton =
            Self { text: String::with_capacity(text.len()), origin: Vec::with_capacity(text.len() + 1) };
        for (at, c) in text.char_indices() {
            let folded = if c.is_ascii_graphic() || c == ' ' { c } else { fold(c) };
            if folded != '\0' {
                skeleton.text.push(folded);
                skeleton.origin.resize(skeleton.text.len(), at);
            }
        }
        skeleton.origin.push(text.len());
        skeleton
    }

    /// The range of the original text behind a range of the skeleton, with what was dropped inside and right after it.
    pub(super) fn behind(&self, range: std::ops::Range<usize>) -> std::ops::Range<usize> {
        let at = |n: usize| self.origin.get(n).or(self.origin.last()).copied().unwrap_or_default();
        at(range.start)..at(range.end)
    }
}

/// The ASCII character that `c` looks like, a plain space or line break, NUL for what is not to be seen, else itself.
fn fold(c: char) -> char {
    match c {
        '\t' => ' ',
        '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => '\n',
        _ if is_invisible(c) || is_combining(c) || c.is_control() => '\0',
        _ if c.is_whitespace() => ' ',
        // Fullwidth forms stand in the order of ASCII.
        '\u{ff01}'..='\u{ff5e}' => ascii(u32::from(c) - 0xff01 + 0x21, c),
        // Mathematical alphabets: 13 styles of A-Z a-z, then five of 0-9.
        '\u{1d400}'..='\u{1d6a3}' => letter((u32::from(c) - 0x1d400) % 52, c),
        '\u{1d7ce}'..='\u{1d7ff}' => ascii((u32::from(c) - 0x1d7ce) % 10 + 0x30, c),
        '\u{24b6}'..='\u{24e9}' => letter(u32::from(c) - 0x24b6, c),
        _ => LOOKALIKES.chars().zip(LOOKS_LIKE.chars()).find(|(from, _)| *from == c).map_or(c, |(_, to)| to),
    }
}

fn letter(index: u32, c: char) -> char {
    ascii(if index < 26 { 0x41 + index } else { 0x61 + index - 26 }, c)
}

fn ascii(code: u32, otherwise: char) -> char {
    char::from_u32(code).unwrap_or(otherwise)
}

/// Cyrillic, Greek and Latin letters that common fonts draw like ASCII (a selection of UTS 39's confusables), and signs
/// that stand for ASCII ones. The same position in [`LOOKS_LIKE`] is what each is taken for.
const LOOKALIKES: &str = "аеорсухіјѕԁһӏԛԝԍвкмтАВЕКМНОРСТХЅІЈαεικνορτυχΑΒΕΗΙΟΡΤıɡɑ﹤﹥﹕‐‑’‘";
const LOOKS_LIKE: &str = "aeopcyxijsdhlqwgbkmtABEKMHOPCTXSIJaeikvoptuxABEHIOPTiga<>:--''";

/// Characters without a picture of their own: zero-width, bidi, tags, variation selectors, fillers, annotations.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{fffe}' | '\u{ffff}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Marks that are drawn over the character before them (Zalgo text is runs of them).
pub(super) fn is_combining(c: char) -> bool {
    matches!(c,
        '\u{300}'..='\u{36f}' | '\u{483}'..='\u{489}' | '\u{591}'..='\u{5bd}' | '\u{610}'..='\u{61a}'
        | '\u{64b}'..='\u{65f}' | '\u{6d6}'..='\u{6dc}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}'
        | '\u{20d0}'..='\u{20ff}' | '\u{fe20}'..='\u{fe2f}')
}
