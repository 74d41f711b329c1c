//! `<state>/gate/remember.sqlite`: the operations of Must-Remember, each one immediate transaction.

use std::cell::RefCell;
use std::io;
use std::path::Path;
use std::sync::Arc;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use serde::Serialize;

use super::rows::{self, Candidate, CandidateStatus, Entry, EntryStatus, Event, Image, Keys, Row};
use super::{Active, CLAIM_BYTES_MAX, ROWS_MAX, RememberError, RememberScope};
use crate::failure::{Detail, Refusal};
use crate::ids::{Digest, Id, hex};
use crate::journal::Vault;
use crate::private;
use crate::receipt::keyring::Keyring;
use crate::screen::{neutralise, screen};
use crate::tx::Tx;

/// How long a writer waits for another one, milliseconds.
const BUSY_MS: u32 = 5000;
/// Kind of a rule that names none (upstream's).
const KIND_DEFAULT: &str = "critical";

/// Must-Remember of one state directory.
pub struct RememberStore {
    db: Connection,
    keys: Keys,
    /// The last verified picture, and the state of the file that it is of.
    seen: RefCell<Option<(Version, Arc<Image>)>>,
}

/// What tells one state of the file from another: SQLite's count of what other connections committed, and the number of
/// changes by this one.
type Version = (i64, u64);

/// A rule somebody wants remembered.
pub struct Proposal<'a> {
    /// The rule; white space is collapsed.
    pub claim: &'a str,
    /// Whom it is for.
    pub scope: RememberScope,
    /// Having no group, it shall also load in every group's turns.
    pub any_group: bool,
    /// Free word; `None` = `critical`.
    pub kind: Option<Id>,
    /// Digest of the prompt it came from.
    pub source_digest: Option<Digest>,
    /// Wall time, milliseconds.
    pub now_ms: i64,
}

/// What a proposal came to.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Proposed {
    /// The candidate, new or found.
    pub candidate: Candidate,
    /// It stood there already.
    pub duplicate: bool,
}

/// What a confirmation or a rollback came to.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Confirmed {
    /// The entry that applies now.
    pub entry: Entry,
    /// Sequence of the event.
    pub revision: i64,
}

/// What a purge came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Purged {
    /// Always true.
    pub purged: bool,
    /// SHA-256 of the id; what upstream's tombstone holds.
    pub id_digest: Digest,
    /// Sequence of the event.
    pub revision: i64,
    /// Whether file, write-ahead log and free pages are rid of the text already. False while another process reads:
    /// purge once more, or let it end.
    pub erased: bool,
}

/// Everything that is stored.
#[derive(Clone, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// Oldest first.
    pub entries: Vec<Entry>,
    /// Oldest first.
    pub candidates: Vec<Candidate>,
}

/// Numbers for `preflight-status`, over all scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Candidates that wait.
    pub pending: usize,
    /// Entries that apply.
    pub active: usize,
}

impl RememberStore {
    /// Opens the store, making an empty one (0600) where there is none. Rows are verified when they are read.
    pub fn open(path: &Path, keyring: &Keyring) -> Result<Self, Refusal> {
        // Two first starts at once must not both make the table.
        let lock = private::lock_file(path).map_err(|e| unusable(&e.kind().to_string()))?;
        let held = private::lock(&lock, BUSY_MS).map_err(|e| unusable(&e.kind().to_string()))?;
        let _held = held.ok_or_else(|| unusable("another process is opening it"))?;
        own_file(path)?;
        let db = connect(path).map_err(|e| rows::unreadable(&e))?;
        let version = |name| {
            db.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(|e| rows::unreadable(&e))
        };
        match (version("user_version")?, version("application_id")?) {
            (0, 0) | (rows::SCHEMA_VERSION, rows::APPLICATION_ID) => {}
            (newer, rows::APPLICATION_ID) => {
                return Err(unusable(&format!("it was written by a newer version ({newer})")));
            }
            _ => return Err(unusable("it is the database of another program")),
        }
        let table = format!(
            "BEGIN IMMEDIATE; {} PRAGMA user_version = {}; PRAGMA application_id = {}; COMMIT;",
            rows::TABLE,
            rows::SCHEMA_VERSION,
            rows::APPLICATION_ID
        );
        db.execute_batch(&table).map_err(|e| rows::unreadable(&e))?;
        Ok(Self { db, keys: Keys::of(keyring), seen: RefCell::new(None) })
    }

