//! `state check`: looking at the pieces, changing nothing.

use super::schema::Access;
use super::{Limits, Vault, fault};
use crate::failure::{Detail, Refusal};
use crate::private::Stands;
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
}
