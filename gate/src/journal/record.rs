//! What people see of a receipt: its rows, and the state that follows from them.

use rusqlite::Connection;
use rusqlite::types::Value as Sql;
use serde::Deserialize;
use serde_json::Value;

use super::chain::{Envelope, Row, RowKind, Snag, claims_of, newest_of, rows_of, sql_seq};
use super::{Vault, fault, look};
use crate::failure::Refusal;
use crate::ids::ReceiptId;
use crate::receipt::VALIDITY_MS;
use crate::receipt::keyring::Keyring;
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
    /// All rows of one receipt, verified; `None` for an unknown one.
    pub(super) fn read(
        conn: &Connection,
        ring: &Keyring,
        id: ReceiptId,
        clock: &dyn Clock,
    ) -> Result<Option<Self>, Snag> {
        let mut record = Self::empty(id);
        rows_of(conn, ring, id, |row| record.take(row))?;
        record.state = record.derive(clock);
        Ok((record.first_seq > 0).then_some(record))
    }

    fn empty(id: ReceiptId) -> Self {
        let (issued, consumed, void, refused, outcome) = Default::default();
        let state = ReceiptState::Expired;
        Self { id, first_seq: 0, state, issued, consumed, void, refused, outcome }
    }

    fn take(&mut self, row: &Row<'_>) -> Result<(), Snag> {
        let Envelope { at, body, .. } = row.envelope()?;
        let body = serde_json::from_str(body.get()).map_err(|_| Snag::Broken(row.seq))?;
        let entry = Entry { seq: row.seq, at_ms: at, body };
        if self.first_seq == 0 {
            self.first_seq = row.seq;
        }
        match row.kind {
            RowKind::Issued => self.issued = Some(entry),
            RowKind::Consumed => self.consumed = Some(entry),
            RowKind::Void if self.void.is_some() => {}
            RowKind::Void => self.void = Some(entry),
            RowKind::Refused => self.refused.push(entry),
            RowKind::Outcome => self.outcome = Some(entry),
            RowKind::Key | RowKind::Checkpoint => {}
        }
        Ok(())
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
        Ok(ReceiptRecord::read(&tx, &self.keys.ring, receipt, self.seams.clock.as_ref())?)
    }

    /// The Must-Remember revision that the newest receipt binds, consumed or not, verified; 0 where the journal holds no
    /// receipt, or one that did not bind it yet.
    pub(crate) fn remember_revision(&mut self) -> Result<u64, Refusal> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Bound {
            remember_revision: u64,
        }
        let tx = look(&self.conn, &mut self.keys, &self.dir)?;
        let bound = |row: &Row<'_>| Ok(claims_of::<Bound>(row.envelope()?.body));
        let newest = newest_of(&tx, &self.keys.ring, RowKind::Issued, bound)?;
        Ok(newest.flatten().map_or(0, |bound| bound.remember_revision))
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
