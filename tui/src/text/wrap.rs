//! Wrapping of styled text: breaks where Unicode allows one, never inside a grapheme, never wider than asked.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use textwrap::WordSeparator;
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::TAB_COLUMNS;

/// A run of text in one style.
pub(crate) type Piece = (String, Style);

/// What stands left of the text: once on the first line, again on every later one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Indent {
    /// Left of the first line.
    pub(crate) first: Vec<Span<'static>>,
    /// Left of the others.
    pub(crate) rest: Vec<Span<'static>>,
}

impl Indent {
    /// The same plain text on every line.
    pub(crate) fn plain(text: &str) -> Self {
        Self::hanging(text, text)
    }

    /// One text on the first line, another on the others.
    pub(crate) fn hanging(first: &str, rest: &str) -> Self {
        Self { first: vec![Span::raw(first.to_owned())], rest: vec![Span::raw(rest.to_owned())] }
    }

    /// Columns left of the first line and of the others.
    fn columns(&self) -> (usize, usize) {
        let of = |spans: &[Span<'_>]| spans.iter().map(|s| super::width(&s.content)).sum::<usize>();
        (of(&self.first), of(&self.rest))
    }
}

/// How a line may be broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// At words; white space at the break goes.
    Words,
    /// Anywhere between graphemes; nothing goes. For code.
    Graphemes,
}

/// Lines of one logical text. Newlines in it end a line.
pub(crate) fn wrap(pieces: &[Piece], columns: usize, indent: &Indent, mode: Mode) -> Vec<Line<'static>> {
    let mut fill = Fill::new(columns, indent);
    for (row, line) in split_lines(pieces).iter().enumerate() {
        if row > 0 {
            fill.end_line();
        }
        match mode {
            Mode::Words => fill.words(line),
            Mode::Graphemes => fill.graphemes(line),
        }
    }
    fill.finish()
}

/// Lines of a plain text in one style.
pub(crate) fn wrap_plain(text: &str, style: Style, columns: usize, indent: &Indent) -> Vec<Line<'static>> {
    wrap(&[(text.to_owned(), style)], columns, indent, Mode::Words)
}

fn split_lines(pieces: &[Piece]) -> Vec<Vec<Piece>> {
    let mut lines = vec![Vec::new()];
    for (text, style) in pieces {
        for (n, part) in text.split('\n').enumerate() {
            if n > 0 {
                lines.push(Vec::new());
            }
            if let Some(line) = lines.last_mut()
                && !part.is_empty()
            {
                line.push((part.to_owned(), *style));
            }
        }
    }
    lines
}

struct Fill<'a> {
    /// Columns for text on the line that is being filled, and on those after it.
    room: usize,
    later: usize,
    indent: &'a Indent,
    lines: Vec<Line<'static>>,
    spans: Vec<Span<'static>>,
    used: usize,
}

impl<'a> Fill<'a> {
    fn new(columns: usize, indent: &'a Indent) -> Self {
        // Two columns always fit the widest grapheme; a terminal that narrow shows clipped lines instead of none.
        let (first, rest) = indent.columns();
        let (room, later) = (columns.saturating_sub(first).max(2), columns.saturating_sub(rest).max(2));
        Self { room, later, indent, lines: Vec::new(), spans: Vec::new(), used: 0 }
    }

    fn words(&mut self, line: &[Piece]) {
        let text: String = line.iter().map(|(t, _)| t.as_str()).collect();
        let mut styles = Styles::new(line);
        let mut pending = Vec::new();
        for word in WordSeparator::UnicodeBreakProperties.find_words(&text) {
            let columns = super::width(word.word);
            if self.used > 0 && self.used + width_of(&pending) + columns > self.room {
                self.end_line();
                pending.clear();
            }
            for (g, style) in std::mem::take(&mut pending) {
                self.push(&g, style);
            }
            for g in word.word.graphemes(true) {
                self.push(g, styles.take(g.len()));
            }
            pending = word.whitespace.graphemes(true).map(|g| (g.to_owned(), styles.take(g.len()))).collect();
        }
    }

    fn graphemes(&mut self, line: &[Piece]) {
        for (text, style) in line {
            for g in text.graphemes(true) {
                self.push(g, *style);
            }
        }
    }

    fn push(&mut self, grapheme: &str, style: Style) {
        if grapheme == "\t" {
            let n = TAB_COLUMNS - self.used % TAB_COLUMNS;
            return (0..n).for_each(|_| self.push(" ", style));
        }
        let columns = grapheme.width();
        if self.used + columns > self.room {
            self.end_line();
        }
        self.used += columns;
        match self.spans.last_mut() {
            Some(span) if span.style == style => span.content.to_mut().push_str(grapheme),
            _ => self.spans.push(Span::styled(grapheme.to_owned(), style)),
        }
    }

    fn end_line(&mut self) {
        let left = if self.lines.is_empty() { &self.indent.first } else { &self.indent.rest };
        let mut spans = left.clone();
        spans.append(&mut self.spans);
        self.lines.push(Line::from(spans));
        self.used = 0;
        self.room = self.later;
    }

    fn finish(mut self) -> Vec<Line<'static>> {
        self.end_line();
        self.lines
    }
}

fn width_of(pieces: &[Piece]) -> usize {
    pieces.iter().map(|(t, _)| if t == "\t" { TAB_COLUMNS } else { t.width() }).sum()
}

/// Hands out the style of the next bytes.
struct Styles<'a> {
    rest: std::slice::Iter<'a, Piece>,
    style: Style,
    left: usize,
}

impl<'a> Styles<'a> {
    fn new(line: &'a [Piece]) -> Self {
        Self { rest: line.iter(), style: Style::default(), left: 0 }
    }

    /// The style the next `bytes` begin with.
    fn take(&mut self, mut bytes: usize) -> Style {
        while self.left == 0 {
            let Some((text, style)) = self.rest.next() else { return self.style };
            (self.style, self.left) = (*style, text.len());
        }
        let style = self.style;
        while bytes > self.left {
            bytes -= self.left;
            let Some((text, next)) = self.rest.next() else {
                self.left = 0;
                return style;
            };
            (self.style, self.left) = (*next, text.len());
        }
        self.left -= bytes;
        style
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str, columns: usize) -> Vec<String> {
        wrap_plain(text, Style::default(), columns, &Indent::default())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn breaks_fall_where_unicode_allows_them() {
        assert_eq!(plain("one two  three", 8), ["one two", "three"]);
        assert_eq!(plain("日本語の文", 5), ["日本", "語の", "文"]);
        assert_eq!(plain("abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(plain("👨‍👩‍👧👨‍👩‍👧", 3), ["👨‍👩‍👧", "👨‍👩‍👧"]);
        assert_eq!(plain("a\n\nb", 9), ["a", "", "b"]);
        assert_eq!(plain("a\tb", 9), ["a   b"]);
    }

    #[test]
    fn an_indent_hangs_and_counts() {
        let lines = wrap_plain("one two", Style::default(), 6, &Indent::hanging("- ", "  "));
        assert_eq!(lines.iter().map(ToString::to_string).collect::<Vec<_>>(), ["- one", "  two"]);
    }
}
