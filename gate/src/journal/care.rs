//! `state check` and `state reset`: looking at the pieces, and starting anew when a person says so.

use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use super::open::{alone, first_start, gate_handle};
use super::schema::Access;
use super::{Limits, Vault, fault};
use crate::failure::{Detail, Refusal};
use crate::private::{Stands, sync_dir};
use crate::receipt::keyring::Keyring;
use crate::seams::Seams;
use crate::state_dir::StateDir;

/// What `state check` says about one piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// `keyring`, `journal` or `chain`.
    pub piece: &'static str,
    /// `None` where it is as it should be.
    pub detail: Option<Detail>,
    /// One sentence for people.
    pub message: String,
    /// The next thing to do; empty where nothing is.
    pub advice: String,
}

impl Finding {
    /// Whether the piece is as it should be.
    pub fn ok(&self) -> bool {
        self.detail.is_none()
    }

    fn of(piece: &'static str, judged: Result<String, Refusal>) -> Self {
        match judged {
            Ok(message) => Self { piece, detail: None, message, advice: String::new() },
            Err(refusal) => {
                let Refusal { detail, message, advice, .. } = refusal;
                Self { piece, detail: Some(detail), message, advice }
            }
        }
    }
}

impl Vault {
    /// Looks at keyring, journal with anchor, and the whole chain, changing nothing.
    pub fn check(dir: &StateDir, seams: &Seams) -> Vec<Finding> {
        if [dir.keyring(), dir.journal(), dir.anchor()]
            .iter()
            .all(|path| matches!(Stands::at(path), Ok(None)))
        {
            return vec![Finding::of("journal", Ok("none yet; the first call makes it".to_owned()))];
        }
        let keyring =
            Keyring::load(&dir.keyring()).map(|(ring, _)| format!("{} keys", ring.retired.len() + 1));
        let mut findings = vec![Finding::of("keyring", keyring)];
        match Self::attach(dir, seams, Limits::default(), Access::Read) {
            Err(refusal) => findings.push(Finding::of("journal", Err(refusal))),
            Ok(mut vault) => {
                findings.push(Finding::of(
                    "journal",
                    Ok("journal, anchor and keyring name each other".to_owned()),
                ));
                findings.push(Finding::of(
                    "chain",
                    vault.verify_chain().and_then(|report| match report.problem {
                        None => Ok(format!("{} rows, {} consumed", report.rows, report.consumed)),
                        Some(problem) => Err(fault::rolled_back(problem)),
                    }),
                ));
            }
        }
        findings
    }

    /// `state reset --confirm`: moves keyring, journal and anchor into `gate/old-<wall time>/`, which it returns, and
    /// makes new ones. Every receipt and rule MAC of the old key is then unverifiable here.
    pub fn reset(dir: &StateDir, seams: &Seams) -> Result<PathBuf, Refusal> {
        let gate = gate_handle(dir)?;
        let _alone = alone(&gate, Limits::default())?;
        let aside = set_aside(dir, seams.clock.wall_ms()).map_err(|e| fault::file("reset", &e))?;
        first_start(dir, seams, Limits::default())?;
        Ok(aside)
    }
}

/// The keyring goes first: a crash in between leaves rows without a key, which refuses until the reset is repeated.
fn set_aside(dir: &StateDir, wall_ms: i64) -> io::Result<PathBuf> {
    let gate = dir.gate_dir();
    let mut aside = gate.join(format!("old-{wall_ms}"));
    let mut again = 1;
    while Stands::at(&aside)?.is_some() {
        again += 1;
        aside = gate.join(format!("old-{wall_ms}-{again}"));
    }
    std::fs::DirBuilder::new().mode(0o700).create(&aside)?;
    for name in ["keyring.json", "journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm", "anchor"] {
        match std::fs::rename(gate.join(name), aside.join(name)) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    sync_dir(&aside)?;
    sync_dir(&gate)?;
    Ok(aside)
}
