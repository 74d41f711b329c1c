//! A growing Markdown text: finished blocks stay as lines, only the last block is rendered again, an open code fence
//! is only appended to. So the cost of a delta does not grow with the answer.
//!
//! The source is kept; a new width, and the end of the stream, render from it and not from earlier lines.

use ratatui::text::Line;

use super::{block_starts, code_label, code_line, render};
use crate::text::wrap::{Indent, Mode, Piece, wrap};
use crate::theme::Theme;

/// Longest unfinished line that is shown as Markdown while it grows, bytes; a longer one is shown as it is.
const PREVIEW_BYTES_MAX: usize = 4096;

/// An open top-level code fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fence {
    mark: char,
    len: usize,
}

/// Lines of a text that only grows.
#[derive(Debug, Default)]
pub(crate) struct Live {
    columns: usize,
    /// Bytes of the source whose lines are final.
    done: usize,
    /// How many of `lines` are final.
    kept: usize,
    /// Bytes of the source seen by the last call.
    seen: usize,
    fence: Option<Fence>,
    lines: Vec<Line<'static>>,
    /// Bytes handed to the parser so far; what the flat-cost test looks at.
    parsed: usize,
}

impl Live {
    /// Lines of `source`, which begins with every source given before at these columns.
    pub(crate) fn lines(&mut self, source: &str, columns: usize, theme: Theme) -> &[Line<'static>] {
        if columns != self.columns || source.len() < self.seen {
            *self = Self { columns, ..Self::default() };
        }
        if source.len() != self.seen {
            self.seen = source.len();
            self.lines.truncate(self.kept);
            let end = source.rfind('\n').map_or(0, |n| n + 1);
            self.settle(source, end, theme);
            self.keep();
            self.tail(source, end, theme);
        }
        &self.lines
    }

    fn keep(&mut self) {
        self.kept = self.lines.len();
    }

    /// Turns whatever is finished before `end` into final lines.
    fn settle(&mut self, source: &str, end: usize, theme: Theme) {
        loop {
            if self.fence.is_some() {
                self.code(source, end);
                if self.fence.is_some() {
                    return;
                }
            }
            let text = source.get(self.done..end).unwrap_or_default();
            self.parsed += text.len();
            let last = block_starts(text).last().copied().unwrap_or(0);
            let (finished, open) = text.split_at_checked(last).unwrap_or((text, ""));
            self.append(render(finished, self.columns, theme));
            self.done += last;
            if !self.open_fence(open, theme) {
                return;
            }
        }
    }

    /// Takes the opening line of a top-level fence.
    fn open_fence(&mut self, block: &str, theme: Theme) -> bool {
        let Some((first, _)) = block.split_once('\n') else { return false };
        let Some((fence, info)) = opening(first) else { return false };
        self.done += first.len() + 1;
        self.fence = Some(fence);
        if self.kept_any() {
            self.lines.push(Line::default());
        }
        if let Some(label) = code_label(info, theme) {
            self.lines.extend(wrap(&[label], self.columns, &Indent::default(), Mode::Words));
        }
        true
    }

    fn kept_any(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Takes complete lines of the open fence, and its closing line.
    fn code(&mut self, source: &str, end: usize) {
        while let Some(fence) = self.fence
            && self.done < end
        {
            let rest = source.get(self.done..end).unwrap_or_default();
            let line = rest.split('\n').next().unwrap_or_default();
            self.done += line.len() + 1;
            if closes(line, fence) {
                self.fence = None;
            } else {
                self.lines.extend(code_lines(line, self.columns));
            }
        }
    }

    /// The block that may still change, and the line that is still being written.
    fn tail(&mut self, source: &str, end: usize, theme: Theme) {
        let partial = source.get(end..).unwrap_or_default();
        if let Some(fence) = self.fence {
            let may_close = partial.trim_start().starts_with(fence.mark);
            if !partial.is_empty() && !may_close {
                self.lines.extend(code_lines(partial, self.columns));
            }
            return;
        }
        let open = source.get(self.done..end).unwrap_or_default();
        self.append(render(open, self.columns, theme));
        self.preview(open, partial, theme);
    }

    fn preview(&mut self, open: &str, partial: &str, theme: Theme) {
        let text = partial.trim_start();
        // A line of nothing but these may become anything: a rule, a list, a heading, a fence.
        if text.chars().all(|c| "-=*_#>`~+|0123456789. ".contains(c)) {
            return;
        }
        let left = partial.len() - text.len();
        let indent = Indent::plain(&" ".repeat(left.min(self.columns / 2)));
        self.parsed += text.len().min(PREVIEW_BYTES_MAX);
        let lines = if text.len() > PREVIEW_BYTES_MAX || text.starts_with("```") {
            let piece: Piece = (text.to_owned(), ratatui::style::Style::default());
            wrap(&[piece], self.columns, &indent, Mode::Words)
        } else {
            let mut lines = render(text, self.columns.saturating_sub(left), theme);
            for line in &mut lines {
                line.spans.splice(0..0, indent.first.iter().cloned());
            }
            lines
        };
        // A heading is a block of its own line.
        if open.is_empty() || open.ends_with("\n\n") || open.starts_with('#') {
            self.append(lines);
        } else {
            self.lines.extend(lines);
        }
    }

    fn append(&mut self, more: Vec<Line<'static>>) {
        if !self.lines.is_empty() && !more.is_empty() {
            self.lines.push(Line::default());
        }
        self.lines.extend(more);
    }
}

fn code_lines(line: &str, columns: usize) -> Vec<Line<'static>> {
    wrap(&[code_line(line)], columns, &Indent::default(), Mode::Graphemes)
}

