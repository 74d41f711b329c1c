//! Verifying the whole chain, pruning what is old, rotating the key.

use std::collections::HashSet;

use rusqlite::{Connection, OptionalExtension};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use super::anchor::Mark;
use super::chain::{Row, RowKind, Snag, genesis, proven_kid, sql_seq, stands, walk};
use super::{Durability, Pen, Vault, fault, survey};
use crate::failure::Refusal;
use crate::ids::{Digest, ReceiptId, unhex};
use crate::receipt::keyring::Keyring;

/// How long rows are kept, milliseconds: 90 days.
pub const JOURNAL_KEEP_MS: i64 = 90 * 24 * 60 * 60 * 1000;

/// What verifying the whole journal found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainReport {
    /// Rows verified.
    pub rows: u64,
    /// Consumed rows among them.
    pub consumed: u64,
    /// Sequence of the first row; above 1 after pruning.
    pub first_seq: u64,
    /// Sequence of the last verified row.
    pub head_seq: u64,
    /// Its MAC.
    pub head: Digest,
    /// How far the anchor says that the journal had come.
    pub anchored_seq: u64,
    /// Everything holds.
    pub ok: bool,
    /// The first row that is missing, altered or wrongly signed, where it is a row.
    pub first_bad: Option<u64>,
    /// What does not hold, for people.
    pub problem: Option<String>,
}

/// What pruning removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pruned {
    /// Rows removed.
    pub rows: u64,
    /// Rows below this sequence are gone.
    pub before: u64,
}

impl Vault {
    /// Verifies the whole journal: every row's MAC and link, every receipt's signature, deliveries, file, anchor.
    ///
    /// A journal that does not hold is a report with `ok: false`; a refusal means that it could not be read.
    pub fn verify_chain(&mut self) -> Result<ChainReport, Refusal> {
        let sql = |e: rusqlite::Error| fault::sql(&e);
        let (tx, anchored) = survey(&self.conn, &mut self.keys, &self.dir, &self.anchor, self.limits)?;
        let from = beginning(&tx, &self.keys.ring.journal_id).map_err(sql)?;
        let mut seen = Seen::default();
        let end = walk(&tx, &self.keys.ring, from.mark, |row| seen.take(row, &self.keys.ring));
        let (head, broken) = match end {
            Ok(head) => (head, None),
            Err(Snag::Broken(seq)) => (seen.last.unwrap_or(from.mark), Some(seq)),
            Err(Snag::Sql(e)) => return Err(sql(e)),
        };
        let first_bad = [broken, seen.bad].into_iter().flatten().min();
        let problem = match first_bad {
            Some(seq) => Some(format!("row {seq} is missing, altered or wrongly signed")),
            None => self.beyond_rows(&tx, &from, &seen, anchored).map_err(sql)?.map(str::to_owned),
        };
        Ok(ChainReport {
            rows: seen.rows,
            consumed: seen.consumed,
            first_seq: from.mark.seq + 1,
            head_seq: head.seq,
            head: head.head,
            anchored_seq: anchored.seq,
            ok: problem.is_none(),
            first_bad,
            problem,
        })
    }

