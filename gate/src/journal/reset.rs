//! `state reset --confirm`: starting anew when a person says so, with everything old kept aside.
//!
//! Confirmed rules are signed with keys of the keyring, so the new keyring keeps those keys for them and for nothing else
//! ([`Keyring::carried`]). Where the old keyring cannot be read, or does not know a rule's key, the rules go aside too:
//! nobody could tell any more whether a person confirmed them.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::open::{alone, gate_handle, start};
use super::{Limits, Vault, fault};
use crate::failure::Refusal;
use crate::private::{Stands, sync_dir};
use crate::receipt::keyring::{Key, Keyring};
use crate::remember::{SignedBy, signed_by};
use crate::seams::Seams;
use crate::state_dir::StateDir;

const KEYRING: &str = "keyring.json";
const RULES: [&str; 3] = ["remember.sqlite", "remember.sqlite-wal", "remember.sqlite-shm"];
const JOURNAL: [&str; 4] = ["journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm", "anchor"];

/// What a reset did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reset {
    /// Where the old files are now.
    pub aside: PathBuf,
    /// What became of Must-Remember.
    pub rules: ResetRules,
}

/// What a reset did with Must-Remember.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResetRules {
    /// There were none.
    None,
    /// They apply as before.
    Kept,
    /// Their key is gone: they lie with the old files and must be confirmed again.
    SetAside,
}

impl Vault {
    /// `state reset --confirm`: puts keyring, journal and anchor into `gate/old-<wall time>/` and makes new ones. No
    /// receipt of before is known, verified or consumed here afterwards. Confirmed rules stay, where their keys can be
    /// read. Repeat it after a crash: until it is complete every call is refused.
    pub fn reset(dir: &StateDir, seams: &Seams) -> Result<Reset, Refusal> {
        let gate = gate_handle(dir)?;
        let _alone = alone(&gate, Limits::default())?;
        let old = Keyring::load(&dir.keyring()).ok().map(|(ring, _)| ring);
        let (rules, carried) = carry(&dir.remember(), old.as_ref())?;
        let aside = set_aside(dir, seams.clock.wall_ms(), old.is_some(), rules);
        let aside = aside.map_err(|e| fault::file("reset", &e))?;
        start(dir, seams, Limits::default(), carried)?;
        Ok(Reset { aside, rules })
    }
}

/// What becomes of the rules, and the keys they need.
fn carry(rules: &Path, old: Option<&Keyring>) -> Result<(ResetRules, Vec<Key>), Refusal> {
    let keys = match signed_by(rules)? {
        SignedBy::Nobody => return Ok((ResetRules::None, Vec::new())),
        SignedBy::Keys(kids) => old.and_then(|ring| ring.carried(&kids)),
        SignedBy::Unreadable => None,
    };
    Ok(keys.map_or((ResetRules::SetAside, Vec::new()), |keys| (ResetRules::Kept, keys)))
}

/// A keyring that can be read stays where it is until the new one takes its place, so that a reset repeated after a crash
/// finds the rules' keys again. One that cannot goes first. Either way a crash in between leaves pieces that refuse.
fn set_aside(dir: &StateDir, wall_ms: i64, readable: bool, rules: ResetRules) -> io::Result<PathBuf> {
    let gate = dir.gate_dir();
    let mut aside = gate.join(format!("old-{wall_ms}"));
    let mut again = 1;
    while Stands::at(&aside)?.is_some() {
        again += 1;
        aside = gate.join(format!("old-{wall_ms}-{again}"));
    }
    std::fs::DirBuilder::new().mode(0o700).create(&aside)?;
    let put = |name: &str| unless_absent(std::fs::rename(gate.join(name), aside.join(name)));
    if readable {
        std::fs::hard_link(gate.join(KEYRING), aside.join(KEYRING))?;
    } else {
        put(KEYRING)?;
    }
    if rules == ResetRules::SetAside {
        RULES.iter().try_for_each(|name| put(name))?;
    }
    JOURNAL.iter().try_for_each(|name| put(name))?;
    sync_dir(&aside)?;
    sync_dir(&gate)?;
    Ok(aside)
}

fn unless_absent(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}
