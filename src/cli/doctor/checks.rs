//! Everything a call needs, looked at one by one; a failure of one does not hide the others.

use agentspine_gate::instructions::{project_id, snapshot};
use agentspine_gate::remember::fits_budget;
use agentspine_gate::turn::Host;
use agentspine_gate::{Detail, Refusal};
use agentspine_memory::Ledger;
use agentspine_model::{Dialect, ModelSpec, PlainHttp};

use super::{Check, providers, proxy};
use crate::cli::instructions::unbound;
use crate::cli::rooms::{InstructionRules, Rooms, working_directory};
use crate::config::Config;
use crate::report::Failure;

/// Every check, in the order of the path.
pub(super) fn all(config: &Config) -> Vec<Check> {
    let mut checks = vec![Check::of("configuration", Ok(configuration(config)))];
    match Rooms::open(config) {
        Err(failure) => checks.push(Check::of("state directory", Err(failure))),
        Ok(rooms) => {
            checks.push(Check::of("state directory", Ok(config.short_path(rooms.dir.root()))));
            checks.push(Check::of("journal", journal(&rooms)));
            checks.push(Check::of("policy", policy(&rooms, config)));
            checks.push(Check::of("must-remember", must_remember(&rooms, config)));
            checks.push(Check::of("instructions", instructions(&rooms, config)));
            checks.push(Check::of("providers", providers::check(&rooms, config)));
            checks.push(Check::of("memory", Ok(memory(&rooms, config))));
            checks.push(Check::of("sessions", sessions(&rooms)));
            checks.extend(proxy::all(&rooms, config));
        }
    }
    checks.push(Check::of("model", model(config)));
    checks.push(platform());
    checks
}

fn configuration(config: &Config) -> String {
    let file = config.short_path(&config.file);
    if config.file.exists() { file } else { format!("{file} does not exist; defaults") }
}

/// Never keeps a call from being made: recall is optional unless the policy says otherwise.
fn memory(rooms: &Rooms, config: &Config) -> String {
    let status = Ledger::open(&rooms.dir.memory_db()).map_err(|error| error.to_string());
    let status = status.and_then(|ledger| ledger.status().map_err(|error| error.to_string()));
    let status = status.map_or_else(
        |why| format!("not usable: {why}"),
        |status| {
            let applied = status.records.get("applied").unwrap_or(&0);
            format!("{applied} remembered, index {}", status.index.as_str())
        },
    );
    let preset = format!("preset {}", config.memory.authorization.preset.as_str());
    [status, preset].into_iter().chain(config.memory.warnings.iter().cloned()).collect::<Vec<_>>().join("; ")
}

fn journal(rooms: &Rooms) -> Result<String, Failure> {
    let chain = rooms.vault()?.verify_chain()?;
    match chain.problem {
        None => Ok(format!("chain ok ({} rows, {} consumed), anchor ok", chain.rows, chain.consumed)),
        Some(problem) => {
            let message = format!("the journal does not hold: {problem}");
            Err(Refusal::new(Detail::JournalRolledBack, message, "agentspine state check").into())
        }
    }
}

fn policy(rooms: &Rooms, config: &Config) -> Result<String, Failure> {
    let policy = rooms.policy().load()?;
    let profile = policy.select(&config.identity, Host::Agentspine)?;
    let profile = profile.map_or_else(
        || "no profile for this identity".to_owned(),
        |profile| format!("profile {}", profile.id),
    );
    Ok(format!("revision {}, {profile}", policy.revision))
}

fn must_remember(rooms: &Rooms, config: &Config) -> Result<String, Failure> {
    let cwd = working_directory(None)?;
    let project = project_id(rooms.seams.fs.as_ref(), &cwd);
    let identity = &config.identity;
    let store = rooms.remember()?;
    store.revision_since(&mut rooms.vault()?)?;
    let active = store.active(&identity.user_id, &identity.tenant_id, &project, None, None)?;
    fits_budget(&active)?;
    Ok(format!("{} active here", active.len()))
}

fn instructions(rooms: &Rooms, config: &Config) -> Result<String, Failure> {
    let host = config.instruction_host.ok_or_else(unbound)?;
    let rules = InstructionRules::of(&rooms.policy().load()?, config, host)?;
    let cwd = working_directory(None)?;
    let found = snapshot(rooms.seams.fs.as_ref(), host, &config.homes, &cwd, &rules.links)?;
    let used: u64 = found.documents.iter().map(|document| document.text.len() as u64).sum();
    let hard = rules.budget.hard_limit_bytes;
    let documents = found.documents.len();
    if used > hard {
        return Err(Refusal::new(
            Detail::InstructionBytes,
            format!("{documents} documents of {} are {used} bytes, the hard limit is {hard}", host.as_str()),
            format!("agentspine preflight-policy --set instructionBudget.hardLimitBytes={} --confirm-local-policy", used.next_power_of_two()),
        )
        .into());
    }
    Ok(format!("{documents} documents of {}, {used} of {hard} bytes", host.as_str()))
}

fn sessions(rooms: &Rooms) -> Result<String, Failure> {
    let sessions = rooms.conversations()?.sessions(u32::MAX)?.len();
    Ok(format!("{sessions} on this machine"))
}

fn model(config: &Config) -> Result<String, Failure> {
    let keys = [("ANTHROPIC_API_KEY", &config.keys.anthropic), ("OPENAI_API_KEY", &config.keys.openai)];
    let set: Vec<_> = keys.iter().filter(|(_, key)| key.is_some()).map(|(name, _)| *name).collect();
    match (&config.model, set.as_slice()) {
        (Some(model), _) => named_model(config, model),
        (None, []) => Ok("none named, no key: a local server you confirm, else the demo".to_owned()),
        (None, names) => Ok(format!("none named; {} set", names.join(" and "))),
    }
}

fn named_model(config: &Config, text: &str) -> Result<String, Failure> {
    let plain = if config.http.allow_plain { PlainHttp::Anywhere } else { PlainHttp::LoopbackOnly };
    let spec = ModelSpec::parse(text, plain).map_err(|error| {
        Failure::usage(
            format!("model {text}: {error}"),
            "Name another in config.toml, or try it: agentspine chat --model demo",
        )
    })?;
    Ok(match spec.dialect() {
        Dialect::Demo => text.to_owned(),
        dialect => format!("{text}, asked through {}", dialect.name()),
    })
}

#[cfg(target_os = "linux")]
fn platform() -> Check {
    Check::of("platform", Ok("linux: the full guarantee".to_owned()))
}

#[cfg(not(target_os = "linux"))]
fn platform() -> Check {
    let weaker = "no openat2 (paths are checked part by part), no boot id (a receipt lives no longer than its process), \
                  no process namespaces and no subreaper (a provider's stray grandchild may live on), memory of this process is \
                  readable by its user's debuggers";
    Check::weaker("platform", weaker)
}
