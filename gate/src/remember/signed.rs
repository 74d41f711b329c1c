//! Which keys a store of rules needs, for a reset that makes a new keyring.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::ErrorCode;

use super::rows;
use super::store::connect;
use crate::failure::Refusal;

/// Which keys signed what stands in a store.
pub(crate) enum SignedBy {
    /// Nothing stands in it, or there is none.
    Nobody,
    /// Keys of these names.
    Keys(BTreeSet<String>),
    /// Nobody can read it.
    Unreadable,
}

/// Looks without verifying anything. Refuses only while another process keeps the store locked.
pub(crate) fn signed_by(path: &Path) -> Result<SignedBy, Refusal> {
    if !path.exists() {
        return Ok(SignedBy::Nobody);
    }
    let names = || -> rusqlite::Result<BTreeSet<String>> {
        let db = connect(path)?;
        let mut select = db.prepare("SELECT DISTINCT kid FROM remembered")?;
        select.query_map([], |row| row.get(0))?.collect()
    };
    match names() {
        Ok(names) if names.is_empty() => Ok(SignedBy::Nobody),
        Ok(names) => Ok(SignedBy::Keys(names)),
        Err(e) if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Err(rows::unreadable(&e)),
        Err(_) => Ok(SignedBy::Unreadable),
    }
}
