//! One typed [`Config`] from flags, environment and one file, in that order of precedence.
//!
//! [`Environment::of_process`] is the only place that reads the environment. Who asks (`[identity]`) and whose instruction
//! files are mandatory come from the file or from flags alone. Nothing is read from the working directory: no `.env`, no
//! project settings, so a cloned repository configures nothing.

mod compaction;
mod file;
mod memory;
mod paths;
mod proxy;
mod secret;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use agentspine_gate::Id;
use agentspine_gate::instructions::HostHomes;
use agentspine_gate::turn::{Identity, InstructionHost};

pub(crate) use compaction::CompactionSettings;
pub(crate) use memory::MemorySettings;
pub(crate) use proxy::ProxySettings;
pub(crate) use secret::Secret;

use crate::report::Failure;

/// A snapshot of the environment, taken once.
#[derive(Clone, Default)]
pub(crate) struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    /// The environment of this process.
    #[expect(clippy::disallowed_methods, reason = "this is the one reader everybody else is sent to")]
    pub(crate) fn of_process() -> Self {
        Self(std::env::vars_os().collect())
    }

    #[cfg(test)]
    pub(crate) fn of(pairs: &[(&str, &str)]) -> Self {
        Self(pairs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect())
    }

    /// A variable that is set and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// A variable that is set, not empty and UTF-8.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(OsStr::to_str)
    }

    fn secret(&self, name: &str) -> Option<Secret> {
        self.text(name).map(|value| Secret::new(value.to_owned()))
    }
}

/// What flags may set; `None` leaves it to the layers below.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    /// `--agent`.
    pub agent: Option<Id>,
    /// `--persona`.
    pub persona: Option<Id>,
    /// `--user`.
    pub user: Option<Id>,
    /// `--tenant`.
    pub tenant: Option<Id>,
    /// `--profile`.
    pub profile: Option<Id>,
    /// `--instruction-host`.
    pub instruction_host: Option<InstructionHost>,
    /// `--model`.
    pub model: Option<String>,
    /// `--ascii`.
    pub ascii: bool,
}

/// API keys from the environment.
#[derive(Debug, Clone, Default)]
pub(crate) struct ApiKeys {
    /// `ANTHROPIC_API_KEY`.
    pub anthropic: Option<Secret>,
    /// `OPENAI_API_KEY`.
    pub openai: Option<Secret>,
}

/// How the model client reaches the network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Http {
    /// Proxy URL; the environment's proxies are not used.
    pub proxy: Option<String>,
    /// PEM file of an additional authority.
    pub ca_file: Option<PathBuf>,
    /// Plain http to other machines is allowed.
    pub allow_plain: bool,
}

/// What the terminal is and what the person wants of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ui {
    /// Signs and frames in ASCII.
    pub ascii: bool,
    /// `NO_COLOR` is set.
    pub no_color: bool,
    /// `TERM`, if set.
    pub term: Option<String>,
    /// `VISUAL`, else `EDITOR`.
    pub editor: Option<String>,
}

impl Ui {
    /// Whether the terminal cannot move its cursor: it gets lines.
    pub(crate) fn is_dumb(&self) -> bool {
        self.term.as_deref().is_none_or(|term| term.is_empty() || term == "dumb")
    }
}

/// Everything the program was told, typed. No layer is left to look at.
#[derive(Clone)]
pub(crate) struct Config {
    /// Who asks.
    pub identity: Identity,
    /// Whose instruction files are mandatory; `None` = not bound yet.
    pub instruction_host: Option<InstructionHost>,
    /// The model as it was named.
    pub model: Option<String>,
    /// API keys from the environment.
    pub keys: ApiKeys,
    /// Prints an API key on stdout; program and arguments, no shell.
    pub api_key_command: Option<Vec<String>>,
    /// Network of the model client.
    pub http: Http,
    /// The proxy: where it listens, where it sends on to.
    pub proxy: ProxySettings,
    /// When a chat makes room by itself.
    pub compaction: CompactionSettings,
    /// Who may do what with memories.
    pub memory: MemorySettings,
    /// Terminal.
    pub ui: Ui,
    /// The state directory, absolute; not yet opened or checked.
    pub state_dir: PathBuf,
    /// The configuration file, whether it exists or not.
    pub file: PathBuf,
    /// Where the hosts keep their files.
    pub homes: HostHomes,
    /// The environment, for `PATH` and the credentials a local policy names.
    pub environment: Environment,
}

