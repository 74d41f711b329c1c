//! The transcript: sources of everything said, lines of them only where somebody looks.
//!
//! Invariants: an entry's lines are kept by (revision, width) and made only for entries near the visible part, so a
//! frame costs the same in a long session; the reading position is a place in an entry and moves by keys alone.

use std::cell::RefCell;

use ratatui::text::Line;

use crate::data::{Blocked, Level, ModelError, Preflight};
use crate::markdown::{self, stream::Live};
use crate::theme::Theme;
use crate::view::entry;

/// How an answer ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Cut(String),
    Interrupted,
}

/// What one entry is.
#[derive(Debug)]
pub(crate) enum Body {
    Prompt(String),
    Preflight(Preflight),
    Answer { source: String, end: Option<End> },
    Tool { name: String, line: String, result: Option<(bool, String)> },
    Blocked { blocked: Blocked },
    ModelError { error: ModelError, left_ms: u64 },
    Spent { receipt: String },
    Compaction(Compaction),
    Notice { level: Level, text: String },
}

/// A summary that is being made, or was.
#[derive(Debug, Default)]
pub(crate) struct Compaction {
    /// What came of it; `None` while it runs.
    pub(crate) level: Option<Level>,
    pub(crate) line: String,
    /// The preflight of its call, once that passed.
    pub(crate) preflight: Option<Preflight>,
    /// How much has come.
    pub(crate) bytes: u64,
    pub(crate) summary: String,
}

/// One entry with its lines as last drawn.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) turn: u64,
    pub(crate) body: Body,
    /// An empty line above.
    gap: bool,
    revision: u32,
    cache: RefCell<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    key: Option<(u32, usize)>,
    lines: Vec<Line<'static>>,
    live: Live,
}

impl Entry {
    /// Calls `act` with the entry's lines.
    fn with_lines<R>(&self, columns: usize, theme: Theme, act: impl FnOnce(&[Line<'static>]) -> R) -> R {
        let mut cache = self.cache.borrow_mut();
        let room = columns.saturating_sub(self.indent());
        if let Body::Answer { source, end: None } = &self.body {
            return act(cache.live.lines(source, room, theme));
        }
        if cache.key != Some((self.revision, columns)) {
            cache.lines = match &self.body {
                Body::Answer { source, .. } => markdown::render(source, room, theme),
                _ => Vec::new(),
            };
            cache.lines.extend(entry::lines(&self.body, room, theme));
            cache.live = Live::default();
            cache.key = Some((self.revision, columns));
        }
        act(&cache.lines)
    }

    /// Columns its lines are moved to the right.
    pub(crate) fn indent(&self) -> usize {
        if matches!(self.body, Body::Prompt(_)) { 0 } else { 2 }
    }

    fn height(&self, columns: usize, theme: Theme) -> usize {
        usize::from(self.gap) + self.with_lines(columns, theme, <[_]>::len)
    }

    /// The text a person copies: source, not screen.
    pub(crate) fn source(&self) -> Option<&str> {
        match &self.body {
            Body::Prompt(text) | Body::Answer { source: text, .. } | Body::Notice { text, .. } => Some(text),
            Body::Compaction(done) => Some(&done.summary),
            _ => None,
        }
    }
}

/// A place in the transcript: a line of an entry, its gap counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    entry: usize,
    line: usize,
}

/// Where the person reads.
#[derive(Debug, Clone, Copy, Default)]
enum Scroll {
    /// At the bottom; new lines push.
    #[default]
    Follow,
    /// Here, whatever arrives. `entries` and `lines` tell what was there when reading began.
    At { top: Place, entries: usize, lines: usize },
}

/// The part of the screen the transcript has.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
    pub(crate) theme: Theme,
}

/// Everything said, and the reading position.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    entries: Vec<Entry>,
    scroll: Scroll,
}

impl Transcript {
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn push(&mut self, turn: u64, body: Body) {
        let tool_after_tool = matches!(body, Body::Tool { .. })
            && self.entries.last().is_some_and(|e| matches!(e.body, Body::Tool { .. } | Body::Preflight(_)));
        let preflight_after_tool = matches!(body, Body::Preflight(_))
            && self.entries.last().is_some_and(|e| matches!(e.body, Body::Tool { .. }));
        let gap = !self.entries.is_empty() && !tool_after_tool && !preflight_after_tool;
        self.entries.push(Entry { turn, body, gap, revision: 0, cache: RefCell::default() });
    }

    /// Changes the newest entry that `pick` accepts. False where there is none.
    pub(crate) fn change(&mut self, pick: impl Fn(&Body) -> bool, act: impl FnOnce(&mut Body)) -> bool {
        let Some(entry) = self.entries.iter_mut().rfind(|e| pick(&e.body)) else { return false };
        act(&mut entry.body);
        entry.revision = entry.revision.wrapping_add(1);
        true
    }

