CREATE TABLE memory_scope (
    no        INTEGER PRIMARY KEY,
    digest    TEXT NOT NULL UNIQUE,
    tenant_id TEXT NOT NULL,
    user_id   TEXT NOT NULL,
    project_id TEXT,
    group_id  TEXT,
    last_row  INTEGER NOT NULL,
    records   INTEGER NOT NULL DEFAULT 0 CHECK (records >= 0),
    words     INTEGER NOT NULL DEFAULT 0 CHECK (words >= 0)
) STRICT;

CREATE TABLE memory_record (
    row        INTEGER PRIMARY KEY,
    scope_no   INTEGER NOT NULL REFERENCES memory_scope (no),
    memory_id  TEXT NOT NULL UNIQUE,
    revision   INTEGER NOT NULL DEFAULT 1,
    state      TEXT NOT NULL CHECK (state IN ('pending', 'applied', 'uncertain', 'conflict', 'tombstoned', 'failed')),
    cleanup    TEXT CHECK (cleanup IN ('tombstoned', 'cleanup-pending', 'active-shelf-cleanup-complete',
                                       'cleanup-uncertain', 'external-retention-unknown')),
    kind       TEXT NOT NULL CHECK (kind IN ('decision', 'preference', 'work-unit')),
    trust      TEXT NOT NULL CHECK (trust IN ('explicit', 'derived')),
    title      TEXT,
    summary    TEXT,
    tags       TEXT,
    source     TEXT NOT NULL,
    words      INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    CHECK (row >> 32 = scope_no),
    CHECK ((state = 'tombstoned') = (title IS NULL)),
    CHECK ((title IS NULL) = (summary IS NULL) AND (title IS NULL) = (tags IS NULL)),
    CHECK ((state = 'tombstoned') = (cleanup IS NOT NULL))
) STRICT;

CREATE TABLE memory_operation (
    operation_id   TEXT PRIMARY KEY,
    memory_id      TEXT NOT NULL REFERENCES memory_record (memory_id),
    state          TEXT NOT NULL CHECK (state IN ('pending', 'dispatched', 'applied', 'uncertain', 'conflict', 'failed')),
    payload_digest TEXT,
    source         TEXT NOT NULL,
    from_seq       INTEGER NOT NULL,
    through_seq    INTEGER NOT NULL,
    range_key      TEXT NOT NULL,
    extractor      TEXT NOT NULL,
    created_at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX memory_operation_by_memory ON memory_operation (memory_id);

-- Holds terms that `words` made, never raw text; rows have the numbers of their records.
CREATE VIRTUAL TABLE memory_fts USING fts5 (title, body, tags, tokenize = 'unicode61 remove_diacritics 0');
INSERT INTO memory_fts (memory_fts, rank) VALUES ('secure-delete', 1);
PRAGMA application_id = 0x414d656d;
PRAGMA user_version = 1;
