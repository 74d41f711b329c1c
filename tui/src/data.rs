//! Plain data the screen is told: no type of the gate, no digest, no handle. Every text in here is scrubbed when
//! it enters the state (see [`crate::text::scrub`]), so a caller may pass model, file and provider text as it is.

/// Whose instruction files are mandatory. Asked once, never guessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstructionHost {
    /// Claude Code's hierarchy.
    Claude,
    /// Codex's hierarchy.
    Codex,
}

/// What kind of model call a preflight line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// New human text.
    Turn,
    /// Tool results of a running turn.
    Continuation,
    /// A summary of what was said.
    Side,
}

/// How a receipt stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReceiptState {
    /// Issued, not consumed yet.
    Prepared,
    /// Consumed, its call has a recorded outcome.
    Consumed,
    /// Invalidated before it was consumed.
    Void,
    /// Refused: the turn was blocked.
    Refused,
    /// Older than its validity and never consumed.
    Expired,
    /// Consumed, but no outcome is recorded.
    OutcomeUnknown,
}

impl ReceiptState {
    /// The word that stands beside the sign.
    pub fn word(self) -> &'static str {
        match self {
            Self::Prepared => "prepared",
            Self::Consumed => "consumed",
            Self::Void => "void",
            Self::Refused => "refused",
            Self::Expired => "expired",
            Self::OutcomeUnknown => "outcome unknown",
        }
    }
}

/// How a retrieval provider stands in one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderStatus {
    /// Asked, no answer yet.
    Running,
    /// At least one item.
    Loaded,
    /// A verified success without a match.
    Empty,
    /// Failed and required.
    Failed,
    /// Failed, but optional.
    FailedOptional,
    /// Not asked in this turn.
    Skipped,
}

impl ProviderStatus {
    /// The word that stands beside the sign.
    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Loaded => "loaded",
            Self::Empty => "empty",
            Self::Failed | Self::FailedOptional => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// The one summary line of a preflight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preflight {
    /// The turn it belongs to.
    pub turn: u64,
    /// Turn or continuation.
    pub kind: CallKind,
    /// Wall time of the whole preflight, milliseconds.
    pub ms: u64,
    /// Recalled entries in the briefing.
    pub recalled: u32,
    /// Mandatory documents bound.
    pub files_ok: u32,
    /// Mandatory documents found.
    pub files: u32,
    /// Short receipt id, such as `7c1e`.
    pub receipt: String,
    /// Its state when the call left.
    pub state: ReceiptState,
    /// Tokens of the text this call injected.
    pub injected_tokens: u64,
}

/// One provider of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderRow {
    /// Provider id.
    pub id: String,
    /// How it stands.
    pub status: ProviderStatus,
    /// Items it gave.
    pub items: u32,
    /// Wall time, milliseconds.
    pub ms: u64,
    /// Why it failed or was skipped, such as `timeout`.
    pub reason: Option<String>,
    /// Whether its failure blocks the turn.
    pub required: bool,
}

/// One recalled entry that is in the briefing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecallItem {
    /// Number in the briefing; citations `[n]` match it.
    pub n: u32,
    /// Id at its provider.
    pub id: String,
    /// Provider that gave it.
    pub provider: String,
    /// Where the provider has it from.
    pub source: String,
    /// Why it was loaded.
    pub why: String,
    /// The recalled text.
    pub text: String,
    /// Its size in tokens.
    pub tokens: u64,
}

/// What was recalled for one turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recall {
    /// The turn.
    pub turn: u64,
    /// Wall time of the whole round, milliseconds.
    pub ms: u64,
    /// Every provider, in policy order.
    pub providers: Vec<ProviderRow>,
    /// What the briefing holds, in its order.
    pub items: Vec<RecallItem>,
    /// Tokens used of [`Self::budget_tokens`].
    pub tokens: u64,
    /// The recall budget, tokens.
    pub budget_tokens: u64,
    /// Entries left out by rank, budget or screen.
    pub left_out: u32,
}

/// How serious a line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// As it should be.
    Good,
    /// Neither good nor bad: lazy, hidden, empty.
    Info,
    /// Works, but somebody should look.
    Warn,
    /// Blocks.
    Bad,
}

/// One instruction file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstructionRow {
    /// Display id, such as `claude:project/AGENTS.md`.
    pub id: String,
    /// `~`-short path, or empty.
    pub path: String,
    /// Size in bytes.
    pub bytes: u64,
    /// First hex digits of its SHA-256.
    pub sha: String,
    /// State word, such as `injected`, `replayed`, `lazy`.
    pub state: String,
    /// Reason, or empty.
    pub reason: String,
    /// How serious.
    pub level: Level,
}

/// The instruction files of the running host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instructions {
    /// `claude` or `codex`.
    pub host: String,
    /// In the host's order.
    pub rows: Vec<InstructionRow>,
    /// Bytes this conversation injects.
    pub used_bytes: u64,
    /// Standard budget, bytes.
    pub standard_bytes: u64,
    /// Hard limit, bytes.
    pub hard_bytes: u64,
}

/// One line of the receipts list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptRow {
    /// Full id, what [`crate::Effect::ShowReceipt`] carries.
    pub id: String,
    /// Short id for people.
    pub short: String,
    /// The chat turn, if it is one of this session.
    pub turn: Option<u64>,
    /// `turn`, `continuation`, ...
    pub kind: String,
    /// How it stands.
    pub state: ReceiptState,
    /// Local time of day or date of issue.
    pub at: String,
    /// Recalled entries bound.
    pub recall: u32,
    /// Instruction files bound, such as `4` or `3/4`.
    pub files: String,
    /// What became of the call, such as `gpt-x 200 1.9 s` or `not sent`.
    pub call: String,
}

/// A receipt with every bound field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiptDetail {
    /// Full id.
    pub id: String,
    /// Label and value, in the order to show.
    pub fields: Vec<(String, String)>,
    /// Outcome of the last verification, if one ran.
    pub verify: Option<Verdict>,
    /// The canonical JSON, for `J` and for copying.
    pub json: String,
}

/// Outcome of one receipt verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Signature, chain and anchor agree.
    pub ok: bool,
    /// One sentence.
    pub text: String,
}

/// A turn that made no model call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// The turn.
    pub turn: u64,
    /// Code, such as `provider-failed`.
    pub code: String,
    /// Detail, such as `timeout`.
    pub detail: String,
    /// What failed and where, one sentence.
    pub message: String,
    /// The next thing to do.
    pub advice: String,
    /// Short id of the refused receipt, if one was drawn.
    pub receipt: Option<String>,
    /// Wall time until the refusal, milliseconds.
    pub ms: u64,
    /// The prompt, given back to the composer.
    pub draft: String,
}

/// A model call that failed after its receipt was consumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelError {
    /// The turn.
    pub turn: u64,
    /// One sentence, with the HTTP status where there is one.
    pub message: String,
    /// Seconds the server asked to wait (429, 529).
    pub retry_after_s: Option<u64>,
    /// Whether `r` makes sense.
    pub retryable: bool,
}

/// A Must-Remember entry somebody proposed; only the person activates it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Id for [`crate::Effect::ConfirmRemember`].
    pub id: String,
    /// The proposed text.
    pub text: String,
}

/// Token counts of a finished call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens sent.
    pub input: u64,
    /// Tokens received.
    pub output: u64,
    /// Share of the context window in use, percent, if known.
    pub context_percent: Option<u8>,
}