/// CommonMark 4.5, without indentation: three or more of one mark, no backtick in a backtick fence's info string.
fn opening(line: &str) -> Option<(Fence, &str)> {
    let mark = line.chars().next().filter(|c| matches!(c, '`' | '~'))?;
    let info = line.trim_start_matches(mark);
    let len = line.len() - info.len();
    (len >= 3 && !(mark == '`' && info.contains('`'))).then_some((Fence { mark, len }, info.trim()))
}

/// A closing fence: at most three blanks, at least as many marks, nothing else.
fn closes(line: &str, fence: Fence) -> bool {
    let text = line.trim_start_matches(' ');
    let rest = text.trim_start_matches(fence.mark);
    line.len() - text.len() <= 3 && text.len() - rest.len() >= fence.len && rest.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const THEME: Theme = Theme { ascii: false, no_color: false, still: false };

    fn text(lines: &[Line<'_>]) -> Vec<String> {
        lines.iter().map(ToString::to_string).collect()
    }

    fn streamed(source: &str, columns: usize, step: usize) -> Vec<String> {
        let mut live = Live::default();
        let cuts: Vec<usize> = source.char_indices().map(|(n, _)| n).step_by(step).collect();
        for cut in cuts {
            live.lines(source.get(..cut).unwrap_or_default(), columns, THEME);
        }
        text(live.lines(source, columns, THEME))
    }

    const SAMPLE: &str = "# Head\n\nOne *two* **three** `four` ~~five~~ [six](http://x.y).\nsoft\n\n- a\n- b\n  - c\n\n    \
        para\n1. x\n2. y\n\n> quote\n> more\n\n```rust\nfn main() {}\n\n    x\n```\n\n| a | b |\n|---|---|\n| 1 | 日本 |\n\n\
        ~~~\ntilde\n~~~\nend\n---\n\nSetext\n===\n\n<b>html</b>\n\n***\n\nlast\n";

    #[test]
    fn a_streamed_text_ends_as_the_same_lines_as_a_whole_one() {
        for columns in [10, 24, 80] {
            for step in [1, 3, 7, 50] {
                assert_eq!(
                    streamed(SAMPLE, columns, step),
                    text(&render(SAMPLE, columns, THEME)),
                    "{columns} {step}"
                );
            }
        }
    }

    #[test]
    fn the_cost_of_a_delta_stays_flat() {
        let mut live = Live::default();
        let mut source = String::new();
        let parts = std::iter::repeat_n("Paragraph with some words.\n\n", 400);
        for part in parts.chain(["```\n"]).chain(std::iter::repeat_n("line of code\n", 2000)) {
            source.push_str(part);
            live.lines(&source, 60, THEME);
        }
        assert!(live.parsed < 3 * source.len(), "{} bytes parsed for {}", live.parsed, source.len());
    }

    proptest! {
        #[test]
        fn any_block_soup_streams_to_its_final_form(
            parts in proptest::collection::vec(prop_oneof![
                Just("para *x*\n"), Just("\n"), Just("- item\n"), Just("  - sub\n"), Just("1. one\n"), Just("```\n"),
                Just("~~~ x\n"), Just("> q\n"), Just("# h\n"), Just("| a | b |\n|---|---|\n"), Just("| c | d |\n"),
                Just("    code\n"), Just("---\n"), Just("日本語 text\n"), Just("<div>\n"),
            ], 0..14),
            columns in 6_usize..50,
        ) {
            let source = parts.concat();
            prop_assert_eq!(streamed(&source, columns, 1), text(&render(&source, columns, THEME)));
        }

        #[test]
        fn no_line_is_wider_than_asked(source in "[ a-zé日👨‍👩‍👧|`*_#>\\-\n\t0-9.\\[\\]()]{0,200}", columns in 8_usize..60) {
            for line in render(&source, columns, THEME) {
                // Deep nesting may leave less room than one grapheme; two columns are always given to it.
                let deep = line.spans.len() > 3;
                prop_assert!(deep || crate::text::width(&line.to_string()) <= columns, "{:?}", line.to_string());
            }
        }
    }
}
