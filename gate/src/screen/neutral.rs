//! Text that was written by others, made harmless for one line of any render path: request, pane, plain output, export.

use std::sync::OnceLock;

use regex::Regex;

use super::skeleton::{Skeleton, is_combining, is_invisible};

/// Most combining marks on one character; the longest that living languages use.
const MARKS_MAX: usize = 4;

/// Makes control, bidi, tag, zero-width and fence-like characters harmless on one line, for any render path.
///
/// Line breaks and runs of white space become one space; what has no picture is dropped, except where emoji, Arabic or
/// Indic letters need it. An opening bracket that begins a tag, a role mark or our fence becomes `(`, in every spelling
/// and disguise; comparison and generics (`a < b`, `Vec<T>`) stay. Applying it twice changes nothing more.
pub fn neutralise(text: &str) -> String {
    disarm(one_line(text))
}

fn one_line(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut before, mut marks) = (None, 0);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let keep = if c.is_whitespace() {
            before != Some(' ')
        } else if c.is_control() || is_invisible(c) {
            is_needed(before, c, rest.clone().next())
        } else {
            !is_combining(c) || marks < MARKS_MAX
        };
        if keep {
            let shown = if c.is_whitespace() { ' ' } else { c };
            out.push(shown);
            before = Some(shown);
        }
        if is_combining(c) {
            marks += 1;
        } else if !is_invisible(c) && !c.is_control() {
            marks = 0;
        }
    }
    out
}

/// Whether an invisible character does visible work between its neighbours.
fn is_needed(before: Option<char>, c: char, after: Option<char>) -> bool {
    let (Some(before), Some(after)) = (before, after.or(Some(' '))) else { return false };
    match c {
        '\u{fe0f}' => {
            is_emoji(before) || (after == '\u{20e3}' && (before.is_ascii_digit() || "#*".contains(before)))
        }
        '\u{200d}' => {
            (is_emoji(before) || before == '\u{fe0f}') && is_emoji(after) || joins(before) && joins(after)
        }
        '\u{200c}' => joins(before) && joins(after),
        _ => false,
    }
}

/// Letters of the Arabic and Indic scripts, where joiners choose the shape.
fn joins(c: char) -> bool {
    matches!(c, '\u{620}'..='\u{64a}' | '\u{66e}'..='\u{6d3}' | '\u{750}'..='\u{77f}' | '\u{8a0}'..='\u{8c7}'
        | '\u{900}'..='\u{dff}')
}

/// Blocks that hold emoji; letters and digits stand in none of them.
fn is_emoji(c: char) -> bool {
    matches!(c, '\u{a9}' | '\u{ae}' | '\u{203c}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{21ff}'
        | '\u{2300}'..='\u{23ff}' | '\u{2460}'..='\u{27bf}' | '\u{2900}'..='\u{297f}' | '\u{2b00}'..='\u{2bff}'
        | '\u{3030}' | '\u{303d}' | '\u{3297}' | '\u{3299}' | '\u{1f000}'..='\u{1faff}')
}

/// Brackets that look like `<`; the skeleton already turned the fullwidth and small ones into it.
const ANGLES: &str = "<‹〈\u{2329}⟨❬❮❰⟪《«˂ᐸᑉ≪⋖⧼⦑⟬";
/// The name of our frames; it counts as the beginning of a longer word too, and with marks between its letters.
const OURS: &str = "agentspine";
/// What does not hide our name when it stands between its letters.
const GAP: &str = r#"[\s/!?|\\"'`._-]*"#;
/// Other names that open a frame, a role or a tool call somewhere.
const FRAMES: &str = r"(?:system(?:[_-]reminder)?|user|assistant|human|developer|admin|memory|memories|recall|context|instructions?|rules?|tools?(?:[_-][a-z]+)?|functions?(?:[_-][a-z]+)?|invoke|parameter|antml|results?|documents?|source|prompt|im_[a-z]+|inst|think(?:ing)?|(?:un)?trusted)\b";
/// What may stand between a bracket and the name: slashes, quotes, marks, blanks, and their coded spellings.
const BETWEEN: &str =
    r#"(?:[\s/!?|\\"'`._-]|%(?:25)*(?:2f|20|0[0-9a-d])|&#0*(?:47|32);|&#x0*(?:2f|20);|&sol;|&nbsp;)*"#;

/// Openings by spelling; group 1 of each is what becomes `(`.
fn openings() -> &'static [Regex] {
    static OPENINGS: OnceLock<Vec<Regex>> = OnceLock::new();
    OPENINGS.get_or_init(|| {
        let ours: Vec<String> = OURS.chars().map(String::from).collect();
        let ours = ours.join(GAP);
        super::compiled(&[
            // `&lt;` `&amp;lt;` `&#60;` `&#x3c;` `%3c` `%253c` `\u003c` `\x3c`: a coded bracket has no business in plain text.
            r"(?i)(&(?:(?:amp|#0*38|#x0*26);)*(?:lt|#0*60|#x0*3c);?|%(?:25)*3c|\\u\{?0*3c\}?|\\x3c|\\0?74)",
            &format!("(?i)([{ANGLES}]){BETWEEN}(?:{ours}|{FRAMES})"),
            // Closing tags and role marks of any name.
            &format!("([{ANGLES}])[/|!?]"),
            r"(?i)(\[)\s*/?\s*(?:inst|sys|system)\s*\]",
        ])
    })
}

/// Every `<` that begins a tag: not after a name, where it would be generics, and not before a blank or a number.
fn tags(text: &str) -> impl Iterator<Item = std::ops::Range<usize>> {
    let bytes = text.as_bytes();
    let at = |n: usize| bytes.get(n).copied();
    let named = |b: u8| b.is_ascii_alphanumeric() || b"_:<".contains(&b);
    text.match_indices('<').map(|(n, _)| n).filter_map(move |n| {
        let free = n.checked_sub(1).and_then(at).is_none_or(|b| !named(b));
        let tag = at(n + 1).is_some_and(|b| b.is_ascii_alphabetic() || b"%&\\".contains(&b));
        (free && tag).then_some(n..n + 1)
    })
}

fn disarm(mut line: String) -> String {
    // A replacement can free the bracket behind it (`%3c<a`). Every round takes openings away, so the loop ends.
    loop {
        let skeleton = Skeleton::of(&line);
        if skeleton.text.is_ascii() && !skeleton.text.bytes().any(|b| b"<[&%\\".contains(&b)) {
            return line;
        }
        let coded = openings().iter().flat_map(|regex| regex.captures_iter(&skeleton.text));
        let coded = coded.filter_map(|hit| hit.get(1)).map(|hit| hit.range());
        let mut spans: Vec<_> = coded.chain(tags(&skeleton.text)).map(|span| skeleton.behind(span)).collect();
        if spans.is_empty() {
            return line;
        }
        spans.sort_by_key(|span| (span.start, span.end));
        line = super::replaced(&line, &spans, "(");
    }
}
