//! What a client is told so that its calls come through here, and where its own settings would lead them elsewhere.
//!
//! [`told`] gives the variables and arguments; a secret stands in variables only, never in an argument, which every user
//! of the machine can read. [`gateway`] refuses to replace a gateway that the person has chosen without knowing it as an
//! upstream, [`passes_by`] to start one whose files lead past us; [`strays`] names what a client's own files would do against us.

pub(crate) mod background;
mod claude;
pub(crate) mod codex;
mod opencode;
#[cfg(test)]
mod tests;

use std::ffi::OsStr;
use std::io::Read as _;
use std::path::Path;

use agentspine_gate::turn::{Host, InstructionHost};
use agentspine_gate::{Detail, Refusal};
use agentspine_model::Url;

use super::workspaces::{Binding, Upstreams, Workspace};
use crate::config::Config;
use crate::report::Failure;

/// The variable that holds a workspace's secret where a client reads headers from variables.
pub(crate) const WORKSPACE: &str = "AGENTSPINE_WORKSPACE";
/// The header that carries it.
pub(crate) const HEADER: &str = "x-agentspine-workspace";
/// Largest settings file of a client that is looked at, bytes.
const SETTINGS_BYTES_MAX: u64 = 1024 * 1024;

/// A client whose ways are known, or any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// opencode.
    OpenCode,
    /// Any other program.
    Other,
}

impl Client {
    /// By the name of its program.
    pub(crate) fn of(program: &OsStr) -> Self {
        match Path::new(program).file_name().and_then(OsStr::to_str) {
            Some("claude") => Self::Claude,
            Some("codex") => Self::Codex,
            Some("opencode") => Self::OpenCode,
            _ => Self::Other,
        }
    }

    /// The host its calls are bound to.
    pub(crate) fn host(self) -> Host {
        match self {
            Self::Claude => Host::Claude,
            Self::Codex => Host::Codex,
            Self::OpenCode | Self::Other => Host::Generic,
        }
    }

    /// Whose instruction files: the named one's, else its own, else the configured one; never guessed.
    fn instruction_host(
        self,
        named: Option<InstructionHost>,
        config: &Config,
    ) -> Result<InstructionHost, Refusal> {
        let own = match self {
            Self::Claude => Some(InstructionHost::Claude),
            Self::Codex => Some(InstructionHost::Codex),
            Self::OpenCode | Self::Other => config.instruction_host,
        };
        named.or(own).ok_or_else(|| {
            Refusal::new(
                Detail::HostUnbound,
                "it is not said whose instruction files are mandatory for this client",
                "Add --instruction-host claude or --instruction-host codex, or set instruction_host in config.toml",
            )
        })
    }
}

/// What this client's secret stands for in a canonical directory.
pub(crate) fn binding(
    client: Client,
    dir: &Path,
    named: Option<InstructionHost>,
    config: &Config,
) -> Result<Binding, Failure> {
    let upstreams = match client {
        Client::Claude => Upstreams::Anthropic,
        Client::Codex => codex::login(config).upstreams(),
        Client::OpenCode | Client::Other => Upstreams::ByDialect,
    };
    Ok(Binding {
        dir: dir.to_owned(),
        host: client.host(),
        instruction_host: client.instruction_host(named, config)?,
        identity: config.identity.clone(),
        homes: config.homes.clone(),
        upstreams,
    })
}

/// What a client is told.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Variables to set.
    pub variables: Vec<(&'static str, String)>,
    /// Arguments to put before its own.
    pub args: Vec<String>,
}

/// The variables and arguments with which a client calls `base` for this workspace.
pub(crate) fn told(
    client: Client,
    base: &str,
    workspace: &Workspace,
    config: &Config,
) -> Result<Told, Failure> {
    let secret = workspace.secret.expose();
    let mut told = match client {
        Client::Claude => claude::told(base, secret, config),
        Client::Codex => codex::told(base, secret, codex::login(config)),
        Client::OpenCode => opencode::told(base, secret, config)?,
        Client::Other => Told {
            variables: vec![
                ("ANTHROPIC_BASE_URL", format!("{base}/w/{secret}")),
                ("OPENAI_BASE_URL", format!("{base}/w/{secret}/v1")),
                (WORKSPACE, secret.to_owned()),
            ],
            args: Vec::new(),
        },
    };
    told.variables.extend(past_the_proxy(config));
    Ok(told)
}

