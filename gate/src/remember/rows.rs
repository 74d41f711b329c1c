//! The three tables, their guards and their MACs. Rows are read only through [`Image::load`], which verifies each one.

use rusqlite::{Connection, Row, params};
use serde::{Serialize, Serializer};

use super::RememberScope;
use crate::failure::{Detail, Refusal};
use crate::ids::{Digest, Id};
use crate::mac::MacKey;
use crate::receipt::keyring::Keyring;

/// Version of the tables, in `user_version`.
pub(super) const SCHEMA_VERSION: i64 = 1;
/// "ASRm" in `application_id`.
pub(super) const APPLICATION_ID: i64 = 0x4153_526d;

/// Rows never change. One may go only when a purge of its id is the newest event of that id, which re-proposing ends.
/// `recursive_triggers` makes the delete guard see `INSERT OR REPLACE` too.
pub(super) const TABLES: &str = "
CREATE TABLE IF NOT EXISTS candidate (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, claim TEXT NOT NULL,
  user TEXT NOT NULL, tenant TEXT NOT NULL, project TEXT, grp TEXT, task TEXT, any_group INTEGER NOT NULL,
  source TEXT, at INTEGER NOT NULL, kid TEXT NOT NULL, mac TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS entry (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, kind TEXT NOT NULL, claim TEXT NOT NULL,
  user TEXT NOT NULL, tenant TEXT NOT NULL, project TEXT, grp TEXT, task TEXT, any_group INTEGER NOT NULL,
  source TEXT, at INTEGER NOT NULL, kid TEXT NOT NULL, mac TEXT NOT NULL,
  candidate TEXT NOT NULL, lineage TEXT NOT NULL, version INTEGER NOT NULL, supersedes TEXT, checksum TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS event (
  seq INTEGER PRIMARY KEY AUTOINCREMENT, event TEXT NOT NULL, id TEXT NOT NULL, lineage TEXT, active TEXT,
  at INTEGER NOT NULL, kid TEXT NOT NULL, mac TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS event_id ON event(id, seq);
CREATE TRIGGER IF NOT EXISTS candidate_fixed BEFORE UPDATE ON candidate BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER IF NOT EXISTS entry_fixed BEFORE UPDATE ON entry BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER IF NOT EXISTS event_fixed BEFORE UPDATE ON event BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER IF NOT EXISTS candidate_kept BEFORE DELETE ON candidate
  WHEN (SELECT event FROM event WHERE id = old.id ORDER BY seq DESC LIMIT 1) IS NOT 'purged'
  BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER IF NOT EXISTS entry_kept BEFORE DELETE ON entry
  WHEN (SELECT event FROM event WHERE id = old.id ORDER BY seq DESC LIMIT 1) IS NOT 'purged'
  BEGIN SELECT RAISE(ABORT, 'append-only'); END;
CREATE TRIGGER IF NOT EXISTS event_kept BEFORE DELETE ON event
  WHEN NOT EXISTS (SELECT 1 FROM event WHERE id = old.id AND event = 'purged' AND seq > old.seq)
  BEGIN SELECT RAISE(ABORT, 'append-only'); END;
";

const MEMORY_COLUMNS: &str =
    "id, kind, claim, user, tenant, project, grp, task, any_group, source, at, kid, mac";

/// Whether a candidate still waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CandidateStatus {
    /// Waits for the person.
    PendingConfirmation,
    /// An entry was made of it.
    Confirmed,
}

/// Whether an entry is the one of its lineage that applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntryStatus {
    /// Applies.
    Active,
    /// Another version of its lineage applies, or none.
    Superseded,
}

/// A proposed rule, with upstream's keys. Not `Debug`: it holds the claim.
#[derive(Clone, PartialEq, Eq, Serialize)]
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
    pub status: CandidateStatus,
    /// Wall time, milliseconds; ISO 8601 in JSON.
    #[serde(serialize_with = "iso")]
    pub observed_at: i64,
    /// Always `context-only`.
    pub authority: &'static str,
}

