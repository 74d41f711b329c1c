//! Rows and the chain they form: each row's MAC covers the MAC before it.
//!
//! Invariant: a [`Row`] exists only where its MAC was verified under a key that may have signed at its place.

use rusqlite::{Connection, OptionalExtension};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::anchor::Mark;
use super::fault;
use crate::failure::Refusal;
use crate::ids::{Digest, ReceiptId};
use crate::mac::MacKey;
use crate::receipt::keyring::Keyring;

/// Type string of a row's MAC.
const ROW_TYPE: &str = "agentspine.journal/v1";
/// Type string of a receipt's MAC (contract: `PAE("agentspine.receipt/v1", RFC 8785 bytes)`).
const RECEIPT_TYPE: &str = "agentspine.receipt/v1";

/// What a row says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RowKind {
    /// A receipt was prepared.
    Issued,
    /// It was spent.
    Consumed,
    /// It was given up before it was spent.
    Void,
    /// A call was refused, or an incident seen.
    Refused,
    /// How the call went.
    Outcome,
    /// A new signing key.
    Key,
    /// Older rows were pruned.
    Checkpoint,
}

impl RowKind {
    /// Every kind, in table order.
    pub const ALL: [Self; 7] =
        [Self::Issued, Self::Consumed, Self::Void, Self::Refused, Self::Outcome, Self::Key, Self::Checkpoint];

    /// Wire text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Issued => "issued",
            Self::Consumed => "consumed",
            Self::Void => "void",
            Self::Refused => "refused",
            Self::Outcome => "outcome",
            Self::Key => "key",
            Self::Checkpoint => "checkpoint",
        }
    }

    fn parse(text: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str().as_bytes() == text)
    }
}

/// What is stored as a row's body: the caller's body, when it was written, and a consumed row's delivery digest.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Envelope<'a> {
    /// Wall time, milliseconds since the Unix epoch; for people and for pruning.
    pub(super) at: i64,
    /// The body as it was written, in RFC 8785 form.
    #[serde(borrow)]
    pub(super) body: &'a RawValue,
    #[serde(default)]
    pub(super) delivery: Option<String>,
}

/// The RFC 8785 text of an [`Envelope`] around a body that is in that form.
pub(super) fn enclose(at: i64, body: &str, delivery: Option<&str>) -> String {
    let delivery = delivery.map(|digest| format!(r#","delivery":"{digest}""#)).unwrap_or_default();
    format!(r#"{{"at":{at},"body":{body}{delivery}}}"#)
}

/// Body of an issued row. The claims stand in it byte for byte as they were signed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Issued<'a> {
    #[serde(borrow)]
    claims: &'a RawValue,
    kid: String,
    mac: Digest,
}

/// The RFC 8785 text of the body of an issued row.
pub(super) fn issued_body(claims: &str, signed: &Signed) -> String {
    format!(r#"{{"claims":{claims},"kid":"{}","mac":"{}"}}"#, signed.kid, signed.mac)
}

/// What an issued row's body claims, read into the parts that `T` names.
pub(super) fn claims_of<'a, T: Deserialize<'a>>(body: &'a RawValue) -> Option<T> {
    let issued: Issued<'a> = serde_json::from_str(body.get()).ok()?;
    serde_json::from_str(issued.claims.get()).ok()
}

/// A verified row, as the statement that read it holds it.
pub(super) struct Row<'a> {
    pub(super) seq: u64,
    pub(super) kind: RowKind,
    pub(super) receipt: Option<ReceiptId>,
    body: &'a [u8],
    pub(super) prev: Digest,
    pub(super) mac: Digest,
}

impl Row<'_> {
    pub(super) fn mark(&self) -> Mark {
        Mark { seq: self.seq, head: self.mac }
    }

    pub(super) fn envelope(&self) -> Result<Envelope<'_>, Snag> {
        serde_json::from_slice(self.body).map_err(|_| Snag::Broken(self.seq))
    }
}

/// A signature: which key, and its MAC. The key's name is only a hint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signed {
    /// Name of the key.
    pub kid: String,
    /// HMAC-SHA-256.
    pub mac: Digest,
}

/// Signs canonical claims with the current key.
pub(super) fn sign(ring: &Keyring, claims: &[u8]) -> Signed {
    let key = ring.current();
    Signed { kid: key.kid.clone(), mac: key.key.mac(RECEIPT_TYPE, &[claims]) }
}

/// Whether the signature of canonical claims holds under this key; constant-time.
pub(super) fn signature_holds(key: &MacKey, claims: &[u8], mac: &Digest) -> bool {
    key.verify(RECEIPT_TYPE, &[claims], mac)
}

/// The name of the key in an issued row's body if the receipt's signature holds at `seq`, over the claims as they stand
/// there, and it is the receipt's own.
pub(super) fn proven_kid(body: &str, receipt: Option<ReceiptId>, ring: &Keyring, seq: u64) -> Option<String> {
    #[derive(Deserialize)]
    struct Own {
        id: ReceiptId,
    }
    let Issued { claims, kid, mac } = serde_json::from_str(body).ok()?;
    let key = ring.for_row(&kid, seq)?;
    let holds = signature_holds(key, claims.get().as_bytes(), &mac);
    let own = || serde_json::from_str::<Own>(claims.get()).is_ok_and(|own| Some(own.id) == receipt);
    (holds && own()).then_some(kid)
}

/// A row as it is sealed: sequence, kind, receipt, body, MAC of the row before, key name.
pub(super) type Sealed<'a> = (u64, &'a [u8], &'a [u8], &'a [u8], &'a [u8], &'a [u8]);

