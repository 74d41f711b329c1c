//! Schema 3: an inverted index of our own in place of FTS5.
//!
//! Row numbers within a scope are cut into blocks of 256; a posting is two bytes, the row's place in its block and the
//! fields the term stands in. Why not FTS5: see `index`.

/// Makes the empty index; `index::rebuild` fills it in the same transaction.
pub(crate) const V3: &str = "
DROP TABLE memory_fts;

-- What a term stands in: pairs of bytes (place in the block, fields), each row once.
CREATE TABLE memory_posting (
    scope_no INTEGER NOT NULL,
    term     TEXT NOT NULL,
    block    INTEGER NOT NULL,
    postings BLOB NOT NULL,
    PRIMARY KEY (scope_no, term, block)
) STRICT, WITHOUT ROWID;

-- The newest rows of a scope, with their terms, until a batch of them moves to the postings.
CREATE TABLE memory_fresh (
    row   INTEGER PRIMARY KEY,
    terms BLOB NOT NULL
) STRICT;

-- Length, number of terms, neighbour before and after of 256 rows; the key is row >> 8.
CREATE TABLE memory_slots (
    block INTEGER PRIMARY KEY,
    slots BLOB NOT NULL
) STRICT;

-- The order of what was derived from one session.
CREATE TABLE memory_line (
    scope_no INTEGER NOT NULL,
    source   TEXT NOT NULL,
    seq      INTEGER NOT NULL,
    row      INTEGER NOT NULL,
    PRIMARY KEY (scope_no, source, seq, row)
) STRICT, WITHOUT ROWID;

-- One row: which way of making terms the index was written with.
CREATE TABLE memory_index (
    one   INTEGER PRIMARY KEY CHECK (one = 1),
    words INTEGER NOT NULL
) STRICT;
";
