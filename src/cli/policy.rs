//! `agentspine preflight-policy`: the local policy, changed only with a confirmation.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use agentspine_gate::Id;
use agentspine_gate::policy::{Change, POLICY_BYTES_MAX, POLICY_SCHEMA, PolicyStore, Profile};
use clap::Args;
use serde_json::json;

use super::flags::id;
use super::rooms::Rooms;
use crate::config::Config;
use crate::report::{Exit, Failure, Output, Report};

/// Show or change the local policy: which providers must answer, how large mandatory text may grow
#[derive(Args)]
#[command(after_help = "Examples:
  agentspine preflight-policy profile.json                            what would change (exit 2)
  agentspine preflight-policy profile.json --confirm-local-policy     store it
  agentspine preflight-policy --set instructionBudget.hardLimitBytes=65536 --confirm-local-policy
  agentspine preflight-policy --show
  agentspine preflight-policy --remove local --confirm-local-policy")]
pub(super) struct PolicyArgs {
    /// A profile as JSON
    #[arg(value_name = "FILE", conflicts_with_all = ["set", "show", "remove"])]
    file: Option<PathBuf>,
    /// Change one value of a profile
    #[arg(long, value_name = "KEY=VALUE", conflicts_with_all = ["show", "remove"])]
    set: Option<String>,
    /// The profile that --set changes [default: local, created where none exists]
    #[arg(long, value_name = "ID", value_parser = id, requires = "set")]
    profile: Option<Id>,
    /// Print the policy in force; the default
    #[arg(long, conflicts_with = "remove")]
    show: bool,
    /// Remove a profile
    #[arg(long, value_name = "ID", value_parser = id)]
    remove: Option<Id>,
    /// Yes, I am the local owner and want this change
    #[arg(long)]
    confirm_local_policy: bool,
    /// Print JSON; results always are
    #[arg(long)]
    pub json: bool,
}

/// Shows, plans or stores.
pub(super) fn run(args: &PolicyArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let rooms = Rooms::open(config)?;
    let store = rooms.policy();
    let Some((ask, change)) = plan(args, &store)? else { return show(&store, report) };
    if !args.confirm_local_policy {
        return Err(unconfirmed(&ask, &change, report));
    }
    let profile = change.profile.to_json();
    let revision = store.apply(change, rooms.seams.clock.wall_ms())?;
    report.json(&json!({"profile": profile, "revision": revision, "policyPath": store.path()}));
    Ok(())
}

/// What is asked for, in the words of the command line, and what it would change; nothing for `--show`.
fn plan(args: &PolicyArgs, store: &PolicyStore) -> Result<Option<(String, Change)>, Failure> {
    Ok(match args {
        PolicyArgs { file: Some(file), .. } => {
            Some((file.display().to_string(), store.propose(&read(file)?)?))
        }
        PolicyArgs { set: Some(set), profile, .. } => {
            let (key, value) = set.split_once('=').ok_or_else(not_a_pair)?;
            let of = profile.as_ref().map(|id| format!(" --profile {id}")).unwrap_or_default();
            Some((format!("--set {set}{of}"), store.set(key, value, profile.as_ref())?))
        }
        PolicyArgs { remove: Some(id), .. } => Some((format!("--remove {id}"), store.remove(id)?)),
        PolicyArgs { .. } => None,
    })
}

fn not_a_pair() -> Failure {
    Failure::usage("--set takes KEY=VALUE", "For example: --set instructionBudget.hardLimitBytes=65536")
}

/// At most one byte more than a policy may have, so that the store can say that it is too large.
fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = File::open(file).and_then(|file| file.take(POLICY_BYTES_MAX + 1).read_to_end(&mut bytes));
    match read {
        Ok(_) => Ok(bytes),
        Err(cause) => Err(Failure::usage(
            format!("{} cannot be read: {}", file.display(), cause.kind()),
            "Name a file with one profile as JSON; the README has an example",
        )),
    }
}

fn show(store: &PolicyStore, report: &mut Report) -> Result<(), Failure> {
    let policy = store.load()?;
    let profiles: Vec<_> = policy.profiles.iter().map(Profile::to_json).collect();
    let document = json!({
        "schema": POLICY_SCHEMA, "revision": policy.revision, "profiles": profiles, "policyPath": store.path(),
    });
    report.json(&document);
    Ok(())
}

fn unconfirmed(ask: &str, change: &Change, report: &mut Report) -> Failure {
    let command = format!("agentspine preflight-policy {ask} --confirm-local-policy");
    if report.output() == Output::Json {
        report.json(&json!({"profile": change.profile.to_json(), "changes": change.diff, "stored": false, "confirm": command}));
        return Failure::Told(Exit::Usage);
    }
    report.line(format!("profile {} would change:", change.profile.id));
    for line in &change.diff {
        report.line(format!("  {line}"));
    }
    if change.diff.is_empty() {
        report.line("  nothing but the revision");
    }
    Failure::usage("nothing was stored", command)
}
