//! The instruction snapshot: every document the host itself would load at a directory at start, complete, in order.
//!
//! Map: `claude` and `codex` know each host's hierarchy, `settings` and `codex_config` what its own settings change;
//! `rules` walks rule trees, `imports` finds `@path`, `render` says what the host makes of a file; `lazy` adds what it
//! loads later; `present` finds them in a host's own request;
//! `walk` locates, reads and lists; `refuse` words the refusals; `id` names; `project` finds the checkout.
//! Invariants: order is the host's (rule trees: sorted by bytes); a document is read once and only below the directory
//! it is found in; what cannot be read safely refuses the turn, what the host leaves out is listed with its reason.

mod claude;
mod codex;
mod codex_config;
mod id;
mod imports;
mod lazy;
mod present;
mod project;
mod refuse;
pub mod render;
mod rules;
mod settings;
mod walk;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::failure::Refusal;
use crate::ids::{Digest, Id};
use crate::seams::{Fs, Identity};
use crate::turn::InstructionHost;

pub use imports::IMPORTS_MAX;
pub use present::present;
pub use rules::{RULE_DEPTH_MAX, RULE_ENTRIES_MAX};
pub use walk::{DIRECTORIES_MAX, DOCUMENTS_MAX, SNAPSHOT_BYTES_MAX};

use claude::Claude;
use walk::Walk;

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
    /// Display id, unique: `host:managed|user|ancestor-N|project|import-K/REL`. Never an absolute path.
    ///
    /// `project` = the checkout's root (Codex: the project's root), else the working directory; REL goes on below it.
    /// `ancestor-N` = N levels above that. `import-K` = K imports away from the document that began the chain; REL is
    /// the path in the project, or below the importing document's directory, or the bare name of a file outside both.
    /// Unusual characters are escaped; a second document of one name gets `~2`.
    pub id: String,
    /// Layer.
    pub layer: Layer,
    /// Absolute path, for the person's own terminal only.
    pub path: PathBuf,
    /// Size of the file in bytes; 0 where it was not read.
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
    /// SHA-256 of the host's rendering ([`render::claude`]; Codex: invalid bytes replaced), where that differs from
    /// the file bytes.
    pub rendered_sha256: Option<Digest>,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// Identity of the file.
    pub identity: Identity,
    /// Whether the host cuts it ([`DocumentState::CutByHost`]).
    pub cut_by_host: bool,
    /// The text as the model shall have it: the whole file decoded as UTF-8, for Claude without its byte order mark
    /// (Codex: invalid bytes replaced as the host does).
    pub text: String,
    /// Accepted by `allowedSymlinkTargets`.
    pub via_link: bool,
    /// Absolute path where it was found, and the real one behind an allowed link: the host shows one of them.
    pub(crate) paths: [PathBuf; 2],
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

/// Takes a fresh snapshot at a working directory. `allowed_links` = `allowedSymlinkTargets` of the local profile.
///
/// Fast enough for every call: nothing below the working directory is searched. [`listing`] does that too.
pub fn snapshot(
    fs: &dyn Fs,
    host: InstructionHost,
    homes: &HostHomes,
    cwd: &Path,
    allowed_links: &[PathBuf],
) -> Result<Snapshot, Refusal> {
    let mut walk = Walk::new(fs, host, homes, cwd, allowed_links)?;
    match host {
        InstructionHost::Claude => Claude::run(&mut walk).map(drop)?,
        InstructionHost::Codex => codex::run(&mut walk)?,
    }
    Ok(walk.finish())
}

/// A snapshot that also lists what the host would load later: files below the working directory and MEMORY.md.
pub fn listing(
    fs: &dyn Fs,
    host: InstructionHost,
    homes: &HostHomes,
    cwd: &Path,
    allowed_links: &[PathBuf],
) -> Result<Snapshot, Refusal> {
    let mut walk = Walk::new(fs, host, homes, cwd, allowed_links)?;
    match host {
        InstructionHost::Claude => lazy::list(&mut Claude::run(&mut walk)?),
        // Codex loads nothing later.
        InstructionHost::Codex => codex::run(&mut walk)?,
    }
    Ok(walk.finish())
}

/// The folder of Claude Code's own notes on the project of a canonical directory; it need not exist.
pub fn claude_notes(fs: &dyn Fs, homes: &HostHomes, cwd: &Path) -> PathBuf {
    settings::config_dir(homes).join(lazy::notes(fs, cwd))
}

/// `project:` + 20 hex digits of the SHA-256 of the canonical root of the main worktree (else of `cwd`).
pub fn project_id(fs: &dyn Fs, cwd: &Path) -> Id {
    project::id(fs, cwd)
}
