//! The anchor: how far the journal is known to have come, in a small MACed file beside it.
//!
//! Two fixed slots, each one line of JSON padded to [`SLOT_BYTES`]; the higher sequence counts. The lower slot is
//! overwritten in place, so a torn write leaves the other. It is raised under its lock, never lowered, and only to a row
//! that is already durable: a power cut can leave it behind the journal, never ahead of it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::fault;
use crate::failure::Refusal;
use crate::ids::Digest;
use crate::mac::MacKey;
use crate::private::{Held, Stands, Unfit, create_private, lock, open_private, shown};
use crate::receipt::keyring::{Key, Keyring};

/// One slot, bytes: the size of a disk's atomic write.
const SLOT_BYTES: usize = 512;
/// Type string of the anchor's MAC.
const ANCHOR_TYPE: &str = "agentspine.anchor/v1";

/// A place in the chain: a row's sequence and MAC. Sequence 0 is the journal's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) seq: u64,
    pub(super) head: Digest,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Slot {
    journal: String,
    seq: u64,
    head: Digest,
    boot: String,
    kid: String,
    mac: Digest,
}

impl Slot {
    fn new(ring: &Keyring, mark: Mark, boot: &str) -> Self {
        let Key { kid, key, .. } = ring.current();
        let (journal, boot, kid) = (ring.journal_id.clone(), boot.to_owned(), kid.clone());
        let mut slot = Self { journal, seq: mark.seq, head: mark.head, boot, kid, mac: Digest([0; 32]) };
        slot.mac = key.mac(ANCHOR_TYPE, &slot.parts(&slot.seq.to_be_bytes()));
        slot
    }

    fn holds(&self, key: &MacKey) -> bool {
        key.verify(ANCHOR_TYPE, &self.parts(&self.seq.to_be_bytes()), &self.mac)
    }

    fn parts<'a>(&'a self, seq: &'a [u8]) -> [&'a [u8]; 5] {
        [self.journal.as_bytes(), seq, &self.head.0, self.boot.as_bytes(), self.kid.as_bytes()]
    }

    fn padded(&self) -> std::io::Result<Vec<u8>> {
        let mut text = serde_json::to_vec(self)?;
        if text.len() >= SLOT_BYTES {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        text.resize(SLOT_BYTES - 1, b' ');
        text.push(b'\n');
        Ok(text)
    }
}

/// The open anchor file.
pub(super) struct Anchor {
    file: File,
    path: PathBuf,
    stands: Stands,
}

impl Anchor {
    /// Makes the anchor of a new journal at its beginning, or completes one that a crash left half made.
    pub(super) fn create(path: &Path, ring: &Keyring, start: Mark, boot: &str) -> Result<(), Refusal> {
        let failed = |e| fault::file("anchor", &e);
        let file = match open_private(path, true) {
            Err(Unfit::Absent) => create_private(path).map_err(failed)?,
            other => other.map_err(|unfit| fault::unfit("anchor", &unfit, &shown(path)))?,
        };
        let slot = Slot::new(ring, start, boot).padded().map_err(failed)?;
        file.write_all_at(&slot.repeat(2), 0).and_then(|()| file.sync_all()).map_err(failed)
    }

    /// Opens the anchor that stands at `path`.
    pub(super) fn open(path: &Path) -> Result<Self, Refusal> {
        let file = open_private(path, true).map_err(|unfit| fault::unfit("anchor", &unfit, &shown(path)))?;
        let stands = Stands::of(&file.metadata().map_err(|e| fault::file("anchor", &e))?);
        Ok(Self { file, path: path.to_owned(), stands })
    }

    /// Both slots as they stand; [`Slots::best`] judges them.
    pub(super) fn slots(&self) -> Result<Slots, Refusal> {
        read(&self.file).map_err(|e| fault::file("anchor", &e))
    }

    /// Keeps other processes from raising the anchor.
    pub(super) fn hold(&self, wait_ms: u32) -> Result<Held<'_>, Refusal> {
        lock(&self.file, wait_ms).map_err(|e| fault::file("anchor", &e))?.ok_or_else(fault::busy)
    }

    /// Raises the held anchor to a durable row and makes that durable. Already as high: only the latter.
    ///
    /// The keyring must be at least as new as any slot, else a newer slot would be taken for a torn one.
    pub(super) fn raise(&self, ring: &Keyring, to: Mark, boot: &str) -> Result<(), Refusal> {
        let failed = |e| fault::file("anchor", &e);
        let (best, mark) = self.slots()?.best(ring)?;
        if mark.seq < to.seq {
            let slot = Slot::new(ring, to, boot).padded().map_err(failed)?;
            let offset = if best == 0 { SLOT_BYTES as u64 } else { 0 };
            self.file.write_all_at(&slot, offset).map_err(failed)?;
        }
        // Also where another process raised it: that one may have died between its write and its sync.
        self.file.sync_data().map_err(failed)
    }

    /// Whether the opened file still stands at its path.
    pub(super) fn in_place(&self) -> Result<(), Refusal> {
        match Stands::at(&self.path).map_err(|e| fault::file("anchor", &e))? {
            None => Err(fault::missing("the anchor is missing")),
            Some(stands) if stands == self.stands => Ok(()),
            Some(_) => Err(fault::rolled_back("another anchor file stands in its place")),
        }
    }
}

/// Both slots, not judged yet; what does not parse is `None`.
pub(super) struct Slots([Option<Slot>; 2]);

impl Slots {
    /// The highest valid slot: its place, and what it marks.
    pub(super) fn best(&self, ring: &Keyring) -> Result<(usize, Mark), Refusal> {
        let valid = self.0.iter().enumerate().filter_map(|(place, slot)| {
            let slot = slot.as_ref().filter(|slot| slot.journal == ring.journal_id)?;
            let key = ring.for_row(&slot.kid, slot.seq)?;
            slot.holds(key).then_some((place, Mark { seq: slot.seq, head: slot.head }))
        });
        valid
            .max_by_key(|(_, mark)| mark.seq)
            .ok_or_else(|| fault::rolled_back("the anchor is not this journal's"))
    }
}

/// Whether an anchor stands at `path` that some journal has raised. Needs no key: it only ever leads to a refusal.
pub(super) fn was_raised(path: &Path) -> Result<bool, Refusal> {
    match open_private(path, false) {
        Err(Unfit::Absent) => Ok(false),
        Err(unfit) => Err(fault::unfit("anchor", &unfit, &shown(path))),
        Ok(file) => {
            let Slots(slots) = read(&file).map_err(|e| fault::file("anchor", &e))?;
            Ok(slots.into_iter().flatten().any(|slot| slot.seq > 0))
        }
    }
}

fn read(file: &File) -> std::io::Result<Slots> {
    let mut bytes = [0u8; 2 * SLOT_BYTES];
    let got = file.read_at(&mut bytes, 0)?;
    let (first, second) = bytes.get(..got).unwrap_or_default().split_at(got.min(SLOT_BYTES));
    let parse = |slot: &[u8]| serde_json::from_slice(slot).ok();
    Ok(Slots([parse(first), parse(second)]))
}
