//! Questions that must be answered first: a small screen, one line of reason for each choice.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::draw_lines;
use crate::state::{Ask, State};
use crate::text::wrap::{Indent, wrap_plain};
use crate::theme::Tone;

struct Text {
    title: String,
    why: &'static str,
    choices: Vec<(String, &'static str)>,
    foot: &'static str,
}

fn text(ask: &Ask) -> Text {
    let foot = "↑↓ choose · Enter takes it";
    match ask {
        Ask::Host => Text {
            title: "Whose instruction files shall bind every call?".to_owned(),
            why: "Each call carries the complete instruction files of one host, checked byte for byte. Which host \
                  is never guessed; the answer is kept, and --instruction-host changes it.",
            choices: vec![
                ("claude".to_owned(), "CLAUDE.md, rules and imports, as Claude Code loads them here"),
                ("codex".to_owned(), "AGENTS.md from the project root down, as Codex loads them here"),
            ],
            foot,
        },
        Ask::Model(choices) => Text {
            title: "Which model shall answer?".to_owned(),
            why: "More than one has a key here; none is preferred. --model answers this beforehand.",
            choices: choices.iter().map(|c| (c.clone(), "")).collect(),
            foot,
        },
        Ask::Session(choices) => Text {
            title: "Go on with which session?".to_owned(),
            why: "This project's sessions, the most recently used first. --resume ID names one beforehand.",
            choices: choices.iter().map(|c| (c.clone(), "")).collect(),
            foot,
        },
        Ask::Server(name) => Text {
            title: format!("Send this prompt to {name}?"),
            why: "The server was found on this machine, not configured. Nothing was sent to it yet.",
            choices: vec![
                ("send".to_owned(), "use it for this session"),
                ("stay".to_owned(), "keep the model named below; your text stays in the composer"),
            ],
            foot: "↑↓ choose · Enter takes it · Esc stays",
        },
    }
}

pub(super) fn draw(state: &State, frame: &mut Frame<'_>) {
    let Some(ask) = &state.ask else { return };
    let theme = state.theme();
    let area = frame.area();
    let columns = usize::from(area.width).saturating_sub(4).min(76);
    let asked = text(ask);
    let plain = |text: &str, tone: Tone| wrap_plain(text, theme.style(tone), columns, &Indent::default());
    let mut lines = vec![Line::from(theme.span(Tone::Brand, "agentspine"))];
    let roomy = area.height >= 16;
    let air = |lines: &mut Vec<Line<'static>>| lines.extend(roomy.then(Line::default));
    air(&mut lines);
    lines.extend(plain(&asked.title, Tone::Strong));
    if area.height >= 12 {
        lines.extend(plain(asked.why, Tone::Dim));
    }
    air(&mut lines);
    let names = asked.choices.iter().map(|(n, _)| crate::text::width(n)).max().unwrap_or(0);
    for (n, (name, why)) in asked.choices.iter().enumerate() {
        let here = n == state.ask_cursor;
        let mark = if here { "▸ " } else { "  " };
        let text = format!("{}  {}  {why}", n + 1, crate::text::pad(name, names));
        let tone = if here { Tone::Strong } else { Tone::Plain };
        let hang = " ".repeat(names + 7);
        let indent = Indent { first: vec![theme.span(Tone::Accent, mark)], rest: vec![hang.into()] };
        lines.extend(wrap_plain(&text, theme.style(tone), columns, &indent));
    }
    air(&mut lines);
    lines.extend(plain(asked.foot, Tone::Dim));
    if let Ask::Server(_) = ask {
        lines.extend(plain(&format!("model now: {}", state.model), Tone::Dim));
    }
    lines.extend(state.hint.iter().flat_map(|h| plain(h, Tone::Accent)));
    let inner = Rect { x: area.x + 2.min(area.width), width: area.width.saturating_sub(2), ..area };
    let top = u16::from(roomy);
    draw_lines(&lines, Rect { y: inner.y + top, height: inner.height - top, ..inner }, frame.buffer_mut());
}
