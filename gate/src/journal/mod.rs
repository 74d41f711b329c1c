//! The journal: one append-only, chained table of what happened to every receipt, and its anchor.
//!
//! Map: [`Vault`] is keyring, journal and anchor in one hand, all naming each other. `open` brings them together or
//! refuses; `schema` is the file, `chain` its rows, `anchor` the file beside it, `record` what people see of a receipt,
//! `follow` the same while others write, `spend` consumption, `upkeep` verification, pruning and key rotation, `care` check, `reset` starting
//! anew.
//!
//! Invariants: a consumption, alone or with others, is committed with a flush, then the anchor is raised with a flush, and
//! only then is it returned. Each write first checks that the chain continues from the anchor and from what this handle saw before. A
//! failed write ends the handle. Nothing is ever repaired, rotated or made anew by itself. Any number of processes may
//! write at once: the head is read inside the immediate transaction that appends to it.
//!
//! Not held: journal and anchor put back together from one older copy look like that older state. What bounds it is
//! not here: a receipt's 60 seconds of boot time, which the caller judges.

mod anchor;
mod care;
mod chain;
mod fault;
mod follow;
mod open;
mod record;
mod reset;
mod schema;
mod spend;
mod upkeep;

use rusqlite::Connection;
use serde_json::Value;

use crate::failure::{Detail, Refusal};
use crate::ids::ReceiptId;
use crate::private::Stands;
use crate::receipt::canonical;
use crate::receipt::keyring::{Keyring, Stamp};
use crate::seams::Seams;
use crate::state_dir::StateDir;
use crate::tx::Tx;
use anchor::{Anchor, Mark};
pub use care::Finding;
pub use chain::{RowKind, Signed};
use chain::{genesis, proven_kid, sql_seq};
pub use follow::{Follow, Sighting};
pub use record::{Entry, LIST_MAX, ReceiptRecord, ReceiptState};
pub use reset::{Reset, ResetRules};
pub use spend::Consumption;
pub(crate) use spend::SpentRow;
pub use upkeep::{ChainReport, JOURNAL_KEEP_MS, Pruned};

/// How long a writer waits for another, milliseconds.
pub const BUSY_MS: u32 = 5_000;
/// Largest journal, pages of 4 KiB: 4 GiB.
pub const PAGES_MAX: u32 = 1024 * 1024;
/// Most incident rows kept for one receipt; a loop of second attempts must not fill the disk.
pub const INCIDENTS_PER_RECEIPT_MAX: usize = 16;

/// Stands in every program that can reach [`Vault::consume_by_test_door`], for tests to look for.
#[cfg(feature = "test-door")]
pub const TEST_DOOR_MARK: &str = "agentspine:the-test-door-is-open:7f3c9d";

/// How long to wait and how much to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Wait for a lock, milliseconds; then `journal-busy`.
    pub busy_ms: u32,
    /// Largest journal, pages of 4 KiB; then `journal-io`.
    pub pages_max: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { busy_ms: BUSY_MS, pages_max: PAGES_MAX }
    }
}

/// Keyring, journal and anchor, all naming each other. One thread owns it; other processes have their own.
pub struct Vault {
    dir: StateDir,
    seams: Seams,
    limits: Limits,
    conn: Connection,
    journal_stands: Stands,
    keys: Keys,
    anchor: Anchor,
    /// The head as this handle last saw it, verified.
    seen: Mark,
    /// What the connection is set to.
    durability: Option<Durability>,
    poisoned: bool,
}

/// The keyring as last loaded.
struct Keys {
    ring: Keyring,
    stamp: Stamp,
}

/// When a commit is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durability {
    /// With the commit: `synchronous=FULL`.
    Now,
    /// Some time later: `synchronous=NORMAL`. Losing the row harms nobody.
    Later,
}

impl Vault {
    /// The journal's id, 32 hex digits.
    pub fn journal_id(&self) -> &str {
        &self.keys.ring.journal_id
    }

