//! What Codex's own configuration says about instruction files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::project;
use super::walk::Walk;
use crate::failure::Refusal;

/// The system's layer, below the person's.
const SYSTEM_CONFIG: &str = "/etc/codex/config.toml";
/// Bytes of project files that Codex loads where nothing else is set.
const DOC_BYTES_DEFAULT: u64 = 32_768;

/// How far a project is trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    Trusted,
    Untrusted,
    Unsaid,
}

/// The settings that change the set of documents.
pub(super) struct Config {
    /// `CODEX_HOME`, else `~/.codex`.
    pub(super) home: PathBuf,
    /// Entries that make a directory the project's root. Never from a project's own configuration.
    pub(super) root_markers: Vec<String>,
    /// Names tried after `AGENTS.md`.
    pub(super) fallback_names: Vec<String>,
    /// Budget of the project files, bytes.
    pub(super) doc_bytes_max: u64,
    trust_by_path: HashMap<PathBuf, Trust>,
    trust: Trust,
}

impl Config {
    /// Reads the system's and the person's configuration.
    pub(super) fn load(walk: &Walk<'_>) -> Result<Self, Refusal> {
        let home = walk.homes.codex_home.clone().unwrap_or_else(|| walk.homes.home.join(".codex"));
        let mut config = Self {
            root_markers: vec![".git".to_owned()],
            fallback_names: Vec::new(),
            doc_bytes_max: DOC_BYTES_DEFAULT,
            trust_by_path: HashMap::new(),
            trust: Trust::Unsaid,
            home,
        };
        for path in [PathBuf::from(SYSTEM_CONFIG), config.home.join("config.toml")] {
            let Some(table) = read(walk, &path)? else { continue };
            if let Some(markers) = names(walk, &path, &table, "project_root_markers")? {
                config.root_markers = markers;
            }
            if let Some(value) = table.get("project_doc_max_bytes") {
                let bytes = value.as_integer().and_then(|n| u64::try_from(n).ok());
                let wrong = || walk.refuse_config(&path, "project_doc_max_bytes is not a number of bytes");
                config.doc_bytes_max = bytes.ok_or_else(wrong)?;
            }
            config.take_fallbacks(walk, &path, &table)?;
            config.take_trust(&table);
        }
        Ok(config)
    }

    /// Looks up the project's trust; a trusted project's own configuration may name fallback files.
    pub(super) fn trust_project(
        &mut self,
        walk: &Walk<'_>,
        root: &Path,
        directories: &[PathBuf],
    ) -> Result<(), Refusal> {
        let main = project::checkout(walk.fs, &walk.cwd).map(|checkout| checkout.main);
        let mut places = [Some(walk.cwd.as_path()), Some(root), main.as_deref()].into_iter().flatten();
        self.trust = places.find_map(|path| self.trust_by_path.get(path).copied()).unwrap_or(Trust::Unsaid);
        if self.trust == Trust::Trusted {
            for path in directories.iter().map(|dir| dir.join(".codex/config.toml")) {
                if let Some(table) = read(walk, &path)? {
                    self.take_fallbacks(walk, &path, &table)?;
                }
            }
        }
        Ok(())
    }

    /// Why no project file is loaded at all, if none is.
    pub(super) fn hidden_reason(&self) -> Option<&'static str> {
        match (self.trust, self.doc_bytes_max) {
            (Trust::Untrusted, _) => Some("the project is untrusted in Codex"),
            (_, 0) => Some("project_doc_max_bytes = 0"),
            _ => None,
        }
    }

    fn take_fallbacks(&mut self, walk: &Walk<'_>, path: &Path, table: &Table) -> Result<(), Refusal> {
        if let Some(mut found) = names(walk, path, table, "project_doc_fallback_filenames")? {
            found.retain(|name| {
                !name.trim().is_empty() && name != "AGENTS.md" && name != "AGENTS.override.md"
            });
            let mut fresh = Vec::new();
            for name in found {
                if !fresh.contains(&name) {
                    fresh.push(name);
                }
            }
            self.fallback_names = fresh;
        }
        Ok(())
    }

    fn take_trust(&mut self, table: &Table) {
        let projects = table.get("projects").and_then(Value::as_table);
        for (path, project) in projects.into_iter().flatten() {
            let trust = match project.get("trust_level").and_then(Value::as_str) {
                Some("trusted") => Trust::Trusted,
                Some("untrusted") => Trust::Untrusted,
                _ => continue,
            };
            self.trust_by_path.insert(PathBuf::from(path), trust);
        }
    }
}

fn read(walk: &Walk<'_>, path: &Path) -> Result<Option<Table>, Refusal> {
    let Some(file) = walk.host_file(path)? else { return Ok(None) };
    let text = std::str::from_utf8(&file.bytes).map_err(|_| walk.refuse_config(path, "not UTF-8"))?;
    // The parser's own message quotes the line, which may hold a credential.
    text.parse::<Table>().map(Some).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        walk.refuse_config(path, &format!("not valid TOML (line {})", before.matches('\n').count() + 1))
    })
}

fn names(walk: &Walk<'_>, path: &Path, table: &Table, key: &str) -> Result<Option<Vec<String>>, Refusal> {
    let Some(value) = table.get(key) else { return Ok(None) };
    let list = value.as_array().map(|list| list.iter().map(|name| name.as_str().map(str::to_owned)));
    let list = list.and_then(Iterator::collect::<Option<Vec<String>>>);
    list.map(Some).ok_or_else(|| walk.refuse_config(path, &format!("{key} is not a list of names")))
}
