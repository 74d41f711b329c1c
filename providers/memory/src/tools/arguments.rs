//! Arguments, parsed once at the door. Every key that is not listed is refused, so none can name a scope, a path or SQL.

use agentspine_gate::Id;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::specs::Tool;
use super::{CANDIDATES_MAX, LIMIT_DEFAULT, LIMIT_MAX, QUERY_BYTES_MAX, ToolError, previews::Token};

/// What can be wrong with an argument beyond its JSON type.
pub(super) trait Within {
    /// Whether every value is within its limits.
    fn is_within(&self) -> bool;
}

/// Parses; an error names the arguments there are and repeats none that came.
pub(super) fn parse<A: DeserializeOwned + Within>(tool: Tool, arguments: &Value) -> Result<A, ToolError> {
    let nothing = Value::Object(serde_json::Map::new());
    let arguments = if arguments.is_null() { &nothing } else { arguments };
    let parsed = A::deserialize(arguments).ok().filter(Within::is_within);
    parsed.ok_or(ToolError::Arguments { name: tool.name(), takes: tool.takes() })
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Search {
    pub query: String,
    #[serde(default = "limit_default")]
    pub limit: usize,
}

fn limit_default() -> usize {
    LIMIT_DEFAULT
}

impl Within for Search {
    fn is_within(&self) -> bool {
        is_query(&self.query) && !self.query.trim().is_empty() && (1..=LIMIT_MAX).contains(&self.limit)
    }
}

fn is_query(text: &str) -> bool {
    text.len() <= QUERY_BYTES_MAX
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum AnyKind {
    Rule,
    Taboo,
    Decision,
    Preference,
    WorkUnit,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Remember {
    pub kind: AnyKind,
    pub title: String,
    pub summary: String,
    #[serde(default)]
    pub tags: Vec<String>,
}

impl Within for Remember {
    /// Limits of a memory have a refusal of their own, which says what is too long.
    fn is_within(&self) -> bool {
        true
    }
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "lowercase")]
pub(super) enum Match {
    /// Any word of the query.
    #[default]
    Terms,
    /// Every word of the query; of an empty one, every memory.
    All,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ForgetPreview {
    #[serde(default)]
    pub query: String,
    #[serde(default, rename = "match")]
    pub matching: Match,
}

impl Within for ForgetPreview {
    fn is_within(&self) -> bool {
        is_query(&self.query) && (self.matching == Match::All || !self.query.trim().is_empty())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ForgetConfirm {
    pub preview_token: Token,
    pub memory_ids: Vec<Id>,
}

impl Within for ForgetConfirm {
    fn is_within(&self) -> bool {
        (1..=CANDIDATES_MAX).contains(&self.memory_ids.len())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

impl Within for Nothing {
    fn is_within(&self) -> bool {
        true
    }
}
