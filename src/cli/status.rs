//! `agentspine preflight-status`: what is configured, what is ready, what the last turns were.
//!
//! The JSON keeps the keys that scripts know from the earlier implementation and adds `sessions`, `enforcement`,
//! `hostTrust` and `pausedDirectories`.

mod turns;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use agentspine_gate::journal::{LIST_MAX, ReceiptRecord, ReceiptState};
use agentspine_gate::policy::Policy;
use agentspine_gate::turn::{Host, Injection};
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use super::flags::IdentityFlags;
use super::rooms::Rooms;
use super::table;
use crate::config::{Config, Flags};
use crate::proxy::workspaces::{Registry, Workspace};
use crate::report::{Failure, Output, Report};

/// Show policy, Must-Remember and receipts in numbers, the last turns, and the enforcement mode really in force
#[derive(Args)]
pub(super) struct StatusArgs {
    /// Print JSON (agentspine.preflight/v2)
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    identity: IdentityFlags,
}

impl StatusArgs {
    pub(super) fn flags(&self) -> Flags {
        self.identity.flags()
    }
}

/// The document; the first nine keys are the earlier implementation's.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the key is the earlier implementation's")]
pub(super) struct Status {
    schema: &'static str,
    policies: usize,
    required_providers: usize,
    pending_memories: usize,
    active_must_remember: usize,
    ready_receipts: usize,
    status: &'static str,
    last_turn: Option<Value>,
    authority: &'static str,
    sessions: Vec<Value>,
    enforcement: Value,
    host_trust: Value,
    paused_directories: usize,
}

impl Status {
    /// Reads policy, Must-Remember and journal.
    pub(super) fn read(rooms: &Rooms) -> Result<Self, Failure> {
        let policy = rooms.policy().load()?;
        let records = rooms.vault()?.list(LIST_MAX, None, None)?;
        let rules = rooms.remember()?.counts()?;
        let proxied = Registry::of(&rooms.dir)?.all()?;
        Ok(Self {
            schema: "agentspine.preflight/v2",
            policies: policy.profiles.len(),
            required_providers: policy.required_providers(),
            pending_memories: rules.pending,
            active_must_remember: rules.active,
            ready_receipts: ready(&records),
            status: required(&policy),
            last_turn: records.iter().find(|record| turns::is_turn(record)).map(turns::shape),
            authority: "diagnostic-only",
            sessions: turns::by_session(&records),
            enforcement: enforcement(&proxied),
            host_trust: host_trust(),
            paused_directories: paused(&proxied).len(),
        })
    }
}

fn ready(records: &[ReceiptRecord]) -> usize {
    records.iter().filter(|record| record.state == ReceiptState::Prepared).count()
}

fn required(policy: &Policy) -> &'static str {
    if policy.required_providers() > 0 {
        "wrapper-hard-required"
    } else {
        "instructions-only-no-required-provider"
    }
}

/// The hosts of other programs.
const HOSTS: [Host; 4] = [Host::Claude, Host::Codex, Host::King, Host::Generic];

/// What stands between each host and its model on this machine. A host that was never bound to a workspace of the proxy
/// calls past it; of one that was, the calls of clients that were started for it are meant.
fn enforcement(proxied: &[Arc<Workspace>]) -> Value {
    let own = (Host::Agentspine.as_str().to_owned(), json!("wrapper-hard"));
    let mode = |host: &Host| {
        let is_bound = proxied.iter().any(|workspace| workspace.binding.host == *host);
        json!(if is_bound { "wrapper-hard" } else { "not-enforced" })
    };
    let others = HOSTS.iter().map(|host| (host.as_str().to_owned(), mode(host)));
    Value::Object(std::iter::once(own).chain(others).collect())
}

/// No host confirms by itself that its calls pass here, and what was seen of one version says nothing of the next.
fn host_trust() -> Value {
    Value::Object(HOSTS.iter().map(|host| (host.as_str().to_owned(), json!("unverified"))).collect())
}

/// The directories in which nothing new is added.
pub(super) fn paused(proxied: &[Arc<Workspace>]) -> BTreeSet<PathBuf> {
    let paused = proxied.iter().filter(|workspace| workspace.injection == Injection::Paused);
    paused.map(|workspace| workspace.binding.dir.clone()).collect()
}

/// Prints the status.
pub(super) fn run(config: &Config, report: &mut Report) -> Result<(), Failure> {
    let status = Status::read(&Rooms::open(config)?)?;
    match report.output() {
        Output::Json => report.json(&status),
        Output::People => people(&status, report),
    }
    Ok(())
}

fn people(status: &Status, report: &mut Report) {
    report.line(format!("status           {}", status.status));
    report.line(format!(
        "policy profiles  {} ({} required providers)",
        status.policies, status.required_providers
    ));
    report.line(format!(
        "must-remember    {} active, {} to confirm",
        status.active_must_remember, status.pending_memories
    ));
    report.line(format!("ready receipts   {}", status.ready_receipts));
    let bound = |host: &&Host| status.enforcement[host.as_str()] == "wrapper-hard";
    let bound: Vec<&str> = HOSTS.iter().filter(bound).map(|host| host.as_str()).collect();
    let others = match bound.as_slice() {
        [] => "other hosts: not-enforced until they are started with agentspine run".to_owned(),
        bound => format!(
            "{}: wrapper-hard where started with agentspine run (unverified by the host); others: not-enforced",
            bound.join(", ")
        ),
    };
    report.line(format!("enforcement      chat: wrapper-hard; {others}"));
    if status.paused_directories > 0 {
        report.line(format!("paused           {} (nothing new is added there)", status.paused_directories));
    }
    if status.sessions.is_empty() {
        return report.line("last turns       none yet");
    }
    report.line("");
    let text = |turn: &Value, name: &str| turn.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
    let row = |turn: &Value| {
        let receipt = text(turn, "receiptId").chars().take(8).collect();
        let at = table::when(turn.get("atMs").and_then(Value::as_i64).unwrap_or_default());
        let failed = format!("{}/{}", text(turn, "code"), text(turn, "detail"));
        let failed = if turn.get("code").is_some() { failed } else { "-".to_owned() };
        [text(turn, "sessionId"), text(turn, "status"), receipt, at, failed]
    };
    let rows: Vec<_> = status.sessions.iter().map(row).collect();
    report.lines(table::lines(["session", "last turn", "receipt", "at", "what failed"], &rows));
}
