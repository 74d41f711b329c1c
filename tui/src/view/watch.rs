//! The watch on the screen: the list of calls, and beside or below it what the selected one binds and injected.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Widget;

use super::bar::{Item, item};
use super::help::entry;
use super::{draw_lines, lists, panes, receipts};
use crate::text::wrap::{Indent, wrap_plain};
use crate::text::{duration, fit, pad, width};
use crate::theme::{Sign, Theme, Tone, to_ascii, tone};
use crate::watch::{CallDetail, CallRow, CallState, Injected, Mode, Watch};

/// From this width on the detail stands beside the list, columns.
const BESIDE_FROM: u16 = 120;
/// The detail's columns there, and its largest share of the width in percent.
const BESIDE_COLUMNS: (u16, u16) = (42, 84);
const BESIDE_PERCENT: u16 = 35;
/// Below this height the list has the screen for itself, rows.
const BELOW_FROM: u16 = 12;

/// Key and what it does.
pub(crate) const KEYS: [(&str, &str); 12] = [
    ("j k ↑ ↓", "the call below, above; moving up ends following"),
    ("PgUp PgDn", "a page"),
    ("g  Home", "the oldest"),
    ("G  End", "the newest, and follow"),
    ("f", "follow: new calls are selected as they come; or stay"),
    ("Enter", "the selected call on the whole screen; Esc back"),
    ("/", "only calls with this text or session; Esc shows all"),
    ("v", "verify every signature, the whole chain, the anchor"),
    ("J", "the receipt as JSON, or as fields"),
    ("y", "copy the receipt's id, or its JSON"),
    ("Ctrl+L Ctrl+Z", "draw again; suspend"),
    ("q  Ctrl+C", "leave"),
];

/// Where list and detail stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Areas {
    /// What went wrong, or no rows.
    trouble: Rect,
    /// The names of the columns.
    names: Rect,
    pub(crate) list: Rect,
    divider: Rect,
    detail: Rect,
}

impl Areas {
    pub(crate) fn of(watch: &Watch, screen: Rect) -> Self {
        let [_, _, mut body, _, _] = lists::rows(screen);
        let trouble = cut_top(&mut body, if watch.trouble.is_some() { 2 } else { 0 });
        let mut areas = Self { trouble, ..Self::default() };
        if screen.width >= BESIDE_FROM {
            let (least, most) = BESIDE_COLUMNS;
            let columns = (screen.width * BESIDE_PERCENT / 100).clamp(least, most);
            let left = body.width.saturating_sub(columns + 3);
            areas.divider = Rect { x: body.x + left + 1, width: 1, ..body };
            areas.detail = Rect { x: body.x + left + 3, width: columns, ..body };
            body.width = left;
        } else if body.height >= BELOW_FROM {
            let rows = body.height.div_ceil(2);
            areas.detail = Rect { y: body.bottom() - rows, height: rows, ..body };
            body.height -= rows;
        }
        areas.names = cut_top(&mut body, 1);
        areas.list = body;
        areas
    }
}

fn cut_top(area: &mut Rect, rows: u16) -> Rect {
    let rows = rows.min(area.height);
    let cut = Rect { height: rows, ..*area };
    (area.y, area.height) = (area.y + rows, area.height - rows);
    cut
}

/// Draws the whole screen.
pub fn view(watch: &Watch, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.is_empty() {
        return;
    }
    let buffer = frame.buffer_mut();
    match (watch.help, watch.reading, &watch.detail) {
        (Some(first), _, _) => keys(watch, first, area, buffer),
        (None, Some(first), Some(detail)) => read(watch, detail, first, area, buffer),
        _ => list(watch, area, buffer),
    }
    if watch.theme.ascii {
        to_ascii(buffer);
    }
}

fn keys(watch: &Watch, first: usize, area: Rect, buffer: &mut Buffer) {
    let foot = "↑↓ move · Esc back";
    let title = vec![item(0, watch.theme.span(Tone::Strong, " Keys of the watch"))];
    let body = lists::framed(watch.theme, None, (title, Vec::new()), foot, area, buffer);
    let lines: Vec<Line<'static>> =
        KEYS.iter().flat_map(|(key, does)| entry(watch.theme, area.width, key, does)).collect();
    let first = first.min(lines.len().saturating_sub(usize::from(body.height)));
    draw_lines(lines.get(first..).unwrap_or_default(), body, buffer);
}

