//! The one table behind Must-Remember, its guards and its MACs. Rows are read through [`Image::load`], which verifies each.

use rusqlite::{Connection, ErrorCode, params};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::RememberScope;
use crate::failure::{Detail, Refusal};
use crate::ids::{Digest, Id};
use crate::mac::MacKey;
use crate::receipt::keyring::Keyring;

/// Version of the table, in `user_version`.
pub(super) const SCHEMA_VERSION: i64 = 1;
/// "ASRm" in `application_id`.
pub(super) const APPLICATION_ID: i64 = 0x4153_526d;

/// Rows never change. One may go only where a later row purges its id. `recursive_triggers` makes the delete guard see
/// `INSERT OR REPLACE` too. Candidates and entries hold their JSON form; the other kinds are events and hold ids only.
pub(super) const TABLE: &str = "
CREATE TABLE IF NOT EXISTS remembered (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  kind TEXT NOT NULL CHECK (kind IN ('candidate', 'entry', 'proposed', 'confirmed', 'rolled-back', 'purged')),
  id TEXT NOT NULL, body TEXT NOT NULL, kid TEXT NOT NULL, mac TEXT NOT NULL) STRICT;
CREATE UNIQUE INDEX IF NOT EXISTS remembered_once ON remembered(id) WHERE kind IN ('candidate', 'entry');
CREATE TRIGGER IF NOT EXISTS remembered_fixed BEFORE UPDATE ON remembered
  BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER IF NOT EXISTS remembered_kept BEFORE DELETE ON remembered
  WHEN NOT EXISTS (SELECT 1 FROM remembered WHERE id = old.id AND kind = 'purged' AND seq > old.seq)
  BEGIN SELECT RAISE(ABORT, 'append-only'); END;
";

/// Whether a candidate still waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CandidateStatus {
    /// Waits for the person.
    #[default]
    PendingConfirmation,
    /// An entry was made of it.
    Confirmed,
}

/// Whether an entry is the one of its lineage that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntryStatus {
    /// Applies.
    Active,
    /// Another version of its lineage applies, or none.
    #[default]
    Superseded,
}

/// A proposed rule, with upstream's keys. Not `Debug`: it holds the claim.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// `remember-candidate:` and 32 hex digits of a keyed HMAC.
    pub id: Id,
    /// Free word; default `critical`.
    pub kind: Id,
    /// The rule.
    pub claim: String,
    /// Whom it is for.
    #[serde(flatten)]
    pub scope: RememberScope,
    /// Whether it also loads in every group's turns, having no group of its own.
    pub any_group: bool,
    /// Digest of the prompt it came from.
    pub source_digest: Option<Digest>,
    /// Whether it waits.
    #[serde(skip_deserializing)]
    pub status: CandidateStatus,
    /// Wall time, milliseconds; ISO 8601 in JSON.
    #[serde(serialize_with = "to_iso", deserialize_with = "from_iso")]
    pub observed_at: i64,
    /// Always `context-only`.
    #[serde(skip_deserializing, default = "context_only")]
    pub authority: &'static str,
}

/// A confirmed rule, with upstream's keys. Not `Debug`: it holds the claim.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// `remember:` and 32 hex digits.
    pub id: Id,
    /// The candidate it was made of.
    pub candidate_id: Id,
    /// First entry of its versions.
    pub lineage: Id,
    /// 1, 2, … within its lineage.
    pub version: u64,
    /// The version that it replaced.
    pub supersedes: Option<Id>,
    /// Free word.
    pub kind: Id,
    /// The rule.
    pub claim: String,
    /// Keyed HMAC of the claim.
    pub checksum: Digest,
    /// Whom it is for.
    #[serde(flatten)]
    pub scope: RememberScope,
    /// Whether it also loads in every group's turns, having no group of its own.
    pub any_group: bool,
    /// Digest of the prompt it came from.
    pub source_digest: Option<Digest>,
    /// Whether it applies.
    #[serde(skip_deserializing)]
    pub status: EntryStatus,
    /// Wall time, milliseconds; ISO 8601 in JSON.
    #[serde(serialize_with = "to_iso", deserialize_with = "from_iso")]
    pub confirmed_at: i64,
    /// Always `until-local-user-deletes`.
    #[serde(skip_deserializing, default = "until_deleted")]
    pub retention: &'static str,
    /// Always `explicit-local-user`.
    #[serde(skip_deserializing, default = "by_the_person")]
    pub confirmation: &'static str,
    /// Always `context-only`.
    #[serde(skip_deserializing, default = "context_only")]
    pub authority: &'static str,
}

