//! A profile document becomes a [`Profile`] once, here: unknown keys, wrong types and values out of range are named by path.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{Adapter, Deadlines, InstructionBudget, Network, Profile, Provider, RecallBudget};
use crate::ids::{Digest, Id};
use crate::plan::LEDGER_PROVIDER;

/// Most providers of a profile.
const PROVIDERS_MAX: usize = 16;
/// Most hosts a profile names.
const HOSTS_MAX: usize = 16;
/// Most arguments of a provider.
const ARGS_MAX: usize = 64;
/// Longest argument, UTF-16 units (the unit of the earlier implementation, so its profiles stay valid).
const ARG_UNITS_MAX: usize = 500;
/// Most credential names of a provider.
const CREDENTIALS_MAX: usize = 16;
/// Most accepted link targets.
const LINKS_MAX: usize = 64;
/// Longest path, bytes (Linux `PATH_MAX`).
const PATH_BYTES_MAX: usize = 4096;
/// Largest instruction limit, bytes.
const INSTRUCTION_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Smallest and largest `timeoutMs` and `requiredMs`.
const TIMEOUT_MS: (u64, u64) = (100, 10_000);
const TIMEOUT_MS_DEFAULT: u64 = 5000;
/// Most optional items a briefing may take from all providers.
const RECALL_ENTRIES_MAX: u64 = 128;
const RECALL_BYTES_MAX: u64 = 1024 * 1024;

/// Schema of a profile document; may be left out.
pub const PROFILE_SCHEMA: &str = "agentspine.preflight-profile/v1";
/// Schema of a provider in it.
pub const PROVIDER_SCHEMA: &str = "agentspine.retrieval-provider/v1";

/// Variables that change what a program loads or runs: as names of credentials they would be a way in.
const LOADER_NAMES: &str = "PATH ENV IFS PS4 PROMPT_COMMAND SHELLOPTS BASHOPTS ZDOTDIR NODE_OPTIONS NODE_PATH \
    NODE_EXTRA_CA_CERTS GCONV_PATH GETCONF_DIR LOCPATH NLSPATH GLIBC_TUNABLES HOSTALIASES JAVA_TOOL_OPTIONS \
    _JAVA_OPTIONS JDK_JAVA_OPTIONS CLASSPATH DOTNET_STARTUP_HOOKS PHPRC PHP_INI_SCAN_DIR OPENSSL_CONF OPENSSL_MODULES \
    SSLKEYLOGFILE";
/// Whole families of them.
const LOADER_PREFIXES: &str = "LD_ DYLD_ PYTHON PERL RUBY BASH_ LUA_ GIT_ CORECLR_ COR_";

/// What is wrong with a document and at which key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {why}")]
pub(super) struct Fault {
    path: String,
    why: String,
}

pub(super) type Parsed<T> = Result<T, Fault>;

pub(super) fn fault<T>(path: impl Into<String>, why: impl Into<String>) -> Parsed<T> {
    Err(Fault { path: path.into(), why: why.into() })
}

/// A value with the key path it came from.
pub(super) struct At {
    pub(super) path: String,
    pub(super) value: Value,
}

impl At {
    pub(super) fn new(path: impl Into<String>, value: Value) -> Self {
        Self { path: path.into(), value }
    }

    fn text(self) -> Parsed<(String, String)> {
        match self.value {
            Value::String(text) => Ok((self.path, text)),
            _ => fault(self.path, "expected text"),
        }
    }

    pub(super) fn id(self) -> Parsed<Id> {
        let (path, text) = self.text()?;
        Id::new(text).or_else(|e| fault(path, e.to_string()))
    }

    fn flag(self) -> Parsed<bool> {
        self.value.as_bool().map_or_else(|| fault(self.path, "expected true or false"), Ok)
    }

