//! Recall, instruction files and receipts of the shown turn: as a side pane, or as two strip lines.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::bar::{Item, bar, item, items};
use super::layout::Layout;
use super::{draw_lines, window_of};
use crate::data::{
    InstructionRow, Instructions, LeftOut, Level, ProviderRow, ProviderStatus, Recall, RecallItem, ReceiptRow,
};
use crate::state::{Focus, State, Turn};
use crate::text::wrap::{Indent, wrap_plain};
use crate::text::{bytes, duration, fit, pad, short, width};
use crate::theme::{Sign, Theme, Tone, tone};

/// Instruction files shown in the side pane.
const FILES_MAX: usize = 5;
/// Receipts shown in the side pane.
const RECEIPTS_MAX: usize = 5;

pub(super) fn draw(state: &State, layout: &Layout, buffer: &mut Buffer) {
    if !layout.strip.is_empty() {
        let columns = usize::from(layout.strip.width);
        draw_lines(&[recall_strip(state, columns), files_strip(state, columns)], layout.strip, buffer);
    }
    if !layout.side.is_empty() {
        side(state, layout.side, buffer);
    }
}

fn side(state: &State, area: Rect, buffer: &mut Buffer) {
    let columns = usize::from(area.width);
    let files = files(state, columns);
    let receipts = receipts(state, columns);
    let below = files.len() + receipts.len();
    let rows = usize::from(area.height).saturating_sub(below + 1).max(4);
    let mut lines = recall(state, columns, rows);
    lines.resize(rows, Line::default());
    lines.extend(files);
    lines.push(Line::default());
    lines.extend(receipts);
    draw_lines(&lines, area, buffer);
}

/// A titled rule.
pub(super) fn title(text: &str, focused: bool, columns: usize, theme: Theme) -> Line<'static> {
    let text = fit(text, columns.saturating_sub(4)).into_owned();
    let rest = columns.saturating_sub(width(&text) + 4);
    let tone = if focused { Tone::Brand } else { Tone::Strong };
    let head = if focused { "─▸ " } else { "── " };
    Line::from(vec![
        theme.span(Tone::Dim, head),
        theme.span(tone, text),
        theme.span(Tone::Dim, format!(" {}", "─".repeat(rest))),
    ])
}

/// A bar of `columns` that shows `used` of `all`.
pub(super) fn gauge(used: u64, all: u64, columns: usize, theme: Theme) -> Vec<Span<'static>> {
    let cells = u64::try_from(columns).unwrap_or(0);
    let full = used.saturating_mul(cells).checked_div(all).unwrap_or(0).min(cells);
    let full = usize::try_from(full).unwrap_or(0).max(usize::from(used > 0 && columns > 0));
    let tone = if used > all { Tone::Bad } else { Tone::Accent };
    vec![theme.span(tone, "█".repeat(full)), theme.span(Tone::Dim, "░".repeat(columns.saturating_sub(full)))]
}

fn recall(state: &State, columns: usize, rows: usize) -> Vec<Line<'static>> {
    let theme = state.theme();
    let focused = state.focus == Focus::Recall;
    let turn = state.shown_turn();
    let recall = turn.and_then(|t| t.recall.as_ref());
    let head = match (turn, recall) {
        (Some(t), Some(r)) => format!("Recall · turn {} · {}", t.number, duration(r.ms)),
        (Some(t), None) => format!("Recall · turn {}", t.number),
        (None, _) => "Recall".to_owned(),
    };
    let mut lines = vec![title(&head, focused, columns, theme)];
    let Some(recall) = recall else {
        lines.push(Line::from(theme.span(Tone::Dim, format!("  {}", no_recall(turn)))));
        return lines;
    };
    lines.extend(providers(recall, columns, theme));
    lines.push(budget(recall, columns, theme));
    lines.push(Line::default());
    let (all, cursor) = recall_items(state, recall, columns, focused);
    let room = rows.saturating_sub(lines.len());
    let shown = window_of(&all, if focused { cursor } else { 0 }, room);
    lines.extend(shown.iter().take(room).cloned());
    if shown.len() > room
        && let Some(last) = lines.last_mut()
    {
        *last = Line::from(theme.span(Tone::Dim, "    … more: F2, or Tab and ↓"));
    }
    lines
}

/// What is asked about the chosen entry before it is forgotten: only once the preview is there can it be answered.
fn question(state: &State, id: &str, here: bool) -> Option<&'static str> {
    let forgetting = state.forgetting.as_ref().filter(|forgetting| here && forgetting.id == id)?;
    Some(if forgetting.token.is_some() { FORGET } else { "looking up what would be forgotten…" })
}