fn read(watch: &Watch, detail: &CallDetail, first: usize, area: Rect, buffer: &mut Buffer) {
    let foot = "↑↓ scroll · v verify all · y copy id · J json · Esc list";
    let body = lists::framed(watch.theme, watch.hint.as_deref(), head(watch), foot, area, buffer);
    let lines = lines_of(watch, detail, reading_columns(watch));
    let first = first.min(lines.len().saturating_sub(usize::from(body.height)));
    draw_lines(lines.get(first..).unwrap_or_default(), body, buffer);
}

/// Rows of a call that has the whole screen.
pub(crate) fn reading_rows(watch: &Watch) -> usize {
    usize::from(watch.size.1.saturating_sub(4))
}

/// Its columns: no wider than a text is read well.
pub(crate) fn reading_columns(watch: &Watch) -> usize {
    usize::from(watch.size.0).min(120)
}

/// The title's items: how many calls, and right of it whether the list follows.
fn head(watch: &Watch) -> (Vec<Item>, Vec<Item>) {
    let theme = watch.theme;
    let calls = if watch.rows.len() == 1 { "call" } else { "calls" };
    let mut left = vec![
        item(0, theme.span(Tone::Strong, " agentspine watch")),
        item(2, theme.span(Tone::Strong, format!("{} {calls}", watch.rows.len()))),
    ];
    for state in [CallState::Refused, CallState::Failed, CallState::Unknown, CallState::Broken] {
        let count = watch.rows.iter().filter(|row| row.state == state).count();
        if count > 0 {
            left.push(item(3, theme.span(tone(state.into()), format!("{count} {}", state.word()))));
        }
    }
    (left, standing(watch))
}

/// The filter, the last verification, whether the list follows.
fn standing(watch: &Watch) -> Vec<Item> {
    let theme = watch.theme;
    let mut right = Vec::new();
    if watch.filtering {
        let text = format!("/{}_   Enter keeps · Esc clears", watch.filter);
        return vec![item(0, theme.span(Tone::Accent, text))];
    }
    if !watch.filter.is_empty() {
        let text = format!("/{}: {}", watch.filter, watch.shown().len());
        right.push(item(1, theme.span(Tone::Accent, text)));
    }
    if let Some(verdict) = &watch.verdict {
        let (sign, text) =
            if verdict.ok { (Sign::Ok, "chain ok") } else { (Sign::Failed, "does not verify") };
        right.push(item(1, theme.marked(sign, text)));
    }
    let (sign, text) = match (watch.mode, watch.unseen) {
        _ if watch.waiting => (Sign::Running, "waiting".to_owned()),
        (Mode::Following, _) => (Sign::Loaded, "following".to_owned()),
        (Mode::Still, 0) => (Sign::Empty, "f follows".to_owned()),
        (Mode::Still, n) => (Sign::Empty, format!("{n} new: G")),
    };
    right.push(item(0, theme.marked(sign, &text)));
    right
}

fn list(watch: &Watch, area: Rect, buffer: &mut Buffer) {
    let theme = watch.theme;
    let foot = "j k move · Enter open · f follow · v verify all · / filter · ? keys · q quit";
    lists::framed(theme, watch.hint.as_deref(), head(watch), foot, area, buffer);
    let areas = Areas::of(watch, area);
    trouble(watch, areas.trouble, buffer);
    for row in areas.divider.rows() {
        theme.span(Tone::Dim, "│").render(row, buffer);
    }
    let columns = Columns::of(usize::from(areas.list.width));
    theme.span(Tone::Dim, columns.names()).render(areas.names, buffer);
    let shown = watch.shown();
    let rows = shown.iter().enumerate().skip(watch.top);
    let lines: Vec<Line<'static>> = rows
        .take(usize::from(areas.list.height))
        .map(|(n, row)| columns.row(row, n == watch.cursor, theme))
        .collect();
    draw_lines(&lines, areas.list, buffer);
    if shown.is_empty() {
        draw_lines(&nothing(watch, usize::from(areas.list.width)), areas.list, buffer);
    }
    if let (Some(detail), Some(_)) = (&watch.detail, watch.selected()) {
        beside(watch, detail, areas.detail, buffer);
    }
}

fn trouble(watch: &Watch, area: Rect, buffer: &mut Buffer) {
    let Some((message, advice)) = &watch.trouble else { return };
    let theme = watch.theme;
    let columns = usize::from(area.width);
    let text = |text: String, tone| Line::from(theme.span(tone, fit(&text, columns).into_owned()));
    let sign = theme.sign(Sign::Failed);
    let lines =
        [text(format!(" {sign} {message}"), Tone::Bad), text(format!("   next: {advice}"), Tone::Plain)];
    draw_lines(&lines, area, buffer);
}

