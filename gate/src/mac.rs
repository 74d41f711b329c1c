//! HMAC-SHA-256 over length-prefixed, typed input, with keys that are wiped when dropped.

use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::ids::Digest;

/// Length of every key, bytes.
pub const KEY_BYTES: usize = 32;

/// A MAC key. No Debug, no Clone, no serialisation: the bytes leave only through [`MacKey::expose`].
pub struct MacKey(Zeroizing<[u8; KEY_BYTES]>);

impl MacKey {
    /// Takes key bytes.
    pub fn new(bytes: [u8; KEY_BYTES]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The raw bytes, for writing the keyring.
    pub(crate) fn expose(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// A key for one purpose: HKDF-SHA-256 with `label` as info (RFC 5869).
    pub fn derive(&self, label: &str) -> Self {
        let mut out = Zeroizing::new([0u8; KEY_BYTES]);
        // 32 bytes are far below HKDF's limit of 255 blocks, so this cannot fail; an all-zero key would never verify.
        let _ = Hkdf::<Sha256>::new(None, self.0.as_slice()).expand(label.as_bytes(), out.as_mut_slice());
        Self(out)
    }

    /// HMAC over `PAE(kind, parts…)`.
    pub fn mac(&self, kind: &str, parts: &[&[u8]]) -> Digest {
        Digest(self.start(kind, parts).finalize().into_bytes().into())
    }

    /// Constant-time comparison with [`Self::mac`].
    pub fn verify(&self, kind: &str, parts: &[&[u8]], mac: &Digest) -> bool {
        self.start(kind, parts).verify_slice(&mac.0).is_ok()
    }

    fn start(&self, kind: &str, parts: &[&[u8]]) -> Hmac<Sha256> {
        // RFC 2104 pads a short key with zeros to the block; doing it here avoids a constructor that could fail.
        let mut block = Zeroizing::new([0u8; 64]);
        block.iter_mut().zip(self.0.iter()).for_each(|(to, from)| *to = *from);
        let mut mac = <Hmac<Sha256> as KeyInit>::new(&(*block).into());
        mac.update(&(parts.len() as u64 + 1).to_le_bytes());
        for part in std::iter::once(kind.as_bytes()).chain(parts.iter().copied()) {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac
    }
}