/// The second step of forgetting.
const FORGET: &str = "Forget this memory for good? y forgets it, any other key keeps it. Transcripts, exports and backups are not reached.";

pub(super) fn no_recall(turn: Option<&Turn>) -> &'static str {
    match turn {
        None => "nothing yet",
        Some(t) if t.blocked.is_some() => "not run",
        Some(_) => "not run yet",
    }
}

pub(super) fn providers(r: &Recall, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let longest = r.providers.iter().map(|p| width(&p.id)).max().unwrap_or(0);
    let name = longest.min(columns.saturating_sub(34).max(6));
    r.providers.iter().map(|p| provider(p, name, columns, theme)).collect()
}

fn provider(p: &ProviderRow, name: usize, columns: usize, theme: Theme) -> Line<'static> {
    let sign = Sign::from(p.status);
    let mut spans = vec![
        theme.span(tone(sign), format!("  {} ", theme.sign(sign))),
        Span::raw(pad(&p.id, name)),
        Span::raw(format!(" {}", pad(p.status.word(), 7))),
    ];
    let time = duration(p.ms);
    let rest = match &p.reason {
        Some(reason) => format!(" {reason} {time} {}", if p.required { "(req.)" } else { "(opt.)" }),
        None => format!(" {:>2}  {time}", p.items),
    };
    let room = columns.saturating_sub(name + 12);
    spans.push(theme.span(if p.reason.is_some() { Tone::Plain } else { Tone::Dim }, fit(&rest, room)));
    Line::from(spans)
}

pub(super) fn budget(r: &Recall, columns: usize, theme: Theme) -> Line<'static> {
    let text = format!("  {} / {} tok  ", short(r.tokens), short(r.budget_tokens));
    let room = columns.saturating_sub(width(&text) + 1).min(20);
    let mut spans = vec![Span::raw(text)];
    spans.extend(gauge(r.tokens, r.budget_tokens, room, theme));
    Line::from(spans)
}

/// Lines of all entries and the line the cursor's entry begins at.
pub(super) fn recall_items(
    state: &State,
    r: &Recall,
    columns: usize,
    focused: bool,
) -> (Vec<Line<'static>>, usize) {
    let theme = state.theme();
    let mut lines = Vec::new();
    let mut cursor = 0;
    for (n, item) in r.items.iter().enumerate() {
        let here = focused && n == state.recall_cursor;
        if here {
            cursor = lines.len();
        }
        lines.extend(recall_item(state, item, here, columns));
    }
    if !r.left_out.is_empty() {
        let head = format!("  Left out ({})", r.left_out.len());
        lines.extend([Line::default(), Line::from(theme.span(Tone::Dim, head))]);
    }
    for (n, other) in (r.items.len()..).zip(&r.left_out) {
        let here = focused && n == state.recall_cursor;
        if here {
            cursor = lines.len();
        }
        lines.extend(left_out(state, other, here, columns));
    }
    (lines, cursor)
}

/// What came close, with the reason why it is not in the briefing.
fn left_out(state: &State, other: &LeftOut, here: bool, columns: usize) -> Vec<Line<'static>> {
    let theme = state.theme();
    let LeftOut { id, title, why, .. } = other;
    let name = if title.is_empty() { id } else { title };
    let said = wish(state, id).map(|wish| format!("{wish} · ")).unwrap_or_default();
    let mark = theme.span(Tone::Accent, if here { "▸ " } else { "  " });
    let text = fit(&format!("· {said}{name}: {why}"), columns.saturating_sub(2)).into_owned();
    let mut lines =
        vec![Line::from(vec![mark, theme.span(if here { Tone::Plain } else { Tone::Dim }, text)])];
    if let Some(question) = question(state, id, here) {
        lines.extend(wrap_plain(question, theme.style(Tone::Bad), columns, &Indent::plain("      ")));
    }
    lines
}

/// What the person said about an entry, or that it was forgotten.
fn wish(state: &State, id: &str) -> Option<&'static str> {
    let has = |ids: &[String]| ids.iter().any(|other| other == id);
    if has(&state.forgotten) {
        Some("forgotten")
    } else if has(&state.wishes.pinned) {
        Some("pinned")
    } else {
        has(&state.wishes.left_out).then_some("not next turn")
    }
}