/// What an empty list says, and what to do.
fn nothing(watch: &Watch, columns: usize) -> Vec<Line<'static>> {
    let theme = watch.theme;
    let text = |text: &str, tone| wrap_plain(text, theme.style(tone), columns, &Indent::plain("  "));
    if !watch.rows.is_empty() {
        return text("None matches. Esc shows all.", Tone::Dim);
    }
    let first = if watch.waiting {
        "Nothing was ever sent from here: there is no journal yet."
    } else {
        "No calls yet."
    };
    let mut lines = text(first, Tone::Strong);
    lines.extend(text("Every model call gets its own receipt and shows here as it happens.", Tone::Plain));
    lines.push(Line::default());
    lines.extend(text("Start an agent in another pane:", Tone::Plain));
    lines.extend(text("  agentspine run claude", Tone::Accent));
    lines.extend(text("  agentspine chat", Tone::Accent));
    lines
}

/// As much of the selected call as fits.
fn beside(watch: &Watch, detail: &CallDetail, area: Rect, buffer: &mut Buffer) {
    let columns = usize::from(area.width);
    let lines = lines_of(watch, detail, columns);
    draw_lines(&lines, area, buffer);
    let more = lines.len().saturating_sub(usize::from(area.height));
    if more > 0 && area.height > 1 {
        let last = Rect { y: area.bottom() - 1, height: 1, ..area };
        let text = pad(&format!("  … {} more lines: Enter", more + 1), columns);
        watch.theme.span(Tone::Dim, text).render(last, buffer);
    }
}

/// Lines of a call at this width: what a person asks first, what was injected, every bound field.
pub(crate) fn lines_of(watch: &Watch, detail: &CallDetail, columns: usize) -> Vec<Line<'static>> {
    let theme = watch.theme;
    let row = watch.rows.iter().find(|row| row.id == detail.receipt.id);
    let name = row.map_or_else(|| detail.receipt.id.clone(), |row| format!("{} · {}", row.short, row.what()));
    let mut lines = vec![panes::title(&name, false, columns, theme)];
    if watch.json {
        lines.extend(receipts::json(&detail.receipt, theme, columns));
        return lines;
    }
    lines.extend(receipts::fields(&detail.summary, theme, columns));
    lines.push(Line::default());
    lines.extend(injected(&detail.injected, theme, columns));
    lines.push(Line::default());
    lines.push(panes::title("Every bound field", false, columns, theme));
    lines.extend(receipts::fields(&detail.receipt.fields, theme, columns));
    lines
}

fn injected(injected: &Injected, theme: Theme, columns: usize) -> Vec<Line<'static>> {
    let plain = |text: &str, tone| wrap_plain(text, theme.style(tone), columns, &Indent::plain("  "));
    match injected {
        Injected::Nothing(why) => {
            let mut lines = vec![panes::title("Injected: nothing", false, columns, theme)];
            lines.extend(plain(why, Tone::Dim));
            lines
        }
        Injected::Text { text, check } => {
            let size = format!("Injected: {} bytes", text.len());
            let mut lines = vec![panes::title(&size, false, columns, theme)];
            let sign = if check.ok { Sign::Ok } else { Sign::Failed };
            lines.push(Line::from(theme.span(
                tone(sign),
                fit(&format!("  {} {}", theme.sign(sign), check.text), columns).into_owned(),
            )));
            lines.extend(plain(text, Tone::Plain));
            lines
        }
    }
}

impl CallRow {
    /// Kind, and the sort where that says more.
    fn what(&self) -> String {
        match &self.sort {
            Some(sort) if !sort.eq_ignore_ascii_case(&self.kind) => format!("{} · {sort}", self.kind),
            _ => self.kind.clone(),
        }
    }

    /// The same in few columns: the sort where there is one.
    fn what_short(&self) -> &str {
        self.sort.as_deref().unwrap_or(&self.kind)
    }

    fn state_text(&self, columns: usize) -> String {
        match (self.state, self.status) {
            (CallState::Unknown, _) if columns < STATE => "unknown".to_owned(),
            (CallState::Underway, _) if columns < STATE => "no outcome".to_owned(),
            (CallState::Failed, Some(status)) => format!("{} {status}", self.state.word()),
            _ => self.state.word().to_owned(),
        }
    }

    /// Whether there is a reason to tell instead of numbers.
    fn is_stopped(&self) -> bool {
        matches!(self.state, CallState::Refused | CallState::Void | CallState::Broken)
    }
}

