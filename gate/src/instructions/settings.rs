//! What Claude Code's own settings say about instruction files.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use serde_json::Value;

use super::id::Base;
use super::walk::{Spot, Walk};
use super::{HostHomes, Layer};
use crate::failure::Refusal;
use crate::seams::{ReadFile, is_absent};

/// Where the mode stands in a settings file.
const MODE_POINTER: &str = "/pluginConfigs/cc-plugin-agents-md@builtin/options/instructionFiles";
/// Most drop-in files of the managed settings.
const DROP_INS_MAX: usize = 256;

/// Which files are the project's instructions (`instructionFiles`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// CLAUDE.md; AGENTS.md where there is none. The host's default.
    Either,
    /// Both.
    Both,
    /// Never AGENTS.md.
    ClaudeOnly,
    /// Neither: managed files only.
    ManagedOnly,
}

impl Mode {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "claude-md-or-agents-md" => Some(Self::Either),
            "claude-md-and-agents-md" => Some(Self::Both),
            "claude-md" => Some(Self::ClaudeOnly),
            "managed-only" => Some(Self::ManagedOnly),
            _ => None,
        }
    }
}

/// The settings that change the set of documents.
pub(super) struct Settings {
    pub(super) mode: Mode,
    excludes: GlobSet,
    /// `claudeMd` of the managed settings: where it stands, its text, the settings file.
    pub(super) managed_text: Option<(Spot, String, ReadFile)>,
}

impl Settings {
    /// Reads managed, user, project and local settings. Project and local ones may only exclude files.
    pub(super) fn load(walk: &Walk<'_>) -> Result<Self, Refusal> {
        let mut settings = Self { mode: Mode::Either, excludes: GlobSet::empty(), managed_text: None };
        let mut globs = GlobSetBuilder::new();
        let user = config_dir(walk.homes).join("settings.json");
        if let Some((value, _)) = read(walk, &user)? {
            settings.take_mode(walk, &user, &value)?;
            exclude(&mut globs, &value);
        }
        for name in ["settings.json", "settings.local.json"] {
            let path = walk.cwd.join(".claude").join(name);
            if let Some((value, _)) = read(walk, &path)? {
                exclude(&mut globs, &value);
            }
        }
        // Last, because managed settings win.
        for path in managed_files(walk)? {
            if let Some((value, file)) = read(walk, &path)? {
                settings.take_mode(walk, &path, &value)?;
                settings.take_text(walk, &path, &value, file);
                exclude(&mut globs, &value);
            }
        }
        settings.excludes = globs.build().unwrap_or_default();
        Ok(settings)
    }

    /// Whether `claudeMdExcludes` names this absolute path.
    pub(super) fn excludes(&self, path: &Path) -> bool {
        self.excludes.is_match(path)
    }

    fn take_mode(&mut self, walk: &Walk<'_>, path: &Path, value: &Value) -> Result<(), Refusal> {
        if let Some(mode) = value.pointer(MODE_POINTER) {
            let known = mode.as_str().and_then(Mode::parse);
            self.mode =
                known.ok_or_else(|| walk.refuse_config(path, "instructionFiles has an unknown value"))?;
        }
        Ok(())
    }

    fn take_text(&mut self, walk: &Walk<'_>, path: &Path, value: &Value, mut file: ReadFile) {
        if let Some(text) = value.get("claudeMd").and_then(Value::as_str) {
            let name = path.file_name().map(PathBuf::from).unwrap_or_default();
            let base = Base::named(path.parent().map(Path::to_owned).unwrap_or_default(), "managed");
            let mut spot = walk.spot(&base, Layer::Managed, name);
            spot.id.push_str("#claudeMd");
            text.as_bytes().clone_into(&mut file.bytes);
            self.managed_text = Some((spot, text.to_owned(), file));
        }
    }
}

/// `CLAUDE_CONFIG_DIR`, else `~/.claude`.
pub(super) fn config_dir(homes: &HostHomes) -> PathBuf {
    homes.claude_config_dir.clone().unwrap_or_else(|| homes.home.join(".claude"))
}

/// Root of the managed files on this system.
pub(super) fn managed_dir(homes: &HostHomes) -> PathBuf {
    let system = if cfg!(target_os = "macos") {
        "/Library/Application Support/ClaudeCode"
    } else {
        "/etc/claude-code"
    };
    homes.claude_managed_dir.clone().unwrap_or_else(|| PathBuf::from(system))
}

/// Whether the person approved external imports for the working directory, in the host's own dialog.
pub(super) fn externals_approved(walk: &Walk<'_>) -> Result<bool, Refusal> {
    let dir = walk.homes.claude_config_dir.as_ref().unwrap_or(&walk.homes.home);
    let Some((value, _)) = read(walk, &dir.join(".claude.json"))? else { return Ok(false) };
    let project = walk.cwd.to_str().and_then(|cwd| value.get("projects")?.get(cwd));
    let approved = project.and_then(|p| p.get("hasClaudeMdExternalIncludesApproved"));
    Ok(approved.and_then(Value::as_bool).unwrap_or(false))
}

fn managed_files(walk: &Walk<'_>) -> Result<Vec<PathBuf>, Refusal> {
    let dir = managed_dir(walk.homes);
    let mut files = vec![dir.join("managed-settings.json")];
    let drop_ins = dir.join("managed-settings.d");
    match walk.fs.entries(&drop_ins, DROP_INS_MAX) {
        Ok(entries) => {
            let json = entries
                .into_iter()
                .filter(|(name, _)| Path::new(name).extension().is_some_and(|e| e == "json"));
            files.extend(json.map(|(name, _)| drop_ins.join(name)));
        }
        Err(error) if is_absent(&error) => {}
        Err(error) => return Err(walk.refuse_config(&drop_ins, &format!("cannot be read: {error}"))),
    }
    Ok(files)
}

fn read(walk: &Walk<'_>, path: &Path) -> Result<Option<(Value, ReadFile)>, Refusal> {
    let Some(file) = walk.host_file(path)? else { return Ok(None) };
    let json = file.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&file.bytes);
    if json.trim_ascii().is_empty() {
        return Ok(None);
    }
    let value: Value = serde_json::from_slice(json).map_err(|error| {
        walk.refuse_config(
            path,
            &format!("not valid JSON (line {}, column {})", error.line(), error.column()),
        )
    })?;
    Ok(Some((value, file)))
}

/// Adds a file's exclusions. A pattern that cannot be compiled excludes nothing, so its document stays mandatory.
fn exclude(globs: &mut GlobSetBuilder, value: &Value) {
    let patterns = value.get("claudeMdExcludes").and_then(Value::as_array);
    for pattern in patterns.into_iter().flatten().filter_map(Value::as_str) {
        if let Ok(glob) = GlobBuilder::new(pattern).literal_separator(true).build() {
            globs.add(glob);
        }
    }
}