    /// Takes up a rotation that another process made; whether there was one.
    pub(crate) fn follow(&mut self, keyring: &Keyring) -> bool {
        let rotated = !self.keys.led_by(&keyring.current().kid);
        if rotated {
            self.keys = Keys::of(keyring);
            self.seen.take();
        }
        rotated
    }

    /// Makes a pending candidate, or finds the one that has the same claim and scope.
    pub fn propose(&self, proposal: Proposal<'_>) -> Result<Proposed, RememberError> {
        let claim = taken(proposal.claim)?;
        let tx = self.write()?;
        let image = Image::load(&tx, &self.keys)?;
        let ids = self.candidate_ids(&claim, &proposal)?;
        if let Some(found) = image.candidates.iter().find(|candidate| ids.contains(&candidate.id)) {
            return Ok(Proposed { candidate: found.clone(), duplicate: true });
        }
        if image.candidates.len() >= ROWS_MAX {
            return Err(RememberError::Full);
        }
        let candidate = Candidate {
            id: ids.into_iter().next().ok_or(rusqlite::Error::InvalidQuery)?,
            kind: proposal.kind.map_or_else(|| id(KIND_DEFAULT), Ok)?,
            claim,
            scope: proposal.scope,
            any_group: proposal.any_group,
            source_digest: proposal.source_digest,
            status: CandidateStatus::PendingConfirmation,
            observed_at: proposal.now_ms,
            authority: "context-only",
        };
        self.keys.append(&tx, "candidate", &candidate.id, &candidate)?;
        let event = Event { lineage: None, active: None, at: proposal.now_ms };
        self.keys.append(&tx, "proposed", &candidate.id, &event)?;
        tx.commit()?;
        Ok(Proposed { candidate, duplicate: false })
    }

    /// Makes a pending candidate an entry that applies, as the person confirmed; with `supersedes`, as the next version of
    /// an active entry of the same scope.
    pub fn confirm(
        &self,
        candidate: &Id,
        supersedes: Option<&Id>,
        now_ms: i64,
    ) -> Result<Confirmed, RememberError> {
        let tx = self.write()?;
        let image = Image::load(&tx, &self.keys)?;
        let found = image.candidates.iter().find(|one| one.id == *candidate);
        let candidate = found.ok_or_else(|| RememberError::Unknown(candidate.clone()))?;
        if candidate.status == CandidateStatus::Confirmed {
            return Err(RememberError::NotPending(candidate.id.clone()));
        }
        if image.entries.len() >= ROWS_MAX {
            return Err(RememberError::Full);
        }
        let previous = supersedes.map(|previous| superseded(&image, candidate, previous)).transpose()?;
        let entry = self.entry(&image, candidate, previous, now_ms)?;
        self.keys.append(&tx, "entry", &entry.id, &entry)?;
        self.activate(tx, "confirmed", entry, now_ms)
    }

    /// Makes an earlier entry the one that applies in its lineage; no other lineage is touched.
    pub fn rollback(&self, entry: &Id, now_ms: i64) -> Result<Confirmed, RememberError> {
        let tx = self.write()?;
        let image = Image::load(&tx, &self.keys)?;
        let found = image.entries.into_iter().find(|one| one.id == *entry);
        let mut entry = found.ok_or_else(|| RememberError::Unknown(entry.clone()))?;
        if entry.status == EntryStatus::Active {
            return Err(RememberError::AlreadyActive(entry.id));
        }
        entry.status = EntryStatus::Active;
        self.activate(tx, "rolled-back", entry, now_ms)
    }

