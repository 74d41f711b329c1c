//! The composer: a multi-line text, its history, and pastes folded to one word.
//!
//! Invariant: text leaves it only by being sent, by a key that deletes, or into the history.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Widget;
use ratatui_textarea::{CursorMove, TextArea, WrapMode};

use crate::text::scrub_paste;
use crate::text::wrap::{Indent, wrap_plain};

/// A paste longer than this is folded, characters: a long line makes each redraw slow, a long text hides the rest.
pub(crate) const PASTE_CHARS_MAX: usize = 1000;
/// Sent and stashed texts kept for ↑.
const HISTORY_MAX: usize = 500;
/// Rows of the trial drawing that lets the widget count its rows; enough that a text of usual size is not scrolled by it.
const MEASURE_ROWS: u16 = 100;
/// Steps of undo.
const UNDO_MAX: usize = 200;

/// A text with its folded pastes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Draft {
    /// What is shown.
    shown: String,
    /// Placeholder and content of each folded paste.
    folds: Vec<(String, String)>,
}

impl Draft {
    /// A text from outside; a long one is folded as a paste would be.
    fn of(text: &str) -> Self {
        let text = scrub_paste(text);
        if text.chars().count() <= PASTE_CHARS_MAX * 4 {
            return Self { shown: text, folds: Vec::new() };
        }
        let name = placeholder(text.chars().count(), &[]);
        Self { shown: name.clone(), folds: vec![(name, text)] }
    }

    /// The whole text.
    fn expanded(&self) -> String {
        let mut out = String::new();
        let mut rest = self.shown.as_str();
        // Left to right over the shown text, so that a placeholder inside a pasted text stays as it is.
        while let Some((at, name, content)) = self.next_fold(rest) {
            let (before, after) = rest.split_at_checked(at).unwrap_or((rest, ""));
            out.push_str(before);
            out.push_str(content);
            rest = after.get(name.len()..).unwrap_or_default();
        }
        out.push_str(rest);
        out
    }

    fn next_fold<'a>(&'a self, text: &str) -> Option<(usize, &'a str, &'a str)> {
        let found =
            self.folds.iter().filter_map(|(n, c)| Some((text.find(n.as_str())?, n.as_str(), c.as_str())));
        found.min_by_key(|(at, ..)| *at)
    }
}

fn placeholder(chars: usize, taken: &[(String, String)]) -> String {
    let plain = format!("[Pasted {chars} chars]");
    let free = |name: &String| taken.iter().all(|(n, _)| n != name);
    if free(&plain) {
        return plain;
    }
    (2..=taken.len() + 2).map(|n| format!("[Pasted {chars} chars #{n}]")).find(free).unwrap_or(plain)
}

/// The text being written, and the ones before it.
#[derive(Debug)]
pub(crate) struct Composer {
    area: TextArea<'static>,
    folds: Vec<(String, String)>,
    history: Vec<Draft>,
    /// Place in the history, and the draft that waits below it.
    browsing: Option<(usize, Draft)>,
    columns: u16,
}

impl Default for Composer {
    fn default() -> Self {
        let columns = 80;
        Self { area: area(""), folds: Vec::new(), history: Vec::new(), browsing: None, columns }
    }
}

fn area(text: &str) -> TextArea<'static> {
    let mut area = TextArea::new(text.split('\n').map(str::to_owned).collect());
    area.set_wrap_mode(WrapMode::WordOrGlyph);
    area.set_cursor_line_style(Style::default());
    // The terminal's own cursor stands at the caret; a painted one would be a second.
    area.set_cursor_style(Style::default());
    area.set_max_histories(UNDO_MAX);
    area.move_cursor(CursorMove::Bottom);
    area.move_cursor(CursorMove::End);
    area
}