    /// The keyring as last loaded.
    pub fn keyring(&self) -> &Keyring {
        &self.keys.ring
    }

    /// The keyring, loaded again where its file changed: another process may have rotated the key.
    pub(crate) fn newest_keyring(&mut self) -> Result<&Keyring, Refusal> {
        self.keys.refresh(&self.dir)?;
        Ok(&self.keys.ring)
    }

    /// Signs canonical claims with the current key, re-reading the keyring where it changed.
    pub fn sign(&mut self, claims: &[u8]) -> Result<Signed, Refusal> {
        self.keys.refresh(&self.dir)?;
        Ok(chain::sign(&self.keys.ring, claims))
    }

    /// Verifies a signature that is about to be relied on: by the current key only, in constant time, over the raw
    /// bytes. Parse them afterwards. [`Detail::Mac`] for everything else.
    pub fn verify(&self, signed: &Signed, claims: &[u8]) -> Result<(), Refusal> {
        match self.keys.ring.by_kid(&signed.kid) {
            Some(key) if key.retired_seq.is_some() => {
                Err(fault::mac("the receipt was signed with a key that has been retired since"))
            }
            key => holds(key.is_some_and(|key| chain::signature_holds(&key.key, claims, &signed.mac))),
        }
    }

    /// Verifies a signature for reading only: a retired key verifies what was issued before its `retiredSeq`.
    pub fn verify_row(&self, signed: &Signed, claims: &[u8], seq: u64) -> Result<(), Refusal> {
        let key = self.keys.ring.for_row(&signed.kid, seq);
        holds(key.is_some_and(|key| chain::signature_holds(key, claims, &signed.mac)))
    }

    /// Appends an issued, void, refused or outcome row; returns its sequence.
    ///
    /// An issued body is `{"claims", "kid", "mac"}` with `claims.id` the receipt, signed by the current key. A turn that
    /// is refused before issue is found by session through a `sessionId` in its refused body.
    pub fn append(
        &mut self,
        kind: RowKind,
        receipt: Option<ReceiptId>,
        body: &Value,
    ) -> Result<u64, Refusal> {
        match kind {
            RowKind::Issued | RowKind::Void | RowKind::Refused | RowKind::Outcome => {}
            RowKind::Consumed | RowKind::Key | RowKind::Checkpoint => {
                let message = format!("a row of kind {} is never appended by hand", kind.as_str());
                return Err(Refusal::new(
                    Detail::JournalIo,
                    message,
                    "Report this as a fault of agentspine.",
                ));
            }
        }
        let body = canonical(body)?;
        self.write(Durability::Later, |pen| {
            if kind == RowKind::Issued && !pen.current_signature(&body, receipt) {
                return Err(fault::foreign_key());
            }
            pen.push(kind, receipt, &body, None)
        })
    }

    /// Signs canonical claims with the current key and appends the issued rows that hold them, byte for byte, behind the
    /// outcomes of earlier calls, all with one commit. An error means that none was issued.
    pub(crate) fn issue_all(
        &mut self,
        outcomes: &[(ReceiptId, Value)],
        claims: &[(ReceiptId, &str)],
    ) -> Result<Vec<Signed>, Refusal> {
        self.write(Durability::Later, |pen| {
            for (receipt, body) in outcomes {
                pen.push_value(RowKind::Outcome, Some(*receipt), body)?;
            }
            let issue = |(receipt, claims): &(ReceiptId, &str)| {
                let signed = chain::sign(&pen.keys.ring, claims.as_bytes());
                pen.push(RowKind::Issued, Some(*receipt), &chain::issued_body(claims, &signed), None)?;
                Ok(signed)
            };
            claims.iter().map(issue).collect()
        })
    }

    /// Spends one receipt, for tests that race for it over threads and processes. Everybody else spends through
    /// [`crate::Gate::consume`], which first reads everything again.
    #[cfg(feature = "test-door")]
    pub fn consume_by_test_door(&mut self, spent: &Consumption<'_>) -> Result<u64, Refusal> {
        // Told to the optimiser as used, so that a program which reaches this door holds the mark.
        std::hint::black_box(TEST_DOOR_MARK);
        self.consume(spent).map(|()| self.seen.seq)
    }