    /// Deletes an entry and its candidate (or a candidate and its entries) for good and keeps events without content.
    /// Works on rows that do not verify, too, and again on an id that was purged. No earlier version becomes active by it.
    pub fn purge(&self, id: &Id, now_ms: i64) -> Result<Purged, RememberError> {
        let tx = self.write()?;
        let rows = rows::raw(&tx)?;
        let entry = |row: &&Row| {
            (row.kind == "entry").then(|| serde_json::from_str::<Entry>(&row.body).ok()).flatten()
        };
        let named = |one: &Entry| one.id == *id || one.candidate_id == *id;
        let entries: Vec<Entry> = rows.iter().filter_map(|row| entry(&row)).filter(named).collect();
        let stands = |row: &Row| matches!(row.kind.as_str(), "candidate" | "entry") || !self.keys.verify(row);
        let newest = rows.iter().rev().find(|row| row.id == id.as_str());
        let Some(newest) = newest else { return Err(RememberError::Unknown(id.clone())) };
        if entries.is_empty() && newest.kind == "purged" && self.keys.verify(newest) {
            // Purged before, perhaps while somebody read: what is left of the text goes now.
            let revision = newest.seq;
            drop(tx);
            return Ok(self.purged(id, revision));
        }
        let mut gone: Vec<(Id, Option<Id>)> = vec![(id.clone(), None)];
        for one in entries {
            gone.retain(|(id, _)| *id != one.id && *id != one.candidate_id);
            gone.extend([(one.candidate_id, None), (one.id, Some(one.lineage))]);
        }
        let mut revision = 0;
        for (id, lineage) in gone {
            let active = lineage
                .as_ref()
                .and_then(|lineage| self.active_now(&rows, lineage))
                .filter(|active| *active != id);
            revision = self.keys.append(&tx, "purged", &id, &Event { lineage, active, at: now_ms })?;
            for row in rows.iter().filter(|row| row.id == id.as_str() && stands(row)) {
                tx.execute("DELETE FROM remembered WHERE seq = ?", [row.seq])?;
            }
        }
        tx.commit()?;
        Ok(self.purged(id, revision))
    }

    /// All entries and candidates.
    pub fn list(&self) -> Result<Listing, Refusal> {
        let image = self.image()?;
        Ok(Listing { entries: image.entries.clone(), candidates: image.candidates.clone() })
    }

    /// What applies to a turn, sorted by id.
    pub fn active(
        &self,
        user: &Id,
        tenant: &Id,
        project: &Id,
        group: Option<&Id>,
        task: Option<&Id>,
    ) -> Result<Vec<Active>, Refusal> {
        let applies = |entry: &&Entry| {
            let scope = &entry.scope;
            let grouped = match (&scope.group_id, group) {
                (Some(own), group) => group == Some(own),
                (None, Some(_)) => entry.any_group,
                (None, None) => true,
            };
            entry.status == EntryStatus::Active
                && scope.user_id == *user
                && scope.tenant_id == *tenant
                && scope.project_id.as_ref().is_none_or(|own| own == project)
                && grouped
                && scope.task_id.as_ref().is_none_or(|own| task == Some(own))
        };
        let mut active: Vec<Active> = self
            .image()?
            .entries
            .iter()
            .filter(applies)
            .map(|entry| Active {
                id: entry.id.clone(),
                version: entry.version,
                checksum: entry.checksum,
                claim: entry.claim.clone(),
            })
            .collect();
        active.sort_by(|a, b| a.id.cmp(&b.id));
        Ok(active)
    }

    /// The newest row's sequence, which never falls: a store behind what the newest receipt binds was lost, emptied or
    /// put back from an old copy, and its rules with it.
    pub fn revision_since(&self, vault: &mut Vault) -> Result<u64, Refusal> {
        // The journal first: whatever it binds, the store had by then.
        let bound = vault.remember_revision()?;
        let newest = "SELECT coalesce(max(seq), 0) FROM remembered";
        let now = self.db.prepare_cached(newest).and_then(|mut ask| ask.query_row([], |row| row.get(0)));
        let now: i64 = now.map_err(|e| rows::unreadable(&e))?;
        let now = u64::try_from(now).unwrap_or_default();
        if now < bound { Err(rows::behind(now, bound)) } else { Ok(now) }
    }