/// A confirmed rule, with upstream's keys. Not `Debug`: it holds the claim.
#[derive(Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// `remember:` and 32 hex digits.
    pub id: Id,
    /// The candidate it was made of.
    pub candidate_id: Id,
    /// First entry of its versions.
    #[serde(skip)]
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
    pub status: EntryStatus,
    /// Wall time, milliseconds; ISO 8601 in JSON.
    #[serde(serialize_with = "iso")]
    pub confirmed_at: i64,
    /// Always `until-local-user-deletes`.
    pub retention: &'static str,
    /// Always `explicit-local-user`.
    pub confirmation: &'static str,
    /// Always `context-only`.
    pub authority: &'static str,
}

/// What happened; holds ids only.
#[derive(Clone)]
pub(super) struct Event {
    pub(super) event: String,
    pub(super) id: String,
    /// The lineage of an entry's event; `None` for a proposal.
    pub(super) lineage: Option<String>,
    /// Which entry of the lineage applies from here on.
    pub(super) active: Option<String>,
}

/// Signing and verifying keys, derived for this store.
pub(super) struct Keys(Vec<(String, MacKey)>);

impl Keys {
    /// Current key first. Retired keys keep verifying what they signed.
    pub(super) fn of(keyring: &Keyring) -> Self {
        let keys = std::iter::once(keyring.current()).chain(&keyring.retired);
        Self(keys.map(|key| (key.kid.clone(), key.key.derive("remember v1"))).collect())
    }

    fn mac(&self, kind: &str, parts: &[Vec<u8>]) -> Option<(&str, Digest)> {
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        self.0.first().map(|(kid, key)| (kid.as_str(), key.mac(kind, &parts)))
    }

    fn holds(&self, kid: &str, mac: &str, kind: &str, parts: &[Vec<u8>]) -> bool {
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let key = self.0.iter().find(|(known, _)| known == kid);
        key.zip(Digest::parse(mac)).is_some_and(|((_, key), mac)| key.verify(kind, &parts, &mac))
    }

    /// Keyed digests of `parts` under every key, current first: ids that nobody without the key can guess from a claim.
    pub(super) fn digests(&self, kind: &str, parts: &[Vec<u8>]) -> Vec<Digest> {
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        self.0.iter().map(|(_, key)| key.mac(kind, &parts)).collect()
    }
}

/// Everything in the store, verified.
pub(super) struct Image {
    pub(super) candidates: Vec<Candidate>,
    pub(super) entries: Vec<Entry>,
    pub(super) events: Vec<Event>,
    /// Sequence of the newest event.
    pub(super) revision: i64,
}

/// The columns that candidates and entries share.
struct Memory {
    id: String,
    kind: String,
    claim: String,
    scope: [Option<String>; 5],
    any_group: bool,
    source: Option<String>,
    at: i64,
    kid: String,
    mac: String,
}

impl Memory {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: row.get(0)?,
            kind: row.get(1)?,
            claim: row.get(2)?,
            scope: [row.get(3)?, row.get(4)?, row.get(5)?, row.get(6)?, row.get(7)?],
            any_group: row.get(8)?,
            source: row.get(9)?,
            at: row.get(10)?,
            kid: row.get(11)?,
            mac: row.get(12)?,
        })
    }

    fn parts(&self) -> Vec<Vec<u8>> {
        let mut parts = vec![some(&self.id), some(&self.kind), some(&self.claim)];
        parts.extend(self.scope.iter().map(|id| maybe(id.as_deref())));
        parts.extend([
            vec![u8::from(self.any_group)],
            maybe(self.source.as_deref()),
            self.at.to_le_bytes().to_vec(),
        ]);
        parts
    }

    fn scope(&self) -> Option<RememberScope> {
        let [user, tenant, project, group, task] = self.scope.clone();
        let id = |text: Option<String>| text.map(Id::new).transpose().ok();
        Some(RememberScope {
            user_id: id(user)??,
            tenant_id: id(tenant)??,
            project_id: id(project)?,
            group_id: id(group)?,
            task_id: id(task)?,
        })
    }

    fn source(&self) -> Option<Digest> {
        self.source.as_deref().and_then(Digest::parse)
    }
}

