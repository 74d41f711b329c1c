//! Which model answers: the named one, the one a single key names, a local server the person accepts, else the demo.

use agentspine_model::{Dialect, ModelSpec, PlainHttp, Secret, Target};

use crate::compose;
use crate::config::Config;
use crate::report::Failure;

/// What one key in the environment names where no model is named.
const ANTHROPIC_DEFAULT: &str = "anthropic:claude-sonnet-5-5";
/// The same for an OpenAI key.
const OPENAI_DEFAULT: &str = "openai:gpt-5.1";
/// What a person should know about the demo.
pub(super) const DEMO_NOTE: &str =
    "the embedded demo: no real model. Set a key, or name one with --model, for real answers";

/// What is known before anything is asked or probed.
pub(super) enum Choice {
    /// This one.
    Model(Target),
    /// Several keys: the person chooses.
    Ask(Vec<String>),
    /// Nothing is configured: the demo, unless a local server is found and accepted.
    Demo(Target),
}

/// Reads flags, configuration and keys.
pub(super) fn choose(config: &Config) -> Result<Choice, Failure> {
    if let Some(text) = &config.model {
        return target(config, text).map(Choice::Model);
    }
    match (&config.keys.anthropic, &config.keys.openai) {
        (Some(_), Some(_)) => Ok(Choice::Ask(vec![ANTHROPIC_DEFAULT.to_owned(), OPENAI_DEFAULT.to_owned()])),
        (Some(_), None) => target(config, ANTHROPIC_DEFAULT).map(Choice::Model),
        (None, Some(_)) => target(config, OPENAI_DEFAULT).map(Choice::Model),
        (None, None) if config.api_key_command.is_some() => Err(Failure::usage(
            "api_key_command is set, but no model",
            "Name it in config.toml (model = \"anthropic:NAME\") or with --model",
        )),
        (None, None) => Ok(Choice::Demo(ModelSpec::demo().target(None))),
    }
}

/// The target of one `--model` value, with its key.
pub(super) fn target(config: &Config, text: &str) -> Result<Target, Failure> {
    let plain = if config.http.allow_plain { PlainHttp::Anywhere } else { PlainHttp::LoopbackOnly };
    let spec = ModelSpec::parse(text, plain).map_err(|error| {
        Failure::usage(format!("--model {text}: {error}"), "Try: agentspine chat --model demo")
    })?;
    let needs_key = spec.needs_key();
    let Some(variable) = spec.key_variable() else { return Ok(spec.target(None)) };
    let key = match config.key(variable) {
        Some(key) => Some(key),
        None => compose::key_from_command(config)?,
    };
    let secret = key.and_then(|key| Secret::new(key.expose().to_owned()));
    if secret.is_none() && needs_key {
        return Err(Failure::usage(
            format!("{text} needs a key and {variable} is not set"),
            format!(
                "Set {variable}, or api_key_command in config.toml; without a key: agentspine chat --model demo"
            ),
        ));
    }
    Ok(spec.target(secret))
}

/// How a target is called on the screen.
pub(super) fn label(target: &Target) -> String {
    match target.dialect {
        Dialect::Demo => "demo".to_owned(),
        Dialect::AnthropicMessages | Dialect::OpenAiChat | Dialect::OpenAiResponses => target.model.clone(),
    }
}
