//! `[compaction]`: when a chat makes room by itself.

use std::path::Path;

use serde::Deserialize;

use crate::report::Failure;

/// Share of the model's window at which a chat is compacted, percent, where nothing else is configured.
const AT_PERCENT: u8 = 80;
/// Shares that make sense: below, nearly every turn would be summarised; above, an answer may not fit any more.
const AT_PERCENT_ALLOWED: std::ops::RangeInclusive<u8> = 10..=95;
/// Smallest window that may be configured, tokens.
const CONTEXT_TOKENS_MIN: u64 = 1024;

/// The table as it is written.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, default)]
pub(super) struct CompactionTable {
    automatic: Option<bool>,
    at_percent: Option<u8>,
    context_tokens: Option<u64>,
}

/// When a chat is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CompactionSettings {
    /// At this share of the model's window, percent; `None` where only the person asks for it.
    pub at_percent: Option<u8>,
    /// The model's window in tokens, where the person knows better than this build.
    pub context_tokens: Option<u64>,
}

impl Default for CompactionSettings {
    fn default() -> Self {
        Self { at_percent: Some(AT_PERCENT), context_tokens: None }
    }
}

impl CompactionSettings {
    /// Reads the table; an error says what is allowed.
    pub(super) fn of(table: &CompactionTable, file: &Path) -> Result<Self, Failure> {
        let wrong = |what: String| {
            Failure::usage(
                format!("{}: [compaction] {what}", file.display()),
                "Correct that line; the README lists every key",
            )
        };
        let at = table.at_percent.unwrap_or(AT_PERCENT);
        if !AT_PERCENT_ALLOWED.contains(&at) {
            let (from, to) = (AT_PERCENT_ALLOWED.start(), AT_PERCENT_ALLOWED.end());
            return Err(wrong(format!("at_percent is {at}; it may be {from} to {to}")));
        }
        if table.context_tokens.is_some_and(|tokens| tokens < CONTEXT_TOKENS_MIN) {
            return Err(wrong(format!("context_tokens is below {CONTEXT_TOKENS_MIN}")));
        }
        let at_percent = table.automatic.unwrap_or(true).then_some(at);
        Ok(Self { at_percent, context_tokens: table.context_tokens })
    }
}
