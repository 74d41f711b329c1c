//! A request's body and its digest.
//!
//! Invariant: the digest is of these very bytes; it is taken once, and nothing changes either of them afterwards.

use std::ops::Deref;

use bytes::Bytes;

use crate::ids::Digest;

/// Bytes and their SHA-256. A clone shares the bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Body {
    bytes: Bytes,
    digest: Digest,
}

impl Body {
    /// Takes the digest of the bytes.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        Self { digest: Digest::of(&bytes), bytes }
    }

    /// SHA-256 of the bytes.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The bytes; the digest is used up.
    pub fn into_bytes(self) -> Bytes {
        self.bytes
    }
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl From<Vec<u8>> for Body {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(bytes)
    }
}

impl std::fmt::Debug for Body {
    /// Without the bytes: prompt text never reaches debug output.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Body").field("digest", &self.digest).field("len", &self.bytes.len()).finish()
    }
}
