//! Claude Code's rendering of an instruction file, so that a request can be compared with what stands on disk.
//!
//! Measured on the client: byte order mark and frontmatter go, block-level HTML comments outside code go, inline
//! comments and CRLF stay, trailing white space goes. White space that a removed part leaves behind is not measured:
//! blank lines after it go with it.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag};

/// Largest frontmatter that is read as such, bytes. Small, because YAML nests as deep as it is long.
const FRONTMATTER_BYTES_MAX: usize = 4096;

/// The text that Claude Code puts into its request for a file with this text.
pub fn claude(text: &str) -> String {
    let (_, body) = split_frontmatter(text);
    let mut rendered = String::with_capacity(body.len());
    let mut kept = 0;
    for comment in block_comments(body) {
        rendered.push_str(body.get(kept..comment.start).unwrap_or_default());
        kept = comment.end;
    }
    rendered.push_str(body.get(kept..).unwrap_or_default());
    rendered.truncate(rendered.trim_end().len());
    rendered
}

/// Markdown as the host reads it. No strikethrough: two `@~/...` in one line would be one.
pub(super) fn markdown(text: &str) -> Parser<'_> {
    Parser::new_ext(text, Options::ENABLE_TABLES)
}

/// Splits off the YAML between a first line `---` and the next such line; the byte order mark is dropped.
pub(super) fn split_frontmatter(text: &str) -> (Option<&str>, &str) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.split_inclusive('\n');
    let Some(first) = lines.next().filter(|line| line.trim_end() == "---") else { return (None, text) };
    let mut end = first.len();
    for line in lines {
        if line.trim_end() == "---" {
            let rest = text.get(end + line.len()..).unwrap_or_default();
            return (text.get(first.len()..end), skip_blank_lines(rest));
        }
        end += line.len();
        if end > FRONTMATTER_BYTES_MAX {
            break;
        }
    }
    (None, text)
}

fn skip_blank_lines(text: &str) -> &str {
    let blank: usize = text.split_inclusive('\n').take_while(|l| l.trim().is_empty()).map(str::len).sum();
    text.get(blank..).unwrap_or_default()
}

/// Byte ranges of the comments that are blocks of their own at the top level, with the blank lines after them.
fn block_comments(body: &str) -> Vec<Range<usize>> {
    if !body.contains("<!--") {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut depth = 0_usize;
    for (event, range) in markdown(body).into_offset_iter() {
        match event {
            Event::Start(Tag::HtmlBlock) if depth == 0 => {
                found.extend(comments_in(body, range));
                depth += 1;
            }
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    found
}

/// The comments of an HTML block that begins with one. An unclosed comment stays.
fn comments_in(body: &str, block: Range<usize>) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let text = body.get(block.clone()).unwrap_or_default();
    if !text.trim_start().starts_with("<!--") {
        return found;
    }
    let mut at = 0;
    while let Some(start) = text.get(at..).and_then(|rest| rest.find("<!--")).map(|n| at + n) {
        let Some(end) = text.get(start + 4..).and_then(|rest| rest.find("-->")).map(|n| start + 4 + n + 3)
        else {
            break;
        };
        found.push(block.start + start..block.start + end);
        at = end;
    }
    let alone = found.iter().map(Range::len).sum::<usize>() == text.trim().len();
    if alone {
        let after = body.get(block.end..).unwrap_or_default();
        let end = block.end + (after.len() - skip_blank_lines(after).len());
        found.clear();
        found.push(block.start..end);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{claude, split_frontmatter};

    #[test]
    fn a_file_is_rendered_as_the_client_was_seen_to_render_it() {
        for (text, rendered) in [
            ("plain\n", "plain"),
            ("a  \r\nb\r\n\r\n", "a  \r\nb"),
            ("\u{feff}a", "a"),
            ("---\nx: 1\n---\n\n# T\n", "# T"),
            ("\u{feff}---\r\nx: 1\r\n---\r\n# T\r\n", "# T"),
            ("---\nnot closed\n", "---\nnot closed"),
            ("a\n\n<!-- gone -->\n\nb", "a\n\nb"),
            ("<!-- over\n\ntwo paragraphs -->\nb", "b"),
            ("a <!-- inline --> b", "a <!-- inline --> b"),
            ("```\n<!-- code -->\n```\n", "```\n<!-- code -->\n```"),
            ("    <!-- indented code -->\n", "    <!-- indented code -->"),
            ("<!-- never closed\n", "<!-- never closed"),
            ("<div>\n<!-- inside -->\n</div>\n", "<div>\n<!-- inside -->\n</div>"),
            ("", ""),
        ] {
            assert_eq!(claude(text), rendered, "{text:?}");
        }
    }

    #[test]
    fn frontmatter_without_a_second_line_of_dashes_is_text() {
        assert_eq!(split_frontmatter("---\na: 1\n"), (None, "---\na: 1\n"));
        assert_eq!(split_frontmatter("---\na: 1\n---\nb"), (Some("a: 1\n"), "b"));
        assert_eq!(split_frontmatter("----\na\n----\n"), (None, "----\na\n----\n"));
    }
}
