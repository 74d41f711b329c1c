//! Claude Code: `ANTHROPIC_BASE_URL` and `ANTHROPIC_CUSTOM_HEADERS`. The `env` block of its settings wins over both.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{Calls, HEADER, Stray, Told, is_ours, settings_text};
use crate::config::Config;

/// Where it goes.
const BASE: &str = "ANTHROPIC_BASE_URL";
/// Header lines of the person's own, one a line.
const HEADERS: &str = "ANTHROPIC_CUSTOM_HEADERS";
/// Each makes it call a cloud's own API, which nothing here stands in front of.
const CLOUDS: [&str; 3] = ["CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY"];
/// Where the organisation's own settings stand.
const MANAGED: &str = "/etc/claude-code";

pub(super) fn told(base: &str, secret: &str, config: &Config) -> Told {
    let before = config.environment.text(HEADERS).unwrap_or_default();
    // A client that was started by a client brings an earlier workspace along.
    let is_ours =
        |line: &str| line.split_once(':').is_some_and(|(name, _)| name.trim().eq_ignore_ascii_case(HEADER));
    let kept = before.lines().filter(|line| !line.trim().is_empty() && !is_ours(line));
    let own = format!("{HEADER}: {secret}");
    let headers: Vec<&str> = kept.chain([own.as_str()]).collect();
    Told { variables: vec![(BASE, base.to_owned()), (HEADERS, headers.join("\n"))], args: Vec::new() }
}

pub(super) fn strays(base: Option<&str>, dir: &Path, config: &Config) -> Vec<Stray> {
    let clouds = CLOUDS.iter().filter(|name| config.environment.get(name).is_some()).map(|name| Stray {
        message: format!("{name} is set: Claude Code calls that cloud, not agentspine"),
        advice: format!("unset {name}"),
        calls: Calls::PassNoGate,
    });
    let files = settings_files(dir, config).into_iter().filter_map(|path| stray(&path, base, config));
    clouds.chain(files).collect()
}

/// The files whose `env` block Claude Code takes.
fn settings_files(dir: &Path, config: &Config) -> Vec<PathBuf> {
    let homes = &config.homes;
    let user = homes.claude_config_dir.clone().unwrap_or_else(|| homes.home.join(".claude"));
    let managed = homes.claude_managed_dir.clone().unwrap_or_else(|| MANAGED.into());
    vec![
        managed.join("managed-settings.json"),
        user.join("settings.json"),
        dir.join(".claude/settings.json"),
        dir.join(".claude/settings.local.json"),
    ]
}

fn stray(path: &Path, base: Option<&str>, config: &Config) -> Option<Stray> {
    let settings: Value = serde_json::from_str(&settings_text(path)?).ok()?;
    let block = settings.get("env")?;
    let text = |name: &str| block.get(name).and_then(Value::as_str).filter(|value| !value.is_empty());
    let elsewhere =
        text(BASE).filter(|url| !base.is_some_and(|base| is_ours(url, base))).map(|_| (BASE, "calls"));
    let headers = text(HEADERS).map(|_| (HEADERS, "headers"));
    let cloud = CLOUDS.iter().find(|name| text(name).is_some()).map(|name| (*name, "calls"));
    let past = elsewhere.or(cloud);
    let calls = if past.is_some() { Calls::PassNoGate } else { Calls::Else };
    let (name, what) = past.or(headers)?;
    let file = config.short_path(path);
    Some(Stray {
        message: format!(
            "{file} sets {name} in its env block, which wins: Claude Code's {what} are not ours"
        ),
        advice: format!("Take {name} out of the env block of {file}"),
        calls,
    })
}
