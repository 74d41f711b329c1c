//! The screen of `agentspine watch`: every call of this machine as it happens, and what one of them binds.
//!
//! The same shape as the chat's screen: [`update`] takes an event and gives effects, [`view`] draws the state. The newest
//! call stands last, so that news never moves what a person reads; only while following does the selection go with it.

use crate::data::{ReceiptDetail, Verdict};
use crate::text::scrub_line;
use crate::theme::Theme;
pub use crate::update::watch::update;
use crate::view::watch::Areas;
pub use crate::view::watch::view;

/// Most calls kept on the screen; the oldest go first.
pub const CALLS_MAX: usize = 1_000;

/// How a call stands: its receipt, and where that is spent, what became of the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallState {
    /// Its receipt is issued, not spent yet.
    Prepared,
    /// Spent a short while ago; no outcome is recorded yet.
    Underway,
    /// Answered to the end.
    Answered,
    /// The model's server answered with an error, or was not reached.
    Failed,
    /// The answer's stream broke off.
    Cut,
    /// The person stopped it.
    Interrupted,
    /// Spent, but the request never left.
    NotSent,
    /// Spent, and nobody recorded how the call went.
    Unknown,
    /// Given up before it was spent.
    Void,
    /// No call was made.
    Refused,
    /// Never spent, no longer valid.
    Expired,
    /// A row of it does not verify.
    Broken,
}

impl CallState {
    /// The word that stands beside the sign.
    pub fn word(self) -> &'static str {
        match self {
            Self::Prepared => "prepared",
            Self::Underway => "no outcome yet",
            Self::Answered => "answered",
            Self::Failed => "failed",
            Self::Cut => "cut",
            Self::Interrupted => "interrupted",
            Self::NotSent => "not sent",
            Self::Unknown => "outcome unknown",
            Self::Void => "void",
            Self::Refused => "refused",
            Self::Expired => "expired",
            Self::Broken => "not verified",
        }
    }
}

/// One line of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallRow {
    /// Full id, what [`Effect::Show`] carries.
    pub id: String,
    /// Short id for people.
    pub short: String,
    /// Time of day, or the day where it was not today.
    pub at: String,
    /// Through which door: `agentspine`, `claude`, …
    pub host: String,
    /// `turn`, `continuation`, …
    pub kind: String,
    /// What the proxy recognised it as, such as `Title`, where it did.
    pub sort: Option<String>,
    /// Model name as sent.
    pub model: String,
    /// The session.
    pub session: String,
    /// How it stands.
    pub state: CallState,
    /// HTTP status of a failed call.
    pub status: Option<u16>,
    /// Instruction files bound.
    pub files: u32,
    /// Must-Remember rules bound.
    pub rules: u32,
    /// Recalled entries injected.
    pub recalled: u32,
    /// Providers that failed.
    pub failed: u32,
    /// From the receipt's spending to the outcome, milliseconds.
    pub took_ms: Option<u64>,
    /// What kept it from its call, such as `provider-failed/timeout`; empty where nothing did.
    pub reason: String,
}

/// One call, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallDetail {
    /// What a person asks first: label and value, in order; an empty label goes on with the one above.
    pub summary: Vec<(String, String)>,
    /// The text this call injected.
    pub injected: Injected,
    /// Every bound field.
    pub receipt: ReceiptDetail,
}

/// The text a call added to its request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Injected {
    /// There is none to show, and why.
    Nothing(String),
    /// The text, from the conversation store.
    Text {
        /// As the model got it.
        text: String,
        /// Whether it is what the receipt binds.
        check: Verdict,
    },
}

/// Everything that can happen to the screen.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A key, a paste, a new size.
    Input(crossterm::event::Event),
    /// Calls that are new or changed, oldest first.
    Calls(Vec<CallRow>),
    /// There is no journal yet.
    Waiting,
    /// Another journal stands in the old one's place: what was shown is not of it.
    Anew,
    /// Reading failed; the next news ends it.
    Trouble {
        /// What failed.
        message: String,
        /// The next thing to do.
        advice: String,
    },
    /// Answers [`Effect::Show`].
    Detail(Box<CallDetail>),
    /// Answers [`Effect::Verify`].
    Verified(Verdict),
}

/// What the screen asks its host to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Read one call.
    Show(String),
    /// Verify every signature, the whole chain and the anchor.
    Verify,
    /// Put this text on the clipboard.
    Copy(String),
    /// Restore the terminal and stop (Ctrl+Z).
    Suspend,
    /// Draw everything again.
    Redraw,
    /// Leave.
    Quit,
}

/// Everything the screen knows.
#[derive(Debug, Default)]
pub struct Watch {
    pub(crate) theme: Theme,
    pub(crate) size: (u16, u16),
    /// Oldest first.
    pub(crate) rows: Vec<CallRow>,
    /// Index into the shown rows.
    pub(crate) cursor: usize,
    /// The first shown row on the screen.
    pub(crate) top: usize,
    pub(crate) mode: Mode,
    /// New calls since following ended.
    pub(crate) unseen: usize,
    pub(crate) filter: String,
    pub(crate) filtering: bool,
    pub(crate) detail: Option<CallDetail>,
    pub(crate) json: bool,
    /// The first line shown of a call that has the whole screen.
    pub(crate) reading: Option<usize>,
    /// The first line shown of the keys.
    pub(crate) help: Option<usize>,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) waiting: bool,
    pub(crate) trouble: Option<(String, String)>,
    /// One line about the last key; gone with the next.
    pub(crate) hint: Option<String>,
}

/// Whether the selection goes with the news.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Mode {
    #[default]
    Following,
    Still,
}

impl Watch {
    /// An empty screen of this size, following.
    pub fn new(theme: Theme, size: (u16, u16)) -> Self {
        Self { theme, size, ..Self::default() }
    }

    /// Rows that pass the filter.
    pub(crate) fn shown(&self) -> Vec<&CallRow> {
        let needle = self.filter.to_lowercase();
        self.rows.iter().filter(|row| row.holds(&needle)).collect()
    }

    pub(crate) fn selected(&self) -> Option<&CallRow> {
        self.shown().get(self.cursor).copied()
    }

    pub(crate) fn areas(&self) -> Areas {
        Areas::of(self, ratatui::layout::Rect::new(0, 0, self.size.0, self.size.1))
    }

    /// Scrolls no more than the cursor needs to be seen.
    pub(crate) fn keep_in_view(&mut self) {
        let count = self.shown().len();
        let rows = usize::from(self.areas().list.height).max(1);
        self.cursor = self.cursor.min(count.saturating_sub(1));
        self.top = self.top.clamp((self.cursor + 1).saturating_sub(rows), self.cursor);
    }
}

impl CallRow {
    fn holds(&self, needle: &str) -> bool {
        let sort = self.sort.as_deref().unwrap_or_default();
        let all = [
            self.id.as_str(),
            &self.session,
            &self.host,
            &self.kind,
            sort,
            &self.model,
            self.state.word(),
            &self.reason,
        ];
        all.iter().any(|text| text.to_lowercase().contains(needle))
    }

    /// Model names and the like come from other programs.
    pub(crate) fn scrubbed(mut self) -> Self {
        let texts = [
            &mut self.id,
            &mut self.short,
            &mut self.at,
            &mut self.host,
            &mut self.kind,
            &mut self.model,
            &mut self.session,
            &mut self.reason,
        ];
        for text in texts.into_iter().chain(self.sort.as_mut()) {
            *text = scrub_line(text);
        }
        self
    }
}
