//! Spending: any number of receipts in one transaction, under one anchor, each by a row of its own.
//!
//! Invariants: nothing counts as spent before both flushes, the rows' and the anchor's, have returned; a receipt that
//! is refused leaves nothing of its own and fails no other; what makes the journal itself doubtful fails all of them.

use std::collections::HashMap;

use rusqlite::OptionalExtension;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::anchor::Mark;
use super::chain::{self, RowKind, sql_seq};
use super::{Durability, INCIDENTS_PER_RECEIPT_MAX, Pen, Vault, canonical, fault};
use crate::failure::Refusal;
use crate::ids::{Digest, Id, ReceiptId, hex};

/// Bytes of a delivery digest that are kept for ever.
const DELIVERY_BYTES: usize = 16;

/// What is spent: one receipt for one delivery.
#[derive(Debug, Clone, Copy)]
pub struct Consumption<'a> {
    /// The receipt.
    pub receipt: ReceiptId,
    /// Wire name of the door, such as `claude`.
    pub host: &'a str,
    /// The session.
    pub session: &'a Id,
    /// The delivery, unique per host and session for ever.
    pub delivery: &'a Id,
    /// What the consumed row says beyond that.
    pub body: &'a Value,
}

/// Proof that a receipt was spent: its consumed row. [`Vault::consume_all`] alone hands it out, after both flushes.
pub(crate) struct SpentRow(ReceiptId);

impl SpentRow {
    /// The receipt that was spent.
    pub(crate) fn receipt(&self) -> ReceiptId {
        self.0
    }
}

/// What became of one receipt of a group, or why it was not spent.
type Spent = Result<SpentRow, Refusal>;

/// What an issued row says.
#[derive(Clone, Copy, Default)]
enum Issue {
    /// There is none.
    #[default]
    Unknown,
    /// Its signature does not hold under the current key.
    Foreign,
    /// It does.
    Current,
}

/// What the rows say of a receipt.
#[derive(Default)]
struct Standing {
    /// Its issued row.
    issue: Issue,
    /// Some row spent it.
    consumed: bool,
    /// Some row gave it up, or tells of a second attempt.
    void: bool,
    /// Rows of the latter kind.
    refused: usize,
}

impl Vault {
    /// [`Self::consume_all`] of one.
    #[cfg(feature = "test-door")]
    pub(super) fn consume(&mut self, spent: &Consumption<'_>) -> Result<(), Refusal> {
        self.consume_all(&[*spent])?.into_iter().try_for_each(|done| done.map(drop))
    }

    /// Spends receipts, each once, all with one commit and one raise of the anchor. Each answer stands at its receipt's
    /// place: the proof of its consumed row, after both flushes, or the refusal.
    ///
    /// Refuses with `consumed` (recorded as an incident), `replay`, `expired` for a void receipt, `mismatch(journal)` for
    /// an unknown one, `mac` where its signature does not hold under the current key. An error of the whole means that
    /// none counts as spent.
    pub(crate) fn consume_all(&mut self, group: &[Consumption<'_>]) -> Result<Vec<Spent>, Refusal> {
        if group.is_empty() {
            return Ok(Vec::new());
        }
        let done = self.write(Durability::Now, |pen| pen.spend_all(group))?;
        if done.iter().any(Result::is_ok) {
            self.raise()?;
        }
        Ok(done)
    }
}

impl Pen<'_> {
    fn spend_all(&mut self, group: &[Consumption<'_>]) -> Result<Vec<Spent>, Refusal> {
        let mut standings = self.standings(group)?;
        let spend = |spent: &Consumption<'_>| {
            let standing = standings.entry(spent.receipt).or_default();
            self.spend(spent, standing)
        };
        group.iter().map(spend).collect()
    }

