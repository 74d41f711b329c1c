//! `agentspine service`: the proxy as a service of this user, under systemd or launchd.

mod init;

use std::io;
use std::net::TcpListener;
use std::path::Path;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::rooms::Rooms;
use crate::config::Config;
use crate::proxy::ask;
use crate::proxy::post::{self, Stand};
use crate::proxy::workspaces::Registry;
use crate::report::{Failure, Output, Report};
use init::Init;

/// Schema of what is printed as JSON.
const SCHEMA: &str = "agentspine.service/v1";

/// Keep the proxy running: a service of this user, on the same port after every login
#[derive(Args)]
#[command(after_help = "Examples:
  agentspine service install
  agentspine service status --json
  agentspine service off")]
pub(super) struct ServiceArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Write the service's file and start it
    Install,
    /// Say whether it is installed and active, on which port, and whether it answers
    Status {
        /// Print JSON (agentspine.service/v1)
        #[arg(long)]
        json: bool,
    },
    /// Stop it and remove its file
    Off,
}

impl ServiceArgs {
    pub(super) fn json(&self) -> bool {
        matches!(self.action, Action::Status { json: true })
    }
}

/// Does what was asked.
pub(super) fn run(args: &ServiceArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let init = Init::of(config);
    match args.action {
        Action::Install => install(&init, config, report),
        Action::Status { .. } => status(&init, config, report),
        Action::Off => off(&init, config, report),
    }
}

fn install(init: &Init, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let rooms = Rooms::open(config)?;
    let port = remembered_port(&Registry::of(&rooms.dir)?)?;
    let program = std::env::current_exe().map_err(|cause| {
        Failure::other(
            format!("This program's own path is unknown: {}", cause.kind()),
            "Call it by its full path",
        )
    })?;
    let text = init.file(&program, config)?;
    write(&init.path, &text).map_err(|cause| unwritable(&init.path, &cause, config))?;
    report.line(format!("written: {}", config.short_path(&init.path)));
    if let Stand::Held(notice) = stand(&rooms)? {
        report.note(format!(
            "a proxy serves already (process {}); the service takes its place once it has left",
            notice.pid
        ));
    }
    match init.start() {
        Ok(()) => report.line(format!("started; it listens on port {port}: agentspine service status")),
        Err(command) => report.line(format!("no service manager answered here; start it with: {command}")),
    }
    Ok(())
}

/// The port that later starts use: the remembered one, else a free one from now on.
fn remembered_port(registry: &Registry) -> Result<u16, Failure> {
    if let Some(port) = registry.port()? {
        return Ok(port);
    }
    let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    let port = free
        .map_err(|cause| Failure::other(format!("No free port: {}", cause.kind()), "agentspine doctor"))?
        .port();
    registry.remember_port(port)?;
    Ok(port)
}

fn off(init: &Init, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let stopped = init.stop();
    match std::fs::remove_file(&init.path) {
        Ok(()) => report.line(format!("removed: {}", config.short_path(&init.path))),
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => report.line("it was not installed"),
        Err(cause) => return Err(unwritable(&init.path, &cause, config)),
    }
    init.forget();
    if let Err(command) = stopped {
        report.line(format!("no service manager answered here; if it runs, stop it with: {command}"));
    }
    Ok(())
}

/// What there is of the service.
#[derive(Serialize)]
struct Status {
    schema: &'static str,
    installed: bool,
    active: bool,
    port: Option<u16>,
    healthy: bool,
    pid: Option<u32>,
    version: Option<String>,
}

fn status(init: &Init, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let rooms = Rooms::open(config)?;
    let notice = match stand(&rooms)? {
        Stand::Held(notice) => Some(notice),
        Stand::Free | Stand::Starting => None,
    };
    let health = notice.as_ref().and_then(|notice| ask::health(notice.address).ok());
    let healthy =
        notice.as_ref().zip(health.as_ref()).is_some_and(|(notice, health)| notice.nonce == health.nonce);
    let status = Status {
        schema: SCHEMA,
        installed: init.path.exists(),
        active: init.is_active(),
        port: match &notice {
            Some(notice) => Some(notice.address.port()),
            None => Registry::of(&rooms.dir)?.port()?,
        },
        healthy,
        pid: notice.map(|notice| notice.pid),
        version: health.map(|health| health.version),
    };
    match report.output() {
        Output::Json => report.json(&status),
        Output::People => report.lines(lines(&status)),
    }
    Ok(())
}

fn lines(status: &Status) -> Vec<String> {
    let yes = |yes: bool| if yes { "yes" } else { "no" };
    let number = |number: Option<u32>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let version = status.version.as_deref().unwrap_or("-");
    vec![
        format!("installed  {}", yes(status.installed)),
        format!("active     {}", yes(status.active)),
        format!("port       {}", number(status.port.map(u32::from))),
        format!("healthy    {}", yes(status.healthy)),
        format!("process    {}", number(status.pid)),
        format!("version    {version}"),
    ]
}

fn stand(rooms: &Rooms) -> Result<Stand, Failure> {
    post::look(&rooms.dir.run_dir()).map_err(|cause| {
        Failure::other(format!("The proxy's lock file: {}", cause.kind()), "agentspine doctor")
    })
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, text)
}

fn unwritable(path: &Path, cause: &io::Error, config: &Config) -> Failure {
    let path = config.short_path(path);
    Failure::other(
        format!("{path} cannot be changed: {}", cause.kind()),
        format!("Look at it: ls -ld {path}"),
    )
}
