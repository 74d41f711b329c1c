//! Header, transcript, rules, composer and status line.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::Widget;

use super::bar::{Item, bar, item};
use super::draw_lines;
use super::layout::Layout;
use crate::data::{Level, ProviderStatus};
use crate::state::{Focus, Phase, State};
use crate::text::wrap::{Indent, wrap_plain};
use crate::text::{bytes, duration, fit, short, width};
use crate::theme::{Sign, Theme, Tone};
use crate::transcript::Body;
use crate::update::COMMANDS;

pub(super) fn draw(state: &State, layout: &Layout, buffer: &mut Buffer) {
    let theme = state.theme();
    header(state, layout, buffer);
    for rule in layout.rules {
        theme.span(Tone::Dim, "─".repeat(usize::from(rule.width))).render(rule, buffer);
    }
    for row in layout.divider.rows() {
        theme.span(Tone::Dim, "│").render(row, buffer);
    }
    if state.transcript.is_empty() {
        welcome(state, layout, buffer);
    } else {
        transcript(state, layout, buffer);
    }
    status(state, layout, buffer);
}

fn gap(theme: Theme) -> Span<'static> {
    theme.span(Tone::Dim, " · ")
}

fn header(state: &State, layout: &Layout, buffer: &mut Buffer) {
    let theme = state.theme();
    let columns = usize::from(layout.header.width).saturating_sub(1);
    if layout.tiny() {
        let text = "Too small for the transcript: it shows from 40x10 on";
        return theme.span(Tone::Dim, fit(text, columns)).render(layout.header, buffer);
    }
    let mut left = vec![item(0, theme.span(Tone::Brand, " agentspine"))];
    if !state.setup.place.is_empty() {
        left.push(item(1, theme.span(Tone::Plain, &*state.setup.place)));
    }
    let mut right = Vec::new();
    if !state.setup.session.is_empty() {
        right.push(item(3, theme.span(Tone::Dim, format!("session {}", state.setup.session))));
    }
    if let Some(percent) = state.usage.context_percent {
        right.push(item(2, theme.span(Tone::Dim, format!("ctx {percent}%"))));
    }
    bar(left, right, &gap(theme), columns).render(layout.header, buffer);
}

/// What an empty session shows. It stands still until the first prompt.
fn welcome(state: &State, layout: &Layout, buffer: &mut Buffer) {
    let theme = state.theme();
    let window = layout.window(theme);
    let text =
        |text: &str, tone: Tone| wrap_plain(text, theme.style(tone), window.columns, &Indent::plain("  "));
    let mut lines = vec![Line::default()];
    lines.extend(text("No call reaches the model without a preflight:", Tone::Strong));
    lines.extend(text("files → memory → providers → receipt → call", Tone::Accent));
    lines
        .extend(text("If something required fails, nothing is sent, and you see what and why.", Tone::Plain));
    lines.push(Line::default());
    let mut row = |name: &str, text: &str| {
        let indent = Indent::hanging(&format!("  {name:<8}"), "          ");
        lines.extend(wrap_plain(text, theme.style(Tone::Plain), window.columns, &indent));
    };
    if !state.model.is_empty() {
        let note =
            if state.model_note.is_empty() { String::new() } else { format!(" — {}", state.model_note) };
        row("model", &format!("{}{note}", state.model));
    }
    if let Some(name) = &state.server {
        row("found", &format!("{name}; the first Enter asks before it is used"));
    }
    if let Some(i) = &state.instructions {
        let count = i.rows.iter().filter(|r| r.level != Level::Info).count();
        let (used, standard) = (bytes(i.used_bytes), bytes(i.standard_bytes));
        row("files", &format!("{count} of {}, {used} of {standard} (F4)", i.host));
    }
    draw_lines(&lines, layout.transcript, buffer);
}

fn transcript(state: &State, layout: &Layout, buffer: &mut Buffer) {
    let theme = state.theme();
    let window = layout.window(theme);
    let area = layout.transcript;
    let selected = state.selected.and_then(|n| state.turns.get(n)).map(|t| t.number);
    state.transcript.visible(window, |row, line, entry, first| {
        let Some(place) = area.rows().nth(row) else { return };
        let indent = u16::try_from(entry.indent()).unwrap_or(0);
        let room = Rect { x: place.x + indent, width: place.width.saturating_sub(indent), ..place };
        line.render(room, buffer);
        if first && Some(entry.turn) == selected && matches!(entry.body, Body::Prompt(_)) {
            theme.span(Tone::Brand, "▸").render(place, buffer);
        }
    });
    unseen(state, layout, buffer);
}

/// The mark that says there is more below: on the next rule, where it hides nothing.
fn unseen(state: &State, layout: &Layout, buffer: &mut Buffer) {
    let Some(lines) = state.transcript.unseen(layout.window(state.theme())) else { return };
    let text = match lines {
        0 => " ↓ more below (End) ".to_owned(),
        1 => " ↓ 1 new line (End) ".to_owned(),
        n => format!(" ↓ {n} new lines (End) "),
    };
    let [_, upper, strip] = layout.rules;
    let rule = if strip.is_empty() { upper } else { strip };
    let columns = u16::try_from(width(&text)).unwrap_or(u16::MAX).min(rule.width);
    let place = Rect { x: rule.right().saturating_sub(columns + 2).max(rule.x), width: columns, ..rule };
    state.theme().span(Tone::Accent, text).render(place, buffer);
}