    /// What does not hold beyond the rows themselves.
    fn beyond_rows(
        &self,
        conn: &Connection,
        from: &Beginning,
        seen: &Seen,
        anchored: Mark,
    ) -> rusqlite::Result<Option<&'static str>> {
        if !stands(conn, &self.keys.ring.journal_id, anchored)? {
            return Ok(Some("the journal is behind its anchor or other than it"));
        }
        if from.checkpoint.is_some_and(|seq| !seen.checkpoints.contains(&seq)) {
            return Ok(Some("the checkpoint of the last pruning does not hold"));
        }
        if from.deliveries != deliveries_digest(conn, from.mark.seq + 1)? {
            return Ok(Some("the deliveries of pruned rows were changed"));
        }
        let below = "SELECT 1 FROM rows WHERE seq <= ?1";
        if conn.prepare(below)?.exists([sql_seq(from.mark.seq)])? {
            return Ok(Some("rows stand before its beginning"));
        }
        let kept: i64 = conn.query_row(
            "SELECT count(*) FROM deliveries WHERE seq > ?1",
            [sql_seq(from.mark.seq)],
            |row| row.get(0),
        )?;
        let mut known = conn.prepare("SELECT 1 FROM deliveries WHERE digest = ?1 AND seq = ?2")?;
        for (seq, digest) in &seen.deliveries {
            if !known.exists((digest, sql_seq(*seq)))? {
                return Ok(Some("a consumed delivery is missing from the list of deliveries"));
            }
        }
        if u64::try_from(kept) != Ok(seen.consumed) {
            return Ok(Some("the list of deliveries holds one that was never consumed"));
        }
        let sound =
            conn.query_row("PRAGMA quick_check(1)", [], |row| Ok(row.get::<_, String>(0)? == "ok"))?;
        Ok(if sound { None } else { Some("the journal's file is damaged") })
    }

    /// Removes rows older than [`JOURNAL_KEEP_MS`] behind a checkpoint row that carries the chain; delivery digests
    /// stay. The anchored row stays too. `None` where nothing is old enough.
    pub fn prune(&mut self, now_wall_ms: i64) -> Result<Option<Pruned>, Refusal> {
        let report = self.verify_chain()?;
        if !report.ok {
            return Err(fault::rolled_back("the receipt journal does not verify, so nothing is pruned"));
        }
        let pruned =
            self.write(Durability::Now, |pen| pen.prune(now_wall_ms.saturating_sub(JOURNAL_KEEP_MS)))?;
        if pruned.is_some() {
            self.raise()?;
        }
        Ok(pruned)
    }

    /// Draws a new signing key; returns its name. The old key verifies its rows for ever; receipts that it signed and
    /// that are not consumed yet never will be.
    pub fn rotate_key(&mut self) -> Result<String, Refusal> {
        let rng = self.seams.rng.clone();
        let kid = self.write(Durability::Now, |pen| {
            let seq = pen.tip.seq + 1;
            let old = pen.keys.ring.current().kid.clone();
            let rotated = pen.keys.ring.rotated(seq, rng.as_ref())?;
            // The keyring first: a crash before the commit leaves a new key and no row about it, which still holds
            // together. The other order would leave a row of a key that nobody has.
            pen.keys.stamp = rotated.save(&pen.dir.keyring()).map_err(|e| fault::file("keyring", &e))?;
            pen.keys.ring = rotated;
            let kid = pen.keys.ring.current().kid.clone();
            pen.push_value(RowKind::Key, None, &json!({ "kid": kid, "retired": old }))?;
            Ok(kid)
        })?;
        self.raise().map(|()| kid)
    }
}

impl Pen<'_> {
    fn prune(&mut self, older_than: i64) -> Result<Option<Pruned>, Refusal> {
        let sql = |e: rusqlite::Error| fault::sql(&e);
        let first: i64 =
            self.tx.query_row("SELECT coalesce(min(seq), 1) FROM rows", [], |row| row.get(0)).map_err(sql)?;
        let young = "SELECT seq FROM rows WHERE json_extract(body, '$.at') >= ?1 ORDER BY seq LIMIT 1";
        let young: Option<i64> =
            self.tx.query_row(young, [older_than], |row| row.get(0)).optional().map_err(sql)?;
        let cut = young.unwrap_or(i64::MAX).min(sql_seq(self.anchored.seq));
        if cut <= first {
            return Ok(None);
        }
        let head = self
            .tx
            .query_row("SELECT mac FROM rows WHERE seq = ?1", [cut - 1], |row| row.get(0).map(Digest))
            .map_err(sql)?;
        let before = u64::try_from(cut).unwrap_or_default();
        let deliveries = deliveries_digest(&self.tx, before).map_err(sql)?;
        let body = json!({ "prunedBefore": before, "head": head, "deliveries": deliveries });
        self.push_value(RowKind::Checkpoint, None, &body)?;
        let rows = self.tx.execute("DELETE FROM rows WHERE seq < ?1", [cut]).map_err(sql)?;
        Ok(Some(Pruned { rows: rows as u64, before }))
    }
}

