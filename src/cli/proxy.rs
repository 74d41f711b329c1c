//! `agentspine proxy`: the server in front of other agents. `run` and `env` start it by themselves.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agentspine_gate::turn::{Injection, InstructionHost};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};

use super::flags::{IdentityFlags, instruction_host};
use super::rooms::{Rooms, working_directory};
use crate::config::{Config, Flags};
use crate::proxy::clients::{self, Client, HEADER};
use crate::proxy::daemon::{self, Daemon, Stay};
use crate::proxy::post::{self, Notice, Post, Stand};
use crate::proxy::workspaces::{Registry, Workspace};
use crate::report::{Failure, Report};

/// Seconds after which a daemon that `run` started leaves when nobody needs it: half an hour.
const IDLE_SECONDS: u64 = 30 * 60;
/// What a daemon says on its stdout once it listens.
pub(super) const READY: &str = "ready";

/// Serve this user's agents on this machine: every call passes the gate first
#[derive(Args)]
#[command(after_help = "Examples:
  agentspine run claude                             starts it by itself; nothing else is needed
  agentspine proxy --instruction-host claude        in the foreground, for any client: prints the base URL
  agentspine proxy --project ~/src/app --host codex
  agentspine proxy --pause                          adds nothing more in this directory, until --resume
  agentspine service install                        keeps it running

One serves each user, on the same port every time. A client shows whose directory it works in by a secret: in the header
x-agentspine-workspace, or in the path of its base URL, http://127.0.0.1:PORT/w/SECRET/v1.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(super) struct ProxyArgs {
    /// Listen here instead of on the port of last time; port 0: any free one
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Whose instruction files are mandatory for this directory's clients
    #[arg(long, value_name = "HOST", value_parser = instruction_host())]
    instruction_host: Option<InstructionHost>,
    /// Which client will call for this directory [default: any]
    #[arg(long, value_name = "CLIENT", value_parser = client())]
    host: Option<Client>,
    /// The directory whose base URL is printed [default: this one]
    #[arg(long, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Stop adding text to this directory's conversations; what was added stays in them
    #[arg(long, conflicts_with_all = ["resume", "daemon", "service"])]
    pause: bool,
    /// End the pause
    #[arg(long, conflicts_with_all = ["daemon", "service"])]
    resume: bool,
    /// Detached, for `run`.
    #[arg(long, hide = true, conflicts_with = "service")]
    daemon: bool,
    /// Under a service manager.
    #[arg(long, hide = true)]
    service: bool,
    /// Seconds a detached one waits for a request.
    #[arg(long, hide = true, value_name = "SECONDS", default_value_t = IDLE_SECONDS)]
    idle: u64,
    #[command(flatten)]
    identity: IdentityFlags,
}

fn client() -> impl TypedValueParser<Value = Client> {
    PossibleValuesParser::new(["claude", "codex"]).map(|name| Client::of(name.as_ref()))
}

impl ProxyArgs {
    pub(super) fn flags(&self) -> Flags {
        Flags { instruction_host: self.instruction_host, ..self.identity.flags() }
    }

    fn stay(&self) -> Stay {
        if self.daemon { Stay::UntilIdle(Duration::from_secs(self.idle)) } else { Stay::Always }
    }
}

/// Takes the post, listens, says so, serves.
pub(super) fn run(args: &ProxyArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    if args.pause || args.resume {
        return set_injection(args, config, report);
    }
    if args.daemon {
        // A session of its own: a closed terminal takes its clients along, not the daemon. Where it leads one already, fine.
        let _ = rustix::process::setsid();
    }
    let rooms = Rooms::open(config)?;
    let registry = Arc::new(Registry::of(&rooms.dir)?);
    let workspace =
        if args.daemon || args.service { None } else { Some(workspace(args, config, &registry)?) };
    let address = address(args, config, &registry)?;

    let mut post = post(&rooms)?;
    let daemon = Daemon::bind(address, &rooms.dir, Arc::clone(&registry), config)?;
    let notice = daemon.notice();
    registry.remember_port(notice.address.port())?;
    post.announce(&notice).map_err(|cause| {
        Failure::other(format!("The proxy cannot say where it is: {}", cause.kind()), "Check disk space")
    })?;
    match &workspace {
        Some(workspace) => report.line(invitation(&notice, workspace, config)),
        None => report.line(READY),
    }
    if args.daemon {
        daemon::detach(&rooms.dir)?;
    }
    daemon.serve(args.stay());
    Ok(())
}

/// Pauses, or ends the pause, for every client of the directory; calls from now on see it.
fn set_injection(args: &ProxyArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let dir = working_directory(args.project.as_deref())?;
    let registry = Registry::of(&Rooms::open(config)?.dir)?;
    let (injection, now) = if args.pause {
        (Injection::Paused, "paused: calls are verified and get receipts, nothing new is added to them")
    } else {
        (Injection::On, "on: files, rules and recall are added again from the next message on")
    };
    if registry.set_injection(&dir, injection)? == 0 {
        return Err(Failure::other(
            format!("No client has called for {} yet", config.short_path(&dir)),
            "Start one there: agentspine run claude",
        ));
    }
    report.line(format!("Injection in {} is {now}", config.short_path(&dir)));
    Ok(())
}

fn workspace(args: &ProxyArgs, config: &Config, registry: &Registry) -> Result<Arc<Workspace>, Failure> {
    let dir = working_directory(args.project.as_deref())?;
    let client = args.host.unwrap_or(Client::Other);
    let binding = clients::binding(client, &dir, args.instruction_host, config)?;
    Ok(registry.ensure(binding)?)
}

/// Where to listen: the flag's place, else the file's, else the port of last time, else any.
fn address(args: &ProxyArgs, config: &Config, registry: &Registry) -> Result<SocketAddr, Failure> {
    let loopback = |port| SocketAddr::from(([127, 0, 0, 1], port));
    match args.listen.or(config.proxy.listen) {
        Some(address) => Ok(address),
        None => Ok(loopback(registry.port()?.unwrap_or_default())),
    }
}

fn post(rooms: &Rooms) -> Result<Post, Failure> {
    let run_dir = rooms.dir.run_dir();
    let unusable = |cause: std::io::Error| {
        Failure::other(format!("The proxy's lock file: {}", cause.kind()), "agentspine doctor")
    };
    if let Some(post) = Post::take(&run_dir).map_err(unusable)? {
        return Ok(post);
    }
    let (who, kill) = match post::look(&run_dir).map_err(unusable)? {
        Stand::Held(notice) => {
            (format!("on port {}, process {}", notice.address.port(), notice.pid), notice.pid.to_string())
        }
        Stand::Free | Stand::Starting => ("and is about to listen".to_owned(), "its process".to_owned()),
    };
    Err(Failure::other(
        format!("A proxy of yours serves already {who}"),
        format!("Use it: agentspine run claude; to stop it for all its clients: kill {kill}"),
    ))
}

fn invitation(notice: &Notice, workspace: &Workspace, config: &Config) -> String {
    let (base, secret) = (notice.base(), workspace.secret.expose());
    let dir = config.short_path(&workspace.binding.dir);
    format!(
        "agentspine proxy on {base} · clients of {dir}: base URL {base}/w/{secret}/v1, or {base} with the header \
         {HEADER}: {secret} · agentspine run claude does it by itself"
    )
}
