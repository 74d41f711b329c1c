//! Signs and tones. The terminal's own colours, dim and bold, and four ANSI colours that read on light and dark
//! backgrounds; nothing is told by colour alone.

use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

use crate::data::{Level, ProviderStatus, ReceiptState};

/// How the person's terminal wants to be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Theme {
    /// Only ASCII signs: terminals that draw `●` and `✓` two columns wide, or not at all.
    pub ascii: bool,
    /// No colour (`NO_COLOR`); bold and dim stay.
    pub no_color: bool,
    /// Nothing moves by itself (reduced motion).
    pub still: bool,
}

/// What a text is, not how it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Dim,
    Strong,
    Accent,
    Good,
    Bad,
    Brand,
}

/// A state's sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sign {
    Ok,
    Loaded,
    Empty,
    Failed,
    Running,
    Skipped,
    Void,
    Expired,
    Unknown,
}

impl Theme {
    pub(crate) fn style(self, tone: Tone) -> Style {
        let plain = Style::default();
        let color = |c: Color, mono: Style| if self.no_color { mono } else { plain.fg(c) };
        let bold = plain.add_modifier(Modifier::BOLD);
        match tone {
            Tone::Plain => plain,
            Tone::Dim => plain.add_modifier(Modifier::DIM),
            Tone::Strong => bold,
            Tone::Accent => color(Color::Cyan, plain),
            Tone::Good => color(Color::Green, plain),
            Tone::Bad => color(Color::Red, bold),
            Tone::Brand => color(Color::Magenta, bold).add_modifier(Modifier::BOLD),
        }
    }

    pub(crate) fn span(self, tone: Tone, text: impl Into<String>) -> Span<'static> {
        Span::styled(text.into(), self.style(tone))
    }

    pub(crate) fn sign(self, sign: Sign) -> &'static str {
        match (sign, self.ascii) {
            (Sign::Ok, false) => "✓",
            (Sign::Ok, true) => "ok",
            (Sign::Loaded, false) => "●",
            (Sign::Loaded, true) => "*",
            (Sign::Empty, false) => "○",
            (Sign::Empty, true) => "-",
            (Sign::Failed, false) => "✗",
            (Sign::Failed, true) => "x",
            (Sign::Running, false) => "◌",
            (Sign::Running, true) => ".",
            (Sign::Skipped, false) => "⊘",
            (Sign::Skipped | Sign::Void, true) => "/",
            (Sign::Void, false) => "∅",
            (Sign::Expired, false) => "⧗",
            (Sign::Expired, true) => "~",
            (Sign::Unknown, _) => "?",
        }
    }

    /// Sign and space and word, in the tone of the sign.
    pub(crate) fn marked(self, sign: Sign, word: &str) -> Span<'static> {
        self.span(tone(sign), format!("{} {word}", self.sign(sign)))
    }

    /// The frame of a spinner that moves at most eight times a second, or a still sign.
    pub(crate) fn spinner(self, frame: u64) -> &'static str {
        const BRAILLE: [&str; 8] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧"];
        const ASCII: [&str; 4] = ["|", "/", "-", "\\"];
        let at = |n: usize| usize::try_from(frame).map_or(0, |f| f % n);
        match (self.still, self.ascii) {
            (true, _) => self.sign(Sign::Running),
            (false, false) => BRAILLE.get(at(BRAILLE.len())).copied().unwrap_or("⠋"),
            (false, true) => ASCII.get(at(ASCII.len())).copied().unwrap_or("|"),
        }
    }
}

pub(crate) fn tone(sign: Sign) -> Tone {
    match sign {
        Sign::Ok | Sign::Loaded => Tone::Good,
        Sign::Failed => Tone::Bad,
        Sign::Running => Tone::Accent,
        Sign::Empty | Sign::Skipped | Sign::Void | Sign::Expired => Tone::Dim,
        Sign::Unknown => Tone::Brand,
    }
}

impl From<ReceiptState> for Sign {
    fn from(state: ReceiptState) -> Self {
        match state {
            ReceiptState::Prepared => Self::Running,
            ReceiptState::Consumed => Self::Ok,
            ReceiptState::Void => Self::Void,
            ReceiptState::Refused => Self::Failed,
            ReceiptState::Expired => Self::Expired,
            ReceiptState::OutcomeUnknown => Self::Unknown,
        }
    }
}

impl From<ProviderStatus> for Sign {
    fn from(status: ProviderStatus) -> Self {
        match status {
            ProviderStatus::Running => Self::Running,
            ProviderStatus::Loaded => Self::Loaded,
            ProviderStatus::Empty => Self::Empty,
            ProviderStatus::Failed | ProviderStatus::FailedOptional => Self::Failed,
            ProviderStatus::Skipped => Self::Skipped,
        }
    }
}

impl From<Level> for Sign {
    fn from(level: Level) -> Self {
        match level {
            Level::Good => Self::Ok,
            Level::Info => Self::Empty,
            Level::Warn => Self::Unknown,
            Level::Bad => Self::Failed,
        }
    }
}

/// Replaces every remaining one-column ornament by an ASCII one, in the finished frame: whoever asked for ASCII has
/// a terminal that draws these two columns wide, in our words as in the model's.
pub(crate) fn to_ascii(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        let plain = match cell.symbol() {
            "·" | "—" | "–" | "─" | "○" | "−" => "-",
            "•" | "●" => "*",
            "…" | "◌" | "░" => ".",
            "›" | "▸" | "→" => ">",
            "‹" => "<",
            "│" => "|",
            "↑" => "^",
            "↓" => "v",
            "█" => "#",
            "✓" => "+",
            "✗" => "x",
            "“" | "”" => "\"",
            "‘" | "’" => "'",
            _ => continue,
        };
        cell.set_symbol(plain);
    }
}
