//! Whether the required providers of this identity could be started at all. None is run: that is a call's work.

use std::os::unix::fs::PermissionsExt as _;

use agentspine_gate::policy::{Adapter, Provider};
use agentspine_gate::turn::Host;
use agentspine_gate::{Detail, Refusal};

use crate::cli::rooms::Rooms;
use crate::config::Config;
use crate::report::Failure;

/// Advice of every failure here.
const ADVICE: &str = "Mend it, or change the profile: agentspine preflight-policy --show";

/// Looks at command and credentials of each required provider.
pub(super) fn check(rooms: &Rooms, config: &Config) -> Result<String, Failure> {
    let policy = rooms.policy().load()?;
    let profile = policy.select(&config.identity, Host::Agentspine)?;
    let all = profile.map(|profile| profile.providers.as_slice()).unwrap_or_default();
    let required: Vec<_> = all.iter().filter(|provider| provider.required).collect();
    required.iter().try_for_each(|provider| startable(provider, config))?;
    Ok(format!("{} configured, {} required", all.len(), required.len()))
}

fn startable(provider: &Provider, config: &Config) -> Result<(), Refusal> {
    if provider.adapter == Adapter::LedgerV1 {
        return Ok(());
    }
    let refuse =
        |detail, what: &str| Err(Refusal::new(detail, format!("provider {}: {what}", provider.id), ADVICE));
    let Ok(meta) = provider.command.metadata() else {
        return refuse(Detail::Missing, "its command does not exist");
    };
    if !meta.is_file() || meta.permissions().mode() & 0o111 == 0 {
        return refuse(Detail::NotExecutable, "its command is not an executable file");
    }
    match provider.credential_env.iter().find(|name| config.credential(name).is_none()) {
        Some(name) => refuse(Detail::CredentialMissing, &format!("{name} is not set")),
        None => Ok(()),
    }
}
