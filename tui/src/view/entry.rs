//! Lines of one transcript entry. Answers come from `markdown`; here stands only how they ended.

use ratatui::text::{Line, Span};

use crate::data::{Blocked, CallKind, Level, ModelError, Preflight};
use crate::text::wrap::{Indent, Mode, Piece, wrap, wrap_plain};
use crate::text::{bytes, duration, short, width};
use crate::theme::{Sign, Theme, Tone, tone};
use crate::transcript::{Body, Compaction, End};

pub(crate) fn lines(body: &Body, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    match body {
        Body::Prompt(text) => prompt(text, columns, theme),
        Body::Preflight(p) => preflight(p, columns, theme),
        Body::Answer { source, end } => ending(source, end.as_ref(), columns, theme),
        Body::Tool { name, line, result } => tool(name, line, result.as_ref(), columns, theme),
        Body::Blocked { blocked } => card(blocked, columns, theme),
        Body::ModelError { error, left_ms } => model_error(error, *left_ms, columns, theme),
        Body::Spent { receipt } => spent(receipt, columns, theme),
        Body::Compaction(c) => compaction(c, columns, theme),
        Body::Notice { level, text } => notice(*level, text, columns, theme),
    }
}

fn prompt(text: &str, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let indent = Indent { first: vec![theme.span(Tone::Accent, "› ")], rest: vec![Span::raw("  ")] };
    wrap_plain(text.trim_end(), theme.style(Tone::Strong), columns, &indent)
}

fn signed(sign: Sign, theme: Theme) -> Indent {
    let text = format!("{} ", theme.sign(sign));
    let rest = " ".repeat(width(&text));
    Indent { first: vec![theme.span(tone(sign), text)], rest: vec![Span::raw(rest)] }
}

fn preflight(p: &Preflight, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let files = if p.files_ok == p.files { "ok" } else { "bound" };
    let word = match p.kind {
        CallKind::Turn => "preflight",
        CallKind::Continuation => "continuation",
        CallKind::Side => "summary",
    };
    let mut parts = vec![format!("{word} {}", duration(p.ms))];
    if p.kind == CallKind::Turn {
        parts.push(format!("{} recalled", p.recalled));
    }
    parts.push(format!("files {}/{} {files}", p.files_ok, p.files));
    parts.push(format!("rcpt {} {}", p.receipt, p.state.word()));
    parts.push(format!("+{} tok", short(p.injected_tokens)));
    let parts = parts.into_iter().map(|text| vec![theme.span(Tone::Dim, text)]).collect();
    flow(parts, " · ", columns, &signed(p.state.into(), theme), theme)
}

fn ending(source: &str, end: Option<&End>, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let text = match end {
        Some(End::Cut(why)) if why.is_empty() => "The answer ends here: the call failed.".to_owned(),
        Some(End::Cut(why)) => format!("The answer was cut off here: {why}"),
        Some(End::Interrupted) => "You stopped the answer here.".to_owned(),
        Some(End::Done) | None => return Vec::new(),
    };
    let sign = if end == Some(&End::Interrupted) { Sign::Skipped } else { Sign::Failed };
    let mut lines = if source.trim().is_empty() { Vec::new() } else { vec![Line::default()] };
    lines.extend(wrap_plain(&text, theme.style(tone(sign)), columns, &signed(sign, theme)));
    lines
}

fn tool(
    name: &str,
    line: &str,
    result: Option<&(bool, String)>,
    columns: usize,
    theme: Theme,
) -> Vec<Line<'static>> {
    let (sign, outcome) = match result {
        None => (Sign::Running, "running"),
        Some((true, text)) => (Sign::Ok, text.as_str()),
        Some((false, text)) => (Sign::Failed, text.as_str()),
    };
    let pieces: [Piece; 3] = [
        (format!("{name} "), theme.style(Tone::Plain)),
        (line.to_owned(), theme.style(Tone::Dim)),
        (format!(" → {outcome}"), theme.style(if sign == Sign::Failed { Tone::Bad } else { Tone::Dim })),
    ];
    wrap(&pieces, columns, &signed(sign, theme), Mode::Words)
}

/// Key and what it does, in a row that breaks between two of them.
fn keys(all: &[(&str, &str)], columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let part = |(key, does): &(&str, &str)| {
        vec![theme.span(Tone::Accent, format!("{key} ")), Span::raw((*does).to_owned())]
    };
    flow(all.iter().map(part).collect(), "   ", columns, &Indent::plain("  "), theme)
}

