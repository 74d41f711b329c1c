//! One JSON line a request, for the log: ids, sizes, times and the decision. Never a path, a query, a header or a body.

use std::io::Write;
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;

/// Where the lines go.
pub(crate) struct Log(Mutex<Box<dyn Write + Send>>);

impl Log {
    /// Writes to `to`, a line at a time.
    pub(crate) fn to(to: Box<dyn Write + Send>) -> Self {
        Self(Mutex::new(to))
    }

    pub(super) fn line(&self, line: &Line) {
        let Ok(mut text) = serde_json::to_vec(line) else { return };
        text.push(b'\n');
        let mut to = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A full disk takes the log away, not the calls: their receipts are elsewhere.
        let _ = to.write_all(&text).and_then(|()| to.flush());
    }
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Fate {
    /// The upstream answered.
    Relayed,
    /// The gate refused.
    Blocked,
    /// The server refused.
    Refused,
    /// The upstream did not answer.
    Failed,
    /// Answered here.
    Own,
}

impl Fate {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Relayed => "relayed",
            Self::Blocked => "blocked",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Own => "own",
        }
    }
}

/// One request.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Line {
    pub at: u64,
    pub event: &'static str,
    pub route: &'static str,
    pub result: Fate,
    pub status: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    pub bytes_in: usize,
    pub bytes_out: u64,
    pub head_ms: u64,
    pub total_ms: u64,
    pub end: &'static str,
}

/// Milliseconds since the Unix epoch, for people who read the log.
pub(super) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since an instant.
pub(super) fn ms_since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX)
}
