//! The instruction snapshot: every document the host itself would load at a directory at start, complete, in order.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::failure::Refusal;
use crate::ids::{Digest, Id};
use crate::seams::{Fs, Identity};
use crate::turn::InstructionHost;

/// Where the hosts keep their files on this machine. Comes from the caller: the gate reads no environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostHomes {
    /// The person's home directory.
    pub home: PathBuf,
    /// `CLAUDE_CONFIG_DIR`, if set; else `~/.claude`.
    pub claude_config_dir: Option<PathBuf>,
    /// `CODEX_HOME`, if set; else `~/.codex`.
    pub codex_home: Option<PathBuf>,
    /// Root of Claude's managed files; `None` = the system's own (`/etc/claude-code`). Set by tests.
    pub claude_managed_dir: Option<PathBuf>,
}

/// Layer a document belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    /// Organisation-managed policy.
    Managed,
    /// The person's own, for all projects.
    User,
    /// A directory above or at the project, shared.
    Project,
    /// The person's own for this project.
    Local,
}

/// What happens to a listed document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DocumentState {
    /// Bound: in every turn.
    Mandatory,
    /// The host loads it later, on demand.
    Lazy,
    /// Another file hides it.
    Hidden,
    /// Nothing but white space.
    Empty,
    /// An import outside the directory that the person has not approved in the host.
    ExternalNotApproved,
    /// The host cuts or drops it; bound whole here.
    CutByHost,
}

/// One document of the listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Display id: `host:managed|user|ancestor-N|project|import-K/REL`. Never an absolute path.
    pub id: String,
    /// Layer.
    pub layer: Layer,
    /// Absolute path, for the person's own terminal only.
    pub path: PathBuf,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// SHA-256 of the file bytes, where it was read.
    pub sha256: Option<Digest>,
    /// What happens to it.
    pub state: DocumentState,
    /// Why, in a few words.
    pub reason: String,
}

/// One mandatory document: bytes read once, hashed, kept.
#[derive(Clone, PartialEq, Eq)]
pub struct Document {
    /// Display id.
    pub id: String,
    /// Layer.
    pub layer: Layer,
    /// SHA-256 of the file bytes.
    pub sha256: Digest,
    /// SHA-256 of [`Self::text`], where the host renders the file differently from its bytes.
    pub rendered_sha256: Option<Digest>,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Identity of the file.
    pub identity: Identity,
    /// Whether the host cuts it ([`DocumentState::CutByHost`]).
    pub cut_by_host: bool,
    /// The text as the model shall have it: the whole file decoded as UTF-8 (Codex: invalid bytes replaced as the host does).
    pub text: String,
    /// Accepted by `allowedSymlinkTargets`.
    pub via_link: bool,
}

impl std::fmt::Debug for Document {
    /// Without the text: instruction text never reaches debug output.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Document").field("id", &self.id).field("sha256", &self.sha256).finish_non_exhaustive()
    }
}

/// Everything the host would load, plus what it would not and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Whose hierarchy.
    pub host: InstructionHost,
    /// Mandatory documents in the host's order.
    pub documents: Vec<Document>,
    /// Every document looked at, mandatory ones among them, in order.
    pub listed: Vec<Listed>,
}

/// Takes a fresh snapshot at a canonical working directory. `allowed_links` = `allowedSymlinkTargets` of the local profile.
pub fn snapshot(
    fs: &dyn Fs,
    host: InstructionHost,
    homes: &HostHomes,
    cwd: &Path,
    allowed_links: &[PathBuf],
) -> Result<Snapshot, Refusal> {
    let _ = (fs, host, homes, cwd, allowed_links);
    todo!()
}

/// `project:` + 20 hex digits of the SHA-256 of the canonical root of the main worktree (else of `cwd`).
pub fn project_id(fs: &dyn Fs, cwd: &Path) -> Id {
    let _ = (fs, cwd);
    todo!()
}
