//! Reading the journal while others write it: what is there, then what is new.
//!
//! Invariants: the connection is read-only, so nothing is made, written or checkpointed; a read holds no lock that a
//! writer waits for. Every row is verified, and so is its link to the row before. One that does not hold is told as
//! [`Sighting::Broken`], and reading goes on behind it: somebody is watching, and must see both.

use rusqlite::{Connection, OptionalExtension as _};

use super::anchor::{self, Mark};
use super::chain::{Snag, sql_seq, stands, walk};
use super::open::key_missing;
use super::schema::Access;
use super::{ChainReport, LIST_MAX, Limits, ReceiptRecord, Vault, fault, look};
use crate::failure::Refusal;
use crate::ids::{Digest, ReceiptId};
use crate::private::Stands;
use crate::receipt::keyring::Keyring;
use crate::seams::Seams;
use crate::state_dir::StateDir;

/// What a follower saw.
#[derive(Debug, Clone, PartialEq)]
pub enum Sighting {
    /// A receipt whose rows all verify, as it stands now.
    Holds(Box<ReceiptRecord>),
    /// A row that is missing, altered or does not continue the chain.
    Broken {
        /// Its sequence.
        seq: u64,
        /// The receipt that it claims to be of; nothing vouches for it.
        receipt: Option<ReceiptId>,
    },
}

/// A read-only view of the journal that knows how far it has read.
pub struct Follow {
    vault: Vault,
    /// SQLite's `data_version` when it last read; another one means that somebody committed.
    version: Option<i64>,
    /// The last row read.
    head: Mark,
}

impl Follow {
    /// Opens the journal for reading. `None` before its very first start; refuses where keyring, journal and anchor do
    /// not belong together, as [`Vault::open`] does.
    pub fn open(dir: &StateDir, seams: &Seams) -> Result<Option<Self>, Refusal> {
        // The keyring is the last thing a first start writes.
        if Stands::at(&dir.keyring()).map_err(|e| fault::file("keyring", &e))?.is_none() {
            return if anchor::was_raised(&dir.anchor())? { Err(key_missing()) } else { Ok(None) };
        }
        let vault = Vault::attach(dir, seams, Limits::default(), Access::Read)?;
        let head = vault.seen;
        Ok(Some(Self { vault, version: None, head }))
    }

    /// The newest receipts, oldest first, at most `limit` (and [`LIST_MAX`]), of one session where it is named. What
    /// comes after them is told by [`Self::news`].
    pub fn newest(&mut self, limit: u32, session: Option<&str>) -> Result<Vec<Sighting>, Refusal> {
        self.version = Some(self.data_version()?);
        let tx = look(&self.vault.conn, &mut self.vault.keys, &self.vault.dir)?;
        let sql = |e: rusqlite::Error| fault::sql(&e);
        let mut ids = self.vault.ids(limit.min(LIST_MAX), None, session).map_err(sql)?;
        ids.reverse();
        let seen = ids.into_iter().map(|id| sighting(&self.vault, &tx, id)).collect::<Result<Vec<_>, _>>()?;
        if let Some(head) = last(&tx).map_err(sql)? {
            self.head = head;
        }
        Ok(seen.into_iter().flatten().collect())
    }

    /// What was written since the last read: every receipt that got a row, as it stands now, in the order of its last
    /// row; at most the [`LIST_MAX`] newest. Where nobody committed, this asks SQLite for one number and no more.
    ///
    /// Refuses where the journal or its anchor was moved away, replaced, or lost the row read last.
    pub fn news(&mut self) -> Result<Vec<Sighting>, Refusal> {
        self.vault.in_place()?;
        let version = self.data_version()?;
        if self.version == Some(version) {
            return Ok(Vec::new());
        }
        let tx = look(&self.vault.conn, &mut self.vault.keys, &self.vault.dir)?;
        let ring = &self.vault.keys.ring;
        if !stands(&tx, &ring.journal_id, self.head).map_err(|e| fault::sql(&e))? {
            return Err(fault::rolled_back("the receipt journal lost a row that was read before"));
        }
        let (head, touched, mut seen) = since(&tx, ring, self.head)?;
        let newest =
            touched.iter().skip(touched.len().saturating_sub(usize::try_from(LIST_MAX).unwrap_or(0)));
        for id in newest {
            seen.extend(sighting(&self.vault, &tx, *id)?);
        }
        (self.head, self.version) = (head, Some(version));
        Ok(seen)
    }