impl Config {
    /// Reads the file and lays flags over environment over file over defaults.
    pub(crate) fn load(flags: &Flags, environment: Environment) -> Result<Self, Failure> {
        let home = paths::home(&environment)?;
        let path = paths::config_file(&environment, &home);
        let file = file::read(&path)?;
        let proxy = ProxySettings::of(file.proxy, file.http.allow_plain, &path)?;
        let compaction = CompactionSettings::of(&file.compaction, &path)?;
        Ok(Self {
            identity: identity(flags, file.identity)?,
            instruction_host: flags.instruction_host.or(file.instruction_host),
            model: flags
                .model
                .clone()
                .or_else(|| environment.text("AGENTSPINE_MODEL").map(str::to_owned))
                .or(file.model),
            keys: ApiKeys {
                anthropic: environment.secret("ANTHROPIC_API_KEY"),
                openai: environment.secret("OPENAI_API_KEY"),
            },
            api_key_command: file.api_key_command,
            http: Http {
                proxy: file.http.proxy,
                ca_file: file.http.ca_file,
                allow_plain: file.http.allow_plain,
            },
            proxy,
            compaction,
            memory: MemorySettings::of(file.memory),
            ui: ui(flags, &environment, file.ui.ascii),
            state_dir: paths::state_dir(&environment, &home)?,
            file: path,
            homes: paths::host_homes(&environment, home),
            environment,
        })
    }

    /// Keeps the person's choice of instruction host in the file.
    pub(crate) fn keep_instruction_host(&self, host: InstructionHost) -> Result<(), Failure> {
        file::keep_instruction_host(&self.file, host)
    }

    /// The key in a variable that a model's server names.
    pub(crate) fn key(&self, variable: &str) -> Option<Secret> {
        self.environment.secret(variable)
    }

    /// The variables whose names are wanted, for a child that gets nothing else.
    pub(crate) fn variables(&self, wanted: impl Fn(&str) -> bool) -> Vec<(OsString, OsString)> {
        let all = self.environment.0.iter();
        let kept = all.filter(|(name, _)| name.to_str().is_some_and(&wanted));
        kept.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// `$XDG_CONFIG_HOME`, else `~/.config`.
    pub(crate) fn config_home(&self) -> PathBuf {
        paths::config_home(&self.environment, &self.homes.home)
    }

    /// The value of a variable that the local policy names as a provider's credential.
    pub(crate) fn credential(&self, name: &str) -> Option<Secret> {
        self.environment.secret(name)
    }

    /// Every secret known so far, for the report to conceal.
    pub(crate) fn secrets(&self) -> Vec<Secret> {
        self.keys.anthropic.iter().chain(&self.keys.openai).cloned().collect()
    }

    /// The repository a canonical directory lies in, which must not hold the state directory.
    pub(crate) fn project_root(&self, cwd: &std::path::Path) -> Option<PathBuf> {
        paths::project_root(cwd, &self.homes.home)
    }

    /// A path as its owner writes it: the home directory as `~`. For the person's own terminal only.
    pub(crate) fn short_path(&self, path: &std::path::Path) -> String {
        match path.strip_prefix(&self.homes.home) {
            Ok(below) if below.as_os_str().is_empty() => "~".to_owned(),
            Ok(below) => format!("~/{}", below.display()),
            Err(_) => path.display().to_string(),
        }
    }
}

/// Defaults of contract, section 2.
const AGENT: &str = "host-agent:default";
const USER: &str = agentspine_gate::turn::DEFAULT_USER;
const TENANT: &str = agentspine_gate::turn::DEFAULT_TENANT;
const PROFILE: &str = "default";

fn identity(flags: &Flags, file: file::IdentityTable) -> Result<Identity, Failure> {
    let or = |flag: &Option<Id>, file: Option<Id>, default: &str| match flag.clone().or(file) {
        Some(id) => Ok(id),
        None => Id::new(default).map_err(|cause| Failure::other(cause.to_string(), "")),
    };
    Ok(Identity {
        agent_id: or(&flags.agent, file.agent, AGENT)?,
        persona_id: flags.persona.clone().or(file.persona),
        user_id: or(&flags.user, file.user, USER)?,
        tenant_id: or(&flags.tenant, file.tenant, TENANT)?,
        profile_id: or(&flags.profile, file.profile, PROFILE)?,
    })
}

fn ui(flags: &Flags, environment: &Environment, ascii: bool) -> Ui {
    let text = |name: &str| environment.text(name).map(str::to_owned);
    Ui {
        ascii: flags.ascii || ascii,
        no_color: environment.get("NO_COLOR").is_some(),
        term: text("TERM"),
        editor: text("VISUAL").or_else(|| text("EDITOR")),
    }
}
