//! Version 2: the whole protocol of an operation, provenance, relations, tombstones, cursors, retries.

/// Adds to version 1 without touching a memory of it; its operation ids stay what they were.
///
/// * `dispatched_at` of operations and relations is set before anything may have left this ledger, and stays;
/// * `memory_provenance` names the operation that made the memory; others can have come to the same memory;
/// * `memory_relation` holds exact triples of names that the host made, nothing else is ever removed outside;
/// * `memory_tombstone.payload_digest` is what may still stand outside under our name, until it is known to be gone;
/// * `retry_queue` is one row for each memory with open work. `owner` has claimed it until `claimed_until`.
pub(super) const V2: &str = "
ALTER TABLE memory_record ADD COLUMN subject TEXT;

ALTER TABLE memory_operation ADD COLUMN proposal_schema TEXT;
ALTER TABLE memory_operation ADD COLUMN again INTEGER NOT NULL DEFAULT 0;
ALTER TABLE memory_operation ADD COLUMN dispatched_at INTEGER;
ALTER TABLE memory_operation ADD COLUMN settled_at INTEGER;
ALTER TABLE memory_operation ADD COLUMN receipt TEXT;
CREATE INDEX memory_operation_by_payload ON memory_operation (payload_digest) WHERE payload_digest IS NOT NULL;
CREATE INDEX memory_operation_by_source ON memory_operation (source, extractor);

CREATE TABLE memory_provenance (
    memory_id          TEXT PRIMARY KEY REFERENCES memory_record (memory_id),
    operation_id       TEXT NOT NULL REFERENCES memory_operation (operation_id),
    session_created_at INTEGER,
    cwd                TEXT,
    persistence        TEXT,
    revision           INTEGER,
    parent_session     TEXT,
    seed_length        INTEGER,
    turn               INTEGER,
    validator_policy   TEXT,
    embedding_models   TEXT NOT NULL DEFAULT '',
    model_route        TEXT
) STRICT, WITHOUT ROWID;

CREATE TABLE memory_relation (
    memory_id  TEXT NOT NULL REFERENCES memory_record (memory_id),
    n          INTEGER NOT NULL CHECK (n BETWEEN 0 AND 7),
    subject    TEXT NOT NULL,
    predicate  TEXT NOT NULL,
    object     TEXT NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('pending', 'dispatched', 'applied', 'uncertain', 'failed', 'withdrawn')),
    dispatched_at INTEGER,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (memory_id, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_relation_by_subject ON memory_relation (subject);
CREATE INDEX memory_relation_by_object ON memory_relation (object);

CREATE TABLE memory_tombstone (
    memory_id      TEXT PRIMARY KEY REFERENCES memory_record (memory_id),
    forgotten_at   INTEGER NOT NULL,
    erased_at      INTEGER,
    payload_digest TEXT,
    swept_at       INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX memory_tombstone_by_age ON memory_tombstone (forgotten_at) WHERE swept_at IS NULL;
INSERT INTO memory_tombstone (memory_id, forgotten_at)
    SELECT memory_id, changed_at FROM memory_record WHERE state = 'tombstoned';

CREATE TABLE session_cursor (
    session     TEXT PRIMARY KEY,
    through_seq INTEGER NOT NULL CHECK (through_seq >= 0),
    changed_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE retry_queue (
    memory_id     TEXT PRIMARY KEY REFERENCES memory_record (memory_id),
    work          TEXT NOT NULL CHECK (work IN ('write', 'cleanup')),
    attempts      INTEGER NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    due_at        INTEGER NOT NULL,
    fault         TEXT,
    owner         TEXT,
    claimed_until INTEGER,
    CHECK ((owner IS NULL) = (claimed_until IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX retry_queue_by_due ON retry_queue (due_at);
-- Version 1 overwrote what it deleted, and left copies of it between the cells of pages.
INSERT INTO retry_queue (memory_id, work, due_at)
    SELECT memory_id, 'cleanup', changed_at FROM memory_record WHERE state = 'tombstoned';

CREATE TABLE dead_letter (
    memory_id TEXT PRIMARY KEY REFERENCES memory_record (memory_id),
    work      TEXT NOT NULL CHECK (work IN ('write', 'cleanup')),
    attempts  INTEGER NOT NULL,
    fault     TEXT NOT NULL,
    died_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";