fn recall_item(state: &State, i: &RecallItem, here: bool, columns: usize) -> Vec<Line<'static>> {
    let theme = state.theme();
    let wish = wish(state, &i.id);
    let right = match wish {
        Some(wish) => format!("{} tok  {} · {wish}", i.tokens, i.provider),
        None => format!("{} tok  {}", i.tokens, i.provider),
    };
    let mark = if here { "▸ " } else { "  " };
    let room = columns.saturating_sub(width(&right) + 7);
    let head = vec![
        theme.span(Tone::Accent, mark),
        theme.span(Tone::Accent, format!("[{}] ", i.n)),
        theme.span(if here { Tone::Strong } else { Tone::Plain }, pad(&i.source, room)),
        theme.span(Tone::Dim, format!(" {right}")),
    ];
    let mut lines = vec![Line::from(head)];
    let hang =
        |tone: Tone, text: &str| wrap_plain(text, theme.style(tone), columns, &Indent::plain("      "));
    if let Some(question) = question(state, &i.id, here) {
        lines.extend(hang(Tone::Bad, question));
    }
    if here && state.recall_open {
        lines.extend(hang(Tone::Plain, &i.text));
        lines.extend(hang(Tone::Dim, &format!("why: {}", i.why)));
        if !i.provenance.is_empty() {
            lines.extend(hang(Tone::Dim, &format!("from: {}", i.provenance)));
        }
        lines.extend(hang(Tone::Dim, &format!("id: {}", i.id)));
        return lines;
    }
    let one_line = i.text.split_whitespace().collect::<Vec<_>>().join(" ");
    lines.push(Line::from(vec![
        Span::raw("      "),
        Span::raw(fit(&one_line, columns.saturating_sub(6)).into_owned()),
    ]));
    let why = format!("      why: {}", i.why);
    lines.push(Line::from(theme.span(Tone::Dim, fit(&why, columns))));
    lines
}

fn files(state: &State, columns: usize) -> Vec<Line<'static>> {
    let theme = state.theme();
    let Some(i) = &state.instructions else {
        let text = theme.span(Tone::Dim, "  not read yet");
        return vec![title("Instructions", false, columns, theme), Line::from(text)];
    };
    let mut lines = vec![title(&format!("Instructions · {}", i.host), false, columns, theme)];
    let (bound, other): (Vec<_>, Vec<_>) = i.rows.iter().partition(|r| r.level != Level::Info);
    lines.extend(bound.iter().take(FILES_MAX).map(|r| file(r, columns, theme)));
    let more = bound.len().saturating_sub(FILES_MAX) + other.len();
    if more > 0 {
        lines.push(Line::from(theme.span(Tone::Dim, format!("    … {more} more: F4"))));
    }
    lines.push(file_budget(i, columns, theme));
    lines
}

fn file(r: &InstructionRow, columns: usize, theme: Theme) -> Line<'static> {
    let sign = Sign::from(r.level);
    let sha: String = r.sha.chars().take(4).collect();
    let right = format!("{:>5} {sha} {}", bytes(r.bytes), r.state);
    let room = columns.saturating_sub(width(&right) + 6);
    Line::from(vec![
        theme.span(tone(sign), format!("  {} ", theme.sign(sign))),
        Span::raw(pad(&tail(&r.id, room), room)),
        theme.span(Tone::Dim, format!(" {right}")),
    ])
}

/// The end of an id, which names the file; the beginning names only its scope.
pub(super) fn tail(id: &str, columns: usize) -> String {
    if width(id) <= columns {
        return id.to_owned();
    }
    let mut rest = id;
    while width(rest) + 1 > columns && !rest.is_empty() {
        rest = rest.char_indices().nth(1).and_then(|(n, _)| rest.get(n..)).unwrap_or_default();
    }
    format!("…{rest}")
}

pub(super) fn file_budget(i: &Instructions, columns: usize, theme: Theme) -> Line<'static> {
    let text =
        format!("  {} / {} (hard {})  ", bytes(i.used_bytes), bytes(i.standard_bytes), bytes(i.hard_bytes));
    let room = columns.saturating_sub(width(&text) + 1).min(20);
    let mut spans = vec![Span::raw(text)];
    spans.extend(gauge(i.used_bytes, i.standard_bytes, room, theme));
    Line::from(spans)
}

/// Receipts of the shown turn, newest first, then those of the turns before it.
fn receipts(state: &State, columns: usize) -> Vec<Line<'static>> {
    let theme = state.theme();
    let mut lines = vec![title("Receipts", state.focus == Focus::Receipts, columns, theme)];
    let until = state.selected.map_or(state.turns.len(), |n| n + 1);
    let rows = state.turns.iter().take(until).rev().flat_map(|t| t.receipts.iter().rev());
    lines.extend(rows.take(RECEIPTS_MAX).map(|r| receipt(r, columns, theme)));
    if lines.len() == 1 {
        lines.push(Line::from(theme.span(Tone::Dim, "  none yet: every call gets its own")));
    }
    lines
}