impl Image {
    /// Reads and verifies every row. A row that does not verify is named by its id, with the command that deletes it.
    pub(super) fn load(db: &Connection, keys: &Keys) -> Result<Self, Refusal> {
        let (events, revision) = events(db, keys)?;
        let mut image =
            Self { candidates: candidates(db, keys)?, entries: entries(db, keys)?, events, revision };
        for event in image.events.iter().filter(|event| event.event == "confirmed") {
            let purged = image.last_event(&event.id).is_some_and(|last| last.event == "purged");
            if !purged && !image.entries.iter().any(|entry| entry.id.as_str() == event.id) {
                return Err(corrupt(&event.id));
            }
        }
        let active: Vec<bool> = image.entries.iter().map(|entry| image.is_active(entry)).collect();
        for (entry, active) in image.entries.iter_mut().zip(active) {
            entry.status = if active { EntryStatus::Active } else { EntryStatus::Superseded };
        }
        let confirmed = |id: &Id| {
            image.events.iter().rev().find(|e| e.id == id.as_str()).is_some_and(|e| e.event != "proposed")
        };
        for candidate in &mut image.candidates {
            let done = image.entries.iter().any(|entry| entry.candidate_id == candidate.id)
                || confirmed(&candidate.id);
            candidate.status =
                if done { CandidateStatus::Confirmed } else { CandidateStatus::PendingConfirmation };
        }
        Ok(image)
    }

    fn last_event(&self, id: &str) -> Option<&Event> {
        self.events.iter().rev().find(|event| event.id == id)
    }

    /// The entry that applies in a lineage is the one its newest event names.
    fn is_active(&self, entry: &Entry) -> bool {
        let newest =
            self.events.iter().rev().find(|event| event.lineage.as_deref() == Some(entry.lineage.as_str()));
        newest.and_then(|event| event.active.as_deref()) == Some(entry.id.as_str())
    }
}

fn candidates(db: &Connection, keys: &Keys) -> Result<Vec<Candidate>, Refusal> {
    let sql = format!("SELECT {MEMORY_COLUMNS} FROM candidate ORDER BY seq");
    let rows = rows(db, &sql, Memory::read)?;
    rows.into_iter().map(|row| candidate(&row, keys).ok_or_else(|| corrupt(&row.id))).collect()
}

fn candidate(row: &Memory, keys: &Keys) -> Option<Candidate> {
    keys.holds(&row.kid, &row.mac, "candidate", &row.parts()).then_some(())?;
    Some(Candidate {
        id: Id::new(&*row.id).ok()?,
        kind: Id::new(&*row.kind).ok()?,
        claim: row.claim.clone(),
        scope: row.scope()?,
        any_group: row.any_group,
        source_digest: row.source(),
        status: CandidateStatus::PendingConfirmation,
        observed_at: row.at,
        authority: "context-only",
    })
}

/// The columns of an entry beyond a candidate's.
struct Lineage {
    candidate: String,
    lineage: String,
    version: i64,
    supersedes: Option<String>,
    checksum: String,
}

impl Lineage {
    fn parts(&self) -> Vec<Vec<u8>> {
        vec![
            some(&self.candidate),
            some(&self.lineage),
            self.version.to_le_bytes().to_vec(),
            maybe(self.supersedes.as_deref()),
            some(&self.checksum),
        ]
    }
}

fn entries(db: &Connection, keys: &Keys) -> Result<Vec<Entry>, Refusal> {
    let sql = format!(
        "SELECT {MEMORY_COLUMNS}, candidate, lineage, version, supersedes, checksum FROM entry ORDER BY seq"
    );
    let read = |row: &Row<'_>| {
        let lineage = Lineage {
            candidate: row.get(13)?,
            lineage: row.get(14)?,
            version: row.get(15)?,
            supersedes: row.get(16)?,
            checksum: row.get(17)?,
        };
        Ok((Memory::read(row)?, lineage))
    };
    let rows = rows(db, &sql, read)?;
    rows.into_iter()
        .map(|(row, lineage)| entry(&row, &lineage, keys).ok_or_else(|| corrupt(&row.id)))
        .collect()
}

