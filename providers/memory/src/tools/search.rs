//! `memory_search`.

use serde_json::{Value, json};

use super::{NOTE, ToolAnswer, ToolError, Tools, arguments, without_secrets};

impl Tools<'_> {
    pub(super) fn search(&mut self, asked: &arguments::Search) -> Result<ToolAnswer, ToolError> {
        let (query, redacted) = without_secrets(&asked.query);
        let found = self.ledger.search(&self.caller.scope, &query, asked.limit)?;
        let entries: Vec<Value> = found.entries.iter().map(|entry| self.shown(entry)).collect();
        let line = format!("{} found", entries.len());
        let mut value = json!({
            "entries": entries,
            "scanned": found.scanned,
            "total_in_scope": found.total_in_scope,
            "truncated": found.truncated,
            "note": NOTE,
        });
        if !redacted.is_empty() {
            value["redacted"] = json!(redacted);
        }
        Ok(ToolAnswer::done(value, line))
    }
}