    pub(super) fn number(self, (low, high): (u64, u64)) -> Parsed<u64> {
        match self.value.as_u64() {
            Some(n) if (low..=high).contains(&n) => Ok(n),
            _ => fault(self.path, format!("expected a whole number from {low} to {high}")),
        }
    }

    pub(super) fn list(self, max: usize) -> Parsed<Vec<Self>> {
        let Value::Array(items) = self.value else { return fault(self.path, "expected a list") };
        if items.len() > max {
            return fault(self.path, format!("at most {max} entries, these are {}", items.len()));
        }
        let at = |(n, value)| Self::new(format!("{}[{n}]", self.path), value);
        Ok(items.into_iter().enumerate().map(at).collect())
    }

    fn absolute(self) -> Parsed<PathBuf> {
        let (path, text) = self.text()?;
        let fits = text.len() <= PATH_BYTES_MAX && !text.contains('\0') && Path::new(&text).is_absolute();
        if fits { Ok(PathBuf::from(text)) } else { fault(path, "expected an absolute path") }
    }

    pub(super) fn object(self) -> Parsed<Keys> {
        match self.value {
            Value::Object(map) => Ok(Keys { path: self.path, map }),
            _ => fault(self.path, "expected an object"),
        }
    }
}

/// An object whose keys are taken one by one; what is left over is an error.
pub(super) struct Keys {
    path: String,
    map: Map<String, Value>,
}