    /// Raises the anchor to the head this handle has just made durable.
    fn raise(&mut self) -> Result<(), Refusal> {
        let raised = self.raise_once();
        self.poisoned |= raised.is_err();
        raised
    }

    fn raise_once(&mut self) -> Result<(), Refusal> {
        let _held = self.anchor.hold(self.limits.busy_ms)?;
        self.keys.refresh(&self.dir)?;
        self.anchor.raise(&self.keys.ring, self.seen, &self.seams.clock.boot_id())
    }

    /// Whether journal and anchor still stand where they were opened; another process may have reset them.
    fn in_place(&self) -> Result<(), Refusal> {
        self.anchor.in_place()?;
        match Stands::at(&self.dir.journal()).map_err(|e| fault::file("journal", &e))? {
            None => Err(fault::missing("the receipt journal is missing")),
            Some(stands) if stands == self.journal_stands => Ok(()),
            Some(_) => Err(fault::rolled_back("another receipt journal stands in its place")),
        }
    }

    /// One writing transaction. A failure that may have left file and memory apart ends the handle: no second try.
    fn write<T>(
        &mut self,
        durability: Durability,
        work: impl FnOnce(&mut Pen<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        if self.poisoned {
            return Err(fault::poisoned());
        }
        let done = self.write_once(durability, work);
        self.poisoned = done.as_ref().is_err_and(|refusal| refusal.detail == Detail::JournalIo);
        done
    }

    fn write_once<T>(
        &mut self,
        durability: Durability,
        work: impl FnOnce(&mut Pen<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let sql = |e: rusqlite::Error| fault::sql(&e);
        if self.durability != Some(durability) {
            let level = if durability == Durability::Now { "FULL" } else { "NORMAL" };
            let set = format!("PRAGMA synchronous = {level}");
            self.conn.prepare_cached(&set).and_then(|mut set| set.execute([])).map_err(sql)?;
            self.durability = Some(durability);
        }
        let tx = Tx::write(&self.conn).map_err(sql)?;
        // From here on no other process writes rows, raises the anchor beyond them or rotates keys.
        self.in_place()?;
        self.keys.refresh(&self.dir)?;
        let (_, anchored) = self.anchor.slots()?.best(&self.keys.ring)?;
        let tip = tail(&tx, &self.keys.ring, anchored, self.seen)?;
        let now = self.seams.clock.wall_ms();
        let mut pen = Pen { tx, dir: &self.dir, keys: &mut self.keys, tip, anchored, now };
        let value = work(&mut pen)?;
        let tip = pen.tip;
        pen.tx.commit().map_err(sql)?;
        self.seen = tip;
        Ok(value)
    }
}

impl Keys {
    fn load(dir: &StateDir) -> Result<Self, Refusal> {
        let (ring, stamp) = Keyring::load(&dir.keyring())?;
        Ok(Self { ring, stamp })
    }

    fn refresh(&mut self, dir: &StateDir) -> Result<(), Refusal> {
        if Stamp::at(&dir.keyring()) == Some(self.stamp) {
            return Ok(());
        }
        let fresh = Self::load(dir)?;
        if fresh.ring.journal_id != self.ring.journal_id {
            return Err(fault::rolled_back("the keyring is another journal's"));
        }
        *self = fresh;
        Ok(())
    }
}

/// One snapshot of the journal to look at, and a keyring that knows every key in it: keyrings are saved before the rows
/// that they sign are committed.
fn look<'a>(conn: &'a Connection, keys: &mut Keys, dir: &StateDir) -> Result<Tx<'a>, Refusal> {
    let begin = || {
        let tx = Tx::read(conn)?;
        // A deferred transaction takes its snapshot with its first read.
        tx.prepare_cached("SELECT count(*) FROM meta")?.query_row([], |_| Ok(()))?;
        Ok(tx)
    };
    let tx = begin().map_err(|e| fault::sql(&e))?;
    keys.refresh(dir)?;
    Ok(tx)
}