impl Composer {
    /// The widget.
    pub(crate) fn area(&self) -> &TextArea<'static> {
        &self.area
    }

    /// For editing keys; whatever they do is undone by Ctrl+_.
    pub(crate) fn edit(&mut self, act: impl FnOnce(&mut TextArea<'static>)) {
        act(&mut self.area);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.area.is_empty()
    }

    /// What is shown, pastes folded.
    pub(crate) fn shown(&self) -> String {
        self.area.lines().join("\n")
    }

    /// The whole text, pastes expanded.
    pub(crate) fn text(&self) -> String {
        self.draft().expanded()
    }

    fn draft(&self) -> Draft {
        Draft { shown: self.shown(), folds: self.folds.clone() }
    }

    fn set(&mut self, draft: Draft) {
        self.area = area(&draft.shown);
        self.folds = draft.folds;
        self.measure(self.columns);
    }

    /// Tells how wide the text is shown: the widget knows its rows, and with them its edges, only once drawn.
    pub(crate) fn measure(&mut self, columns: u16) {
        self.columns = columns.max(1);
        let rect = Rect::new(0, 0, self.columns, MEASURE_ROWS);
        (&self.area).render(rect, &mut Buffer::empty(rect));
    }

    /// Rows the text takes at its width, counted no further than `most`.
    pub(crate) fn rows(&self, columns: u16, most: u16) -> u16 {
        let room = usize::from(columns.max(1));
        let mut used = 0;
        for line in self.area.lines() {
            let short = line.len() < room;
            used +=
                if short { 1 } else { wrap_plain(line, Style::default(), room, &Indent::default()).len() };
            if used >= usize::from(most) {
                return most;
            }
        }
        u16::try_from(used).unwrap_or(most)
    }

    /// Scrolls back where a shorter text would leave empty rows below it. The widget scrolls only as far as its caret needs.
    pub(crate) fn settle(&mut self, rows: u16) {
        let (top, _) = self.area.scroll_offset();
        let most = self.rows(self.columns, u16::MAX).saturating_sub(rows);
        if let Some(back) = top.checked_sub(most).filter(|n| *n > 0) {
            self.area.scroll((-i16::try_from(back).unwrap_or(i16::MAX), 0));
        }
    }

    /// Empties the composer and gives the text to send; ↑ brings it back.
    pub(crate) fn take(&mut self) -> String {
        let text = self.text();
        self.stash();
        text
    }

    /// Moves a non-empty text into the history. False where there was none.
    pub(crate) fn stash(&mut self) -> bool {
        let draft = self.draft();
        let kept = !draft.shown.is_empty();
        if let Some((_, below)) = self.browsing.take() {
            self.remember(below);
        }
        self.remember(draft);
        self.set(Draft::default());
        kept
    }

    /// Adds to the history, unless the text is its newest entry.
    fn remember(&mut self, draft: Draft) {
        if draft.shown.is_empty() || self.history.last() == Some(&draft) {
            return;
        }
        if self.history.len() >= HISTORY_MAX {
            self.history.remove(0);
        }
        self.history.push(draft);
    }

    /// Adds an earlier prompt to the history.
    pub(crate) fn learn(&mut self, text: &str) {
        self.remember(Draft::of(text));
    }

    /// Gives a text back to the person. A different text that stands in the composer goes to the history: true then.
    pub(crate) fn give_back(&mut self, text: &str) -> bool {
        let clean = scrub_paste(text);
        if self.text() == clean {
            return false;
        }
        let displaced = self.stash();
        let known = self.history.iter().rfind(|d| d.expanded() == clean).cloned();
        self.set(known.unwrap_or_else(|| Draft::of(&clean)));
        displaced
    }

    /// Inserts a paste, folded if it is long.
    pub(crate) fn paste(&mut self, text: &str) {
        let clean = scrub_paste(text);
        let chars = clean.chars().count();
        if chars <= PASTE_CHARS_MAX {
            self.area.insert_str(clean);
            return;
        }
        let name = placeholder(chars, &self.folds);
        self.area.insert_str(&name);
        self.folds.push((name, clean));
    }

    /// Deletes a folded paste as a whole if the caret stands right behind it, else one character.
    pub(crate) fn backspace(&mut self) {
        let before = self.before_caret();
        match self.folds.iter().find(|(name, _)| before.ends_with(name.as_str())) {
            Some((name, _)) => (0..name.chars().count()).for_each(|_| {
                self.area.delete_char();
            }),
            None => {
                self.area.delete_char();
            }
        }
    }

    /// The caret's line up to the caret.
    pub(crate) fn before_caret(&self) -> String {
        let (row, column) = (self.area.cursor().0, self.area.cursor().1);
        self.area.lines().get(row).map(|l| l.chars().take(column).collect()).unwrap_or_default()
    }

    /// Up: a line up, or at the text's top edge the entry before.
    pub(crate) fn up(&mut self) {
        if self.moved(CursorMove::Up) {
            return;
        }
        let place = self.browsing.as_ref().map_or(self.history.len(), |(n, _)| *n);
        if let Some(n) = place.checked_sub(1) {
            self.show_entry(n);
        }
    }

    /// Down: a line down, or at the bottom edge the entry after, last the draft that waits.
    pub(crate) fn down(&mut self) {
        if self.moved(CursorMove::Down) {
            return;
        }
        let Some((n, _)) = self.browsing else { return };
        if n + 1 < self.history.len() {
            return self.show_entry(n + 1);
        }
        self.keep_edits();
        if let Some((_, below)) = self.browsing.take() {
            self.set(below);
        }
    }

    fn show_entry(&mut self, n: usize) {
        self.keep_edits();
        let Some(entry) = self.history.get(n).cloned() else { return };
        let below = self.browsing.take().map_or_else(|| self.draft(), |(_, d)| d);
        self.browsing = Some((n, below));
        self.set(entry);
    }

    /// An entry that was changed while it was shown becomes an entry of its own.
    fn keep_edits(&mut self) {
        let Some((n, _)) = &self.browsing else { return };
        let now = self.draft();
        if self.history.get(*n) != Some(&now) && !now.shown.is_empty() {
            self.history.push(now);
        }
    }

    fn moved(&mut self, step: CursorMove) -> bool {
        let before = self.area.cursor();
        self.area.move_cursor(step);
        let after = self.area.cursor();
        (before.0, before.1) != (after.0, after.1)
    }

    /// Every text that can still be reached: shown, waiting below the history, in the history.
    pub(crate) fn reachable(&self) -> Vec<String> {
        let below = self.browsing.iter().map(|(_, d)| d.expanded());
        std::iter::once(self.text()).chain(below).chain(self.history.iter().map(Draft::expanded)).collect()
    }
}
