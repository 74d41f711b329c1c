//! `memory_status` and `memory_reconcile`.

use std::collections::BTreeMap;

use serde_json::json;

use super::{ToolAnswer, ToolError, Tools};
use crate::ledger::{StoreError, count};

impl Tools<'_> {
    pub(super) fn status(&mut self) -> Result<ToolAnswer, ToolError> {
        let counts = self.counts()?;
        let status = self.ledger.status()?;
        let applied = counts.get("applied").copied().unwrap_or_default();
        let line = format!("{applied} memories");
        let value = json!({
            "counts": counts,
            "scope": self.scope_word(),
            "adapter": "ledger/v1",
            "capabilities": self.caller.grants.words(),
            "recall": {
                "coverage": "whole scope",
                "searched": applied,
                "index": status.index.as_str(),
            },
            "pending": status.pending,
            "retry": status.retry,
            "dead_letters": status.dead_letters,
        });
        Ok(ToolAnswer::done(value, line))
    }

    /// Records of the scope by state.
    fn counts(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        let mut select = self.ledger.db.prepare_cached(
            "SELECT r.state, count(*) FROM memory_scope s
             CROSS JOIN memory_record r ON r.row BETWEEN s.no << 32 AND (s.no << 32) | 0xffffffff
             WHERE s.digest = ? GROUP BY r.state ORDER BY r.state",
        )?;
        let pairs = select.query_map([self.caller.scope.digest().to_hex()], |row| {
            Ok((row.get::<_, String>(0)?, count(row, 1)?))
        })?;
        Ok(pairs.collect::<Result<_, _>>()?)
    }

    pub(super) fn reconcile(&mut self) -> Result<ToolAnswer, ToolError> {
        // Nothing is projected yet; what waits is settled against the ledger itself.
        let done = self.ledger.reconcile(None, self.caller.now_ms)?;
        let value = json!({
            "checked": done.checked,
            "applied": done.applied,
            "conflicts": done.conflicts,
            "unresolved": done.unresolved,
            "cleanups": done.cleanups,
            "remaining": done.remaining,
            "truncated": done.truncated,
        });
        Ok(ToolAnswer::done(value, format!("{} checked, {} remaining", done.checked, done.remaining)))
    }
}
