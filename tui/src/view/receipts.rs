//! The receipts screen: the list, and below it one receipt with every bound field.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::{draw_lines, lists, panes, window_of};
use crate::data::{ReceiptDetail, ReceiptRow, ReceiptState};
use crate::state::State;
use crate::text::wrap::{Indent, Mode, wrap, wrap_plain};
use crate::text::{fit, pad, width};
use crate::theme::{Sign, Theme, Tone, tone};

/// Rows of the list while a receipt is shown below it, at most.
const LIST_ROWS_MAX: usize = 8;
/// From this width on a row has all its columns.
const WIDE_COLUMNS: usize = 64;

pub(super) fn draw(state: &State, area: Rect, buffer: &mut Buffer) {
    let receipts = &state.receipts;
    let shown = receipts.shown();
    let head = format!("Receipts ({})", receipts.rows.len());
    let right = match (receipts.filtering, receipts.filter.is_empty()) {
        (true, _) => format!("/{}_   Enter keeps · Esc clears", receipts.filter),
        (false, false) => format!("/{} · {} shown", receipts.filter, shown.len()),
        (false, true) => tally(&receipts.rows),
    };
    let foot = match receipts.reading {
        Some(_) => "↑↓ scroll · v verify · y copy · J json · Esc list",
        None => "↑↓ move · Enter open · v verify · y copy id · J json · / filter · Esc back",
    };
    let body = lists::frame(state, (&head, &right), foot, area, buffer);
    match &receipts.detail {
        Some(detail) if receipts.reading.is_some() => read(state, detail, body, buffer),
        detail => list(state, &shown, detail.as_ref(), body, buffer),
    }
}

fn tally(rows: &[ReceiptRow]) -> String {
    let count = |state: ReceiptState| rows.iter().filter(|r| r.state == state).count();
    let all = [
        ReceiptState::Consumed,
        ReceiptState::Refused,
        ReceiptState::Void,
        ReceiptState::Expired,
        ReceiptState::OutcomeUnknown,
    ];
    let parts = all.into_iter().map(|s| (count(s), s.word())).filter(|(n, _)| *n > 0);
    parts.map(|(n, word)| format!("{n} {word}")).collect::<Vec<_>>().join(" · ")
}

fn list(
    state: &State,
    shown: &[&ReceiptRow],
    detail: Option<&ReceiptDetail>,
    body: Rect,
    buffer: &mut Buffer,
) {
    let theme = state.theme();
    let columns = usize::from(body.width);
    let height = usize::from(body.height);
    let head = if columns < WIDE_COLUMNS {
        "  turn  id     state"
    } else {
        "  turn  id     state              issued     recall  files  call"
    };
    theme.span(Tone::Dim, fit(head, columns)).render(body, buffer);
    let rows =
        if detail.is_some() { shown.len().clamp(1, LIST_ROWS_MAX.min(height / 3).max(1)) } else { height };
    let place = |y: usize, h: usize| {
        let y = u16::try_from(y).unwrap_or(body.height).min(body.height);
        let h = u16::try_from(h).unwrap_or(u16::MAX).min(body.height - y);
        Rect { y: body.y + y, height: h, ..body }
    };
    let lines: Vec<Line<'static>> =
        shown.iter().enumerate().map(|(n, r)| row(r, n == state.receipts.cursor, columns, theme)).collect();
    draw_lines(window_of(&lines, state.receipts.cursor, rows), place(1, rows), buffer);
    if shown.is_empty() {
        let text = if state.receipts.rows.is_empty() {
            "  No receipts yet: every call gets its own."
        } else {
            "  None matches."
        };
        theme.span(Tone::Dim, text).render(place(1, 1), buffer);
    }
    if let Some(detail) = detail {
        let room = place(rows + 2, height);
        let lines = detail_lines(state, detail, columns);
        let more = lines.len().saturating_sub(usize::from(room.height));
        draw_lines(&lines, room, buffer);
        if more > 0 && room.height > 1 {
            let last = Rect { y: room.bottom() - 1, height: 1, ..room };
            let text = pad(&format!("  … {} more lines: Enter", more + 1), columns);
            theme.span(Tone::Dim, text).render(last, buffer);
        }
    }
}

