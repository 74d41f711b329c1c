//! Everything the screen knows. Fields are private to the crate: the host only sends events and reads effects.

use crate::composer::Composer;
use crate::data::{Candidate, Instructions, Preflight, Recall, ReceiptDetail, ReceiptRow, Usage};
use crate::theme::Theme;
use crate::transcript::{Body, Entry, Transcript, Window};
use crate::view::layout::Layout;

/// Milliseconds between two frames of the spinner: eight a second.
pub const SPINNER_MS: u64 = 125;
/// Milliseconds between two steps of a countdown.
pub const COUNTDOWN_MS: u64 = 1000;

/// What is fixed when the screen starts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Setup {
    /// Signs and colours.
    pub theme: Theme,
    /// `~`-short working directory, with the branch where there is one: `~/src/spine · main`.
    pub place: String,
    /// Short session id, such as `s-81`.
    pub session: String,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
}

/// Where a turn stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Idle,
    Preflight {
        done: u32,
        total: u32,
        ms: u64,
    },
    /// The call left; `ms` since then.
    Calling {
        ms: u64,
    },
    /// Cancel was asked for.
    Stopping,
}

/// Who gets the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Focus {
    Composer,
    Transcript,
    Recall,
    Receipts,
    /// The newest blocked turn or failed call.
    Card,
}

/// What covers the chat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Screen {
    Chat,
    Help,
    Recall,
    Receipts,
    Files,
}

/// How much room the side pane has where there is room for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pane {
    Strip,
    Narrow,
    Wide,
}

/// A question that must be answered before anything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ask {
    Host,
    Model(Vec<String>),
    Session(Vec<String>),
    /// A found server, asked when the first prompt is about to go there.
    Server(String),
}

/// One turn as the panes show it.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    pub(crate) number: u64,
    pub(crate) prompt: String,
    pub(crate) recall: Option<Recall>,
    pub(crate) preflight: Option<Preflight>,
    pub(crate) receipts: Vec<ReceiptRow>,
    /// Why it was blocked, `code/detail`.
    pub(crate) blocked: Option<String>,
}

/// The receipts screen.
#[derive(Debug, Default)]
pub(crate) struct Receipts {
    pub(crate) rows: Vec<ReceiptRow>,
    pub(crate) cursor: usize,
    pub(crate) filter: String,
    pub(crate) filtering: bool,
    pub(crate) detail: Option<ReceiptDetail>,
    pub(crate) json: bool,
    /// The first line shown of a receipt that has the whole screen.
    pub(crate) reading: Option<usize>,
}

impl Receipts {
    /// Rows that pass the filter.
    pub(crate) fn shown(&self) -> Vec<&ReceiptRow> {
        let needle = self.filter.to_lowercase();
        let hit = |r: &&ReceiptRow| {
            let turn = r.turn.map(|t| t.to_string()).unwrap_or_default();
            let all = [&r.id, &turn, r.state.word(), &r.kind, &r.call, &r.at].join(" ");
            all.to_lowercase().contains(&needle)
        };
        self.rows.iter().filter(hit).collect()
    }

    pub(crate) fn selected(&self) -> Option<&ReceiptRow> {
        self.shown().get(self.cursor).copied()
    }
}

/// The whole state of the screen.
#[derive(Debug)]
pub struct State {
    pub(crate) setup: Setup,
    pub(crate) composer: Composer,
    pub(crate) transcript: Transcript,
    pub(crate) turns: Vec<Turn>,
    /// Index into `turns` of an earlier turn the panes show.
    pub(crate) selected: Option<usize>,
    pub(crate) phase: Phase,
    /// Sent, but the host has not shown it yet.
    pub(crate) in_flight: Option<String>,
    pub(crate) focus: Focus,
    pub(crate) screen: Screen,
    pub(crate) pane: Pane,
    pub(crate) ask: Option<Ask>,
    pub(crate) ask_cursor: usize,
    pub(crate) recall_cursor: usize,
    pub(crate) recall_open: bool,
    pub(crate) files_cursor: usize,
    pub(crate) help_cursor: usize,
    pub(crate) receipts: Receipts,
    pub(crate) instructions: Option<Instructions>,
    pub(crate) candidates: Vec<Candidate>,
    pub(crate) model: String,
    pub(crate) model_note: String,
    pub(crate) server: Option<String>,
    pub(crate) usage: Usage,
    pub(crate) frame: u64,
    pub(crate) quit_armed: bool,
    /// One line about the last key; gone with the next.
    pub(crate) hint: Option<String>,
}

