//! Version 4: previews of what is to be forgotten.

/// A preview is named by the digest of its token: whoever reads the file learns no token.
pub(super) const PREVIEWS: &str = "
CREATE TABLE memory_preview (
    digest       TEXT PRIMARY KEY,
    scope_digest TEXT NOT NULL,
    memory_ids   TEXT NOT NULL,
    expires_at   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";
