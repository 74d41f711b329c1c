//! The keyring: one current signing key, retired keys that verify old rows for ever.

use crate::mac::MacKey;

/// One key.
pub struct Key {
    /// Its name; only a hint in receipts.
    pub kid: String,
    /// Journal sequence from which on it signs.
    pub created_seq: u64,
    /// Journal sequence from which on it no longer signs; `None` = current.
    pub retired_seq: Option<u64>,
    /// The key.
    pub key: MacKey,
}

/// `keyring.json`, 0600: `{journalId, current, keys: [{kid, createdSeq, retiredSeq?, key}]}`.
pub struct Keyring {
    /// The journal these keys belong to, 32 hex digits.
    pub journal_id: String,
    pub(crate) current: Key,
    pub(crate) retired: Vec<Key>,
}

impl Keyring {
    /// The signing key.
    pub fn current(&self) -> &Key {
        &self.current
    }

    /// Any key by name.
    pub fn by_kid(&self, kid: &str) -> Option<&Key> {
        std::iter::once(&self.current).chain(&self.retired).find(|key| key.kid == kid)
    }
}
