//! The keyring: one current signing key, retired keys that verify old rows and confirmed rules for ever.
//!
//! Invariants: mode, owner and length are judged at every load; nothing is regenerated; the file is replaced as a whole
//! (written aside, synced, renamed), so a crash leaves the old keyring or the new one.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize};
use zeroize::Zeroizing;

use crate::failure::{Detail, Refusal};
use crate::ids::{hex, unhex};
use crate::mac::{KEY_BYTES, MacKey};
use crate::private::{Stands, Unfit, read_private, replace, shown};
use crate::seams::Rng;

/// Largest keyring file, bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024;
/// Most keys in a keyring; far below what [`FILE_BYTES_MAX`] holds.
pub const KEYS_MAX: usize = 256;
/// Random bytes of a key's name.
const KID_BYTES: usize = 8;

/// One key.
pub struct Key {
    /// Its name; only a hint in receipts.
    pub kid: String,
    /// Journal sequence from which on it signs.
    pub created_seq: u64,
    /// Journal sequence from which on it no longer signs; `None` = current. 0: of a journal before a reset, it verifies no
    /// row of this one.
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

    /// The key that may have signed what stands at `seq`: a retired key only below its `retiredSeq`.
    pub fn for_row(&self, kid: &str, seq: u64) -> Option<&MacKey> {
        self.by_kid(kid).filter(|key| key.retired_seq.is_none_or(|retired| seq < retired)).map(|key| &key.key)
    }

    /// A keyring with one new key for a new journal, and keys that a reset carries over ([`Self::carried`]).
    pub(crate) fn new(journal_id: String, carried: Vec<Key>, rng: &dyn Rng) -> Result<Self, Refusal> {
        Ok(Self { journal_id, current: Key::draw(1, rng)?, retired: carried })
    }

    /// These keys as a new journal's keyring keeps them, so that confirmed rules verify after a reset: found by name, but
    /// retired before the first row, so no row, anchor or receipt verifies under them. `None` where one is not here, or
    /// where they would leave no room for a rotation.
    pub(crate) fn carried(&self, kids: &BTreeSet<String>) -> Option<Vec<Key>> {
        let carry = |key: &Key| Key { created_seq: 0, retired_seq: Some(0), ..key.copy() };
        let keys = kids.iter().map(|kid| self.by_kid(kid).map(carry)).collect::<Option<Vec<_>>>()?;
        (keys.len() + 1 < KEYS_MAX).then_some(keys)
    }

    /// The keyring after a rotation: the new key signs from `seq` on, the old one verifies what stands before it.
    pub(crate) fn rotated(&self, seq: u64, rng: &dyn Rng) -> Result<Self, Refusal> {
        if self.retired.len() + 1 >= KEYS_MAX {
            return Err(shape(
                "the keyring is full",
                "Run `agentspine state reset --confirm` to start a new journal; the old one is kept aside.",
            ));
        }
        let retire = |key: &Key| Key { retired_seq: key.retired_seq.or(Some(seq)), ..key.copy() };
        let retired = self.retired.iter().chain([&self.current]).map(retire).collect();
        Ok(Self { journal_id: self.journal_id.clone(), current: Key::draw(seq, rng)?, retired })
    }

    /// Loads and judges the keyring.
    pub(crate) fn load(path: &Path) -> Result<(Self, Stamp), Refusal> {
        let (text, meta) = read_private(path, FILE_BYTES_MAX).map_err(|unfit| unfit_refusal(&unfit, path))?;
        let keyring = serde_json::from_slice::<Wire>(&text).ok().and_then(Wire::into_keyring);
        Ok((keyring.ok_or_else(misshapen)?, Stamp::of(&meta)))
    }

    /// Writes the keyring as a whole; returns the stamp of the new file.
    pub(crate) fn save(&self, path: &Path) -> std::io::Result<Stamp> {
        let text = Zeroizing::new(serde_json::to_vec(&Wire::of(self))?);
        Ok(Stamp::of(&replace(path, &text)?.metadata()?))
    }
}

impl Key {
    fn draw(created_seq: u64, rng: &dyn Rng) -> Result<Self, Refusal> {
        let failed =
            |_| Refusal::new(Detail::JournalIo, "the system gives no random bytes for a key", "Try again.");
        let mut kid = [0u8; KID_BYTES];
        rng.fill(&mut kid).map_err(failed)?;
        let mut key = Zeroizing::new([0u8; KEY_BYTES]);
        rng.fill(key.as_mut_slice()).map_err(failed)?;
        Ok(Self { kid: hex(&kid), created_seq, retired_seq: None, key: MacKey::new(*key) })
    }