/// What happened to an id; holds ids and a time only.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Event {
    /// The lineage of an entry's event; `None` for a candidate's.
    pub(super) lineage: Option<Id>,
    /// Which entry of the lineage applies from here on.
    pub(super) active: Option<Id>,
    pub(super) at: i64,
}

/// A row as it stands in the file.
pub(super) struct Row {
    pub(super) seq: i64,
    pub(super) kind: String,
    pub(super) id: String,
    pub(super) body: String,
    kid: String,
    mac: String,
}

/// Signing and verifying keys, derived for this store; the current one first.
pub(super) struct Keys(Vec<(String, MacKey)>);

impl Keys {
    pub(super) fn of(keyring: &Keyring) -> Self {
        let keys = std::iter::once(keyring.current()).chain(&keyring.retired);
        Self(keys.map(|key| (key.kid.clone(), key.key.derive("remember v1"))).collect())
    }

    /// Whether this is the name of the signing key.
    pub(super) fn led_by(&self, kid: &str) -> bool {
        self.0.first().is_some_and(|(name, _)| name == kid)
    }

    /// Keyed digests under every key, current first: nobody without the key can guess a short claim from them.
    pub(super) fn digests(&self, kind: &str, parts: &[&[u8]]) -> Vec<Digest> {
        self.0.iter().map(|(_, key)| key.mac(kind, parts)).collect()
    }

    pub(super) fn verify(&self, row: &Row) -> bool {
        let key = self.0.iter().find(|(kid, _)| *kid == row.kid).zip(Digest::parse(&row.mac));
        key.is_some_and(|((_, key), mac)| {
            key.verify("remember row", &parts(&row.kind, &row.id, &row.body, &row.seq.to_le_bytes()), &mac)
        })
    }

    /// Appends a row inside the caller's transaction and returns its sequence.
    pub(super) fn append(
        &self,
        db: &Connection,
        kind: &str,
        id: &Id,
        body: &impl Serialize,
    ) -> rusqlite::Result<i64> {
        let body =
            serde_json::to_string(body).map_err(|e| rusqlite::Error::ToSqlConversionFailure(e.into()))?;
        // Above every row that stands, even one whose number was changed, or a purge could not delete it.
        let next = "SELECT 1 + max(coalesce((SELECT max(seq) FROM remembered), 0), \
                    coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'remembered'), 0))";
        let seq: i64 = db.query_row(next, [], |row| row.get(0))?;
        let (name, key) = self.0.first().ok_or(rusqlite::Error::InvalidQuery)?;
        let mac = key.mac("remember row", &parts(kind, id.as_str(), &body, &seq.to_le_bytes()));
        db.execute(
            "INSERT INTO remembered (seq, kind, id, body, kid, mac) VALUES (?, ?, ?, ?, ?, ?)",
            params![seq, kind, id.as_str(), body, name, mac.to_hex()],
        )?;
        Ok(seq)
    }
}

fn parts<'a>(kind: &'a str, id: &'a str, body: &'a str, seq: &'a [u8; 8]) -> [&'a [u8]; 4] {
    [kind.as_bytes(), id.as_bytes(), body.as_bytes(), seq]
}

/// All rows as they stand, oldest first, not verified.
pub(super) fn raw(db: &Connection) -> rusqlite::Result<Vec<Row>> {
    let mut all = db.prepare_cached("SELECT seq, kind, id, body, kid, mac FROM remembered ORDER BY seq")?;
    // Text that is no UTF-8 any more must fail its MAC, so that the row is named and can be purged.
    let text = |row: &rusqlite::Row<'_>, n| -> rusqlite::Result<String> {
        Ok(String::from_utf8_lossy(row.get_ref(n)?.as_bytes()?).into_owned())
    };
    let read = |row: &rusqlite::Row<'_>| {
        let (kind, id, body) = (text(row, 1)?, text(row, 2)?, text(row, 3)?);
        Ok(Row { seq: row.get(0)?, kind, id, body, kid: text(row, 4)?, mac: text(row, 5)? })
    };
    all.query_map([], read)?.collect()
}

/// Everything in the store, verified.
#[derive(Default)]
pub(super) struct Image {
    pub(super) candidates: Vec<Candidate>,
    pub(super) entries: Vec<Entry>,
    /// Sequence of the newest row.
    pub(super) revision: i64,
}