fn receipt(r: &ReceiptRow, columns: usize, theme: Theme) -> Line<'static> {
    let turn = r.turn.map(|t| format!("turn {t}")).unwrap_or_default();
    let kind = if r.kind == "turn" { "" } else { r.kind.as_str() };
    let rest = format!(" {} {turn} {kind}", r.at);
    Line::from(vec![
        Span::raw(format!("  {} ", r.short)),
        theme.marked(r.state.into(), r.state.word()),
        theme.span(
            Tone::Dim,
            fit(rest.trim_end(), columns.saturating_sub(width(&r.short) + width(r.state.word()) + 6)),
        ),
    ])
}

fn strip_item(rank: u8, theme: Theme, sign: Sign, text: &str) -> Item {
    items(rank, vec![theme.span(tone(sign), format!("{} ", theme.sign(sign))), Span::raw(text.to_owned())])
}

fn recall_strip(state: &State, columns: usize) -> Line<'static> {
    let theme = state.theme();
    let mut left = vec![item(0, theme.span(Tone::Strong, " recall"))];
    let turn = state.shown_turn();
    match turn.and_then(|t| t.recall.as_ref()) {
        None => left.push(item(1, theme.span(Tone::Dim, no_recall(turn)))),
        Some(r) => {
            let s = if r.items.len() == 1 { "" } else { "s" };
            let text =
                format!("{} item{s} {}/{} tok", r.items.len(), short(r.tokens), short(r.budget_tokens));
            left.push(item(1, Span::raw(text)));
            left.extend(r.providers.iter().map(|p| strip_provider(p, theme)));
        }
    }
    if let Some(n) = state.selected.and_then(|n| state.turns.get(n)) {
        left.insert(1, item(1, theme.span(Tone::Brand, format!("▸ turn {}", n.number))));
    }
    bar(left, vec![item(0, theme.span(Tone::Dim, "F2"))], &Span::raw("  "), columns.saturating_sub(1))
}

/// Providers that failed stay longest.
fn strip_provider(p: &ProviderRow, theme: Theme) -> Item {
    let sign = Sign::from(p.status);
    match p.status {
        ProviderStatus::Failed | ProviderStatus::FailedOptional => {
            strip_item(2, theme, sign, &format!("{} {}", p.id, p.reason.as_deref().unwrap_or("failed")))
        }
        ProviderStatus::Loaded => strip_item(4, theme, sign, &format!("{} {}", p.id, p.items)),
        _ => strip_item(5, theme, sign, &format!("{} {}", p.id, p.status.word())),
    }
}

fn files_strip(state: &State, columns: usize) -> Line<'static> {
    let theme = state.theme();
    let mut left = vec![item(0, theme.span(Tone::Strong, " files "))];
    match &state.instructions {
        None => left.push(item(1, theme.span(Tone::Dim, "not read yet"))),
        Some(i) => left.extend(files_items(i, theme)),
    }
    let mut right = vec![item(0, theme.span(Tone::Dim, "F3"))];
    if let Some(r) = state.shown_turn().and_then(|t| t.receipts.last()) {
        let sign = Sign::from(r.state);
        let spans = vec![
            Span::raw(format!("rcpt {} ", r.short)),
            theme.span(tone(sign), format!("{} {}", theme.sign(sign), r.state.word())),
        ];
        right.insert(0, items(1, spans));
    }
    bar(left, right, &Span::raw("  "), columns.saturating_sub(1))
}

fn files_items(i: &Instructions, theme: Theme) -> Vec<Item> {
    let bound: Vec<&InstructionRow> = i.rows.iter().filter(|r| r.level != Level::Info).collect();
    let bad: Vec<&&InstructionRow> =
        bound.iter().filter(|r| matches!(r.level, Level::Bad | Level::Warn)).collect();
    let good = bound.len() - bad.len();
    let mut out = Vec::new();
    out.extend(
        bad.iter().map(|r| strip_item(2, theme, r.level.into(), &format!("{} {}", tail(&r.id, 24), r.state))),
    );
    if good > 0 || bad.is_empty() {
        out.push(strip_item(1, theme, Sign::Ok, &format!("{good} {}", i.host)));
    }
    let text = format!("{}/{}", bytes(i.used_bytes), bytes(i.standard_bytes));
    out.push(item(3, Span::raw(text)));
    out
}
