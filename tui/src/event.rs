//! What reaches the screen and what it asks for in return.

use crate::data::{
    Blocked, Candidate, InstructionHost, Instructions, Level, ModelError, Preflight, Recall, ReceiptDetail,
    ReceiptRow, Usage, Verdict,
};

/// Everything that can happen to the screen.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A key, a paste, a new size. Sizes must be passed on: scrolling is computed from the last one.
    Input(crossterm::event::Event),
    /// News of the turn.
    App(Box<AppEvent>),
    /// Time passed while something moves; see [`crate::tick_ms`].
    Tick {
        /// Milliseconds since the last tick.
        ms: u64,
    },
}

impl From<AppEvent> for Event {
    fn from(event: AppEvent) -> Self {
        Self::App(Box::new(event))
    }
}

/// News of the turn, of the receipts, of the surroundings. A resumed session is told by the same events in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AppEvent {
    /// A prompt was taken; the transcript shows it from now on.
    TurnStarted {
        /// Number of the turn, rising.
        turn: u64,
        /// The human text.
        prompt: String,
    },
    /// A step of the preflight ended.
    PreflightStep {
        /// Steps done.
        done: u32,
        /// Steps in all.
        total: u32,
        /// Milliseconds since the preflight began.
        ms: u64,
    },
    /// The receipt was consumed: the call leaves now.
    Preflight(Preflight),
    /// What the providers gave, also while they run.
    Recall(Recall),
    /// The instruction files of this turn.
    Instructions(Instructions),
    /// A receipt of this session is new or changed.
    Receipt(ReceiptRow),
    /// Model text.
    Delta(String),
    /// The model called a tool.
    ToolCall {
        /// Tool name.
        name: String,
        /// One line saying with what.
        line: String,
    },
    /// The tool answered.
    ToolResult {
        /// Whether it succeeded.
        ok: bool,
        /// One line saying what came.
        line: String,
    },
    /// Token counts.
    Usage(Usage),
    /// The answer is complete.
    TurnDone,
    /// No model call was made.
    Blocked(Blocked),
    /// The call failed.
    ModelError(ModelError),
    /// The stream ended early; what came is kept.
    Cut {
        /// One sentence.
        reason: String,
    },
    /// The person stopped the turn; answers [`Effect::Cancel`].
    Interrupted,
    /// A receipt was consumed in an earlier run and no outcome is recorded.
    SpentUnknown {
        /// Short receipt id.
        receipt: String,
        /// The prompt it was for; goes to the history, is never resent by itself.
        prompt: String,
    },
    /// What was said is being summarised.
    CompactionStarted {
        /// One line saying so, and why.
        line: String,
    },
    /// So much of the summary has come.
    CompactionProgress {
        /// Bytes.
        bytes: u64,
    },
    /// What came of it. A resumed session tells its summaries by this alone.
    CompactionDone {
        /// Good where the summary stands in for what was said.
        level: Level,
        /// One line saying what came of it.
        line: String,
        /// The summary, or empty.
        summary: String,
    },
    /// Answers [`Effect::LoadReceipts`].
    Receipts(Vec<ReceiptRow>),
    /// Answers [`Effect::ShowReceipt`].
    ReceiptDetail(ReceiptDetail),
    /// Answers [`Effect::VerifyReceipt`].
    Verified {
        /// Full id.
        id: String,
        /// What came out.
        verdict: Verdict,
    },
    /// Which session this is, once it is open.
    SessionNamed {
        /// Its id.
        label: String,
    },
    /// Which model answers from now on.
    ModelNamed {
        /// Label for the header, such as `openai:gpt-x` or `demo`.
        label: String,
        /// What a person should know about it, or empty.
        note: String,
    },
    /// A local server was found; it gets a prompt only after [`Effect::AcceptServer`].
    ServerFound {
        /// Model and address, such as `llama3.2 at 127.0.0.1:11434 (Ollama)`.
        name: String,
    },
    /// The instruction host must be chosen before the first turn.
    AskInstructionHost,
    /// Several models have a key; one must be chosen.
    AskModel {
        /// Labels, in the order [`Effect::ChooseModel`] counts.
        choices: Vec<String>,
    },
    /// A session to go on with must be chosen.
    AskSession {
        /// Labels, in the order [`Effect::ChooseSession`] counts.
        choices: Vec<String>,
    },
    /// Must-Remember entries that wait for the person.
    Candidates(Vec<Candidate>),
    /// A draft of an earlier run or of the editor: replaces the composer's text (the old one goes to the history).
    Draft(String),
    /// One line for the transcript.
    Notice {
        /// How serious.
        level: Level,
        /// The text.
        text: String,
    },
}

/// What the screen asks its host to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Start a turn with this text. Answered by `TurnStarted`, or by `Blocked` with the draft.
    Send {
        /// The human text, untrimmed, pastes expanded.
        prompt: String,
    },
    /// Stop the running turn. Answered by `Interrupted` (or by whatever ended first).
    Cancel,
    /// Call the model again for this turn, with a new receipt.
    Retry {
        /// The turn.
        turn: u64,
    },
    /// Summarise what was said, to make room. Answered by `CompactionDone`.
    Compact,
    /// Go on in a copy of this session. Answered by `SessionNamed`.
    Fork,
    /// Read the receipts list.
    LoadReceipts,
    /// Read one receipt.
    ShowReceipt(String),
    /// Verify one receipt against key, chain and anchor.
    VerifyReceipt(String),
    /// The person chose whose instruction files are mandatory.
    ChooseInstructionHost(InstructionHost),
    /// The person chose a model of [`AppEvent::AskModel`].
    ChooseModel(usize),
    /// The person chose a session of [`AppEvent::AskSession`].
    ChooseSession(usize),
    /// The person accepts or declines the found server.
    AcceptServer(bool),
    /// The draft changed. Coalesce: only the last text of a pause needs to be stored.
    SaveDraft(String),
    /// Put this text on the clipboard. It holds no control characters but newline and tab.
    Copy(String),
    /// Open this text in the person's editor; answer with [`AppEvent::Draft`].
    OpenEditor(String),
    /// Restore the terminal and stop (Ctrl+Z).
    Suspend,
    /// The person activates a Must-Remember candidate.
    ConfirmRemember(String),
    /// Clear the terminal and draw everything again.
    Redraw,
    /// Leave. The draft was saved before.
    Quit,
}