impl Image {
    /// Reads and verifies every row. A row that does not verify is named by its id, with the command that deletes it.
    pub(super) fn load(db: &Connection, keys: &Keys) -> Result<Self, Refusal> {
        let rows = raw(db).map_err(|e| unreadable(&e))?;
        let mut image = Self::default();
        let mut applies = std::collections::BTreeMap::new();
        let mut confirmed = std::collections::BTreeSet::new();
        for row in &rows {
            let known = keys.verify(row) && image.take(row, &mut applies).is_ok();
            if !known {
                return Err(corrupt(&row.id));
            }
            match row.kind.as_str() {
                "confirmed" => _ = confirmed.insert(&row.id),
                "purged" => _ = confirmed.remove(&row.id),
                _ => {}
            }
        }
        if let Some(lost) =
            confirmed.into_iter().find(|id| image.entries.iter().all(|entry| entry.id.as_str() != *id))
        {
            return Err(corrupt(lost));
        }
        image.judge(&applies);
        Ok(image)
    }

    fn take(
        &mut self,
        row: &Row,
        applies: &mut std::collections::BTreeMap<Id, Option<Id>>,
    ) -> serde_json::Result<()> {
        self.revision = row.seq;
        match row.kind.as_str() {
            "candidate" => self.candidates.push(serde_json::from_str(&row.body)?),
            "entry" => self.entries.push(serde_json::from_str(&row.body)?),
            _ => {
                let event: Event = serde_json::from_str(&row.body)?;
                event.lineage.map(|lineage| applies.insert(lineage, event.active));
            }
        }
        Ok(())
    }

    /// The entry that applies in a lineage is the one its newest event names.
    fn judge(&mut self, applies: &std::collections::BTreeMap<Id, Option<Id>>) {
        for entry in &mut self.entries {
            if applies.get(&entry.lineage).is_some_and(|active| active.as_ref() == Some(&entry.id)) {
                entry.status = EntryStatus::Active;
            }
        }
        for candidate in &mut self.candidates {
            if self.entries.iter().any(|entry| entry.candidate_id == candidate.id) {
                candidate.status = CandidateStatus::Confirmed;
            }
        }
    }
}

fn corrupt(id: &str) -> Refusal {
    // An id that is not one was written by somebody else; it is not repeated.
    let id = Id::new(id).map_or_else(|_| "ID".to_owned(), |id| id.to_string());
    Refusal::new(
        Detail::RememberCorrupt,
        format!(
            "Must-Remember row {id} does not verify: it was changed outside of agentspine, or its key is gone."
        ),
        format!(
            "Delete it with `agentspine remember-purge {id} --confirm-local-purge`, then propose the rule again."
        ),
    )
}

pub(super) fn unreadable(why: &rusqlite::Error) -> Refusal {
    // Only the kind of failure: SQLite's texts can hold values.
    let why = match why.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "another process keeps it locked",
        Some(ErrorCode::DiskFull) => "the disk is full",
        Some(ErrorCode::SystemIoFailure | ErrorCode::CannotOpen) => {
            "it cannot be read or written; the disk may be full"
        }
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied) => "it cannot be written",
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => "it is damaged",
        _ => "it holds something unexpected",
    };
    Refusal::new(
        Detail::RememberCorrupt,
        format!(
            "The Must-Remember store (gate/remember.sqlite in the state directory) cannot be used: {why}."
        ),
        "Try again; if it stays, see `agentspine state check`.",
    )
}

/// The refusal of a store that lacks what a receipt binds.
pub(super) fn behind(now: u64, bound: u64) -> Refusal {
    Refusal::new(
        Detail::RememberCorrupt,
        format!(
            "The Must-Remember store (gate/remember.sqlite in the state directory) was lost or is an old copy: \
             it stands at revision {now}, the last receipt bound revision {bound}, so rules may be missing."
        ),
        "Put remember.sqlite back from a copy. If there is none: `agentspine state reset --confirm` starts a new journal, \
         then propose your rules again.",
    )
}

fn context_only() -> &'static str {
    "context-only"
}

fn until_deleted() -> &'static str {
    "until-local-user-deletes"
}

fn by_the_person() -> &'static str {
    "explicit-local-user"
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn to_iso<S: Serializer>(ms: &i64, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(&jiff::Timestamp::from_millisecond(*ms).unwrap_or_default())
}

fn from_iso<'de, D: Deserializer<'de>>(d: D) -> Result<i64, D::Error> {
    let text = String::deserialize(d)?;
    text.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_millisecond).map_err(serde::de::Error::custom)
}