/// Where the environment names an HTTP proxy, the loopback is kept out of it: the secret stays on this machine.
fn past_the_proxy(config: &Config) -> Vec<(&'static str, String)> {
    let set = |name: &&str| config.environment.get(name).is_some();
    if !["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"].iter().any(set) {
        return Vec::new();
    }
    let direct = |name: &'static str| match config.environment.text(name) {
        Some(list) if list.split(',').any(|host| host.trim() == "127.0.0.1") => None,
        Some(list) => Some((name, format!("{list},127.0.0.1"))),
        None => Some((name, "127.0.0.1".to_owned())),
    };
    ["NO_PROXY", "no_proxy"].into_iter().filter_map(direct).collect()
}

/// Refuses where the person's environment or the client's configuration names a gateway that would be replaced, and the
/// proxy would not send on to it.
pub(crate) fn gateway(client: Client, base: &str, config: &Config) -> Result<(), Failure> {
    let anthropic = ("ANTHROPIC_BASE_URL", "anthropic", config.proxy.anthropic.at(""));
    let openai = ("OPENAI_BASE_URL", "openai", config.proxy.openai.at(""));
    let replaced = match client {
        Client::Claude => vec![anthropic],
        Client::Codex => return codex::gateway(config),
        Client::OpenCode => vec![],
        Client::Other => vec![anthropic, openai],
    };
    for (variable, key, upstream) in replaced {
        let Some(named) = config.environment.text(variable) else { continue };
        if !same_base(named, &upstream) && !is_ours(named, base) {
            return Err(unknown_gateway(&format!("{variable} names"), key, shown(named), config));
        }
    }
    Ok(())
}

fn unknown_gateway(who: &str, key: &str, url: Option<String>, config: &Config) -> Failure {
    let url = url.unwrap_or_else(|| "URL".to_owned());
    Failure::usage(
        format!("{who} a gateway of yours, which would be replaced and never asked"),
        format!(
            "Let agentspine send on to it: [proxy] {key} = \"{url}\" in {}; or unset it",
            config.short_path(&config.file)
        ),
    )
}

/// A URL as it may be shown: without what could be a credential in it.
fn shown(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let plain = url.password().is_none() && url.username().is_empty() && url.query().is_none();
    plain.then(|| url.as_str().trim_end_matches('/').to_owned())
}

/// Whether two base URLs mean one server and path, with or without `/v1` at their end.
fn same_base(one: &str, other: &str) -> bool {
    let plain = |text: &str| {
        let url = Url::parse(text).ok()?;
        Some(url.as_str().trim_end_matches('/').trim_end_matches("/v1").to_owned())
    };
    plain(one).is_some_and(|one| Some(one) == plain(other))
}

/// Whether a URL lies on our own daemon: a client that was started by a client.
fn is_ours(url: &str, base: &str) -> bool {
    let origin = |text: &str| Url::parse(text).map(|url| url.origin()).ok();
    origin(url).is_some_and(|found| Some(found) == origin(base))
}

/// Something that leads a client's calls elsewhere: calls that no gate sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Stray {
    /// What.
    pub message: String,
    /// What to do.
    pub advice: String,
    /// What becomes of the calls.
    pub calls: Calls,
}

/// What becomes of a client's calls where something leads them elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Calls {
    /// They reach a model and no gate.
    PassNoGate,
    /// They are refused here, or bound to another directory, or find nobody.
    Else,
}

/// Refuses to start a client whose own settings lead its calls past us: it would have no guarantee and look as if it had.
pub(crate) fn passes_by(client: Client, base: &str, dir: &Path, config: &Config) -> Result<(), Failure> {
    let strays = strays(client, Some(base), dir, config);
    match strays.into_iter().find(|stray| stray.calls == Calls::PassNoGate) {
        Some(Stray { message, advice, .. }) => Err(Failure::usage(message, advice)),
        None => Ok(()),
    }
}

/// What in a client's own settings would lead its calls past `base`.
pub(crate) fn strays(client: Client, base: Option<&str>, dir: &Path, config: &Config) -> Vec<Stray> {
    match client {
        Client::Claude => claude::strays(base, dir, config),
        Client::Codex | Client::OpenCode | Client::Other => Vec::new(),
    }
}

/// A client's settings file, if it is a regular file of a sensible size.
fn settings_text(path: &Path) -> Option<String> {
    let file = std::fs::File::open(path).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(SETTINGS_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}