/// The MAC of a row.
pub(super) fn seal(key: &MacKey, (seq, kind, receipt, body, prev, name): Sealed<'_>) -> Digest {
    key.mac(ROW_TYPE, &[&seq.to_be_bytes(), kind, receipt, body, prev, name])
}

fn seal_holds(key: &MacKey, (seq, kind, receipt, body, prev, name): Sealed<'_>, mac: &Digest) -> bool {
    key.verify(ROW_TYPE, &[&seq.to_be_bytes(), kind, receipt, body, prev, name], mac)
}

/// Where the chain of a journal begins.
pub(super) fn genesis(journal_id: &str) -> Mark {
    Mark { seq: 0, head: Digest::of(format!("{ROW_TYPE}\0genesis\0{journal_id}").as_bytes()) }
}

/// A sequence as SQLite stores it.
pub(super) fn sql_seq(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

/// Why a walk along the chain stopped.
#[derive(Debug)]
pub(super) enum Snag {
    /// The row at this sequence is missing, altered or does not continue the chain.
    Broken(u64),
    /// SQLite failed.
    Sql(rusqlite::Error),
}

impl From<rusqlite::Error> for Snag {
    fn from(e: rusqlite::Error) -> Self {
        Self::Sql(e)
    }
}

impl From<Snag> for Refusal {
    fn from(snag: Snag) -> Self {
        match snag {
            Snag::Broken(seq) => {
                fault::rolled_back(format!("row {seq} of the receipt journal is missing or altered"))
            }
            Snag::Sql(e) => fault::sql(&e),
        }
    }
}

const COLUMNS: &str = "seq, kind, receipt, body, prev, mac, kid";

/// Reads and verifies the rows that a condition on `?1` selects, in order. A row that does not verify is a snag.
fn rows<P: rusqlite::ToSql>(
    conn: &Connection,
    ring: &Keyring,
    condition: &str,
    param: P,
    mut each: impl FnMut(&Row<'_>) -> Result<(), Snag>,
) -> Result<(), Snag> {
    let mut select =
        conn.prepare_cached(&format!("SELECT {COLUMNS} FROM rows WHERE {condition} ORDER BY seq"))?;
    let mut found = select.query([param])?;
    while let Some(row) = found.next()? {
        let seq: u64 = row.get::<_, i64>(0)?.try_into().unwrap_or_default();
        each(&proven(row, seq, ring)?.ok_or(Snag::Broken(seq))?)?;
    }
    Ok(())
}

fn proven<'a>(row: &'a rusqlite::Row<'_>, seq: u64, ring: &Keyring) -> rusqlite::Result<Option<Row<'a>>> {
    let column =
        |at: usize| row.get_ref(at).map(|value| value.as_bytes_or_null().ok().flatten().unwrap_or_default());
    let (kind, receipt, body, prev) = (column(1)?, column(2)?, column(3)?, column(4)?);
    let (mac, name) = (column(5)?, column(6)?);
    let typed = || {
        let mac = Digest(mac.try_into().ok()?);
        let key = ring.for_row(std::str::from_utf8(name).ok()?, seq)?;
        if !seal_holds(key, (seq, kind, receipt, body, prev, name), &mac) {
            return None;
        }
        let receipt = if receipt.is_empty() { None } else { Some(ReceiptId(receipt.try_into().ok()?)) };
        Some(Row {
            seq,
            kind: RowKind::parse(kind)?,
            receipt,
            body,
            prev: Digest(prev.try_into().ok()?),
            mac,
        })
    };
    Ok(typed())
}

/// Walks from a known place to the head, verifying each row and that it continues the one before; returns the head.
pub(super) fn walk(
    conn: &Connection,
    ring: &Keyring,
    from: Mark,
    mut visit: impl FnMut(&Row<'_>) -> Result<(), Snag>,
) -> Result<Mark, Snag> {
    let mut at = from;
    rows(conn, ring, "seq > ?1", sql_seq(from.seq), |row| {
        if row.seq != at.seq + 1 || row.prev != at.head {
            return Err(Snag::Broken(at.seq + 1));
        }
        at = row.mark();
        visit(row)
    })?;
    Ok(at)
}

/// Looks at the newest row of a kind, verified; `None` where there is none.
pub(super) fn newest_of<T>(
    conn: &Connection,
    ring: &Keyring,
    kind: RowKind,
    look: impl Fn(&Row<'_>) -> Result<T, Snag>,
) -> Result<Option<T>, Snag> {
    let mut newest = None;
    let condition = "seq = (SELECT seq FROM rows WHERE kind = ?1 ORDER BY seq DESC LIMIT 1)";
    rows(conn, ring, condition, kind.as_str(), |row| {
        newest = Some(look(row)?);
        Ok(())
    })?;
    Ok(newest)
}

/// Visits every row of one receipt, verified, in order.
pub(super) fn rows_of(
    conn: &Connection,
    ring: &Keyring,
    receipt: ReceiptId,
    each: impl FnMut(&Row<'_>) -> Result<(), Snag>,
) -> Result<(), Snag> {
    rows(conn, ring, "receipt = ?1", receipt.0.as_slice(), each)
}

/// Whether the place stands in the chain: its row has that MAC, or it is the beginning.
pub(super) fn stands(conn: &Connection, journal_id: &str, mark: Mark) -> rusqlite::Result<bool> {
    if mark.seq == 0 {
        return Ok(mark == genesis(journal_id));
    }
    let mut select = conn.prepare_cached("SELECT mac FROM rows WHERE seq = ?1")?;
    let mac: Option<Vec<u8>> = select.query_row([sql_seq(mark.seq)], |row| row.get(0)).optional()?;
    Ok(mac.as_deref() == Some(mark.head.0.as_slice()))
}