impl Keys {
    fn at(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// A key that may be absent; null counts as absent.
    pub(super) fn maybe(&mut self, key: &str) -> Option<At> {
        let value = self.map.remove(key).filter(|value| !value.is_null())?;
        Some(At::new(self.at(key), value))
    }

    pub(super) fn need(&mut self, key: &str) -> Parsed<At> {
        self.maybe(key).map_or_else(|| fault(self.at(key), "is missing"), Ok)
    }

    /// A key that, where it stands, holds exactly one of these words.
    pub(super) fn word(&mut self, key: &str, words: &[&str]) -> Parsed<Option<String>> {
        let Some(at) = self.maybe(key) else { return Ok(None) };
        let (path, text) = at.text()?;
        if words.contains(&text.as_str()) {
            Ok(Some(text))
        } else {
            fault(path, format!("expected {}", words.join(" or ")))
        }
    }

    fn number_or(&mut self, key: &str, range: (u64, u64), default: u64) -> Parsed<u64> {
        self.maybe(key).map_or(Ok(default), |at| at.number(range))
    }

    fn flag_or(&mut self, key: &str, default: bool) -> Parsed<bool> {
        self.maybe(key).map_or(Ok(default), At::flag)
    }

    fn list_or_empty(&mut self, key: &str, max: usize) -> Parsed<Vec<At>> {
        self.maybe(key).map_or(Ok(Vec::new()), |at| at.list(max))
    }

    pub(super) fn end(self) -> Parsed<()> {
        match self.map.keys().next() {
            Some(key) => fault(self.at(&crate::screen::neutralise(key)), "unknown key"),
            None => Ok(()),
        }
    }
}

/// Parses one profile object.
pub(super) fn profile(at: At) -> Parsed<Profile> {
    let mut keys = at.object()?;
    keys.word("schema", &[PROFILE_SCHEMA, super::POLICY_SCHEMA])?;
    // Written by the earlier implementation into every stored profile; it configures nothing.
    keys.word("authority", &[super::store::AUTHORITY])?;
    let profile = Profile {
        id: keys.need("id")?.id()?,
        agent_id: keys.need("agentId")?.id()?,
        host: hosts(keys.need("host")?)?,
        profile_id: keys.need("profileId")?.id()?,
        tenant_id: keys.need("tenantId")?.id()?,
        enabled: keys.flag_or("enabled", false)?,
        providers: providers(keys.list_or_empty("providers", PROVIDERS_MAX)?)?,
        instruction_budget: keys.maybe("instructionBudget").map(instruction_budget).transpose()?,
        recall_budget: keys.maybe("recallBudget").map_or(Ok(RecallBudget::default()), recall_budget)?,
        deadlines: keys.maybe("deadlines").map_or(Ok(Deadlines::default()), deadlines)?,
        allowed_symlink_targets: keys
            .list_or_empty("allowedSymlinkTargets", LINKS_MAX)?
            .into_iter()
            .map(At::absolute)
            .collect::<Parsed<_>>()?,
        subagent_recall: keys.flag_or("subagentRecall", false)?,
    };
    keys.end()?;
    Ok(profile)
}

fn hosts(at: At) -> Parsed<Vec<Id>> {
    if at.value.is_string() {
        return Ok(vec![at.id()?]);
    }
    let path = at.path.clone();
    let hosts = at.list(HOSTS_MAX)?.into_iter().map(At::id).collect::<Parsed<Vec<_>>>()?;
    if hosts.is_empty() { fault(path, "names no host") } else { Ok(hosts) }
}

fn providers(list: Vec<At>) -> Parsed<Vec<Provider>> {
    let mut providers: Vec<Provider> = Vec::with_capacity(list.len());
    for at in list {
        let path = at.path.clone();
        let next = provider(at)?;
        if providers.iter().any(|one| one.id == next.id) {
            return fault(format!("{path}.id"), format!("provider {} stands twice", next.id));
        }
        providers.push(next);
    }
    Ok(providers)
}

fn provider(at: At) -> Parsed<Provider> {
    let path = at.path.clone();
    let mut keys = at.object()?;
    if keys.word("schema", &[PROVIDER_SCHEMA])?.is_none() {
        return fault(format!("{path}.schema"), format!("is missing, expected {PROVIDER_SCHEMA}"));
    }
    let adapter = adapter(keys.need("adapter")?)?;
    let (required, fail_closed) = (keys.flag_or("required", false)?, keys.flag_or("failClosed", false)?);
    if required && !fail_closed {
        return fault(format!("{path}.failClosed"), "must be true where required is true");
    }
    let command = match (adapter, keys.maybe("command")) {
        (Adapter::LedgerV1, None) => PathBuf::new(),
        (Adapter::LedgerV1, Some(at)) if at.value == "" => PathBuf::new(),
        (Adapter::LedgerV1, Some(at)) => return fault(at.path, "the embedded ledger has no command"),
        (_, Some(at)) => at.absolute()?,
        (_, None) => return fault(format!("{path}.command"), "is missing"),
    };
    let provider = Provider {
        id: keys.need("id")?.id()?,
        adapter,
        required,
        fail_closed,
        timeout_ms: keys.number_or("timeoutMs", TIMEOUT_MS, TIMEOUT_MS_DEFAULT)?,
        command,
        args: keys.list_or_empty("args", ARGS_MAX)?.into_iter().map(argument).collect::<Parsed<_>>()?,
        credential_env: credentials(keys.list_or_empty("credentialEnv", CREDENTIALS_MAX)?)?,
        send_prompt: keys.flag_or("sendPrompt", false)?,
        command_sha256: keys.maybe("commandSha256").map(sha256).transpose()?,
        network: match keys.word("network", &["allowed", "none"])?.as_deref() {
            Some("none") => Network::None,
            _ => Network::Allowed,
        },
    };
    keys.end()?;
    consistent(&path, provider)
}

/// What one key says about another.
fn consistent(path: &str, provider: Provider) -> Parsed<Provider> {
    let v2 = provider.adapter == Adapter::MnemoCommandV2;
    if provider.send_prompt != v2 {
        let why = if v2 {
            "mnemo-command/v2 hands over the prompt: say so with true, or use mnemo-command/v1"
        } else {
            "only mnemo-command/v2 can hand over the prompt"
        };
        return fault(format!("{path}.sendPrompt"), why);
    }
    if provider.id.as_str() == LEDGER_PROVIDER && provider.adapter != Adapter::LedgerV1 {
        // Outcomes are told apart by id: the embedded one's must never stand for this one's.
        return fault(format!("{path}.id"), "ledger names the embedded provider");
    }
    let alone =
        provider.args.is_empty() && provider.credential_env.is_empty() && provider.command_sha256.is_none();
    if provider.adapter == Adapter::LedgerV1 && !alone {
        return fault(path, "the embedded ledger has no args, credentialEnv or commandSha256");
    }
    Ok(provider)
}

fn adapter(at: At) -> Parsed<Adapter> {
    let (path, text) = at.text()?;
    match text.as_str() {
        "ledger/v1" => Ok(Adapter::LedgerV1),
        "mnemo-command/v1" => Ok(Adapter::MnemoCommandV1),
        "mnemo-command/v2" => Ok(Adapter::MnemoCommandV2),
        "hypatia-cli/v1" => fault(path, "hypatia-cli/v1 is not in this version"),
        _ => fault(path, "expected ledger/v1, mnemo-command/v1 or mnemo-command/v2"),
    }
}

fn argument(at: At) -> Parsed<String> {
    let (path, text) = at.text()?;
    let fits = text.encode_utf16().count() <= ARG_UNITS_MAX && !text.contains('\0');
    if fits { Ok(text) } else { fault(path, format!("at most {ARG_UNITS_MAX} characters, no NUL")) }
}

fn credentials(list: Vec<At>) -> Parsed<Vec<String>> {
    let mut names: Vec<String> = Vec::with_capacity(list.len());
    for at in list {
        let (path, name) = at.text()?;
        let first = name.bytes().next().is_some_and(|b| b.is_ascii_uppercase() || b == b'_');
        let rest = name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        if !(first && rest && name.len() <= 128) {
            return fault(path, "expected the name of an environment variable: A-Z, 0-9 and _");
        }
        let loads = LOADER_NAMES.split(' ').any(|n| n == name)
            || LOADER_PREFIXES.split(' ').any(|p| name.starts_with(p));
        if loads {
            return fault(path, format!("{name} changes what a program loads and can't be a credential"));
        }
        if names.contains(&name) {
            return fault(path, format!("{name} stands twice"));
        }
        names.push(name);
    }
    Ok(names)
}

fn sha256(at: At) -> Parsed<Digest> {
    let (path, text) = at.text()?;
    Digest::parse(&text).map_or_else(|| fault(path, "expected 64 lower-case hex digits"), Ok)
}

fn instruction_budget(at: At) -> Parsed<InstructionBudget> {
    let mut keys = at.object()?;
    let hard_limit_bytes = keys.need("hardLimitBytes")?.number((1024, INSTRUCTION_BYTES_MAX))?;
    let standard = hard_limit_bytes.min(super::STANDARD_BYTES);
    let standard_bytes = keys.number_or("standardBytes", (1024, hard_limit_bytes), standard)?;
    keys.end()?;
    Ok(InstructionBudget { standard_bytes, hard_limit_bytes })
}

fn recall_budget(at: At) -> Parsed<RecallBudget> {
    let (mut keys, default) = (at.object()?, RecallBudget::default());
    let budget = RecallBudget {
        entries: keys.number_or("entries", (0, RECALL_ENTRIES_MAX), default.entries)?,
        bytes: keys.number_or("bytes", (0, RECALL_BYTES_MAX), default.bytes)?,
        tokens: keys.number_or("tokens", (0, RECALL_BYTES_MAX), default.tokens)?,
    };
    keys.end()?;
    Ok(budget)
}

fn deadlines(at: At) -> Parsed<Deadlines> {
    let (mut keys, default) = (at.object()?, Deadlines::default());
    let deadlines = Deadlines {
        required_ms: keys.number_or("requiredMs", TIMEOUT_MS, default.required_ms)?,
        optional_ms: keys.number_or("optionalMs", (1, TIMEOUT_MS.1), default.optional_ms)?,
    };
    keys.end()?;
    Ok(deadlines)
}
