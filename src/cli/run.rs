//! `agentspine run`: a client in this terminal, its calls through the gate.

mod client;
pub(super) mod start;

use std::ffi::OsString;

use agentspine_gate::turn::InstructionHost;
use clap::Args;

use super::flags::{IdentityFlags, instruction_host};
use super::rooms::{Rooms, working_directory};
use crate::config::{Config, Flags};
use crate::proxy::ask::{self, Summary};
use crate::proxy::clients::background::{self, PROC, Wanted};
use crate::proxy::clients::{self, Calls, Client, Stray};
use crate::proxy::workspaces::{Registry, Workspace};
use crate::report::{Exit, Failure, Report};
use start::Serving;

/// Run an agent here so that every call it makes passes the gate first
#[derive(Args)]
#[command(after_help = "Examples:
  agentspine run claude                        Claude Code, with your login and its own tools
  agentspine run claude -p \"What is due?\"      everything after the client's name is its own
  agentspine run codex exec \"Fix the tests\"
  agentspine run --instruction-host claude opencode
  agentspine run --instruction-host codex -- python agent.py

claude gets ANTHROPIC_BASE_URL and one more line in ANTHROPIC_CUSTOM_HEADERS; codex gets -c overrides, its configuration
stays untouched; opencode gets OPENCODE_CONFIG_CONTENT for its providers anthropic and openai. Any other command gets
ANTHROPIC_BASE_URL, OPENAI_BASE_URL and AGENTSPINE_WORKSPACE. The exit code is the client's.")]
pub(super) struct RunArgs {
    /// Whose instruction files are mandatory [default: the client's own; else instruction_host of the configuration]
    #[arg(long, value_name = "HOST", value_parser = instruction_host())]
    instruction_host: Option<InstructionHost>,
    #[command(flatten)]
    identity: IdentityFlags,
    /// claude, codex, opencode or any other program, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "CLIENT")]
    words: Vec<OsString>,
}

impl RunArgs {
    pub(super) fn flags(&self) -> Flags {
        Flags { instruction_host: self.instruction_host, ..self.identity.flags() }
    }
}

/// A client's workspace on a daemon that serves.
pub(super) struct Prepared {
    /// The daemon; it stays while this lives.
    pub serving: Serving,
    /// Who calls.
    pub workspace: std::sync::Arc<Workspace>,
}

/// Which secret a workspace gets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Renewal {
    /// The one it has.
    Same,
    /// A new one; the old one is nobody's then.
    New,
}

/// Sees to workspace and daemon for a client in this directory.
pub(super) fn prepare(
    client: Client,
    named: Option<InstructionHost>,
    secret: Renewal,
    config: &Config,
) -> Result<Prepared, Failure> {
    let dir = working_directory(None)?;
    let binding = clients::binding(client, &dir, named, config)?;
    let rooms = Rooms::open(config)?;
    let registry = Registry::of(&rooms.dir)?;
    let mut workspace = registry.ensure(binding.clone())?;
    if secret == Renewal::New {
        registry.forget(workspace.secret.expose())?;
        workspace = registry.ensure(binding)?;
    }
    let serving = start::serving(config, &rooms.dir)?;
    let base = serving.notice.base();
    clients::gateway(client, &base, config)?;
    clients::passes_by(client, &base, &workspace.binding.dir, config)?;
    Ok(Prepared { serving, workspace })
}

/// Runs the client; the exit code is its own.
pub(super) fn run(args: &RunArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let [program, rest @ ..] = args.words.as_slice() else {
        return Err(Failure::usage("no client is named", "agentspine run claude"));
    };
    let client = Client::of(program);
    let prepared = prepare(client, args.instruction_host, Renewal::Same, config)?;
    let Prepared { serving, workspace } = &prepared;
    let base = serving.notice.base();
    warn(client, &prepared, config, report);

    let told = clients::told(client, &base, workspace, config)?;
    let address = serving.notice.address;
    let before = ask::summary(address, &workspace.secret).unwrap_or_default();
    let own = told.args.iter().map(OsString::from).chain(rest.iter().cloned()).collect();
    let code = client::run(program, own, told.variables)?;
    let after = ask::summary(address, &workspace.secret);
    report.note(after.map_or_else(|_| GONE.to_owned(), |after| farewell(after.since(before))));
    if code == 0 { Ok(()) } else { Err(Failure::Told(Exit::Client(code))) }
}

/// What is said where the daemon does not answer any more.
const GONE: &str = "the proxy is gone; what it let through is in: agentspine receipts list";

/// The last line.
fn farewell(count: Summary) -> String {
    let Summary { calls, receipts, blocks } = count;
    if calls == 0 {
        return "no call came through agentspine; if the client did answer, it called elsewhere: agentspine doctor"
            .to_owned();
    }
    let plural = |n: u64| if n == 1 { "" } else { "s" };
    format!(
        "{calls} call{}, {receipts} receipt{}, {blocks} blocked · agentspine watch shows them",
        plural(calls),
        plural(receipts)
    )
}

/// Says beforehand what would lead calls elsewhere.
fn warn(client: Client, prepared: &Prepared, config: &Config, report: &mut Report) {
    let Prepared { serving, workspace } = prepared;
    let base = serving.notice.base();
    let mut found = clients::strays(client, Some(&base), &workspace.binding.dir, config);
    if client == Client::Codex {
        let running = background::find(PROC.as_ref(), &clients::codex::home(config));
        let wanted = Wanted::This(&workspace.secret);
        found.extend(running.iter().filter_map(|process| process.stray(wanted, Some(&base))));
    }
    let version = &serving.notice.version;
    if version != env!("CARGO_PKG_VERSION") {
        found.push(Stray {
            message: format!(
                "the proxy that serves is of version {version}, this is {}",
                env!("CARGO_PKG_VERSION")
            ),
            advice: format!(
                "When its clients are done: kill {}; the next run starts this version",
                serving.notice.pid
            ),
            calls: Calls::Else,
        });
    }
    for Stray { message, advice, .. } in found {
        report.tell(&Failure::other(message, advice));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_counts_and_says_plainly_when_there_was_nothing() {
        let said = |calls, receipts, blocks| farewell(Summary { calls, receipts, blocks });
        assert_eq!(said(12, 12, 0), "12 calls, 12 receipts, 0 blocked · agentspine watch shows them");
        assert_eq!(said(1, 0, 1), "1 call, 0 receipts, 1 blocked · agentspine watch shows them");
        assert!(said(0, 0, 0).starts_with("no call came through agentspine"));
    }
}
