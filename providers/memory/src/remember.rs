//! Remember: limits, redaction, screen, then one record and its index entry in one transaction.

use agentspine_gate::screen::{self, Refused};
use agentspine_gate::{Digest, Id};
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};

use crate::index::{self, Line, ROW_BITS, Source};
use crate::ledger::{Ledger, StoreError};
use crate::record::{
    MemoryScope, NewMemory, Origin, RANGE_KEY_BYTES_MAX, SUBJECT_BYTES_MAX, SUMMARY_BYTES_MAX, TAG_BYTES_MAX, TAGS_MAX,
    TITLE_BYTES_MAX, Trust,
};

/// What became of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// Stored now.
    Applied,
    /// The same operation stored it before.
    Replayed,
    /// The same operation stored it before and it was forgotten since. A new operation remembers it anew.
    Forgotten,
}

/// A memory that is in the ledger, or was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// Its id: the same operation always gives the same one.
    pub memory_id: Id,
    /// What became of it.
    pub settled: Settled,
    /// Labels of what was redacted, without duplicates; values nowhere.
    pub redacted: Vec<String>,
}

/// Why nothing was remembered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RememberError {
    /// Title or summary without text.
    #[error("a memory needs a {0}")]
    Empty(&'static str),
    /// Over a limit.
    #[error("the {field} is longer than {limit} {unit}")]
    TooLong {
        /// Which field.
        field: &'static str,
        /// Its limit.
        limit: usize,
        /// What is counted.
        unit: &'static str,
    },
    /// The screen refused the text.
    #[error("not remembered: {0}")]
    Refused(#[from] Refused),
    /// The same operation remembered something else before.
    #[error("this operation already remembered another text")]
    Conflict,
    /// The ledger failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl RememberError {
    /// The next thing to do.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Empty(_) => "give a title and a summary",
            Self::TooLong { .. } => "shorten it, or split it into several memories",
            Self::Refused(Refused::Secret(_)) => "leave the secret out; say where it is kept instead",
            Self::Refused(Refused::Authority(_)) => {
                "a standing rule is a Must-Remember entry: agentspine remember-propose"
            }
            Self::Conflict => "remember it as a new memory",
            Self::Store(_) => "run: agentspine doctor",
        }
    }
}

/// A memory whose text passed limits, redaction and screen.
struct Screened {
    title: String,
    summary: String,
    tags: Vec<String>,
    subject: Option<String>,
    redacted: Vec<String>,
}

impl Ledger {
    /// Remembers one memory in exactly this scope.
    ///
    /// Text is redacted, screened, and only then hashed and stored. Repeating an operation returns the first result.
    pub fn remember(&mut self, memory: &NewMemory, scope: &MemoryScope) -> Result<Remembered, RememberError> {
        let screened = screened(memory)?;
        self.store(memory, &screened, scope)
    }

    fn store(
        &mut self,
        new: &NewMemory,
        text: &Screened,
        scope: &MemoryScope,
    ) -> Result<Remembered, RememberError> {
        let operation = operation_id(scope, new);
        let memory_id = memory_id(operation)?;
        let payload = payload_digest(new, text);
        let tx =
            self.db.transaction_with_behavior(TransactionBehavior::Immediate).map_err(StoreError::from)?;
        let settled = match earlier(&tx, operation)? {
            Earlier::Forgotten => Settled::Forgotten,
            Earlier::Stored(digest) if digest == payload.to_hex() => Settled::Replayed,
            Earlier::Stored(_) => return Err(RememberError::Conflict),
            Earlier::Never => {
                insert(&tx, new, text, scope, &memory_id).map_err(StoreError::from)?;
                insert_operation(&tx, operation, payload, &memory_id, new).map_err(StoreError::from)?;
                Settled::Applied
            }
        };
        tx.commit().map_err(StoreError::from)?;
        Ok(Remembered { memory_id, settled, redacted: text.redacted.clone() })
    }
}

fn screened(new: &NewMemory) -> Result<Screened, RememberError> {
    limit("range key", &new.origin.range_key, RANGE_KEY_BYTES_MAX)?;
    if new.tags.len() > TAGS_MAX {
        return Err(RememberError::TooLong { field: "list of tags", limit: TAGS_MAX, unit: "tags" });
    }
    let mut redacted = Vec::new();
    let title = clean("title", &new.title, TITLE_BYTES_MAX, &mut redacted)?;
    let summary = clean("summary", &new.summary, SUMMARY_BYTES_MAX, &mut redacted)?;
    let tags = new.tags.iter().map(|tag| clean("tag", tag, TAG_BYTES_MAX, &mut redacted));
    let tags = tags.collect::<Result<Vec<_>, _>>()?;
    let subject = new.subject.as_deref().map(|text| clean("subject", text, SUBJECT_BYTES_MAX, &mut redacted));
    let subject = subject.transpose()?;
    redacted.sort_unstable();
    redacted.dedup();
    Ok(Screened { title, summary, tags, subject, redacted })
}

fn limit(field: &'static str, text: &str, limit: usize) -> Result<(), RememberError> {
    if text.len() > limit { Err(RememberError::TooLong { field, limit, unit: "bytes" }) } else { Ok(()) }
}

/// One field: limits before and after, redaction, then the screen over what is left.
fn clean(
    field: &'static str,
    text: &str,
    bytes_max: usize,
    redacted: &mut Vec<String>,
) -> Result<String, RememberError> {
    limit(field, text, bytes_max)?;
    let (clean, labels) = screen::redact(text.trim());
    redacted.extend(labels);
    if clean.trim().is_empty() {
        return Err(RememberError::Empty(field));
    }
    // A placeholder can be longer than what it replaces.
    limit(field, &clean, bytes_max)?;
    screen::screen(&clean)?;
    Ok(clean)
}

