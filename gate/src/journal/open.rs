//! Bringing keyring, journal and anchor together, or refusing; the first start.

use std::fs::File;

use super::anchor::{self, Anchor};
use super::schema::{self, Access};
use super::{Keys, Limits, Vault, fault, genesis, survey, tail};
use crate::failure::{Detail, Refusal};
use crate::ids::hex;
use crate::private::{Held, Stands, create_private, judge_unopened, lock, shown, sync_dir};
use crate::receipt::keyring::{Key, Keyring};
use crate::seams::Seams;
use crate::state_dir::StateDir;

impl Vault {
    /// Opens the vault; on the very first start makes it.
    ///
    /// First start = no keyring, an empty or no journal, an anchor that was never raised: completed silently, keyring
    /// last. Any other missing, foreign or older piece refuses with its detail; nothing is made anew.
    pub fn open(dir: &StateDir, seams: &Seams) -> Result<Self, Refusal> {
        Self::open_with(dir, seams, Limits::default())
    }

    /// [`Self::open`] with other limits.
    pub fn open_with(dir: &StateDir, seams: &Seams, limits: Limits) -> Result<Self, Refusal> {
        let gate = gate_handle(dir)?;
        let _alone = alone(&gate, limits)?;
        if Stands::at(&dir.keyring()).map_err(|e| fault::file("keyring", &e))?.is_none() {
            start(dir, seams, limits, Vec::new())?;
        }
        Self::attach(dir, seams, limits, Access::Write)
    }

    pub(super) fn attach(
        dir: &StateDir,
        seams: &Seams,
        limits: Limits,
        access: Access,
    ) -> Result<Self, Refusal> {
        let mut keys = Keys::load(dir)?;
        let journal = dir.journal();
        let meta = judge_unopened(&journal)
            .map_err(|unfit| fault::unfit("receipt journal", &unfit, &shown(&journal)))?;
        let conn = schema::connect(&journal, limits, access)?;
        if schema::journal_id(&conn)? != keys.ring.journal_id {
            return Err(fault::rolled_back("the receipt journal and the keyring do not name each other"));
        }
        let anchor = Anchor::open(&dir.anchor())?;
        let (tx, anchored) = survey(&conn, &mut keys, dir, &anchor, limits)?;
        let seen = tail(&tx, &keys.ring, anchored, genesis(&keys.ring.journal_id))?;
        drop(tx);
        let (dir, seams, journal_stands) = (dir.clone(), seams.clone(), Stands::of(&meta));
        Ok(Self {
            dir,
            seams,
            limits,
            conn,
            journal_stands,
            keys,
            anchor,
            seen,
            durability: None,
            poisoned: false,
        })
    }
}

pub(super) fn gate_handle(dir: &StateDir) -> Result<File, Refusal> {
    File::open(dir.gate_dir()).map_err(|e| fault::file("directory", &e))
}

/// Keeps other processes from opening, making or resetting the vault meanwhile.
pub(super) fn alone(gate: &File, limits: Limits) -> Result<Held<'_>, Refusal> {
    lock(gate, limits.busy_ms).map_err(|e| fault::file("lock", &e))?.ok_or_else(fault::busy)
}

/// Makes a new vault, or completes one that a crash left without its keyring. The caller holds the directory's lock.
/// `carried` are the keys that a reset keeps.
pub(super) fn start(dir: &StateDir, seams: &Seams, limits: Limits, carried: Vec<Key>) -> Result<(), Refusal> {
    let journal = dir.journal();
    let failed = |e| fault::file("first start", &e);
    let stands = |path| Stands::at(path).map_err(failed);
    if anchor::was_raised(&dir.anchor())? {
        return Err(key_missing());
    }
    if stands(&journal)?.is_none() {
        if stands(&journal.with_extension("sqlite-wal"))?.is_some() {
            return Err(key_missing());
        }
        create_private(&journal).and_then(|file| file.sync_all()).map_err(failed)?;
    }
    let mut id = [0u8; 16];
    seams.rng.fill(&mut id).map_err(failed)?;
    let conn = schema::connect(&journal, limits, Access::Write)?;
    schema::create(&conn, &hex(&id))?;
    // The schema into the file itself, so that the file alone says what it is.
    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(|e| fault::sql(&e))?;
    let journal_id = schema::journal_id(&conn)?;
    let written = "SELECT EXISTS (SELECT 1 FROM rows) OR EXISTS (SELECT 1 FROM deliveries)";
    if conn.query_row(written, [], |row| row.get(0)).map_err(|e| fault::sql(&e))? {
        return Err(key_missing());
    }
    let ring = Keyring::new(journal_id, carried, seams.rng.as_ref())?;
    Anchor::create(&dir.anchor(), &ring, genesis(&ring.journal_id), &seams.clock.boot_id())?;
    sync_dir(&dir.gate_dir()).map_err(failed)?;
    ring.save(&dir.keyring()).map(|_| ()).map_err(failed)
}

pub(super) fn key_missing() -> Refusal {
    Refusal::new(
        Detail::KeyMissing,
        "the keyring is missing, but its journal is not",
        "Put keyring.json back from a copy, or run `agentspine state reset --confirm`, which keeps the old files aside.",
    )
}