    /// One receipt as it stands now; `None` for an unknown one.
    pub fn sight(&mut self, receipt: ReceiptId) -> Result<Option<Sighting>, Refusal> {
        let tx = look(&self.vault.conn, &mut self.vault.keys, &self.vault.dir)?;
        sighting(&self.vault, &tx, receipt)
    }

    /// [`Vault::verify_chain`], which needs no writing either.
    pub fn verify_chain(&mut self) -> Result<ChainReport, Refusal> {
        self.vault.verify_chain()
    }

    fn data_version(&self) -> Result<i64, Refusal> {
        let asked = self.vault.conn.pragma_query_value(None, "data_version", |row| row.get(0));
        asked.map_err(|e| fault::sql(&e))
    }
}

fn sighting(vault: &Vault, conn: &Connection, id: ReceiptId) -> Result<Option<Sighting>, Refusal> {
    match ReceiptRecord::read(conn, &vault.keys.ring, id, vault.seams.clock.as_ref()) {
        Ok(record) => Ok(record.map(|record| Sighting::Holds(Box::new(record)))),
        Err(Snag::Broken(seq)) => Ok(Some(Sighting::Broken { seq, receipt: Some(id) })),
        Err(Snag::Sql(e)) => Err(fault::sql(&e)),
    }
}

/// The receipts whose rows follow `from`, each once, and the rows that do not hold.
fn since(
    conn: &Connection,
    ring: &Keyring,
    from: Mark,
) -> Result<(Mark, Vec<ReceiptId>, Vec<Sighting>), Refusal> {
    let (mut at, mut touched, mut broken) = (from, Vec::new(), Vec::new());
    loop {
        let walked = walk(conn, ring, at, |row| {
            if let Some(id) = row.receipt {
                touched.retain(|known| *known != id);
                touched.push(id);
            }
            Ok(())
        });
        match walked {
            Ok(head) => return Ok((head, touched, broken)),
            Err(Snag::Broken(seq)) => {
                let (mark, receipt) = behind(conn, seq).map_err(|e| fault::sql(&e))?;
                broken.push(Sighting::Broken { seq, receipt });
                at = mark;
            }
            Err(Snag::Sql(e)) => return Err(fault::sql(&e)),
        }
    }
}

/// Where to go on behind a row that does not hold: after it, or before the next one where it is missing.
fn behind(conn: &Connection, seq: u64) -> rusqlite::Result<(Mark, Option<ReceiptId>)> {
    let mut next = conn.prepare_cached(
        "SELECT seq, mac, prev, receipt FROM rows WHERE seq >= ?1 AND length(mac) = 32 AND length(prev) = 32 ORDER BY seq LIMIT 1",
    )?;
    let found = next.query_row([sql_seq(seq)], |row| {
        let at = u64::try_from(row.get::<_, i64>(0)?).unwrap_or(seq);
        let (mac, prev): ([u8; 32], [u8; 32]) = (row.get(1)?, row.get(2)?);
        Ok((at, Digest(mac), Digest(prev), row.get::<_, Option<[u8; 16]>>(3)?))
    });
    Ok(match found.optional()? {
        Some((at, mac, _, receipt)) if at == seq => (Mark { seq, head: mac }, receipt.map(ReceiptId)),
        Some((at, _, prev, _)) => (Mark { seq: at.saturating_sub(1), head: prev }, None),
        None => (Mark { seq: i64::MAX.unsigned_abs(), head: Digest([0; 32]) }, None),
    })
}

/// The newest row's place, as it is stored.
fn last(conn: &Connection) -> rusqlite::Result<Option<Mark>> {
    let mut newest = conn.prepare_cached("SELECT seq, mac FROM rows ORDER BY seq DESC LIMIT 1")?;
    let found = newest.query_row([], |row| {
        let (seq, mac): (i64, [u8; 32]) = (row.get(0)?, row.get(1)?);
        Ok(Mark { seq: u64::try_from(seq).unwrap_or_default(), head: Digest(mac) })
    });
    found.optional()
}
