//! Where everything stands. A pure function of the size, the composer's text and the pane the person chose.

use ratatui::layout::Rect;

use crate::state::{Pane, State};
use crate::theme::Theme;
use crate::transcript::Window;

/// Below this the transcript is not shown, columns and rows.
const SMALLEST: (u16, u16) = (40, 10);
/// From this on there is room for a side pane, columns and rows.
const SIDE_FROM: (u16, u16) = (100, 28);
/// The side pane's columns.
const SIDE_COLUMNS: (u16, u16) = (36, 46);
/// The side pane's largest share of the width, percent.
const SIDE_PERCENT: u16 = 38;
/// The transcript's text is never wider, columns.
const TEXT_COLUMNS_MAX: u16 = 100;
/// From this height on the composer always has three rows, so that nothing jumps while one writes.
const TALL_ROWS: u16 = 20;

/// The areas of the chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Layout {
    pub(crate) header: Rect,
    pub(crate) transcript: Rect,
    /// Two lines, where there is no side pane.
    pub(crate) strip: Rect,
    pub(crate) composer: Rect,
    pub(crate) status: Rect,
    /// One-row rules.
    pub(crate) rules: [Rect; 3],
    /// The one vertical rule.
    pub(crate) divider: Rect,
    pub(crate) side: Rect,
    side_possible: bool,
}

/// Cuts rows off the bottom of an area.
struct Stack {
    area: Rect,
}

impl Stack {
    fn bottom(&mut self, rows: u16) -> Rect {
        let rows = rows.min(self.area.height);
        self.area.height -= rows;
        Rect { y: self.area.bottom(), height: rows, ..self.area }
    }

    fn top(&mut self, rows: u16) -> Rect {
        let rows = rows.min(self.area.height);
        let cut = Rect { height: rows, ..self.area };
        self.area.y += rows;
        self.area.height -= rows;
        cut
    }
}

impl Layout {
    pub(crate) fn of(state: &State, (columns, rows): (u16, u16)) -> Self {
        let mut stack = Stack { area: Rect::new(0, 0, columns, rows) };
        let status = stack.bottom(1);
        if columns < SMALLEST.0 || rows < SMALLEST.1 {
            let notice = stack.top(u16::from(rows > 2));
            return Self { status, header: notice, composer: indented(stack.area), ..Self::default() };
        }
        let header = stack.top(1);
        let side_possible = columns >= SIDE_FROM.0 && rows >= SIDE_FROM.1;
        let (divider, side) = match state.pane {
            _ if !side_possible => Default::default(),
            Pane::Strip => Default::default(),
            pane => cut_side(&mut stack.area, columns, pane),
        };
        let mut rules = [Rect::default(); 3];
        let composer_rows = composer_rows(state, stack.area.width, rows);
        if rows >= TALL_ROWS {
            rules[0] = stack.bottom(1);
        }
        let composer = indented(stack.bottom(composer_rows));
        rules[1] = stack.bottom(1);
        let mut strip = Rect::default();
        if side.is_empty() {
            strip = stack.bottom(2);
            if rows >= TALL_ROWS {
                rules[2] = stack.bottom(1);
            }
        }
        Self { header, transcript: stack.area, strip, composer, status, rules, divider, side, side_possible }
    }

    /// Whether the terminal has room for a side pane.
    pub(crate) fn side_possible(&self) -> bool {
        self.side_possible
    }

    /// Whether there is room for a transcript at all.
    pub(crate) fn tiny(&self) -> bool {
        self.transcript.is_empty() && self.rules[1].is_empty()
    }

    pub(crate) fn window(&self, theme: Theme) -> Window {
        // One column stays free, so that no letter touches the divider.
        let columns = self.transcript.width.saturating_sub(1).min(TEXT_COLUMNS_MAX);
        Window { columns: usize::from(columns), rows: usize::from(self.transcript.height), theme }
    }
}

fn cut_side(area: &mut Rect, columns: u16, pane: Pane) -> (Rect, Rect) {
    let widest = (columns * SIDE_PERCENT / 100).clamp(SIDE_COLUMNS.0, SIDE_COLUMNS.1);
    let width = if pane == Pane::Narrow { SIDE_COLUMNS.0 } else { widest };
    area.width = area.width.saturating_sub(width + 2);
    let divider = Rect { x: area.right(), width: 1, ..*area };
    (divider, Rect { x: area.right() + 2, width, ..*area })
}

/// The prompt sign stands left of the text.
fn indented(area: Rect) -> Rect {
    Rect { x: area.x + 2, width: area.width.saturating_sub(3), ..area }
}

fn composer_rows(state: &State, columns: u16, rows: u16) -> u16 {
    let (least, most) = if rows >= TALL_ROWS { (3, (rows / 3).max(3)) } else { (1, (rows / 4).max(1)) };
    state.composer.rows(columns.saturating_sub(3), most).max(least)
}
