//! Tables: columns where they fit, else one record after another, so that nothing is cut.

use ratatui::text::{Line, Span};

use crate::text::wrap::{Indent, Mode, Piece, wrap};
use crate::text::{TAB_COLUMNS, width};
use crate::theme::{Theme, Tone};

/// Blank columns between two cells.
const GUTTER: usize = 2;

type Cell = Vec<Piece>;

/// Rows as they come; the first one is the head.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(super) fn row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(super) fn cell(&mut self, cell: Cell) {
        if let Some(row) = self.rows.last_mut() {
            row.push(cell.into_iter().map(|(t, s)| (t.replace('\t', &" ".repeat(TAB_COLUMNS)), s)).collect());
        }
    }

    pub(super) fn lines(&self, columns: usize, indent: &Indent, theme: Theme) -> Vec<Line<'static>> {
        let widths = self.widths();
        let left: usize = indent.rest.iter().map(|s| width(&s.content)).sum();
        let total = widths.iter().sum::<usize>() + GUTTER * widths.len().saturating_sub(1);
        let mut lines = if total + left <= columns {
            self.grid(&widths, theme)
        } else {
            self.records(columns, left, theme)
        };
        for (n, line) in lines.iter_mut().enumerate() {
            let side = if n == 0 { &indent.first } else { &indent.rest };
            line.spans.splice(0..0, side.iter().cloned());
        }
        lines
    }

    fn widths(&self) -> Vec<usize> {
        let count = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let cell = |row: &Vec<Cell>, n: usize| row.get(n).map_or(0, columns_of);
        (0..count).map(|n| self.rows.iter().map(|row| cell(row, n)).max().unwrap_or(0)).collect()
    }

    fn grid(&self, widths: &[usize], theme: Theme) -> Vec<Line<'static>> {
        let mut lines = Vec::new();
        for (n, row) in self.rows.iter().enumerate() {
            let mut spans = Vec::new();
            for (k, (cell, columns)) in row.iter().zip(widths).enumerate() {
                for (text, style) in cell {
                    let style = if n == 0 { style.patch(theme.style(Tone::Strong)) } else { *style };
                    spans.push(Span::styled(text.clone(), style));
                }
                if k + 1 < row.len() {
                    spans.push(Span::raw(" ".repeat(columns.saturating_sub(columns_of(cell)) + GUTTER)));
                }
            }
            lines.push(Line::from(spans));
            if n == 0 {
                let rule: Vec<String> = widths.iter().map(|w| "─".repeat(*w)).collect();
                lines.push(Line::from(theme.span(Tone::Dim, rule.join(&" ".repeat(GUTTER)))));
            }
        }
        lines
    }

    /// `Head: cell`, one below the other, an empty line between records.
    fn records(&self, columns: usize, left: usize, theme: Theme) -> Vec<Line<'static>> {
        let Some((head, rows)) = self.rows.split_first() else { return Vec::new() };
        let room = columns.saturating_sub(left);
        let mut lines = Vec::new();
        for (n, row) in rows.iter().enumerate() {
            if n > 0 {
                lines.push(Line::default());
            }
            for (k, cell) in row.iter().enumerate() {
                let name: String = head.get(k).into_iter().flatten().map(|(t, _)| t.as_str()).collect();
                let mut pieces = vec![(format!("{name}: "), theme.style(Tone::Strong))];
                pieces.extend(cell.iter().cloned());
                lines.extend(wrap(&pieces, room, &Indent::hanging("", "  "), Mode::Words));
            }
        }
        lines
    }
}

fn columns_of(cell: &Cell) -> usize {
    cell.iter().map(|(t, _)| width(t)).sum()
}