    /// Adds model text to the open answer, or opens one.
    pub(crate) fn delta(&mut self, turn: u64, text: &str) {
        match self.entries.last_mut() {
            Some(Entry { body: Body::Answer { source, end: None }, .. }) => source.push_str(text),
            _ => self.push(turn, Body::Answer { source: text.to_owned(), end: None }),
        }
    }

    /// Ends the open answer, if one is open.
    pub(crate) fn end_answer(&mut self, end: End) -> bool {
        let open = |b: &Body| matches!(b, Body::Answer { end: None, .. });
        self.change(open, |body| {
            if let Body::Answer { end: open, .. } = body {
                *open = Some(end);
            }
        })
    }

    pub(crate) fn follow(&mut self) {
        self.scroll = Scroll::Follow;
    }

    pub(crate) fn go_to_start(&mut self, window: Window) {
        self.go(Place { entry: 0, line: 0 }, window);
    }

    pub(crate) fn up(&mut self, rows: usize, window: Window) {
        let top = self.top(window);
        self.go(self.back(top, rows, window), window);
    }

    pub(crate) fn down(&mut self, rows: usize, window: Window) {
        let top = self.top(window);
        self.go(self.forward(top, rows, window), window);
    }

    /// Shows an entry's first line, unless it is on the screen.
    pub(crate) fn show(&mut self, entry: usize, window: Window) {
        let top = self.top(window);
        let place = Place { entry, line: 0 };
        if place < top || place >= self.forward(top, window.rows, window) {
            self.go(place, window);
        }
    }

    /// While following: if the newest entry is taller than the window, shows its head and not its foot.
    pub(crate) fn show_head(&mut self, window: Window) {
        if let (Scroll::Follow, Some(entry)) = (self.scroll, self.entries.len().checked_sub(1)) {
            let line = self.entries.last().map_or(0, |e| usize::from(e.gap));
            self.go(Place { entry, line }, window);
        }
    }

    fn go(&mut self, place: Place, window: Window) {
        if place >= self.bottom(window) {
            self.scroll = Scroll::Follow;
            return;
        }
        let (entries, lines) = match self.scroll {
            Scroll::At { entries, lines, .. } => (entries, lines),
            Scroll::Follow => (self.entries.len(), self.entries.last().map_or(0, |e| height(e, window))),
        };
        self.scroll = Scroll::At { top: place, entries, lines };
    }

    /// Lines that came since the person left the bottom; `None` while following.
    pub(crate) fn unseen(&self, window: Window) -> Option<usize> {
        let Scroll::At { entries, lines, .. } = self.scroll else { return None };
        let newer: usize = self.entries.iter().skip(entries).map(|e| height(e, window)).sum();
        let grown = entries.checked_sub(1).and_then(|n| self.entries.get(n)).map_or(0, |e| height(e, window));
        Some(newer + grown.saturating_sub(lines))
    }

    fn top(&self, window: Window) -> Place {
        let bottom = self.bottom(window);
        match self.scroll {
            Scroll::Follow => bottom,
            Scroll::At { mut top, .. } => {
                let lines = self.entries.get(top.entry).map_or(0, |e| height(e, window));
                top.line = top.line.min(lines.saturating_sub(1));
                top.min(bottom)
            }
        }
    }

    fn bottom(&self, window: Window) -> Place {
        self.back(Place { entry: self.entries.len(), line: 0 }, window.rows, window)
    }

    fn back(&self, from: Place, rows: usize, window: Window) -> Place {
        let mut at = from;
        let mut left = rows;
        while left > at.line {
            let Some(entry) = at.entry.checked_sub(1) else { return Place { entry: 0, line: 0 } };
            left -= at.line;
            at = Place { entry, line: self.entries.get(entry).map_or(0, |e| height(e, window)) };
        }
        at.line -= left;
        at
    }

    fn forward(&self, from: Place, rows: usize, window: Window) -> Place {
        let mut at = Place { entry: from.entry, line: from.line + rows };
        while let Some(entry) = self.entries.get(at.entry) {
            let lines = height(entry, window);
            if at.line < lines {
                break;
            }
            at = Place { entry: at.entry + 1, line: at.line - lines };
        }
        at
    }

    /// Calls `act` with row, indent, line and entry for each visible line that is not a gap. The flag tells an entry's first line.
    pub(crate) fn visible(&self, window: Window, mut act: impl FnMut(usize, &Line<'static>, &Entry, bool)) {
        let top = self.top(window);
        let mut row = 0;
        let mut skip = top.line;
        for entry in self.entries.iter().skip(top.entry) {
            if row >= window.rows {
                return;
            }
            let gap = usize::from(entry.gap);
            entry.with_lines(window.columns, window.theme, |lines| {
                for n in skip..lines.len() + gap {
                    if row >= window.rows {
                        return;
                    }
                    if let Some(line) = n.checked_sub(gap).and_then(|k| lines.get(k)) {
                        act(row, line, entry, n == gap);
                    }
                    row += 1;
                }
            });
            skip = 0;
        }
    }
}

fn height(entry: &Entry, window: Window) -> usize {
    entry.height(window.columns, window.theme)
}
