//! `agentspine doctor`: would the next call be allowed, and if not, what to do.

mod checks;
mod providers;
mod proxy;

use agentspine_gate::turn::InstructionHost;
use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};

use super::flags::{IdentityFlags, instruction_host};
use super::rooms::Rooms;
use super::status::Status;
use crate::config::{Config, Flags};
use crate::report::{Exit, Failure, Output, Report};

/// Schema of what is printed as JSON.
const SCHEMA: &str = "agentspine.doctor/v1";

/// Check everything a call needs here; exit 1 when the next call would be refused
#[derive(Args)]
pub(super) struct DoctorArgs {
    /// Whose instruction files [default: instruction_host of the configuration]
    #[arg(long, visible_alias = "instruction-host", value_name = "HOST", value_parser = instruction_host())]
    host: Option<InstructionHost>,
    /// Print JSON (agentspine.doctor/v1)
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    identity: IdentityFlags,
}

impl DoctorArgs {
    pub(super) fn flags(&self) -> Flags {
        Flags { instruction_host: self.host, ..self.identity.flags() }
    }
}

/// What one check found.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Check {
    name: &'static str,
    state: State,
    /// `code/detail` of the refusal the next call would meet.
    code: Option<String>,
    message: String,
    advice: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    /// Works, with less than the full guarantee.
    Weaker,
    Failed,
}

impl Check {
    fn of(name: &'static str, found: Result<String, Failure>) -> Self {
        let (state, code, message, advice) = match found {
            Ok(message) => (State::Ok, None, message, String::new()),
            Err(Failure::Refused(refusal)) => {
                (State::Failed, Some(refusal.key()), refusal.message, refusal.advice)
            }
            Err(Failure::Said { message, advice, .. }) => (State::Failed, None, message, advice),
            Err(Failure::Told(_)) => (State::Failed, None, String::new(), String::new()),
        };
        Self { name, state, code, message, advice }
    }

    #[cfg(not(target_os = "linux"))]
    fn weaker(name: &'static str, message: &str) -> Self {
        Self { name, state: State::Weaker, code: None, message: message.to_owned(), advice: String::new() }
    }
}

/// Runs every check, tells them all, and fails when one of them would make the next call fail.
pub(super) fn run(config: &Config, report: &mut Report) -> Result<(), Failure> {
    let checks = checks::all(config);
    let ok = checks.iter().all(|check| check.state != State::Failed);
    match report.output() {
        Output::Json => report.json(&document(config, &checks, ok)),
        Output::People => people(&checks, ok, report),
    }
    if ok { Ok(()) } else { Err(Failure::Told(Exit::Other)) }
}

/// The one check there is where the configuration cannot be read.
pub(super) fn unconfigured(failure: Failure, report: &mut Report) -> Result<(), Failure> {
    let checks = [Check::of("configuration", Err(failure))];
    match report.output() {
        Output::Json => report.json(&json!({
            "schema": SCHEMA, "ok": false, "version": env!("CARGO_PKG_VERSION"), "platform": std::env::consts::OS,
            "stateDirectory": null, "checks": checks, "preflight": {"status": "failed-closed", "error": null},
        })),
        Output::People => people(&checks, false, report),
    }
    Err(Failure::Told(Exit::Other))
}

fn people(checks: &[Check], ok: bool, report: &mut Report) {
    for check in checks {
        let state = match check.state {
            State::Ok => "ok",
            State::Weaker => "weaker",
            State::Failed => "FAILED",
        };
        let code = check.code.as_ref().map(|code| format!("{code}: ")).unwrap_or_default();
        report.line(format!("{state:<7} {:<15} {code}{}", check.name, check.message));
        if !check.advice.is_empty() {
            report.line(format!("{:<23} next: {}", "", check.advice));
        }
    }
    report.line("");
    report.line(if ok { "the next call would be allowed" } else { "the next call would be refused" });
}

fn document(config: &Config, checks: &[Check], ok: bool) -> Value {
    let status = Rooms::open(config).and_then(|rooms| Status::read(&rooms));
    let preflight = match status {
        Ok(status) => json!(status),
        Err(_) => {
            json!({"status": "failed-closed", "error": checks.iter().find_map(|check| check.code.clone())})
        }
    };
    json!({
        "schema": SCHEMA, "ok": ok, "version": env!("CARGO_PKG_VERSION"),
        "platform": std::env::consts::OS, "stateDirectory": config.short_path(&config.state_dir), "checks": checks,
        "preflight": preflight,
    })
}