/// Where the rows that are left begin.
struct Beginning {
    mark: Mark,
    checkpoint: Option<u64>,
    deliveries: Digest,
}

/// Reads the last checkpoint. It is trusted only once the walk has verified its row.
fn beginning(conn: &Connection, journal_id: &str) -> rusqlite::Result<Beginning> {
    let last = "SELECT seq, json_extract(body, '$.body.prunedBefore'), json_extract(body, '$.body.head'),
        json_extract(body, '$.body.deliveries') FROM rows WHERE kind = 'checkpoint' ORDER BY seq DESC LIMIT 1";
    let found = conn.query_row(last, [], |row| {
        let number = |at| row.get::<_, i64>(at).map(|n| u64::try_from(n).unwrap_or_default());
        let digest =
            |at| row.get::<_, String>(at).map(|text| Digest::parse(&text).unwrap_or(Digest([0; 32])));
        let mark = Mark { seq: number(1)?.saturating_sub(1), head: digest(2)? };
        Ok(Beginning { mark, checkpoint: Some(number(0)?), deliveries: digest(3)? })
    });
    let none = Beginning { mark: genesis(journal_id), checkpoint: None, deliveries: Digest::of(&[]) };
    Ok(found.optional()?.unwrap_or(none))
}

/// SHA-256 over the deliveries of rows below `before`, in order of their digests.
fn deliveries_digest(conn: &Connection, before: u64) -> rusqlite::Result<Digest> {
    let mut hash = Sha256::new();
    let mut select = conn.prepare("SELECT digest, seq FROM deliveries WHERE seq < ?1 ORDER BY digest")?;
    let mut found = select.query([sql_seq(before)])?;
    while let Some(row) = found.next()? {
        hash.update(row.get::<_, Vec<u8>>(0)?);
        hash.update(row.get::<_, i64>(1)?.to_be_bytes());
    }
    Ok(Digest(hash.finalize().into()))
}

/// What a walk over the whole journal collects.
#[derive(Default)]
struct Seen {
    rows: u64,
    consumed: u64,
    last: Option<Mark>,
    bad: Option<u64>,
    spent: HashSet<ReceiptId>,
    deliveries: Vec<(u64, Vec<u8>)>,
    checkpoints: HashSet<u64>,
}

impl Seen {
    fn take(&mut self, row: &Row<'_>, ring: &Keyring) -> Result<(), Snag> {
        let envelope = row.envelope()?;
        self.rows += 1;
        self.last = Some(row.mark());
        let good = match row.kind {
            RowKind::Issued => proven_kid(envelope.body.get(), row.receipt, ring, row.seq).is_some(),
            RowKind::Consumed => self.consume(row, envelope.delivery.as_deref()),
            RowKind::Checkpoint => self.checkpoints.insert(row.seq),
            RowKind::Void | RowKind::Refused | RowKind::Outcome | RowKind::Key => true,
        };
        if !good {
            self.bad = self.bad.or(Some(row.seq));
        }
        Ok(())
    }

    /// One consumption of each receipt, each with its delivery.
    fn consume(&mut self, row: &Row<'_>, delivery: Option<&str>) -> bool {
        self.consumed += 1;
        let delivery = delivery.and_then(unhex);
        let whole = delivery.is_some();
        self.deliveries.extend(delivery.map(|digest| (row.seq, digest)));
        whole && row.receipt.is_some_and(|id| self.spent.insert(id))
    }
}