/// Parts in a row, with `gap` between neighbours; a line breaks only between two parts.
fn flow(
    parts: Vec<Vec<Span<'static>>>,
    gap: &str,
    columns: usize,
    indent: &Indent,
    theme: Theme,
) -> Vec<Line<'static>> {
    let wide = |spans: &[Span<'_>]| spans.iter().map(|s| width(&s.content)).sum::<usize>();
    let mut lines = vec![Line::from(indent.first.clone())];
    let mut used = wide(&indent.first);
    for (n, part) in parts.into_iter().enumerate() {
        let Some(line) = lines.last_mut() else { break };
        if n > 0 && used + width(gap) + wide(&part) > columns {
            used = wide(&indent.rest) + wide(&part);
            lines.push(Line::from([indent.rest.clone(), part].concat()));
            continue;
        }
        if n > 0 {
            line.spans.push(theme.span(Tone::Dim, gap));
            used += width(gap);
        }
        used += wide(&part);
        line.spans.extend(part);
    }
    lines
}

fn card(b: &Blocked, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let head = [
        ("Not sent".to_owned(), theme.style(Tone::Bad).patch(theme.style(Tone::Strong))),
        (format!(" — preflight blocked this turn ({})", duration(b.ms)), theme.style(Tone::Plain)),
    ];
    let mut lines = wrap(&head, columns, &signed(Sign::Failed, theme), Mode::Words);
    let text = |text: &str, tone: Tone| wrap_plain(text, theme.style(tone), columns, &Indent::plain("  "));
    lines.push(Line::default());
    lines.extend(text(&format!("{}/{}", b.code, b.detail), Tone::Dim));
    lines.extend(text(&b.message, Tone::Plain));
    if !b.advice.is_empty() {
        lines.extend(wrap_plain(
            &b.advice,
            theme.style(Tone::Accent),
            columns,
            &Indent::hanging("  → ", "    "),
        ));
    }
    lines.push(Line::default());
    let all =
        [("r", "run preflight again"), ("e", "edit the message"), ("d", "detail"), ("Esc", "keep the draft")];
    lines.extend(keys(&all, columns, theme));
    lines.push(Line::default());
    let voided = b.receipt.as_ref().map_or_else(String::new, |r| format!(" Receipt {r} is refused."));
    lines.extend(text(&format!("No model call was made.{voided}"), Tone::Plain));
    lines
}

fn model_error(e: &ModelError, left_ms: u64, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let mut lines = wrap_plain(&e.message, theme.style(Tone::Plain), columns, &signed(Sign::Failed, theme));
    let wait = match (e.retry_after_s, left_ms) {
        (None, _) => None,
        (Some(asked), _) if theme.still => Some(format!("The server asks to wait {asked} s.")),
        (Some(_), 0) => Some("The wait the server asked for is over.".to_owned()),
        (Some(asked), left) => {
            Some(format!("The server asks to wait {asked} s: {} s left.", left.div_ceil(1000)))
        }
    };
    if let Some(wait) = wait {
        lines.extend(wrap_plain(&wait, theme.style(Tone::Plain), columns, &Indent::plain("  ")));
    }
    if e.retryable {
        lines.extend(keys(&[("r", "call again with a new receipt"), ("Esc", "leave it")], columns, theme));
    }
    lines
}

fn spent(receipt: &str, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let text = format!(
        "Spent, outcome unknown. Receipt {receipt} was consumed, but no answer is recorded: the call may have reached \
         the model. It is never sent again by itself; your text is in the history (↑)."
    );
    wrap_plain(&text, theme.style(Tone::Plain), columns, &signed(Sign::Unknown, theme))
}

fn compaction(c: &Compaction, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let (sign, came) = match c.level {
        Some(level) => (level.into(), String::new()),
        None if c.bytes > 0 => (Sign::Running, format!(" · {} so far", bytes(c.bytes))),
        None => (Sign::Running, String::new()),
    };
    let mut lines = c.preflight.as_ref().map_or_else(Vec::new, |p| preflight(p, columns, theme));
    let line = format!("{}{came}", c.line);
    lines.extend(wrap_plain(&line, theme.style(Tone::Plain), columns, &signed(sign, theme)));
    if !c.summary.is_empty() {
        let bar = Indent::hanging("  │ ", "  │ ");
        lines.extend(wrap_plain(c.summary.trim_end(), theme.style(Tone::Dim), columns, &bar));
    }
    lines
}

fn notice(level: Level, text: &str, columns: usize, theme: Theme) -> Vec<Line<'static>> {
    let style = theme.style(if level == Level::Info { Tone::Dim } else { Tone::Plain });
    wrap_plain(text, style, columns, &signed(level.into(), theme))
}
