//! What people see of a receipt: its rows, and the state that follows from them.

use rusqlite::types::Value as Sql;
use serde_json::Value;

use super::chain::{Row, RowKind, newest_of, rows_of, sql_seq};
use super::{Vault, fault, look};
use crate::failure::Refusal;
use crate::ids::ReceiptId;
use crate::receipt::VALIDITY_MS;
use crate::seams::Clock;

/// Most records in one list.
pub const LIST_MAX: u32 = 1_000;

/// One row of a receipt.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its place in the journal.
    pub seq: u64,
    /// When it was written, wall milliseconds; for people.
    pub at_ms: i64,
    /// Its body as it was appended.
    pub body: Value,
}

/// What became of a receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReceiptState {
    /// Issued and still valid.
    Prepared,
    /// Spent, and its outcome is known.
    Consumed,
    /// Given up before it was spent.
    Void,
    /// The call was refused.
    Refused,
    /// Issued, never spent, no longer valid.
    Expired,
    /// Spent, and nobody recorded how the call went. Never sent again by us.
    SpentOutcomeUnknown,
}

impl ReceiptState {
    /// Wire text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prepared => "prepared",
            Self::Consumed => "consumed",
            Self::Void => "void",
            Self::Refused => "refused",
            Self::Expired => "expired",
            Self::SpentOutcomeUnknown => "spent-outcome-unknown",
        }
    }
}

/// All rows of one receipt.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceiptRecord {
    /// The receipt.
    pub id: ReceiptId,
    /// Sequence of its first row; page through a list with it.
    pub first_seq: u64,
    /// What became of it.
    pub state: ReceiptState,
    /// `{"claims", "kid", "mac"}`; `None` for a turn refused before issue.
    pub issued: Option<Entry>,
    /// The consumption.
    pub consumed: Option<Entry>,
    /// The first void row.
    pub void: Option<Entry>,
    /// Refusals and incidents, oldest first.
    pub refused: Vec<Entry>,
    /// The last outcome.
    pub outcome: Option<Entry>,
}

impl ReceiptRecord {
    pub(super) fn of(id: ReceiptId, rows: Vec<Row>, clock: &dyn Clock) -> Option<Self> {
        let first_seq = rows.first()?.seq;
        let (mut issued, mut consumed, mut void, mut refused, mut outcome) =
            (None, None, None, Vec::new(), None);
        for row in rows {
            let entry = Entry { seq: row.seq, at_ms: row.envelope.at, body: row.envelope.body };
            match row.kind {
                RowKind::Issued => issued = Some(entry),
                RowKind::Consumed => consumed = Some(entry),
                RowKind::Void => void = void.or(Some(entry)),
                RowKind::Refused => refused.push(entry),
                RowKind::Outcome => outcome = Some(entry),
                RowKind::Key | RowKind::Checkpoint => {}
            }
        }
        let mut record =
            Self { id, first_seq, state: ReceiptState::Expired, issued, consumed, void, refused, outcome };
        record.state = record.derive(clock);
        Some(record)
    }

    fn derive(&self, clock: &dyn Clock) -> ReceiptState {
        match (&self.consumed, &self.outcome) {
            (Some(_), Some(_)) => ReceiptState::Consumed,
            (Some(_), None) => ReceiptState::SpentOutcomeUnknown,
            (None, _) if !self.refused.is_empty() => ReceiptState::Refused,
            (None, _) if self.void.is_some() => ReceiptState::Void,
            (None, _) if self.valid(clock) => ReceiptState::Prepared,
            (None, _) => ReceiptState::Expired,
        }
    }

    fn valid(&self, clock: &dyn Clock) -> bool {
        let claim = |name| self.issued.as_ref().and_then(|issued| issued.body.get("claims")?.get(name));
        let same_boot = claim("boot").and_then(Value::as_str) == Some(clock.boot_id().as_str());
        let issued_at = claim("issuedBoottimeMs").and_then(Value::as_u64);
        let age = issued_at.and_then(|at| clock.boottime_ms().checked_sub(at));
        same_boot && age.is_some_and(|age| age <= VALIDITY_MS)
    }
}

impl Vault {
    /// All rows of one receipt, verified; `None` for an unknown one.
    pub fn record(&mut self, receipt: ReceiptId) -> Result<Option<ReceiptRecord>, Refusal> {
        let tx = look(&self.conn, &mut self.keys, &self.dir)?;
        let rows = rows_of(&tx, &self.keys.ring, receipt)?;
        Ok(ReceiptRecord::of(receipt, rows, self.seams.clock.as_ref()))
    }

    /// What the newest receipt binds, consumed or not, verified; `None` where the journal holds no receipt.
    pub(crate) fn newest_claims(&mut self) -> Result<Option<Value>, Refusal> {
        let tx = look(&self.conn, &mut self.keys, &self.dir)?;
        let newest = newest_of(&tx, &self.keys.ring, RowKind::Issued)?;
        Ok(newest.and_then(|row| row.envelope.body.get("claims").cloned()))
    }

    /// Receipts, newest first, at most `limit` (and [`LIST_MAX`]); older than the record whose `first_seq` is
    /// `before_seq`; of one session. Turns refused before issue are listed too.
    pub fn list(
        &mut self,
        limit: u32,
        before_seq: Option<u64>,
        session: Option<&str>,
    ) -> Result<Vec<ReceiptRecord>, Refusal> {
        let ids = self.ids(limit.min(LIST_MAX), before_seq, session).map_err(|e| fault::sql(&e))?;
        let records = ids.into_iter().map(|id| self.record(id));
        records.filter_map(Result::transpose).collect()
    }

    pub(super) fn ids(
        &self,
        limit: u32,
        before: Option<u64>,
        session: Option<&str>,
    ) -> rusqlite::Result<Vec<ReceiptId>> {
        let of_session = if session.is_some() { "session = ?1" } else { "?1 IS NULL" };
        let mut select = self.conn.prepare_cached(&format!(
            "SELECT receipt FROM rows AS row WHERE {of_session} AND seq < ?2 AND kind IN ('issued', 'refused') AND receipt IS NOT NULL
             AND NOT EXISTS (SELECT 1 FROM rows WHERE receipt = row.receipt AND seq < row.seq) ORDER BY seq DESC LIMIT ?3",
        ))?;
        let session = session.map_or(Sql::Null, |session| Sql::Text(session.to_owned()));
        let found = select.query_map((session, sql_seq(before.unwrap_or(u64::MAX)), limit), |row| {
            row.get(0).map(ReceiptId)
        })?;
        found.collect()
    }
}