/// Draws the composer and gives the place of its caret, if it has the focus.
pub(super) fn composer(state: &State, layout: &Layout, buffer: &mut Buffer) -> Option<Position> {
    let theme = state.theme();
    let area = layout.composer;
    if area.is_empty() {
        return None;
    }
    let focused = state.focus == Focus::Composer;
    let sign = theme.span(if focused { Tone::Accent } else { Tone::Dim }, "› ");
    sign.render(Rect { x: area.x.saturating_sub(2), width: 2, ..area }, buffer);
    state.composer.area().render(area, buffer);
    if state.composer.is_empty() {
        let text = "Ask anything — / for commands";
        theme.span(Tone::Dim, fit(text, usize::from(area.width))).render(area, buffer);
    }
    let (caret, (top, _)) = (state.composer.area().screen_cursor(), state.composer.area().scroll_offset());
    let row = u16::try_from(caret.row).ok()?.checked_sub(top)?;
    let column = u16::try_from(caret.col).ok()?;
    let inside = row < area.height && column <= area.width;
    (focused && inside).then(|| Position::new(area.x + column, area.y + row))
}

fn status(state: &State, layout: &Layout, buffer: &mut Buffer) {
    let theme = state.theme();
    let columns = usize::from(layout.status.width).saturating_sub(1);
    let left = match (&state.hint, commands(state)) {
        (Some(hint), _) => vec![item(0, theme.span(Tone::Accent, fit(&format!(" {hint}"), columns)))],
        (None, Some(list)) => vec![item(0, theme.span(Tone::Accent, fit(&format!(" {list}"), columns)))],
        (None, None) => standing(state),
    };
    let mut right = vec![item(8, theme.span(Tone::Dim, "Tab panes"))];
    right.push(item(7, theme.span(Tone::Dim, "F1 keys")));
    bar(left, right, &gap(theme), columns).render(layout.status, buffer);
}

/// Commands that begin like what stands in the composer.
fn commands(state: &State) -> Option<String> {
    let shown = state.composer.shown();
    let hits: Vec<&str> = COMMANDS.into_iter().filter(|c| c.starts_with(shown.as_str())).collect();
    let open = state.focus == Focus::Composer && shown.starts_with('/') && !hits.is_empty();
    open.then(|| format!("{}   Tab completes · Enter runs", hits.join("  ")))
}

fn standing(state: &State) -> Vec<Item> {
    let theme = state.theme();
    let mut items = vec![phase(state)];
    if !state.model.is_empty() {
        items.push(item(1, theme.span(Tone::Plain, &*state.model)));
    }
    if let Some(turn) = state.turns.last() {
        items.push(item(4, theme.span(Tone::Plain, format!("turn {}", turn.number))));
    }
    let (input, output) = (state.usage.input, state.usage.output);
    if input + output > 0 {
        items.push(item(5, theme.span(Tone::Plain, format!("↑{} ↓{}", short(input), short(output)))));
    }
    items.extend(failed_provider(state));
    if !state.candidates.is_empty() {
        let s = if state.candidates.len() == 1 { "" } else { "s" };
        let text = format!("{} rule{s} proposed (F4)", state.candidates.len());
        items.push(item(3, theme.span(Tone::Accent, text)));
    }
    items
}

fn failed_provider(state: &State) -> Option<Item> {
    let recall = state.turns.last()?.recall.as_ref()?;
    let failed = |s: ProviderStatus| matches!(s, ProviderStatus::Failed | ProviderStatus::FailedOptional);
    let names: Vec<&str> =
        recall.providers.iter().filter(|p| failed(p.status)).map(|p| p.id.as_str()).collect();
    let text = format!("{} (F2)", names.join(", "));
    (!names.is_empty()).then(|| item(2, state.theme().marked(Sign::Failed, &text)))
}

fn phase(state: &State) -> Item {
    let theme = state.theme();
    let seconds = |ms: u64| if ms < 1000 { String::new() } else { format!(" · {} s", ms / 1000) };
    let moving = |text: String| theme.span(Tone::Accent, format!(" {} {text}", theme.spinner(state.frame)));
    let span = match state.phase {
        Phase::Preflight { done, total, ms } => {
            moving(format!("preflight {done}/{total} · {} · Esc cancels", duration(ms)))
        }
        Phase::Calling { ms } if theme.still => moving(format!("answering · Esc stops{}", seconds(ms))),
        Phase::Calling { ms } => moving(format!("answering{} · Esc stops", seconds(ms))),
        Phase::Stopping => moving("stopping".to_owned()),
        Phase::Idle => {
            let blocked =
                state.focus == Focus::Card || state.turns.last().is_some_and(|t| t.blocked.is_some());
            if blocked && state.card().is_some() {
                theme.span(Tone::Bad, format!(" {} {}", theme.sign(Sign::Failed), card_word(state)))
            } else {
                theme.span(Tone::Good, format!(" {} ready", theme.sign(Sign::Loaded)))
            }
        }
    };
    item(0, span)
}

fn card_word(state: &State) -> &'static str {
    match state.card().map(|e| &e.body) {
        Some(Body::ModelError { .. }) => "call failed",
        _ => "blocked · draft kept",
    }
}