/// A snapshot, and how far the anchor says the journal had come by then.
fn survey<'a>(
    conn: &'a Connection,
    keys: &mut Keys,
    dir: &StateDir,
    anchor: &Anchor,
    limits: Limits,
) -> Result<(Tx<'a>, Mark), Refusal> {
    // Held, the anchor cannot be raised meanwhile, and so no pruning can take the row that it marks.
    let _held = anchor.hold(limits.busy_ms)?;
    let tx = look(conn, keys, dir)?;
    let (_, anchored) = anchor.slots()?.best(&keys.ring)?;
    Ok((tx, anchored))
}

/// Verifies that the chain holds the anchored and the seen place and runs on from there; returns its head.
fn tail(conn: &Connection, ring: &Keyring, anchored: Mark, seen: Mark) -> Result<Mark, Refusal> {
    let holds = |mark| chain::stands(conn, &ring.journal_id, mark).map_err(|e| fault::sql(&e));
    if !holds(anchored)? || (seen.seq > anchored.seq && !holds(seen)?) {
        return Err(fault::rolled_back("the receipt journal is behind its anchor or other than it"));
    }
    let base = if seen.seq > anchored.seq { seen } else { anchored };
    Ok(chain::walk(conn, ring, base, |_| Ok(()))?)
}

fn holds(verified: bool) -> Result<(), Refusal> {
    if verified { Ok(()) } else { Err(fault::mac("the receipt's signature does not verify")) }
}

/// A writing transaction at the head of a verified chain.
struct Pen<'a> {
    tx: Tx<'a>,
    dir: &'a StateDir,
    keys: &'a mut Keys,
    tip: Mark,
    anchored: Mark,
    now: i64,
}

impl Pen<'_> {
    fn push(
        &mut self,
        kind: RowKind,
        receipt: Option<ReceiptId>,
        body: &str,
        delivery: Option<&str>,
    ) -> Result<u64, Refusal> {
        let text = chain::enclose(self.now, body, delivery);
        let key = self.keys.ring.current();
        let (seq, prev) = (self.tip.seq + 1, self.tip.head);
        let id: &[u8] = receipt.as_ref().map_or(&[], |id| &id.0);
        let sealed =
            (seq, kind.as_str().as_bytes(), id, text.as_bytes(), prev.0.as_slice(), key.kid.as_bytes());
        let mac = chain::seal(&key.key, sealed);
        self.insert(
            "INSERT INTO rows (seq, kind, receipt, body, prev, mac, kid) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            (sql_seq(seq), kind.as_str(), receipt.map(|id| id.0), text, prev.0, mac.0, &key.kid),
        )?;
        self.tip = Mark { seq, head: mac };
        Ok(seq)
    }

    fn insert(&self, sql: &str, values: impl rusqlite::Params) -> Result<(), Refusal> {
        let done = self.tx.prepare_cached(sql).and_then(|mut insert| insert.execute(values));
        done.map(|_| ()).map_err(|e| fault::sql(&e))
    }

    fn push_value(
        &mut self,
        kind: RowKind,
        receipt: Option<ReceiptId>,
        body: &Value,
    ) -> Result<u64, Refusal> {
        self.push(kind, receipt, &canonical(body)?, None)
    }

    fn current_signature(&self, body: &str, receipt: Option<ReceiptId>) -> bool {
        let kid = proven_kid(body, receipt, &self.keys.ring, self.tip.seq + 1);
        kid.is_some_and(|kid| kid == self.keys.ring.current().kid)
    }
}

/// The RFC 8785 text of a row's body.
fn canonical(body: &Value) -> Result<String, Refusal> {
    let text = canonical::of_value(body).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    text.ok_or_else(|| fault::mac("the receipt journal cannot hold such a body"))
}