fn entry(row: &Memory, lineage: &Lineage, keys: &Keys) -> Option<Entry> {
    let parts = [row.parts(), lineage.parts()].concat();
    keys.holds(&row.kid, &row.mac, "entry", &parts).then_some(())?;
    Some(Entry {
        id: Id::new(&*row.id).ok()?,
        candidate_id: Id::new(&*lineage.candidate).ok()?,
        lineage: Id::new(&*lineage.lineage).ok()?,
        version: lineage.version.try_into().ok()?,
        supersedes: lineage.supersedes.clone().map(Id::new).transpose().ok()?,
        kind: Id::new(&*row.kind).ok()?,
        claim: row.claim.clone(),
        checksum: Digest::parse(&lineage.checksum)?,
        scope: row.scope()?,
        any_group: row.any_group,
        source_digest: row.source(),
        status: EntryStatus::Superseded,
        confirmed_at: row.at,
        retention: "until-local-user-deletes",
        confirmation: "explicit-local-user",
        authority: "context-only",
    })
}

const EVENT_COLUMNS: &str = "seq, event, id, lineage, active, at, kid, mac";

struct SignedEvent {
    event: Event,
    seq: i64,
    at: i64,
    kid: String,
    mac: String,
}

impl SignedEvent {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let event = Event { event: row.get(1)?, id: row.get(2)?, lineage: row.get(3)?, active: row.get(4)? };
        Ok(Self { event, seq: row.get(0)?, at: row.get(5)?, kid: row.get(6)?, mac: row.get(7)? })
    }

    fn holds(&self, keys: &Keys) -> bool {
        keys.holds(&self.kid, &self.mac, "event", &event_parts(&self.event, self.seq, self.at))
    }
}

fn events(db: &Connection, keys: &Keys) -> Result<(Vec<Event>, i64), Refusal> {
    let sql = format!("SELECT {EVENT_COLUMNS} FROM event ORDER BY seq");
    let events = rows(db, &sql, SignedEvent::read)?;
    if let Some(broken) = events.iter().find(|row| !row.holds(keys)) {
        return Err(corrupt(&broken.event.id));
    }
    let revision = events.last().map_or(0, |row| row.seq);
    Ok((events.into_iter().map(|row| row.event).collect(), revision))
}

fn rows<T>(
    db: &Connection,
    sql: &str,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, Refusal> {
    let all = || db.prepare(sql)?.query_map([], read)?.collect::<rusqlite::Result<Vec<T>>>();
    all().map_err(|e| unreadable(&e))
}

fn event_parts(event: &Event, seq: i64, at: i64) -> Vec<Vec<u8>> {
    vec![
        some(&event.event),
        some(&event.id),
        maybe(event.lineage.as_deref()),
        maybe(event.active.as_deref()),
        seq.to_le_bytes().to_vec(),
        at.to_le_bytes().to_vec(),
    ]
}

pub(super) fn insert_candidate(db: &Connection, keys: &Keys, one: &Candidate) -> rusqlite::Result<()> {
    let row =
        memory(&one.id, &one.kind, &one.claim, &one.scope, one.any_group, one.source_digest, one.observed_at);
    let Some((kid, mac)) = keys.mac("candidate", &row.parts()) else {
        return Err(rusqlite::Error::InvalidQuery);
    };
    let [user, tenant, project, group, task] = &row.scope;
    db.execute(
        "INSERT INTO candidate (id, kind, claim, user, tenant, project, grp, task, any_group, source, at, kid, mac) \
         VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
        params![
            row.id, row.kind, row.claim, user, tenant, project, group, task, row.any_group, row.source, row.at, kid,
            mac.to_hex()
        ],
    )?;
    Ok(())
}

pub(super) fn insert_entry(db: &Connection, keys: &Keys, one: &Entry) -> rusqlite::Result<()> {
    let row = memory(
        &one.id,
        &one.kind,
        &one.claim,
        &one.scope,
        one.any_group,
        one.source_digest,
        one.confirmed_at,
    );
    let lineage = Lineage {
        candidate: one.candidate_id.to_string(),
        lineage: one.lineage.to_string(),
        version: one.version.try_into().map_err(|_| rusqlite::Error::InvalidQuery)?,
        supersedes: one.supersedes.as_ref().map(Id::to_string),
        checksum: one.checksum.to_hex(),
    };
    let parts = [row.parts(), lineage.parts()].concat();
    let Some((kid, mac)) = keys.mac("entry", &parts) else { return Err(rusqlite::Error::InvalidQuery) };
    let [user, tenant, project, group, task] = &row.scope;
    db.execute(
        "INSERT INTO entry (id, kind, claim, user, tenant, project, grp, task, any_group, source, at, kid, mac, \
         candidate, lineage, version, supersedes, checksum) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        params![
            row.id, row.kind, row.claim, user, tenant, project, group, task, row.any_group, row.source, row.at, kid,
            mac.to_hex(), lineage.candidate, lineage.lineage, lineage.version, lineage.supersedes, lineage.checksum
        ],
    )?;
    Ok(())
}

