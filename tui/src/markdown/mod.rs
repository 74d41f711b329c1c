//! Markdown to wrapped lines. CommonMark plus tables, strikethrough and task lists; no highlighting, no HTML meaning.
//!
//! [`render`] is the whole truth; [`stream`] gives the same lines for a growing text at flat cost.

pub(crate) mod stream;
mod table;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use crate::text::wrap::{Indent, Mode, Piece, wrap};
use crate::theme::{Theme, Tone};
use table::Table;

/// Columns code is moved to the right.
const CODE_INDENT: &str = "  ";

fn options() -> Options {
    Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS
}

/// Lines of a Markdown text, at most `columns` wide.
pub(crate) fn render(source: &str, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let mut page = Page::new(columns, theme);
    for event in Parser::new_ext(source, options()) {
        page.event(event);
    }
    page.flush();
    page.lines
}

/// Byte offsets at which the top-level blocks of a text begin, each moved back to the start of its line.
pub(crate) fn block_starts(source: &str) -> Vec<usize> {
    let mut depth = 0_usize;
    let mut starts = Vec::new();
    for (event, range) in Parser::new_ext(source, options()).into_offset_iter() {
        let top = depth == 0;
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => {
                depth = depth.saturating_sub(1);
                continue;
            }
            _ => {}
        }
        if top {
            let head = source.get(..range.start).unwrap_or_default();
            starts.push(head.rfind('\n').map_or(0, |n| n + 1));
        }
    }
    starts
}

/// One level of nesting: what stands left of its lines.
struct Level {
    /// Shown once, on the next line (a list mark), then replaced by blanks of the same width.
    mark: Option<Span<'static>>,
    rest: Span<'static>,
}

struct Page {
    theme: Theme,
    columns: usize,
    lines: Vec<Line<'static>>,
    levels: Vec<Level>,
    /// Next number of each open list; `None` for bullets.
    lists: Vec<Option<u64>>,
    inline: Vec<Piece>,
    styles: Vec<Style>,
    links: Vec<String>,
    code: Option<String>,
    table: Option<Table>,
    /// A block ended: the next one is set off by an empty line.
    gap: bool,
}