impl From<CallState> for Sign {
    fn from(state: CallState) -> Self {
        match state {
            CallState::Prepared | CallState::Underway => Self::Running,
            CallState::Answered => Self::Ok,
            CallState::Failed | CallState::Cut | CallState::Refused | CallState::Broken => Self::Failed,
            CallState::Interrupted | CallState::NotSent => Self::Skipped,
            CallState::Unknown => Self::Unknown,
            CallState::Void => Self::Void,
            CallState::Expired => Self::Expired,
        }
    }
}

/// Which columns there is room for. Time, what, state and reason are always there.
struct Columns {
    host: usize,
    what: usize,
    state: usize,
    model: usize,
    rules: bool,
    numbers: bool,
}

/// Columns of the time, of the longest state with its sign in short and in full, and of files, rules, recall, time taken.
const TIME: usize = 8;
const STATE_SHORT: usize = 14;
const STATE: usize = 17;
const NUMBER: usize = 5;
const RECALL: usize = 6;
const TOOK: usize = 6;

impl Columns {
    fn of(columns: usize) -> Self {
        // What each column adds, its gap with it; the mark and the time come first.
        let mut left = columns.saturating_sub(2 + TIME + 1 + 12 + 1 + STATE_SHORT);
        let mut take = |room: usize| {
            let fits = left >= room;
            left -= if fits { room } else { 0 };
            fits
        };
        let numbers = take(1 + NUMBER + 1 + RECALL + 1 + TOOK);
        let host = if take(11) { 10 } else { 0 };
        let rules = numbers && take(1 + NUMBER);
        let state = if take(STATE - STATE_SHORT) { STATE } else { STATE_SHORT };
        let wide = take(12);
        let model = if take(15) { 14 + left.min(14) } else { 0 };
        Self { host, what: if wide { 24 } else { 12 }, state, model, rules, numbers }
    }

    fn names(&self) -> String {
        let left = format!("  {}{}", pad("time", TIME), self.cells(["host", "call", "model"]));
        format!("{left} {} {}", pad("state", self.state), self.numbers(["files", "rules", "recall", "took"]))
    }

    fn cells(&self, [host, what, model]: [&str; 3]) -> String {
        let cells = [(host, self.host), (what, self.what), (model, self.model)];
        let cells = cells.into_iter().filter(|(_, columns)| *columns > 0);
        cells.flat_map(|(text, columns)| [" ".to_owned(), pad(text, columns)]).collect()
    }

    /// The columns behind the state, each to the right of its room.
    fn numbers(&self, [files, rules, recall, took]: [&str; 4]) -> String {
        if !self.numbers {
            return String::new();
        }
        let right =
            |text: &str, columns: usize| format!("{}{text}", " ".repeat(columns.saturating_sub(width(text))));
        let rules = if self.rules { format!(" {}", right(rules, NUMBER)) } else { String::new() };
        format!("{}{rules} {} {}", right(files, NUMBER), right(recall, RECALL), right(took, TOOK))
    }

    fn row(&self, row: &CallRow, here: bool, theme: Theme) -> Line<'static> {
        let style = if here { Tone::Strong } else { Tone::Plain };
        let what = if self.what > 12 { row.what() } else { row.what_short().to_owned() };
        let left = format!("{}{}", pad(&row.at, TIME), self.cells([&row.host, &what, &row.model]));
        let sign = Sign::from(row.state);
        let state = format!("{} {}", theme.sign(sign), row.state_text(self.state));
        let rest = if row.is_stopped() { row.reason.clone() } else { self.numbers_of(row, theme) };
        let tail = if row.is_stopped() { tone(sign) } else { style };
        Line::from(vec![
            theme.span(Tone::Accent, if here { "▸ " } else { "  " }),
            theme.span(style, format!("{left} ")),
            theme.span(tone(sign), pad(&state, self.state)),
            theme.span(tail, format!(" {}", fit(&rest, self.rest()))),
        ])
    }

    /// Columns behind the state.
    fn rest(&self) -> usize {
        let rules = if self.rules { 1 + NUMBER } else { 0 };
        if self.numbers { NUMBER + rules + 1 + RECALL + 1 + TOOK } else { 0 }
    }

    fn numbers_of(&self, row: &CallRow, theme: Theme) -> String {
        let failed = format!("{} {}{}", row.recalled, theme.sign(Sign::Failed), row.failed);
        let recall = if row.failed > 0 { failed } else { row.recalled.to_string() };
        let took = row.took_ms.map(duration).unwrap_or_default();
        self.numbers([&row.files.to_string(), &row.rules.to_string(), &recall, &took])
    }
}