/// Appends an event inside the caller's transaction and returns its sequence.
pub(super) fn insert_event(db: &Connection, keys: &Keys, event: &Event, at: i64) -> rusqlite::Result<i64> {
    let next = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'event'), 0) + 1";
    let seq: i64 = db.query_row(next, [], |row| row.get(0))?;
    let Some((kid, mac)) = keys.mac("event", &event_parts(event, seq, at)) else {
        return Err(rusqlite::Error::InvalidQuery);
    };
    db.execute(
        "INSERT INTO event (seq, event, id, lineage, active, at, kid, mac) VALUES (?,?,?,?,?,?,?,?)",
        params![seq, event.event, event.id, event.lineage, event.active, at, kid, mac.to_hex()],
    )?;
    Ok(seq)
}

/// The entry that applies in a lineage, read without the other rows; an event that does not verify names none.
pub(super) fn active_now(db: &Connection, keys: &Keys, lineage: &str) -> rusqlite::Result<Option<String>> {
    let sql = format!("SELECT {EVENT_COLUMNS} FROM event WHERE lineage = ? ORDER BY seq DESC LIMIT 1");
    let newest = db.prepare(&sql)?.query_map([lineage], SignedEvent::read)?.next().transpose()?;
    Ok(newest.filter(|row| row.holds(keys)).and_then(|row| row.event.active))
}

/// Sequences of the events of an id that do not verify.
pub(super) fn broken_events(db: &Connection, keys: &Keys, id: &str) -> rusqlite::Result<Vec<i64>> {
    let sql = format!("SELECT {EVENT_COLUMNS} FROM event WHERE id = ?");
    let events: Vec<SignedEvent> =
        db.prepare(&sql)?.query_map([id], SignedEvent::read)?.collect::<Result<_, _>>()?;
    Ok(events.iter().filter(|row| !row.holds(keys)).map(|row| row.seq).collect())
}

/// Deletes those; the purge event of the id must stand already.
pub(super) fn delete_broken_events(db: &Connection, keys: &Keys, id: &str) -> rusqlite::Result<()> {
    for seq in broken_events(db, keys, id)? {
        db.execute("DELETE FROM event WHERE seq = ?", [seq])?;
    }
    Ok(())
}

fn memory(
    id: &Id,
    kind: &Id,
    claim: &str,
    scope: &RememberScope,
    any: bool,
    source: Option<Digest>,
    at: i64,
) -> Memory {
    let maybe = |id: &Option<Id>| id.as_ref().map(Id::to_string);
    Memory {
        id: id.to_string(),
        kind: kind.to_string(),
        claim: claim.to_owned(),
        scope: [
            Some(scope.user_id.to_string()),
            Some(scope.tenant_id.to_string()),
            maybe(&scope.project_id),
            maybe(&scope.group_id),
            maybe(&scope.task_id),
        ],
        any_group: any,
        source: source.map(Digest::to_hex),
        at,
        kid: String::new(),
        mac: String::new(),
    }
}

/// Present and absent must not look alike to the MAC.
pub(super) fn maybe(text: Option<&str>) -> Vec<u8> {
    text.map_or_else(Vec::new, some)
}

pub(super) fn some(text: &str) -> Vec<u8> {
    [b"=", text.as_bytes()].concat()
}

pub(super) fn corrupt(id: &str) -> Refusal {
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
    // Only the code: SQLite's texts can hold values.
    let why =
        why.sqlite_error_code().map_or_else(|| "unexpected content".to_owned(), |code| format!("{code:?}"));
    Refusal::new(
        Detail::RememberCorrupt,
        format!(
            "The Must-Remember store (gate/remember.sqlite in the state directory) cannot be used: {why}."
        ),
        "Try again; if it stays, see `agentspine state check`.",
    )
}

fn iso<S: Serializer>(ms: &i64, s: S) -> Result<S::Ok, S::Error> {
    s.collect_str(&jiff::Timestamp::from_millisecond(*ms).unwrap_or_default())
}
