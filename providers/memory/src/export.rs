//! Export: the applied memories of a scope as JSON lines, which `import` takes back.
//!
//! Text leaves neutralised, as on every other path. A line names its origin, so that the same scope gives the same
//! memory the same id again; ids, versions, relations and the session behind a memory stay here.

use agentspine_gate::Id;
use agentspine_gate::screen::neutralise;
use serde::{Deserialize, Serialize};

use crate::authorize::{Capability, Grants, NotGranted};
use crate::entry::{Entry, RECORDS_MAX};
use crate::ledger::{Ledger, StoreError};
use crate::record::{MemoryScope, Origin};

/// Schema of an exported line.
pub const EXPORT_SCHEMA: &str = "agentspine.memory-export/v1";

/// Why nothing was exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// The configuration does not allow it.
    #[error(transparent)]
    NotGranted(#[from] NotGranted),
    /// The ledger failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// One exported memory.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Line {
    schema: &'static str,
    kind: &'static str,
    title: String,
    summary: String,
    tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<String>,
    trust: &'static str,
    created_at_ms: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    origin: Option<LineOrigin>,
}

/// An [`Origin`] as a line holds it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LineOrigin {
    source: Id,
    from_seq: u64,
    through_seq: u64,
    range_key: String,
    extractor: Id,
}

impl Line {
    /// The line itself, without its end.
    pub fn text(&self) -> String {
        // Our own plain data always serialises.
        serde_json::to_string(self).unwrap_or_default()
    }

    fn of(entry: &Entry, origin: Option<Origin>) -> Self {
        Self {
            schema: EXPORT_SCHEMA,
            kind: entry.kind.as_str(),
            title: neutralise(&entry.title),
            summary: neutralise(&entry.summary),
            tags: entry.tags.iter().map(|tag| neutralise(tag)).collect(),
            subject: entry.subject.as_deref().map(neutralise),
            trust: entry.trust.as_str(),
            created_at_ms: entry.created_at_ms,
            origin: origin.map(LineOrigin::of),
        }
    }
}

impl LineOrigin {
    fn of(origin: Origin) -> Self {
        let Origin { source, from_seq, through_seq, range_key, extractor } = origin;
        Self { source, from_seq, through_seq, range_key, extractor }
    }

    pub(crate) fn origin(self) -> Origin {
        let Self { source, from_seq, through_seq, range_key, extractor } = self;
        Origin { source, from_seq, through_seq, range_key, extractor }
    }
}

impl Ledger {
    /// Every applied memory of exactly this scope, oldest first.
    pub fn export(
        &self,
        scope: &MemoryScope,
        grants: &Grants,
        mut line: impl FnMut(&Line),
    ) -> Result<u64, ExportError> {
        grants.check(Capability::Export)?;
        let (mut after, mut exported) = (None, 0);
        loop {
            let page = self.records(scope, after.as_ref(), RECORDS_MAX)?;
            let Some(last) = page.last() else { return Ok(exported) };
            after = Some(last.memory_id.clone());
            for entry in &page {
                let source = self.source(scope, &entry.memory_id)?;
                line(&Line::of(entry, source.map(|source| source.origin)));
                exported += 1;
            }
        }
    }
}
