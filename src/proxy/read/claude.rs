//! What Claude Code 2.1.332 writes into its requests beside the person's words: whose words a block of text is.
//!
//! Measured on the client; the phrases are the openings by which its texts are told apart.

/// Whose words a block of text in a user message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Voice {
    /// The person's.
    Human,
    /// The person's, sent while the model was at work.
    Queued,
    /// The client's: reminders, which come and go.
    Reminder,
    /// The client's: an event it reports.
    Notice,
    /// The client's: a local command and its output, which goes along with the next message.
    Command,
    /// A shell command that the person ran, or its output.
    Bash,
    /// The client's: the person stopped the model.
    Interrupted,
    /// The summary that a conversation goes on from.
    Summary,
    /// The client's: asks for that summary.
    Compact,
}

/// Opens every reminder of the client's.
pub(super) const REMINDER: &str = "<system-reminder>";

const OPENINGS: [(&str, Voice); 13] = [
    ("<system-reminder>\n[SYSTEM NOTIFICATION - NOT USER INPUT]", Voice::Notice),
    ("<task-notification>", Voice::Notice),
    (REMINDER, Voice::Reminder),
    ("<local-command-", Voice::Command),
    ("<command-name>", Voice::Command),
    ("<command-message>", Voice::Command),
    ("<bash-input>", Voice::Bash),
    ("<bash-stdout>", Voice::Bash),
    ("<bash-stderr>", Voice::Bash),
    ("This session is being continued from a previous conversation", Voice::Summary),
    ("CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.", Voice::Compact),
    ("The user sent a new message while you were working:", Voice::Queued),
    ("[Request interrupted by user", Voice::Interrupted),
];

/// Whose words a text is, by its opening.
pub(super) fn voice(text: &str) -> Voice {
    OPENINGS.iter().find(|(opening, _)| text.starts_with(opening)).map_or(Voice::Human, |(_, voice)| *voice)
}

/// Opens the client's own slot for instruction files.
pub(super) const HOST_SLOT: &str = "<system-reminder>\nCodebase and user instructions are shown below.";
/// Opens the slot of a later run that found files changed.
pub(super) const READ_AGAIN: &str = "<system-reminder>\nInstruction files were re-read";
/// Opens a document in it; before it stands a blank line.
pub(super) const DOCUMENT: &str = "\n\nContents of ";

/// Opens the text of a title call.
pub(super) const TITLE: &str = "<session>";

/// What the first system block of a subagent's call holds, after [`BILLING`].
pub(super) const IS_SUBAGENT: &str = "cc_is_subagent=true";

/// Opens the first system block.
pub(super) const BILLING: &str = "x-anthropic-billing-header:";