    /// What the chain says of each receipt. Walked by sequence and not by index: a damaged index must not hide a
    /// consumption.
    fn standings(&self, group: &[Consumption<'_>]) -> Result<HashMap<ReceiptId, Standing>, Refusal> {
        let (mut found, mut from) = (HashMap::new(), None::<Mark>);
        for spent in group {
            let Some(before) = self.before_issue(spent.receipt)? else { continue };
            found.insert(spent.receipt, Standing::default());
            if from.is_none_or(|lowest| before.seq < lowest.seq) {
                from = Some(before);
            }
        }
        let Some(from) = from else { return Ok(found) };
        chain::walk(&self.tx, &self.keys.ring, from, |row| {
            let Some(standing) = row.receipt.and_then(|id| found.get_mut(&id)) else { return Ok(()) };
            match row.kind {
                RowKind::Issued => {
                    let current = self.current_signature(row.envelope()?.body.get(), row.receipt);
                    standing.issue = if current { Issue::Current } else { Issue::Foreign };
                }
                RowKind::Consumed => standing.consumed = true,
                RowKind::Void => standing.void = true,
                RowKind::Refused => {
                    standing.void = true;
                    standing.refused += 1;
                }
                RowKind::Outcome | RowKind::Key | RowKind::Checkpoint => {}
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Spends one receipt, or says why not and leaves nothing of it. An error of the whole ends the transaction.
    fn spend(&mut self, spent: &Consumption<'_>, standing: &mut Standing) -> Result<Spent, Refusal> {
        let receipt = Some(spent.receipt);
        let refusal = match standing {
            Standing { issue: Issue::Unknown, .. } => fault::unknown(),
            Standing { consumed: true, refused: INCIDENTS_PER_RECEIPT_MAX.., .. } => fault::consumed(),
            Standing { consumed: true, .. } => {
                standing.refused += 1;
                let incident = json!({ "incident": "second-consumption" });
                self.push_value(RowKind::Refused, receipt, &incident)?;
                fault::consumed()
            }
            Standing { void: true, .. } => fault::void(),
            Standing { issue: Issue::Foreign, .. } => fault::foreign_key(),
            Standing { issue: Issue::Current, consumed: false, void: false, .. } => {
                let digest = delivery_digest(spent.host, spent.session, spent.delivery);
                match (self.is_delivered(digest)?, canonical(spent.body)) {
                    (true, _) => fault::replay(),
                    (false, Err(why)) => why,
                    (false, Ok(body)) => {
                        self.deliver(digest)?;
                        standing.consumed = true;
                        self.push(RowKind::Consumed, receipt, &body, Some(&hex(&digest)))?;
                        return Ok(Ok(SpentRow(spent.receipt)));
                    }
                }
            }
        };
        Ok(Err(refusal))
    }

    /// The place before a receipt's issued row, as the index has it; the walk from there verifies it.
    fn before_issue(&self, receipt: ReceiptId) -> Result<Option<Mark>, Refusal> {
        let find = "SELECT seq, prev FROM rows WHERE receipt = ?1 AND kind = 'issued'";
        let found = self.tx.prepare_cached(find).and_then(|mut ask| {
            ask.query_row([receipt.0], |row| Ok((row.get::<_, i64>(0)?, row.get(1)?))).optional()
        });
        let mark = |(seq, prev): (i64, _)| {
            Some(Mark { seq: u64::try_from(seq).ok()?.checked_sub(1)?, head: Digest(prev) })
        };
        Ok(found.map_err(|e| fault::sql(&e))?.and_then(mark))
    }

    fn is_delivered(&self, digest: [u8; DELIVERY_BYTES]) -> Result<bool, Refusal> {
        let used = self
            .tx
            .prepare_cached("SELECT 1 FROM deliveries WHERE digest = ?1")
            .and_then(|mut ask| ask.query_row([digest], |_| Ok(())).optional());
        Ok(used.map_err(|e| fault::sql(&e))?.is_some())
    }

    /// Takes the delivery for ever, for the row that comes next.
    fn deliver(&self, digest: [u8; DELIVERY_BYTES]) -> Result<(), Refusal> {
        self.insert("INSERT INTO deliveries VALUES (?1, ?2)", (digest, sql_seq(self.tip.seq + 1)))
    }
}

/// The first 16 bytes of SHA-256(host NUL session NUL delivery).
fn delivery_digest(host: &str, session: &Id, delivery: &Id) -> [u8; DELIVERY_BYTES] {
    let full = Sha256::digest([host, session.as_str(), delivery.as_str()].join("\0").as_bytes());
    let mut digest = [0; DELIVERY_BYTES];
    digest.iter_mut().zip(full).for_each(|(to, from)| *to = from);
    digest
}