/// Digest of the immutable, host-owned fields of one operation in one scope.
fn operation_id(scope: &MemoryScope, new: &NewMemory) -> Digest {
    let Origin { source, from_seq, through_seq, range_key, extractor } = &new.origin;
    let (from, through) = (from_seq.to_string(), through_seq.to_string());
    let range = Digest::of(range_key.as_bytes()).to_hex();
    let scope = scope.digest().to_hex();
    let kind = new.kind.as_str();
    let fields = ["operation v1", &scope, source.as_str(), &from, &through, &range, kind, extractor.as_str()];
    Digest::of(fields.join("\0").as_bytes())
}

fn memory_id(operation: Digest) -> Result<Id, StoreError> {
    let digits: String = operation.to_hex().chars().take(32).collect();
    Id::new(format!("memory:{digits}")).map_err(|_| StoreError::Corrupt)
}

fn payload_digest(new: &NewMemory, text: &Screened) -> Digest {
    let mut bytes = Vec::new();
    let fields = [new.trust.as_str(), &text.title, &text.summary];
    let fields = fields.into_iter().chain(text.tags.iter().map(String::as_str));
    for field in fields.chain(text.subject.as_deref()) {
        bytes.extend_from_slice(&(field.len() as u64).to_be_bytes());
        bytes.extend_from_slice(field.as_bytes());
    }
    Digest::of(&bytes)
}

/// What an earlier run of the same operation left.
enum Earlier {
    Never,
    /// The digest of what it stored.
    Stored(String),
    Forgotten,
}

fn earlier(db: &Connection, operation: Digest) -> Result<Earlier, StoreError> {
    let sql = "SELECT payload_digest FROM memory_operation WHERE operation_id = ?";
    let found: Option<Option<String>> =
        db.query_row(sql, [operation.to_hex()], |row| row.get(0)).optional()?;
    Ok(match found {
        None => Earlier::Never,
        Some(None) => Earlier::Forgotten,
        Some(Some(digest)) => Earlier::Stored(digest),
    })
}

fn insert(
    db: &Connection,
    new: &NewMemory,
    text: &Screened,
    scope: &MemoryScope,
    memory_id: &Id,
) -> rusqlite::Result<()> {
    let source = Source {
        title: text.title.clone(),
        summary: text.summary.clone(),
        tags: text.tags.join("\n"),
        subject: text.subject.clone(),
        created_at_ms: new.created_at_ms,
    };
    let terms = source.terms();
    let (scope_no, row) = next_row(db, scope, terms.words)?;
    db.prepare_cached(
        "INSERT INTO memory_record (row, scope_no, memory_id, state, kind, trust, title, summary, tags, source, words,
                                    subject, created_at, changed_at)
         VALUES (?1, ?2, ?3, 'applied', ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?12)",
    )?
    .execute(params![
        row,
        scope_no,
        memory_id.as_str(),
        new.kind.as_str(),
        new.trust.as_str(),
        text.title,
        text.summary,
        source.tags,
        new.origin.source.as_str(),
        terms.words,
        source.subject,
        new.created_at_ms,
    ])?;
    let line = Line { source: new.origin.source.as_str(), seq: new.origin.from_seq };
    index::add(db, row, &terms, (new.trust == Trust::Derived).then_some(&line))
}

/// Takes the next row number of a scope, making the scope on first use.
fn next_row(db: &Connection, scope: &MemoryScope, words: i64) -> rusqlite::Result<(i64, i64)> {
    db.prepare_cached(
        "INSERT INTO memory_scope (no, digest, tenant_id, user_id, project_id, group_id, last_row)
         SELECT n, ?1, ?2, ?3, ?4, ?5, n << ?6 FROM (SELECT coalesce(max(no), 0) + 1 AS n FROM memory_scope)
         WHERE true ON CONFLICT (digest) DO NOTHING",
    )?
    .execute(params![
        scope.digest().to_hex(),
        scope.tenant_id.as_str(),
        scope.user_id.as_str(),
        scope.project_id.as_ref().map(Id::as_str),
        scope.group_id.as_ref().map(Id::as_str),
        ROW_BITS,
    ])?;
    db.prepare_cached(
        "UPDATE memory_scope SET last_row = last_row + 1, records = records + 1, words = words + ?2
         WHERE digest = ?1 RETURNING no, last_row",
    )?
    .query_row(params![scope.digest().to_hex(), words], |row| Ok((row.get(0)?, row.get(1)?)))
}

fn insert_operation(
    db: &Connection,
    operation: Digest,
    payload: Digest,
    memory_id: &Id,
    new: &NewMemory,
) -> rusqlite::Result<()> {
    let seq = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    db.prepare_cached(
        "INSERT INTO memory_operation (operation_id, memory_id, state, payload_digest, source, from_seq, through_seq,
                                       range_key, extractor, created_at)
         VALUES (?, ?, 'applied', ?, ?, ?, ?, ?, ?, ?)",
    )?
    .execute(params![
        operation.to_hex(),
        memory_id.as_str(),
        payload.to_hex(),
        new.origin.source.as_str(),
        seq(new.origin.from_seq),
        seq(new.origin.through_seq),
        new.origin.range_key,
        new.origin.extractor.as_str(),
        new.created_at_ms,
    ])?;
    Ok(())
}
