//! Codex: overrides on its command line, the secret in a variable they name. Its own configuration stays untouched.

use serde_json::Value;

use super::{HEADER, Told, WORKSPACE, same_base, settings_text, shown, unknown_gateway};
use crate::config::Config;
use crate::proxy::workspaces::Upstreams;
use crate::report::Failure;

/// The variable that holds an API key where Codex has no login.
const KEY: &str = "OPENAI_API_KEY";

/// How Codex is logged in, as its `auth.json` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Login {
    /// Not at all: it takes the key of the environment.
    None,
    /// With an API key.
    ApiKey,
    /// With a ChatGPT account.
    ChatGpt,
}

impl Login {
    /// Where its requests go.
    pub(crate) fn upstreams(self) -> Upstreams {
        match self {
            Self::None | Self::ApiKey => Upstreams::OpenAi,
            Self::ChatGpt => Upstreams::ChatGpt,
        }
    }
}

/// Reads how Codex is logged in; keys and tokens are not kept.
pub(crate) fn login(config: &Config) -> Login {
    let text = settings_text(&home(config).join("auth.json"));
    let auth: Option<Value> = text.and_then(|text| serde_json::from_str(&text).ok());
    let Some(auth) = auth else { return Login::None };
    let has = |name: &str| auth.get(name).is_some_and(|value| !value.is_null() && value != "");
    match (has(KEY), has("tokens")) {
        (true, _) => Login::ApiKey,
        (false, true) => Login::ChatGpt,
        (false, false) => Login::None,
    }
}

/// Codex's own folder.
pub(crate) fn home(config: &Config) -> std::path::PathBuf {
    let homes = &config.homes;
    homes.codex_home.clone().unwrap_or_else(|| homes.home.join(".codex"))
}

pub(super) fn told(base: &str, secret: &str, login: Login) -> Told {
    let credential = match login {
        Login::None => format!("env_key=\"{KEY}\""),
        Login::ApiKey | Login::ChatGpt => "requires_openai_auth=true".to_owned(),
    };
    let of_provider = [
        // With this name the items keep the marks by which human text is told from other text.
        "name=\"OpenAI\"".to_owned(),
        format!("base_url=\"{base}/v1\""),
        "wire_api=\"responses\"".to_owned(),
        credential,
        format!("env_http_headers={{\"{HEADER}\"=\"{WORKSPACE}\"}}"),
    ];
    let provider = of_provider.iter().map(|setting| format!("model_providers.agentspine.{setting}"));
    let settings = std::iter::once("model_provider=\"agentspine\"".to_owned()).chain(provider);
    let args = settings.flat_map(|setting| ["-c".to_owned(), setting]).collect();
    Told { variables: vec![(WORKSPACE, secret.to_owned())], args }
}

/// Refuses where Codex's configuration names another provider than `OpenAI`'s own, which the overrides would replace.
pub(super) fn gateway(config: &Config) -> Result<(), Failure> {
    let text = settings_text(&home(config).join("config.toml")).unwrap_or_default();
    let Ok(table) = text.parse::<toml::Table>() else { return Ok(()) };
    let named = |name: &str| table.get(name).and_then(toml::Value::as_str);
    let provider = named("model_provider").filter(|name| !["openai", "agentspine"].contains(name));
    let base = match provider {
        Some(name) => {
            let providers = table.get("model_providers").and_then(toml::Value::as_table);
            let found = providers.and_then(|all| all.get(name)?.get("base_url")?.as_str());
            Some(found.unwrap_or_default())
        }
        None => named("openai_base_url"),
    };
    match base {
        Some(url) if !same_base(url, &config.proxy.openai.at("")) => {
            Err(unknown_gateway("Codex's config.toml names", "openai", shown(url), config))
        }
        _ => Ok(()),
    }
}