    /// Numbers for status.
    pub fn counts(&self) -> Result<Counts, Refusal> {
        let image = self.image()?;
        let waits = |candidate: &&Candidate| candidate.status == CandidateStatus::PendingConfirmation;
        let applies = |entry: &&Entry| entry.status == EntryStatus::Active;
        Ok(Counts {
            pending: image.candidates.iter().filter(waits).count(),
            active: image.entries.iter().filter(applies).count(),
        })
    }

    /// One consistent, verified picture. Every row is verified again as soon as anything was committed to the file.
    fn image(&self) -> Result<Arc<Image>, Refusal> {
        let tx = Tx::read(&self.db).map_err(|e| rows::unreadable(&e))?;
        let version =
            tx.prepare_cached("PRAGMA data_version").and_then(|mut ask| ask.query_row([], |row| row.get(0)));
        let version: Version = (version.map_err(|e| rows::unreadable(&e))?, tx.total_changes());
        if let Some((_, image)) = self.seen.borrow().as_ref().filter(|(seen, _)| *seen == version) {
            return Ok(Arc::clone(image));
        }
        let image = Arc::new(Image::load(&tx, &self.keys)?);
        self.seen.replace(Some((version, Arc::clone(&image))));
        Ok(image)
    }

    #[cfg(test)]
    pub(super) fn wait_at_most(&self, ms: u64) {
        let _ = self.db.busy_timeout(std::time::Duration::from_millis(ms));
    }

    fn write(&self) -> Result<Transaction<'_>, RememberError> {
        Ok(Transaction::new_unchecked(&self.db, TransactionBehavior::Immediate)?)
    }

    /// The id under each key, current first, so that a rotation does not make a second candidate of the same rule.
    fn candidate_ids(&self, claim: &str, proposal: &Proposal<'_>) -> Result<Vec<Id>, RememberError> {
        let scope = serde_json::to_vec(&proposal.scope).map_err(|_| rusqlite::Error::InvalidQuery)?;
        let parts = [claim.as_bytes(), &scope, &[u8::from(proposal.any_group)]];
        let digests = self.keys.digests("candidate id", &parts);
        digests.iter().map(|digest| short_id("remember-candidate:", digest)).collect()
    }

    fn digest(&self, kind: &str, parts: &[&[u8]]) -> Result<Digest, RememberError> {
        Ok(self.keys.digests(kind, parts).into_iter().next().ok_or(rusqlite::Error::InvalidQuery)?)
    }

    fn entry(
        &self,
        image: &Image,
        of: &Candidate,
        previous: Option<&Entry>,
        now_ms: i64,
    ) -> Result<Entry, RememberError> {
        let lineage = previous.map(|entry| entry.lineage.clone());
        let versions = image.entries.iter().filter(|entry| Some(&entry.lineage) == lineage.as_ref());
        let version = versions.map(|entry| entry.version).max().unwrap_or_default() + 1;
        // The revision makes the id of a rule that was purged and confirmed again another one.
        let (bytes, revision) = (version.to_le_bytes(), image.revision.to_le_bytes());
        let id = short_id(
            "remember:",
            &self.digest("entry id", &[of.id.as_str().as_bytes(), &bytes, &revision])?,
        )?;
        Ok(Entry {
            lineage: lineage.unwrap_or_else(|| id.clone()),
            id,
            candidate_id: of.id.clone(),
            version,
            supersedes: previous.map(|entry| entry.id.clone()),
            kind: of.kind.clone(),
            claim: of.claim.clone(),
            checksum: self.digest("claim", &[of.claim.as_bytes()])?,
            scope: of.scope.clone(),
            any_group: of.any_group,
            source_digest: of.source_digest,
            status: EntryStatus::Active,
            confirmed_at: now_ms,
            retention: "until-local-user-deletes",
            confirmation: "explicit-local-user",
            authority: "context-only",
        })
    }

    /// The last step of confirm and rollback: the event that names the entry, and the commit.
    fn activate(
        &self,
        tx: Transaction<'_>,
        kind: &str,
        entry: Entry,
        at: i64,
    ) -> Result<Confirmed, RememberError> {
        let event = Event { lineage: Some(entry.lineage.clone()), active: Some(entry.id.clone()), at };
        let revision = self.keys.append(&tx, kind, &entry.id, &event)?;
        tx.commit()?;
        Ok(Confirmed { entry, revision })
    }

    /// The entry that applies in a lineage by its newest event; one that does not verify names none.
    fn active_now(&self, rows: &[Row], lineage: &Id) -> Option<Id> {
        let events = rows.iter().rev().filter(|row| !matches!(row.kind.as_str(), "candidate" | "entry"));
        let mut parsed = events.filter_map(|row| Some((row, serde_json::from_str::<Event>(&row.body).ok()?)));
        let (row, event) = parsed.find(|(_, event)| event.lineage.as_ref() == Some(lineage))?;
        event.active.filter(|_| self.keys.verify(row))
    }

    fn purged(&self, id: &Id, revision: i64) -> Purged {
        Purged { purged: true, id_digest: Digest::of(id.as_str().as_bytes()), revision, erased: self.erase() }
    }

    /// Rewrites the file without free pages and empties the write-ahead log; deleted text is in neither afterwards.
    fn erase(&self) -> bool {
        let rewritten = self.db.execute_batch("VACUUM").is_ok();
        let busy = self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
        rewritten && busy == Ok(0)
    }
}

