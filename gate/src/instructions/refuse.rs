//! What a person is told when a document or the host's configuration cannot be used, and what to do next.
//!
//! Messages name display ids and never an absolute path; the advice, for the person's own terminal, may.

use std::path::Path;

use super::id::{short, shown};
use super::walk::{SNAPSHOT_BYTES_MAX, Spot, Walk};
use crate::failure::{Detail, Refusal};
use crate::seams::ReadError;

impl Walk<'_> {
    /// A refusal because the host's own configuration cannot be understood.
    pub(super) fn refuse_config(&self, path: &Path, reason: &str) -> Refusal {
        let place = match path.strip_prefix(&self.cwd) {
            Ok(relative) => shown(relative),
            Err(_) if path.starts_with(&self.homes.home) => short(path, &self.homes.home),
            Err(_) => path.file_name().map(|name| shown(Path::new(name))).unwrap_or_default(),
        };
        let advice = self.look(&format!("Repair {}", short(path, &self.homes.home)));
        Refusal::new(Detail::HostConfig, format!("{place} of {}: {reason}", self.host.as_str()), advice)
    }

    /// A refusal because a document cannot be read safely.
    pub(super) fn refuse_read(&self, spot: &Spot, error: &ReadError) -> Refusal {
        let (detail, what) = match error {
            ReadError::Link => return self.refuse_link(spot, &spot.path(), Path::new("")),
            ReadError::Absent => (Detail::Changed, "Leave it in place"),
            ReadError::NotRegular => (Detail::NotRegular, "Remove or rename it"),
            ReadError::TooLarge { .. } => (Detail::TooMany, "Make it smaller"),
            ReadError::Replaced => (Detail::Replaced, "Let the other program finish"),
            ReadError::Changed => (Detail::Changed, "Let the other program finish"),
            ReadError::OutOfScope => (Detail::OutOfScope, "Name a file inside the directory"),
            ReadError::Io(_) => (Detail::Unreadable, "Make it readable for you, or remove it"),
        };
        let message = match error {
            ReadError::Absent => format!("{} vanished while it was read", spot.id),
            ReadError::TooLarge { limit } => format!(
                "{} is larger than the {limit} bytes that are left of {SNAPSHOT_BYTES_MAX} for all documents",
                spot.id
            ),
            other => format!("{}: {other}", spot.id),
        };
        let advice = self.look(&format!("{what} ({})", short(&spot.path(), &self.homes.home)));
        Refusal::new(detail, message, advice)
    }

    /// A refusal because a link stands where a document is looked for, or `rest` above it.
    pub(super) fn refuse_link(&self, spot: &Spot, link: &Path, rest: &Path) -> Refusal {
        let message = match link.file_name() {
            Some(name) if !rest.as_os_str().is_empty() => {
                format!("{} is reached over the symbolic link {}", spot.id, shown(Path::new(name)))
            }
            _ => format!("{} is a symbolic link", spot.id),
        };
        let Ok(target) = self.fs.canonicalize(link) else {
            let what = format!("The link leads nowhere: remove {}", short(link, &self.homes.home));
            return Refusal::new(Detail::Symlink, message, self.look(&what));
        };
        // `--set` replaces the list, so the command repeats what is allowed already.
        let allowed = self.allowed_links.iter().chain([&target]).map(|path| path.to_string_lossy());
        let list = allowed.collect::<serde_json::Value>().to_string().replace('\'', r"'\''");
        let advice = format!(
            "Replace the link by a file, or allow its target: agentspine preflight-policy --set \
             'allowedSymlinkTargets={list}' --confirm-local-policy"
        );
        Refusal::new(Detail::Symlink, message, advice)
    }

    /// Advice that ends in the command that shows the outcome.
    pub(super) fn look(&self, what: &str) -> String {
        format!("{what}, then look again: agentspine instructions --host {}", self.host.as_str())
    }
}
