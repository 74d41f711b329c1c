//! Notes in free form, cut into items: a bullet of the first level with what hangs on it, or a paragraph, each below its
//! headings.

use std::ops::Not as _;

/// One item of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Block {
    /// Its first line, from 1.
    pub line: usize,
    /// The headings above it, outermost first.
    pub headings: Vec<String>,
    /// Its text, without the bullet.
    pub text: String,
}

/// What a line is at the first level.
enum Line<'a> {
    Blank,
    Heading(usize, &'a str),
    Bullet(&'a str),
    /// Belongs to what stands above.
    Indented,
    /// A line of dashes or stars: says nothing.
    Divider,
    Plain,
}

/// The items of a text whose first line has this number.
pub(super) fn blocks(text: &str, first_line: usize) -> Vec<Block> {
    let mut reading = Reading::default();
    for (line, number) in text.lines().zip(first_line..) {
        reading.read(line, number);
    }
    reading.end();
    reading.blocks
}

#[derive(Default)]
struct Reading {
    blocks: Vec<Block>,
    headings: Vec<(usize, String)>,
    open: Option<Block>,
    /// A blank line ends a paragraph, and a bullet whose next line is not indented.
    blank: bool,
    /// What closes the open code fence.
    fence: Option<String>,
}

impl Reading {
    fn read(&mut self, line: &str, number: usize) {
        if self.fenced(line) {
            return self.add(line, number);
        }
        match kind(line) {
            Line::Blank => self.blank = true,
            Line::Divider => self.end(),
            Line::Heading(level, text) => {
                self.end();
                self.headings.retain(|(known, _)| *known < level);
                self.headings.push((level, text.to_owned()));
            }
            Line::Bullet(text) => {
                self.end();
                self.add(text, number);
            }
            Line::Indented => self.add(line.trim_end(), number),
            Line::Plain => {
                if self.blank {
                    self.end();
                }
                self.add(line.trim_end(), number);
            }
        }
    }

    /// Whether the line belongs to a code fence, its marks with it.
    fn fenced(&mut self, line: &str) -> bool {
        let mark: String = line.trim_start().chars().take_while(|c| matches!(c, '`' | '~')).collect();
        match &self.fence {
            Some(open) => {
                if mark.starts_with(open.as_str()) {
                    self.fence = None;
                }
                true
            }
            None if mark.len() >= 3 => {
                self.fence = Some(mark);
                true
            }
            None => false,
        }
    }

    fn add(&mut self, text: &str, line: usize) {
        let headings = || self.headings.iter().map(|(_, text)| text.clone()).collect();
        let open = self.open.get_or_insert_with(|| Block { line, headings: headings(), text: String::new() });
        if !open.text.is_empty() {
            open.text.push_str(if self.blank { "\n\n" } else { "\n" });
        }
        open.text.push_str(text);
        self.blank = false;
    }

    fn end(&mut self) {
        self.blank = false;
        self.blocks.extend(self.open.take().filter(|block| !block.text.trim().is_empty()));
    }
}

fn kind(line: &str) -> Line<'_> {
    let text = line.trim();
    let level = text.bytes().take_while(|b| *b == b'#').count();
    let divider = |sign: char| text.len() >= 3 && text.chars().all(|c| c == sign || c == ' ');
    match text {
        "" => Line::Blank,
        _ if ['-', '*', '_'].into_iter().any(divider) => Line::Divider,
        _ if line.starts_with("  ") || line.starts_with('\t') => Line::Indented,
        _ => match text.get(level..).and_then(|rest| rest.strip_prefix(' ')) {
            Some(heading) if (1..=6).contains(&level) => Line::Heading(level, heading.trim()),
            _ => bullet(text).map_or(Line::Plain, Line::Bullet),
        },
    }
}

/// The text of a bullet or of a numbered one.
fn bullet(text: &str) -> Option<&str> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let rest = match digits {
        0 => text.strip_prefix(['-', '*', '+'])?,
        _ => text.get(digits..)?.strip_prefix(['.', ')'])?,
    };
    rest.starts_with(' ').then(|| rest.trim()).filter(|rest| rest.is_empty().not())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(usize, String, String)> {
        let row = |block: Block| (block.line, block.headings.join(" / "), block.text);
        blocks(text, 1).into_iter().map(row).collect()
    }

    fn row(line: usize, headings: &str, text: &str) -> (usize, String, String) {
        (line, headings.to_owned(), text.to_owned())
    }

    #[test]
    fn every_bullet_and_paragraph_is_one_item_below_its_headings() {
        let text = "# Build\nUse the wrapper.\nIt sets flags.\n\n## Tests\n- first\n  more of it\n* second\n\n  still second\n\
                    1. third\n---\n# Ports\n8080";
        assert_eq!(
            read(text),
            [
                row(2, "Build", "Use the wrapper.\nIt sets flags."),
                row(6, "Build / Tests", "first\n  more of it"),
                row(8, "Build / Tests", "second\n\n  still second"),
                row(11, "Build / Tests", "third"),
                row(14, "Ports", "8080"),
            ]
        );
    }

    #[test]
    fn code_stays_with_what_stands_above_it() {
        let text = "- run it:\n```sh\n# no heading\n- no bullet\n\nmake\n```\n- next";
        assert_eq!(
            read(text),
            [row(1, "", "run it:\n```sh\n# no heading\n- no bullet\n\nmake\n```"), row(8, "", "next")]
        );
    }
}