fn row(r: &ReceiptRow, here: bool, columns: usize, theme: Theme) -> Line<'static> {
    let sign = Sign::from(r.state);
    let turn = r.turn.map(|t| t.to_string()).unwrap_or_default();
    let word = format!("{} {}", theme.sign(sign), r.state.word());
    let style = if here { Tone::Strong } else { Tone::Plain };
    let rest = if columns < WIDE_COLUMNS {
        String::new()
    } else {
        format!(" {}  {:>6}  {:>5}  {}", pad(&r.at, 9), r.recall, r.files, call(r))
    };
    Line::from(vec![
        theme.span(Tone::Accent, if here { "▸ " } else { "  " }),
        theme.span(style, format!("{turn:>4}  {}  ", pad(&r.short, 5))),
        theme.span(tone(sign), pad(&word, 18)),
        theme.span(style, fit(&rest, columns.saturating_sub(33)).into_owned()),
    ])
}

fn call(r: &ReceiptRow) -> String {
    if r.kind == "turn" { r.call.clone() } else { format!("{} · {}", r.kind, r.call) }
}

/// The receipt alone, scrolled by its own keys.
fn read(state: &State, detail: &ReceiptDetail, body: Rect, buffer: &mut Buffer) {
    let lines = detail_lines(state, detail, usize::from(body.width));
    let most = lines.len().saturating_sub(usize::from(body.height));
    let first = state.receipts.reading.unwrap_or(0).min(most);
    draw_lines(lines.get(first..).unwrap_or_default(), body, buffer);
}

/// Lines of the open receipt at this width; how far reading can scroll is counted from them.
pub(crate) fn detail_lines(state: &State, detail: &ReceiptDetail, columns: usize) -> Vec<Line<'static>> {
    let theme = state.theme();
    let row = state.receipts.rows.iter().find(|r| r.id == detail.id);
    let name = row.map_or_else(|| detail.id.clone(), |r| r.short.clone());
    let turn = row.and_then(|r| r.turn).map(|t| format!(" · turn {t}")).unwrap_or_default();
    let mut lines = vec![panes::title(&format!("{name}{turn}"), false, columns, theme)];
    lines.push(verdict(detail, theme, columns));
    if state.receipts.json {
        lines.extend(json(detail, theme, columns));
    } else {
        lines.extend(fields(&detail.fields, theme, columns));
    }
    lines
}

/// A receipt as the journal keeps it.
pub(super) fn json(detail: &ReceiptDetail, theme: Theme, columns: usize) -> Vec<Line<'static>> {
    let piece = (detail.json.clone(), theme.style(Tone::Plain));
    wrap(&[piece], columns, &Indent::plain("  "), Mode::Graphemes)
}

/// Label and value, one below the other, the values in one column.
pub(super) fn fields(fields: &[(String, String)], theme: Theme, columns: usize) -> Vec<Line<'static>> {
    let label = fields.iter().map(|(l, _)| width(l)).max().unwrap_or(0).min(LABEL_COLUMNS_MAX);
    let one = |(name, value): &(String, String)| {
        let first = vec![theme.span(Tone::Dim, format!("  {}  ", pad(name, label)))];
        let indent = Indent { first, rest: vec![Span::raw(" ".repeat(label + 4))] };
        wrap_plain(value, theme.style(Tone::Plain), columns, &indent)
    };
    fields.iter().flat_map(one).collect()
}

/// Labels are cut to this.
const LABEL_COLUMNS_MAX: usize = 20;

fn verdict(detail: &ReceiptDetail, theme: Theme, columns: usize) -> Line<'static> {
    let (sign, text) = match &detail.verify {
        None => (Sign::Empty, "not verified now: v checks key, chain and anchor".to_owned()),
        Some(v) if v.ok => (Sign::Ok, format!("verified: {}", v.text)),
        Some(v) => (Sign::Failed, format!("does not verify: {}", v.text)),
    };
    let text = format!("  {} {text}", theme.sign(sign));
    Line::from(theme.span(tone(sign), fit(&text, columns)))
}
