//! What Claude Code loads later: documents below the working directory and its own memory file. Listed, never bound.

use std::path::{Path, PathBuf};

use super::claude::Claude;
use super::id::Base;
use super::project;
use super::settings::{Mode, config_dir};
use super::walk::Spot;
use super::{DocumentState, Layer};
use crate::seams::{Fs, Kind};

/// Most entries looked at below the working directory.
const ENTRIES_MAX: usize = 8192;
/// Directories that hold other people's files.
const SKIPPED: [&str; 9] =
    [".git", ".hg", ".svn", ".venv", "__pycache__", "node_modules", "target", "vendor", "venv"];

/// Lists everything lazy. Nothing here can refuse a turn.
pub(super) fn list(claude: &mut Claude<'_, '_>) {
    if claude.settings.mode != Mode::ManagedOnly {
        below_working_directory(claude);
    }
    memory(claude);
}

fn below_working_directory(claude: &mut Claude<'_, '_>) {
    let mut left = ENTRIES_MAX;
    let mut open = subdirectories(claude, &claude.walk.cwd.clone(), &mut left);
    while let Some(dir) = open.pop() {
        let base = Base::of_directory(&dir, &claude.project);
        for (name, layer) in [
            ("CLAUDE.md", Layer::Project),
            (".claude/CLAUDE.md", Layer::Project),
            ("AGENTS.md", Layer::Project),
            ("CLAUDE.local.md", Layer::Local),
        ] {
            let spot = claude.walk.spot(&base, layer, name);
            if name != "AGENTS.md" || claude.settings.mode != Mode::ClaudeOnly {
                later(claude, &spot, "loads when a file in its directory is read");
            }
        }
        rules(claude, claude.walk.spot(&base, Layer::Project, ".claude/rules"), &mut left);
        open.extend(subdirectories(claude, &dir, &mut left));
    }
    if left == 0 {
        let base = Base::of_directory(&claude.walk.cwd, &claude.project);
        let spot = claude.walk.spot(&base, Layer::Project, "**");
        let reason = format!("more than {ENTRIES_MAX} entries below: not all are listed");
        claude.walk.list(&spot, None, DocumentState::Lazy, &reason);
    }
}

/// Directories in a directory, last first, so that a stack gives them in order. Links are not followed.
fn subdirectories(claude: &Claude<'_, '_>, dir: &Path, left: &mut usize) -> Vec<PathBuf> {
    let names = entries(claude, dir, left).into_iter().filter(|(_, kind)| *kind == Kind::Dir);
    let wanted =
        names.filter(|(name, _)| name != ".claude" && !SKIPPED.iter().any(|skipped| name == skipped));
    let mut found: Vec<_> = wanted.map(|(name, _)| dir.join(name)).collect();
    found.reverse();
    found
}

/// Entries within what is left of the limit; a directory over it ends the search.
fn entries(claude: &Claude<'_, '_>, dir: &Path, left: &mut usize) -> Vec<(std::ffi::OsString, Kind)> {
    match claude.walk.fs.entries(dir, *left) {
        Ok(found) => {
            *left = left.saturating_sub(found.len());
            found
        }
        Err(error) => {
            if error.kind() == std::io::ErrorKind::FileTooLarge {
                *left = 0;
            }
            Vec::new()
        }
    }
}

fn rules(claude: &mut Claude<'_, '_>, top: Spot, left: &mut usize) {
    let mut open = vec![top];
    while let Some(spot) = open.pop() {
        for (name, kind) in entries(claude, &spot.path(), left).into_iter().rev() {
            let entry = super::rules::below(&spot, Path::new(&name));
            match kind {
                Kind::Dir => open.push(entry),
                Kind::File if Path::new(&name).extension().is_some_and(|e| e == "md") => {
                    later(claude, &entry, "loads when a file in its directory is read");
                }
                Kind::File | Kind::Link | Kind::Other => {}
            }
        }
    }
}

fn later(claude: &mut Claude<'_, '_>, spot: &Spot, reason: &str) {
    if !claude.settings.excludes(&spot.path()) {
        claude.walk.list_aside(spot, DocumentState::Lazy, reason);
    }
}

/// The host keeps its own notes by project, under the project's path with everything but letters and digits dashed.
fn memory(claude: &mut Claude<'_, '_>) {
    let Ok(root) = claude.walk.fs.canonicalize(&config_dir(claude.walk.homes)) else { return };
    let spot = claude.walk.spot(&Base::named(root, "user"), Layer::User, "memory/MEMORY.md");
    let relative = notes(claude.walk.fs, &claude.walk.cwd).join("MEMORY.md");
    claude.walk.list_aside(
        &Spot { relative, ..spot },
        DocumentState::Lazy,
        "the host's own notes, first 25 KB",
    );
}

/// Where the host keeps its notes on the project of a canonical directory, below its user-level folder.
pub(super) fn notes(fs: &dyn Fs, cwd: &Path) -> PathBuf {
    let main = project::checkout(fs, cwd).map_or_else(|| cwd.to_owned(), |checkout| checkout.main);
    let dashed = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = main.to_string_lossy().chars().map(dashed).collect();
    Path::new("projects").join(name).join("memory")
}