/// The claim as it is stored: white space collapsed, bounded, screened.
fn taken(claim: &str) -> Result<String, RememberError> {
    let claim = claim.split_whitespace().collect::<Vec<_>>().join(" ");
    if neutralise(&claim).trim().is_empty() {
        return Err(RememberError::Blank);
    }
    if claim.len() > CLAIM_BYTES_MAX {
        return Err(RememberError::TooLong { bytes: claim.len() });
    }
    screen(&claim)?;
    Ok(claim)
}

fn superseded<'a>(
    image: &'a Image,
    candidate: &Candidate,
    previous: &Id,
) -> Result<&'a Entry, RememberError> {
    let found = image.entries.iter().find(|entry| entry.id == *previous);
    let entry = found.ok_or_else(|| RememberError::Unknown(previous.clone()))?;
    if entry.status != EntryStatus::Active {
        return Err(RememberError::NotActive(entry.id.clone()));
    }
    if entry.scope != candidate.scope {
        return Err(RememberError::OtherScope(entry.id.clone()));
    }
    Ok(entry)
}

fn short_id(prefix: &str, digest: &Digest) -> Result<Id, RememberError> {
    let half = digest.0.get(..16).unwrap_or_default();
    id(&format!("{prefix}{}", hex(half)))
}

fn id(text: &str) -> Result<Id, RememberError> {
    Ok(Id::new(text).map_err(|_| rusqlite::Error::InvalidQuery)?)
}

pub(super) fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(
        path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )?;
    db.busy_timeout(std::time::Duration::from_millis(BUSY_MS.into()))?;
    db.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    // No deleted text in temporary files, free pages or page gaps; no functions from a foreign schema.
    db.execute_batch(
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF; PRAGMA recursive_triggers = ON; \
         PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON;",
    )?;
    db.pragma_update_and_check(None, "secure_delete", "ON", |_| Ok(()))?;
    // A kept statement is not compiled again for each value it is given.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(db)
}

/// Makes the file 0600 before SQLite opens it, or judges the one that stands there.
fn own_file(path: &Path) -> Result<(), Refusal> {
    match private::create_private(path) {
        Ok(_) => return Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(unusable(&e.kind().to_string())),
    }
    let judged = private::judge_unopened(path).map(drop);
    judged.map_err(|_| unusable("it is a link, another user's, or not 0600; `chmod 600` it"))
}

fn unusable(why: &str) -> Refusal {
    Refusal::new(
        Detail::StateDir,
        format!(
            "The Must-Remember store (gate/remember.sqlite in the state directory) cannot be used: {why}."
        ),
        "See `agentspine state check`.",
    )
}