impl Page {
    fn new(columns: usize, theme: Theme) -> Self {
        Self {
            theme,
            columns,
            lines: Vec::new(),
            levels: Vec::new(),
            lists: Vec::new(),
            inline: Vec::new(),
            styles: Vec::new(),
            links: Vec::new(),
            code: None,
            table: None,
            gap: false,
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some(code) => code.push_str(&text),
                None => self.text(&text, Style::default()),
            },
            Event::Code(code) => self.text(&code, self.theme.style(Tone::Accent)),
            Event::Html(html) | Event::InlineHtml(html) => self.text(&html, self.theme.style(Tone::Dim)),
            Event::SoftBreak => self.text(" ", Style::default()),
            Event::HardBreak => self.text("\n", Style::default()),
            Event::Rule => {
                self.open_block();
                let line = Span::styled("─".repeat(self.room().min(24)), self.theme.style(Tone::Dim));
                self.emit(vec![(line.content.into_owned(), line.style)], Mode::Words);
                self.gap = true;
            }
            Event::TaskListMarker(done) => self.text(if done { "[x] " } else { "[ ] " }, Style::default()),
            Event::FootnoteReference(name) => self.text(&format!("[{name}]"), Style::default()),
            Event::InlineMath(text) | Event::DisplayMath(text) => self.text(&text, Style::default()),
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph | Tag::HtmlBlock => self.open_block(),
            Tag::Heading { .. } => {
                self.open_block();
                self.styles.push(self.theme.style(Tone::Strong));
            }
            Tag::BlockQuote(_) => {
                self.open_block();
                let rest = self.theme.span(Tone::Dim, "> ");
                self.levels.push(Level { mark: None, rest });
            }
            Tag::CodeBlock(kind) => self.start_code(&kind),
            Tag::List(first) => {
                self.flush();
                if self.levels.is_empty() {
                    self.open_block();
                }
                self.lists.push(first);
            }
            Tag::Item => self.start_item(),
            Tag::Table(_) => {
                self.open_block();
                self.table = Some(Table::default());
            }
            Tag::TableHead | Tag::TableRow => self.row(Table::row),
            Tag::Emphasis => self.styles.push(Style::default().add_modifier(Modifier::ITALIC)),
            Tag::Strong => self.styles.push(self.theme.style(Tone::Strong)),
            Tag::Strikethrough => self.styles.push(Style::default().add_modifier(Modifier::CROSSED_OUT)),
            Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. } => {
                self.styles.push(Style::default().add_modifier(Modifier::UNDERLINED));
                self.links.push(dest_url.into_string());
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph | TagEnd::HtmlBlock => self.close_block(),
            TagEnd::Heading(_) => {
                self.close_block();
                self.styles.pop();
            }
            TagEnd::BlockQuote(_) => {
                self.close_block();
                self.levels.pop();
            }
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::List(_) => {
                self.lists.pop();
                self.gap |= self.levels.is_empty();
            }
            TagEnd::Item => {
                self.flush();
                // An item without any text still shows its mark.
                if self.levels.last().is_some_and(|l| l.mark.is_some()) {
                    self.emit(Vec::new(), Mode::Words);
                }
                self.levels.pop();
            }
            TagEnd::Table => self.end_table(),
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.inline);
                self.row(|t| t.cell(cell));
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => self.end_link(),
            _ => {}
        }
    }

    fn text(&mut self, text: &str, extra: Style) {
        let style = self.styles.iter().fold(Style::default(), |all, s| all.patch(*s)).patch(extra);
        self.inline.push((text.to_owned(), style));
    }

    fn end_link(&mut self) {
        self.styles.pop();
        let Some(url) = self.links.pop() else { return };
        let same =
            self.inline.last().is_some_and(|(text, _)| *text == url || url == format!("mailto:{text}"));
        if !same && !url.is_empty() {
            self.text(&format!(" ({url})"), self.theme.style(Tone::Dim));
        }
    }

    fn start_item(&mut self) {
        self.open_block();
        let mark = match self.lists.last_mut() {
            Some(Some(n)) => {
                let mark = format!("{n}. ");
                *n = n.saturating_add(1);
                mark
            }
            _ => "• ".to_owned(),
        };
        let rest = Span::raw(" ".repeat(crate::text::width(&mark)));
        self.levels.push(Level { mark: Some(Span::raw(mark)), rest });
    }

    fn start_code(&mut self, kind: &CodeBlockKind<'_>) {
        self.open_block();
        if let CodeBlockKind::Fenced(info) = kind {
            let label = code_label(info, self.theme);
            self.put(label.into_iter().collect(), Mode::Words);
        }
        self.code = Some(String::new());
    }

    fn end_code(&mut self) {
        let code = self.code.take().unwrap_or_default();
        for line in code.lines() {
            self.emit(vec![code_line(line)], Mode::Graphemes);
        }
        self.gap = true;
    }

    fn row(&mut self, act: impl FnOnce(&mut Table)) {
        if let Some(table) = &mut self.table {
            act(table);
        }
    }

    fn end_table(&mut self) {
        if let Some(table) = self.table.take() {
            let indent = self.indent();
            self.lines.extend(table.lines(self.columns, &indent, self.theme));
        }
        self.gap = true;
    }

    /// Ends what was open and sets the next block off from it.
    fn open_block(&mut self) {
        self.flush();
        // Right behind a list mark a block begins on the mark's own line.
        let behind_mark = self.levels.last().is_some_and(|l| l.mark.is_some());
        if self.gap && !behind_mark && !self.lines.is_empty() {
            let left: Vec<Span<'static>> = self.levels.iter().map(|l| l.rest.clone()).collect();
            self.lines.push(trimmed(left));
        }
        self.gap = false;
    }

    fn close_block(&mut self) {
        self.flush();
        self.gap = true;
    }

    fn flush(&mut self) {
        let pieces = std::mem::take(&mut self.inline);
        self.put(pieces, Mode::Words);
    }

    fn put(&mut self, pieces: Vec<Piece>, mode: Mode) {
        if !pieces.is_empty() {
            self.emit(pieces, mode);
        }
    }

    fn emit(&mut self, mut pieces: Vec<Piece>, mode: Mode) {
        if mode == Mode::Words
            && let Some((last, _)) = pieces.last_mut()
        {
            last.truncate(last.trim_end().len());
        }
        let indent = self.indent();
        self.lines.extend(wrap(&pieces, self.columns, &indent, mode));
    }

    /// The nesting as an indent; list marks are used up by it.
    fn indent(&mut self) -> Indent {
        let rest = self.levels.iter().map(|l| l.rest.clone()).collect();
        let first = self.levels.iter_mut().map(|l| l.mark.take().unwrap_or_else(|| l.rest.clone())).collect();
        Indent { first, rest }
    }

    fn room(&self) -> usize {
        let used: usize = self.levels.iter().map(|l| crate::text::width(&l.rest.content)).sum();
        self.columns.saturating_sub(used).max(1)
    }
}

fn trimmed(spans: Vec<Span<'static>>) -> Line<'static> {
    if spans.iter().all(|s| s.content.trim().is_empty()) { Line::default() } else { Line::from(spans) }
}

/// The language of a fence, above its code.
fn code_label(info: &str, theme: Theme) -> Option<Piece> {
    let language = info.split_whitespace().next()?;
    Some((format!("{CODE_INDENT}{language}"), theme.style(Tone::Dim)))
}

fn code_line(line: &str) -> Piece {
    (format!("{CODE_INDENT}{line}"), Style::default())
}
