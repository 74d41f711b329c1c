//! Text as it may be shown: scrubbed once where it enters, measured by what a terminal draws.

pub(crate) mod wrap;

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

/// Columns between tab stops.
pub(crate) const TAB_COLUMNS: usize = 4;

/// Makes foreign text safe to show and to copy, losing nothing silently: control characters become their pictures,
/// bidi and other invisible format characters become `‹U+XXXX›`; newline and tab stay; carriage returns go.
///
/// It works on single characters, so it may be applied to any piece of a stream.
pub fn scrub(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\r' => {}
            '\n' | '\t' => out.push(c),
            _ if c.is_control() => out.push(picture(c)),
            _ if is_hidden(c) => out.extend(format!("‹U+{:04X}›", u32::from(c)).chars()),
            _ => out.push(c),
        }
    }
    out
}

/// [`scrub`] for a field that must stay on one line.
pub(crate) fn scrub_line(text: &str) -> String {
    scrub(text).replace(['\n', '\t'], " ")
}

/// What a paste may bring into the composer: newlines made one kind, control characters made visible. Format
/// characters stay: they belong to the languages of the person who pastes.
pub(crate) fn scrub_paste(text: &str) -> String {
    let unix = text.replace("\r\n", "\n").replace('\r', "\n");
    unix.chars().map(|c| if c.is_control() && !matches!(c, '\n' | '\t') { picture(c) } else { c }).collect()
}

/// The visible stand-in of a control character (Unicode block "Control Pictures"; C1 has none).
fn picture(c: char) -> char {
    match u32::from(c) {
        n @ 0..=0x1f => char::from_u32(0x2400 + n).unwrap_or('\u{fffd}'),
        0x7f => '\u{2421}',
        _ => '\u{fffd}',
    }
}

/// Characters that change or hide what is shown: bidi controls, zero-width marks that no script needs to be
/// read, tag characters. ZWJ, ZWNJ and variation selectors stay: emoji, Persian and Indic text need them.
fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{061c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Columns a terminal uses for the text.
pub(crate) fn width(text: &str) -> usize {
    text.graphemes(true).map(UnicodeWidthStr::width).sum()
}

/// The text cut to at most `columns`, with `…` where something was cut.
pub(crate) fn fit(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let mut out = String::new();
    let mut used = 0;
    for g in text.graphemes(true) {
        if used + g.width() + 1 > columns {
            break;
        }
        used += g.width();
        out.push_str(g);
    }
    if columns > 0 {
        out.push('…');
    }
    Cow::Owned(out)
}

/// The text cut or filled to exactly `columns`.
pub(crate) fn pad(text: &str, columns: usize) -> String {
    let mut out = fit(text, columns).into_owned();
    out.extend(std::iter::repeat_n(' ', columns.saturating_sub(width(&out))));
    out
}

/// A count in at most five columns: `812`, `2.1k`, `14k`, `3.2M`.
pub(crate) fn short(n: u64) -> String {
    scaled(n, 1000, &["", "k", "M", "G"])
}

/// Bytes in at most five columns: `812`, `3.2K`, `4M`.
pub(crate) fn bytes(n: u64) -> String {
    scaled(n, 1024, &["", "K", "M", "G"])
}

fn scaled(n: u64, base: u64, units: &[&str]) -> String {
    let mut whole = n;
    let mut rest = 0;
    let mut unit = 0;
    while whole >= base && unit + 1 < units.len() {
        rest = whole % base;
        whole /= base;
        unit += 1;
    }
    let name = units.get(unit).copied().unwrap_or_default();
    let tenth = rest * 10 / base;
    if unit > 0 && whole < 10 && tenth > 0 {
        format!("{whole}.{tenth}{name}")
    } else {
        format!("{whole}{name}")
    }
}

/// A duration for people: `12 ms`, `1.9 s`, `3 min`.
pub(crate) fn duration(ms: u64) -> String {
    match ms {
        0..=999 => format!("{ms} ms"),
        1000..=59_999 => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        _ => format!("{} min", ms / 60_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_survives_the_scrub() {
        let evil = "a\u{1b}]52;c;eA==\u{7}b\u{9b}31m\tc\r\nd\u{202e}e\u{0}\u{e0041}";
        let clean = scrub(evil);
        assert_eq!(clean, "a␛]52;c;eA==␇b\u{fffd}31m\tc\nd‹U+202E›e␀‹U+E0041›");
        assert!(clean.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\t')));
    }

    #[test]
    fn widths_are_those_of_a_terminal() {
        for (text, columns) in [("日本語", 6), ("e\u{301}", 1), ("👨‍👩‍👧", 2), ("🇩🇪", 2), ("abc", 3)]
        {
            assert_eq!(width(text), columns, "{text}");
        }
        assert_eq!(pad("日本語", 4), "日… ");
        assert_eq!(fit("abcdef", 4), "abc…");
    }

    #[test]
    fn numbers_stay_short() {
        assert_eq!(
            (short(812), short(2100), short(14_900), bytes(3300), bytes(4096), duration(1950)),
            ("812".into(), "2.1k".into(), "14k".into(), "3.2K".into(), "4K".into(), "1.9 s".into())
        );
    }
}
