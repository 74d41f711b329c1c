//! Where things are: home, configuration file, state directory, the hosts' own folders.

use std::path::{Path, PathBuf};

use agentspine_gate::instructions::HostHomes;
use agentspine_gate::{Detail, Refusal};

use super::Environment;
use crate::report::Failure;

/// `HOME`, else the home directory of this user in the password file.
pub(super) fn home(environment: &Environment) -> Result<PathBuf, Failure> {
    let found = environment.get("HOME").map(PathBuf::from).or_else(home_of_user);
    found.filter(|home| home.is_absolute()).ok_or_else(|| {
        Failure::from(Refusal::new(
            Detail::StateDir,
            "HOME is not set to an absolute path, and this user has none of its own",
            "Set HOME, for example: HOME=/home/you agentspine doctor",
        ))
    })
}

fn home_of_user() -> Option<PathBuf> {
    let uid = rustix::process::getuid().as_raw().to_string();
    let users = std::fs::read_to_string("/etc/passwd").ok()?;
    let of_user = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
    of_user.into_iter().find(|fields| fields.get(2) == Some(&uid.as_str()))?.get(5).map(PathBuf::from)
}

/// `$XDG_CONFIG_HOME/agentspine/config.toml`, else below `~/.config`.
pub(super) fn config_file(environment: &Environment, home: &Path) -> PathBuf {
    config_home(environment, home).join("agentspine/config.toml")
}

/// `$XDG_CONFIG_HOME`, else `~/.config`.
pub(super) fn config_home(environment: &Environment, home: &Path) -> PathBuf {
    base(environment, "XDG_CONFIG_HOME", home, ".config")
}

/// `$AGENTSPINE_STATE_DIR`, else `agentspine` in `$XDG_STATE_HOME` or `~/.local/state`.
pub(super) fn state_dir(environment: &Environment, home: &Path) -> Result<PathBuf, Failure> {
    match environment.get("AGENTSPINE_STATE_DIR").map(PathBuf::from) {
        Some(dir) if dir.is_absolute() => Ok(dir),
        Some(_) => Err(Failure::from(Refusal::new(
            Detail::StateDir,
            "AGENTSPINE_STATE_DIR is not an absolute path",
            "Set it to an absolute path outside every project, or unset it",
        ))),
        None => Ok(base(environment, "XDG_STATE_HOME", home, ".local/state").join("agentspine")),
    }
}

/// The hosts' own folders; relative values are ignored, as a working directory must not choose them.
pub(super) fn host_homes(environment: &Environment, home: PathBuf) -> HostHomes {
    HostHomes {
        home,
        claude_config_dir: absolute(environment, "CLAUDE_CONFIG_DIR"),
        codex_home: absolute(environment, "CODEX_HOME"),
        claude_managed_dir: None,
    }
}

/// The repository a directory lies in. A repository that is the home directory itself or holds it (dotfiles) is no
/// project in this sense: everything a person owns would lie inside it, the default state directory too.
pub(super) fn project_root(cwd: &Path, home: &Path) -> Option<PathBuf> {
    let home = home.canonicalize().unwrap_or_else(|_| home.to_owned());
    let found = cwd.ancestors().find(|dir| dir.join(".git").symlink_metadata().is_ok())?;
    if home.starts_with(found) { None } else { Some(found.to_owned()) }
}

/// XDG base directories: a relative value is ignored, as the specification asks.
fn base(environment: &Environment, name: &str, home: &Path, default: &str) -> PathBuf {
    absolute(environment, name).unwrap_or_else(|| home.join(default))
}

fn absolute(environment: &Environment, name: &str) -> Option<PathBuf> {
    environment.get(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