impl State {
    /// An empty screen.
    pub fn new(setup: Setup) -> Self {
        let mut state = Self {
            setup,
            composer: Composer::default(),
            transcript: Transcript::default(),
            turns: Vec::new(),
            selected: None,
            phase: Phase::Idle,
            in_flight: None,
            focus: Focus::Composer,
            screen: Screen::Chat,
            pane: Pane::Wide,
            ask: None,
            ask_cursor: 0,
            recall_cursor: 0,
            recall_open: false,
            files_cursor: 0,
            help_cursor: 0,
            receipts: Receipts::default(),
            instructions: None,
            candidates: Vec::new(),
            model: String::new(),
            model_note: String::new(),
            server: None,
            usage: Usage::default(),
            frame: 0,
            quit_armed: false,
            hint: None,
        };
        state.measure();
        state
    }

    /// The whole text in the composer, pastes expanded.
    pub fn draft(&self) -> String {
        self.composer.text()
    }

    /// Whether a turn is under way.
    pub fn is_running(&self) -> bool {
        self.phase != Phase::Idle
    }

    /// Every text the person can still reach: composer, history, sent prompts.
    pub fn reachable_texts(&self) -> Vec<String> {
        let mut all = self.composer.reachable();
        all.extend(self.in_flight.clone());
        all.extend(self.turns.iter().map(|t| t.prompt.clone()));
        all
    }

    pub(crate) fn theme(&self) -> Theme {
        self.setup.theme
    }

    /// The turn the panes show: the selected one, else the newest.
    pub(crate) fn shown_turn(&self) -> Option<&Turn> {
        match self.selected {
            Some(n) => self.turns.get(n),
            None => self.turns.last(),
        }
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout::of(self, self.setup.size)
    }

    pub(crate) fn window(&self) -> Window {
        self.layout().window(self.theme())
    }

    /// Tells the parts that need it how large the screen is.
    pub(crate) fn measure(&mut self) {
        let columns = self.layout().composer.width;
        self.composer.measure(columns);
    }

    /// The blocked turn or failed call that waits for the person: the newest entry but for remarks.
    pub(crate) fn card(&self) -> Option<&Entry> {
        let remark = |e: &&Entry| matches!(e.body, Body::Notice { .. } | Body::Spent { .. });
        let newest = self.transcript.entries().iter().rev().find(|e| !remark(e))?;
        matches!(newest.body, Body::Blocked { .. } | Body::ModelError { .. }).then_some(newest)
    }

    /// Milliseconds a failed call still has to wait.
    pub(crate) fn wait_ms(&self) -> u64 {
        match self.card().map(|e| &e.body) {
            Some(Body::ModelError { left_ms, .. }) => *left_ms,
            _ => 0,
        }
    }
}

/// Milliseconds until the next [`crate::Event::Tick`] is due; `None` while nothing moves: then nothing may wake.
pub fn tick_ms(state: &State) -> Option<u64> {
    if state.theme().still {
        return None;
    }
    match state.phase {
        Phase::Idle if state.wait_ms() > 0 => Some(COUNTDOWN_MS),
        Phase::Idle => None,
        Phase::Preflight { .. } | Phase::Calling { .. } | Phase::Stopping => Some(SPINNER_MS),
    }
}

/// Whether anything moves by itself; see [`tick_ms`].
pub fn needs_tick(state: &State) -> bool {
    tick_ms(state).is_some()
}
