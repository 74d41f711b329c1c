//! The command line: one file a subcommand, `chat` when none is named.
//!
//! [`parse`] turns arguments into an [`Invocation`]; [`dispatch`] loads the configuration and runs it. Nothing here opens a
//! store before the arguments are whole.

mod bench;
pub(crate) mod chat;
mod doctor;
mod env;
mod flags;
mod instructions;
mod mcp;
mod memory;
mod policy;
mod proxy;
mod receipts;
mod remember;
pub(crate) mod rooms;
mod run;
mod service;
mod sessions;
mod state;
mod status;
mod supervise;
pub(crate) mod table;
mod watch;

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use crate::config::{Config, Environment, Flags};
use crate::report::{Failure, Output, Report};
use crate::system::Hardening;

/// No model call without your instructions, your rules and your recall.
///
/// Before every model call this program verifies the instruction files byte for
/// byte, loads your Must-Remember rules, runs the retrieval providers and issues
/// a receipt that is consumed once. If anything required fails, no call is made.
#[derive(Parser)]
#[command(name = "agentspine", version, verbatim_doc_comment, args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:
  agentspine                                        chat in this directory
  agentspine -p \"What did we decide about X?\"       one answer, then exit
  agentspine run claude                             Claude Code here, every call through the gate
  agentspine instructions --host claude             what Claude Code would load here
  agentspine receipts verify                        check every receipt and the chain
  agentspine watch                                  every call as it happens, for a split beside an agent
  agentspine doctor                                 would the next call be allowed?

Exit codes: 0 done, 1 other, 2 usage or confirmation missing, 10 instructions, 11 provider,
12 budget, 13 receipt, 14 preflight, 20 model error, 21 cut stream, 130 interrupted.")]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    chat: chat::ChatArgs,
}

#[derive(Subcommand)]
enum Command {
    Chat(Box<chat::ChatArgs>),
    Run(run::RunArgs),
    Env(env::EnvArgs),
    Proxy(proxy::ProxyArgs),
    Service(service::ServiceArgs),
    Instructions(instructions::InstructionsArgs),
    PreflightPolicy(policy::PolicyArgs),
    PreflightStatus(status::StatusArgs),
    Memory(memory::MemoryArgs),
    Mcp(mcp::McpArgs),
    RememberPropose(remember::ProposeArgs),
    RememberConfirm(remember::ConfirmArgs),
    RememberList(remember::ListArgs),
    RememberRollback(remember::RollbackArgs),
    RememberPurge(remember::PurgeArgs),
    Receipts(receipts::ReceiptsArgs),
    Watch(watch::WatchArgs),
    State(state::StateArgs),
    Sessions(sessions::SessionsArgs),
    Doctor(doctor::DoctorArgs),
    Bench(bench::BenchArgs),
    #[command(name = "__supervise", hide = true)]
    Supervise(supervise::SuperviseArgs),
}

/// Parsed arguments.
pub(crate) struct Invocation(Command);

/// Parses arguments, the program's name first.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Invocation, clap::Error> {
    let cli = Cli::try_parse_from(args)?;
    Ok(Invocation(cli.command.unwrap_or_else(|| Command::Chat(Box::new(cli.chat)))))
}

impl Invocation {
    /// For whom this command prints.
    pub(crate) fn output(&self) -> Output {
        let json = match &self.0 {
            Command::Chat(args) => args.json,
            Command::Instructions(args) => args.json,
            Command::Memory(args) => args.json,
            Command::PreflightStatus(args) => args.json,
            Command::RememberList(args) => args.json,
            Command::Receipts(args) => args.json(),
            Command::State(args) => args.json(),
            Command::Sessions(args) => args.json(),
            Command::Doctor(args) => args.json,
            Command::PreflightPolicy(args) => args.json,
            Command::RememberPropose(args) => args.json,
            Command::RememberConfirm(args) => args.json,
            Command::RememberRollback(args) => args.json,
            Command::RememberPurge(args) => args.json,
            Command::Env(args) => args.json,
            Command::Bench(args) => args.json,
            Command::Service(args) => args.json(),
            Command::Run(_)
            | Command::Proxy(_)
            | Command::Supervise(_)
            | Command::Watch(_)
            | Command::Mcp(_) => false,
        };
        if json { Output::Json } else { Output::People }
    }

    /// What the process gives up first.
    pub(crate) fn hardening(&self) -> Hardening {
        match self.0 {
            Command::Supervise(_) => Hardening::Supervisor,
            Command::Run(_) => Hardening::Launcher,
            _ => Hardening::Full,
        }
    }

    fn flags(&self) -> Flags {
        match &self.0 {
            Command::Chat(args) => args.flags(),
            Command::Run(args) => args.flags(),
            Command::Env(args) => args.flags(),
            Command::Proxy(args) => args.flags(),
            Command::Instructions(args) => args.flags(),
            Command::Memory(args) => args.flags(),
            Command::Mcp(args) => args.flags(),
            Command::PreflightStatus(args) => args.flags(),
            Command::Doctor(args) => args.flags(),
            Command::Watch(args) => args.flags(),
            Command::RememberPropose(args) => args.flags(),
            _ => Flags::default(),
        }
    }
}

/// Runs the command.
pub(crate) fn dispatch(invocation: Invocation, report: &mut Report) -> Result<(), Failure> {
    // The supervisor neither needs nor gets to see the configuration.
    let flags = invocation.flags();
    let command = match invocation.0 {
        Command::Supervise(args) => return supervise::run(args),
        // Nor does a measurement, which has a place of its own.
        Command::Bench(args) => return bench::run(&args, report),
        command => command,
    };
    let config = match (Config::load(&flags, Environment::of_process()), &command) {
        (Err(failure), Command::Doctor(_)) => return doctor::unconfigured(failure, report),
        (config, _) => config?,
    };
    report.conceal(config.secrets());
    match command {
        Command::Chat(args) => crate::chat::run(&args, &config, report),
        Command::Run(args) => run::run(&args, &config, report),
        Command::Env(args) => env::run(&args, &config, report),
        Command::Proxy(args) => proxy::run(&args, &config, report),
        Command::Service(args) => service::run(&args, &config, report),
        Command::Instructions(args) => instructions::run(&args, &config, report),
        Command::Memory(args) => memory::run(&args, &config, report),
        Command::Mcp(args) => mcp::run(&args, &config, report),
        Command::PreflightPolicy(args) => policy::run(&args, &config, report),
        Command::PreflightStatus(_) => status::run(&config, report),
        Command::RememberPropose(args) => remember::propose(&args, &config, report),
        Command::RememberConfirm(args) => remember::confirm(&args, &config, report),
        Command::RememberList(_) => remember::list(&config, report),
        Command::RememberRollback(args) => remember::rollback(&args, &config, report),
        Command::RememberPurge(args) => remember::purge(&args, &config, report),
        Command::Receipts(args) => receipts::run(&args, &config, report),
        Command::Watch(args) => watch::run(&args, &config),
        Command::State(args) => state::run(&args, &config, report),
        Command::Sessions(args) => sessions::run(&args, &config, report),
        Command::Doctor(_) => doctor::run(&config, report),
        Command::Bench(args) => bench::run(&args, report),
        Command::Supervise(args) => supervise::run(args),
    }
}