    fn copy(&self) -> Self {
        Self {
            kid: self.kid.clone(),
            created_seq: self.created_seq,
            retired_seq: self.retired_seq,
            key: MacKey::new(*self.key.expose()),
        }
    }
}

/// What tells one state of the keyring file from another without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    stands: Stands,
    size: u64,
    mode: u32,
    owner: u32,
    changed: (i64, i64),
}

impl Stamp {
    fn of(meta: &std::fs::Metadata) -> Self {
        Self {
            stands: Stands::of(meta),
            size: meta.len(),
            mode: meta.mode(),
            owner: meta.uid(),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// The stamp of what stands at the path now; `None` where that cannot be told.
    pub(crate) fn at(path: &Path) -> Option<Self> {
        path.symlink_metadata().ok().map(|meta| Self::of(&meta))
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Wire {
    journal_id: String,
    current: String,
    keys: Vec<WireKey>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WireKey {
    kid: String,
    created_seq: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retired_seq: Option<u64>,
    key: Secret,
}

/// Hexadecimal key text that is wiped when dropped.
struct Secret(Zeroizing<String>);

impl Serialize for Secret {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d).map(|text| Self(Zeroizing::new(text)))
    }
}

impl Wire {
    fn of(ring: &Keyring) -> Self {
        let wire = |key: &Key| WireKey {
            kid: key.kid.clone(),
            created_seq: key.created_seq,
            retired_seq: key.retired_seq,
            key: Secret(Zeroizing::new(hex(key.key.expose()))),
        };
        Self {
            journal_id: ring.journal_id.clone(),
            current: ring.current.kid.clone(),
            keys: ring.retired.iter().chain([&ring.current]).map(wire).collect(),
        }
    }

    /// Exactly one key without `retiredSeq`, and it is `current`; names and keys are well formed and differ.
    fn into_keyring(self) -> Option<Keyring> {
        let count = self.keys.len();
        let keys: Vec<Key> = self.keys.into_iter().map(WireKey::into_key).collect::<Option<_>>()?;
        let kids: BTreeSet<_> = keys.iter().map(|key| key.kid.clone()).collect();
        let (mut current, retired): (Vec<_>, Vec<_>) =
            keys.into_iter().partition(|key| key.retired_seq.is_none());
        let current = current.pop().filter(|key| current.is_empty() && key.kid == self.current)?;
        let well = unhex(&self.journal_id)?.len() == 16 && kids.len() == count && count <= KEYS_MAX;
        well.then_some(Keyring { journal_id: self.journal_id, current, retired })
    }
}

impl WireKey {
    fn into_key(self) -> Option<Key> {
        let bytes = Zeroizing::new(unhex(&self.key.0)?);
        let key: Zeroizing<[u8; KEY_BYTES]> = Zeroizing::new(bytes.as_slice().try_into().ok()?);
        let well = unhex(&self.kid)?.len() == KID_BYTES && key.iter().any(|b| *b != 0);
        let Self { kid, created_seq, retired_seq, .. } = self;
        well.then(|| Key { kid, created_seq, retired_seq, key: MacKey::new(*key) })
    }
}

fn misshapen() -> Refusal {
    shape(
        "the keyring or a key in it has a wrong length or shape",
        "Put keyring.json back from a copy, or run `agentspine state reset --confirm`, which keeps the old files aside.",
    )
}

fn shape(message: &str, advice: &str) -> Refusal {
    Refusal::new(Detail::KeyLength, message, advice)
}

fn unfit_refusal(unfit: &Unfit, path: &Path) -> Refusal {
    let at = shown(path);
    let look = format!("Look at it with `ls -l {at}`.");
    match unfit {
        Unfit::Absent => Refusal::new(
            Detail::KeyMissing,
            "the keyring is missing",
            "Put keyring.json back from a copy, or run `agentspine state reset --confirm`, which keeps the old files aside.",
        ),
        Unfit::Mode => {
            Refusal::new(Detail::KeyMode, "the keyring's mode is not 0600", format!("Run `chmod 600 {at}`."))
        }
        Unfit::Owner => Refusal::new(
            Detail::KeyOwner,
            "the keyring belongs to another user",
            format!("Look at it with `ls -l {at}`; if it is yours, run `sudo chown \"$USER\" {at}`."),
        ),
        Unfit::TooLarge => misshapen(),
        Unfit::NotRegular => Refusal::new(Detail::KeyMode, "the keyring is not a regular file", look),
        Unfit::Io(e) => {
            Refusal::new(Detail::KeyMode, format!("the keyring cannot be read: {}", e.kind()), look)
        }
    }
}
