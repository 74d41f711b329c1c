//! Codex's background daemon: one for each of its homes. It makes the calls of later terminals too, with the environment
//! of the first one, so it may have another workspace than the terminal in front of it, or none.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use agentspine_model::Url;

use super::{Calls, Stray, WORKSPACE, is_ours};
use crate::config::Secret;
use crate::proxy::workspaces::Registry;

/// The processes of this machine.
pub(crate) const PROC: &str = "/proc";
/// Largest list of variables or arguments that is looked at, bytes.
const LIST_BYTES_MAX: u64 = 1024 * 1024;

/// A background daemon of Codex.
pub(crate) struct Background {
    pid: u32,
    workspace: Option<Secret>,
    /// Where its arguments send it, if they say.
    base: Option<String>,
}

/// This user's background daemons for one Codex home. None are found where the system does not show its processes.
pub(crate) fn find(proc: &Path, codex_home: &Path) -> Vec<Background> {
    let Ok(entries) = std::fs::read_dir(proc) else { return Vec::new() };
    let own = rustix::process::getuid().as_raw();
    let pids = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let pid = entry.file_name().to_str()?.parse().ok()?;
        (entry.metadata().ok()?.uid() == own).then_some((pid, entry.path()))
    });
    pids.filter_map(|(pid, path)| look(pid, &path, codex_home)).collect()
}

fn look(pid: u32, process: &Path, codex_home: &Path) -> Option<Background> {
    let args = list(&process.join("cmdline"))?;
    if !["app-server", "--managed-daemon"].iter().all(|wanted| args.iter().any(|arg| arg == wanted)) {
        return None;
    }
    let variables = list(&process.join("environ"))?;
    let value = |name: &str| {
        let set = variables.iter().filter_map(|variable| variable.split_once('='));
        set.into_iter().find(|(found, value)| *found == name && !value.is_empty()).map(|(_, value)| value)
    };
    let home = value("CODEX_HOME")
        .map(PathBuf::from)
        .or_else(|| value("HOME").map(|home| Path::new(home).join(".codex")))?;
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    (real(&home) == real(codex_home)).then(|| Background {
        pid,
        workspace: value(WORKSPACE).map(|secret| Secret::new(secret.to_owned())),
        base: args.iter().find_map(|arg| base_url(arg)),
    })
}

fn base_url(arg: &str) -> Option<String> {
    let value = arg.strip_prefix("model_providers.agentspine.base_url=")?.trim_matches('"');
    Url::parse(value).ok().map(String::from)
}

fn list(path: &Path) -> Option<Vec<String>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::open(path).ok()?.take(LIST_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes.split(|byte| *byte == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect())
}

/// Which workspace a background daemon should have.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'a> {
    /// Exactly this one: a client is about to start.
    This(&'a Secret),
    /// Any that the registry knows.
    Known(&'a Registry),
}

impl Background {
    /// What is wrong with it, if anything is.
    pub(crate) fn stray(&self, wanted: Wanted<'_>, base: Option<&str>) -> Option<Stray> {
        let fits = |secret: &Secret| match wanted {
            Wanted::This(this) => this.expose() == secret.expose(),
            Wanted::Known(registry) => registry.find(secret.expose()).is_some(),
        };
        let elsewhere = || match (&self.base, base) {
            (Some(its), Some(base)) => !is_ours(its, base),
            _ => false,
        };
        let what = match &self.workspace {
            None => "was started without agentspine: the calls it makes pass no gate",
            Some(secret) if !fits(secret) => {
                "still has another workspace: its calls are bound to another directory"
            }
            Some(_) if elsewhere() => "still has another address of agentspine: its calls fail",
            Some(_) => return None,
        };
        Some(Stray {
            message: format!("Codex's background process {} {what}", self.pid),
            advice: format!("kill {}; then: agentspine run codex", self.pid),
            calls: if self.workspace.is_none() { Calls::PassNoGate } else { Calls::Else },
        })
    }
}
