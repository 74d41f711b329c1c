//! Recall and instruction files on the whole screen, and the frame all whole screens have.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Widget;

use super::bar::{Item, bar, item};
use super::{draw_lines, panes, window_of};
use crate::data::InstructionRow;
use crate::state::State;
use crate::text::wrap::{Indent, wrap_plain};
use crate::text::{bytes, fit, pad, width};
use crate::theme::{Sign, Theme, Tone, tone};

/// Title and what stands right of it above, keys below; gives the room between.
pub(super) fn frame(state: &State, head: (&str, &str), foot: &str, area: Rect, buffer: &mut Buffer) -> Rect {
    let theme = state.theme();
    let left = vec![item(0, theme.span(Tone::Strong, format!(" {}", head.0)))];
    let right = vec![item(1, theme.span(Tone::Dim, head.1))];
    framed(theme, state.hint.as_deref(), (left, right), foot, area, buffer)
}

/// [`frame`] for any screen; a hint stands in place of the keys.
pub(super) fn framed(
    theme: Theme,
    hint: Option<&str>,
    (left, right): (Vec<Item>, Vec<Item>),
    foot: &str,
    area: Rect,
    buffer: &mut Buffer,
) -> Rect {
    let columns = usize::from(area.width).saturating_sub(1);
    let [top, rule, body, low_rule, status] = rows(area);
    bar(left, right, &theme.span(Tone::Dim, " · "), columns).render(top, buffer);
    for rule in [rule, low_rule] {
        theme.span(Tone::Dim, "─".repeat(usize::from(rule.width))).render(rule, buffer);
    }
    let (text, tone) = hint.map_or((foot, Tone::Dim), |hint| (hint, Tone::Accent));
    theme.span(tone, fit(&format!(" {text}"), columns)).render(status, buffer);
    body
}

/// Title, rule, the room between, rule, keys.
pub(super) fn rows(area: Rect) -> [Rect; 5] {
    let row =
        |y: u16, height: u16| Rect { y: area.y + y.min(area.height), height, ..area }.intersection(area);
    let h = area.height;
    let body = h.saturating_sub(4);
    [
        row(0, 1),
        row(1, 1),
        row(2, body),
        row(h.saturating_sub(2).max(2), 1),
        row(h.saturating_sub(1).max(3), 1),
    ]
}

pub(super) fn recall(state: &State, area: Rect, buffer: &mut Buffer) {
    let theme = state.theme();
    let turn = state.shown_turn();
    let head = turn.map_or_else(|| "Recall".to_owned(), |t| format!("Recall · turn {}", t.number));
    let foot = "↑↓ entry · Enter whole · p pin · x not next turn · f forget · y copy · Esc back";
    let body = frame(state, (&head, "what this turn was given, and why"), foot, area, buffer);
    let columns = usize::from(body.width);
    let Some(recall) = turn.and_then(|t| t.recall.as_ref()) else {
        let text = theme.span(Tone::Dim, format!("  {}", panes::no_recall(turn)));
        return text.render(body, buffer);
    };
    let mut lines = panes::providers(recall, columns, theme);
    lines.push(panes::budget(recall, columns, theme));
    lines.push(Line::default());
    let fixed = lines.len();
    let (items, cursor) = panes::recall_items(state, recall, columns.min(100), true);
    if recall.items.is_empty() {
        lines.push(Line::from(theme.span(Tone::Dim, "  Nothing was recalled for this turn.")));
    }
    lines.extend(items);
    draw_lines(
        window_of(&lines, if cursor == 0 { 0 } else { fixed + cursor }, usize::from(body.height)),
        body,
        buffer,
    );
}

pub(super) fn files(state: &State, area: Rect, buffer: &mut Buffer) {
    let theme = state.theme();
    let head = state.instructions.as_ref().map_or_else(
        || "Instruction files".to_owned(),
        |i| format!("Instruction files of {} ({})", i.host, i.rows.len()),
    );
    let foot = "↑↓ move · y copy path · c confirm a proposed rule · Esc back";
    let body = frame(state, (&head, "in the host's order"), foot, area, buffer);
    let columns = usize::from(body.width);
    let mut lines = Vec::new();
    let mut cursor = 0;
    let mut rows = 0;
    if let Some(i) = &state.instructions {
        lines.extend([panes::file_budget(i, columns, theme), Line::default()]);
        rows = i.rows.len();
        for (n, row) in i.rows.iter().enumerate() {
            let here = n == state.files_cursor;
            if here {
                cursor = lines.len();
            }
            lines.extend(file(state, row, here, columns));
        }
    }
    if !state.candidates.is_empty() {
        lines.push(Line::default());
        lines.push(panes::title(
            "Proposed rules: in force only once you confirm them",
            false,
            columns,
            theme,
        ));
    }
    for (n, candidate) in state.candidates.iter().enumerate() {
        let here = rows + n == state.files_cursor;
        if here {
            cursor = lines.len();
        }
        let mark = theme.span(Tone::Accent, if here { "▸ " } else { "  " });
        let indent = Indent { first: vec![mark, theme.marked(Sign::Running, "")], rest: vec!["    ".into()] };
        let style = theme.style(if here { Tone::Strong } else { Tone::Plain });
        lines.extend(wrap_plain(&candidate.text, style, columns.min(100), &indent));
    }
    draw_lines(window_of(&lines, cursor, usize::from(body.height)), body, buffer);
}

fn file(state: &State, r: &InstructionRow, here: bool, columns: usize) -> Vec<Line<'static>> {
    let theme = state.theme();
    let sign = Sign::from(r.level);
    let right = format!("{:>5}  {}  {}", bytes(r.bytes), pad(&r.sha, 8), pad(&r.state, 12));
    let room = columns.saturating_sub(width(&right) + 7).clamp(8, 60);
    let mut lines = vec![Line::from(vec![
        theme.span(Tone::Accent, if here { "▸ " } else { "  " }),
        theme.span(tone(sign), format!("{} ", theme.sign(sign))),
        theme.span(if here { Tone::Strong } else { Tone::Plain }, pad(&panes::tail(&r.id, room), room)),
        theme.span(Tone::Dim, format!("  {right}")),
    ])];
    let more: Vec<&str> =
        [r.path.as_str(), r.reason.as_str()].into_iter().filter(|t| !t.is_empty()).collect();
    if !more.is_empty() && (here || !r.reason.is_empty()) {
        let text = format!("      {}", more.join(" · "));
        lines.push(Line::from(theme.span(Tone::Dim, fit(&text, columns))));
    }
    lines
}
