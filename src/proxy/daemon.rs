//! The serving process: a place to listen, signals, leaving when nobody needs it, a log of bounded size.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentspine_gate::ids::hex;
use agentspine_gate::seams::Rng as _;
use agentspine_gate::state_dir::StateDir;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, sleep_until};

use super::post::{self, Notice};
use super::settings::Settings;
use super::stub::{House, serve};
use super::workspaces::Registry;
use crate::config::{Config, Environment, Flags};
use crate::report::Failure;
use crate::system::OsRng;

/// How often a daemon asks whether it may leave, and looks at its log, at most and at least.
const TICK: Duration = Duration::from_secs(10);
const TICK_MIN: Duration = Duration::from_millis(20);
/// Size at which the log is put aside, bytes; one older log is kept.
const LOG_BYTES_MAX: u64 = 1024 * 1024;
/// Random bytes of an instance's mark.
const INSTANCE_BYTES: usize = 16;

/// How long it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stay {
    /// Until it is told to stop.
    Always,
    /// Also until there was no request for this long and no client runs.
    UntilIdle(Duration),
}

/// Where its messages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Voice {
    /// To the terminal or service manager that started it.
    Inherited,
    /// To `<state>/log/proxy.log`.
    Log,
}

/// What it stands on.
pub(crate) struct Daemon {
    /// The state directory.
    pub dir: StateDir,
    /// Who may ask.
    pub registry: Arc<Registry>,
    /// How long it serves.
    pub stay: Stay,
    /// Where its messages go.
    pub voice: Voice,
}

/// Listens; a port that another program has is named with what to do.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, Failure> {
    let listener = TcpListener::bind(address).map_err(|cause| match cause.kind() {
        ErrorKind::AddrInUse => Failure::other(
            format!("Another program listens on {address}"),
            "Stop it, or let the system choose another port: agentspine proxy --listen 127.0.0.1:0 \
             (clients that were started with the old one are started again)",
        ),
        kind => Failure::other(
            format!("Cannot listen on {address}: {kind}"),
            "Choose another place: agentspine proxy --listen 127.0.0.1:0",
        ),
    })?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

/// This process, as its notice says it.
pub(crate) fn notice(listener: &TcpListener) -> Result<Notice, Failure> {
    let mut mark = [0; INSTANCE_BYTES];
    OsRng.fill(&mut mark).map_err(failed)?;
    Ok(Notice {
        pid: std::process::id(),
        address: listener.local_addr().map_err(failed)?,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        instance: hex(&mark),
    })
}

/// A runtime that hears signals. Made before anybody is told where the daemon is: whoever was told may end it.
pub(crate) struct Watch {
    runtime: Runtime,
    signals: Signals,
}

impl Watch {
    /// Starts to listen for signals.
    pub(crate) fn start() -> Result<Self, Failure> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(failed)?;
        let entered = runtime.enter();
        let signals = Signals::new().map_err(failed)?;
        drop(entered);
        Ok(Self { runtime, signals })
    }

    /// Serves until a signal, or until nobody needs it.
    pub(crate) fn serve(
        mut self,
        daemon: Daemon,
        config: &Config,
        listener: TcpListener,
        instance: String,
    ) -> Result<(), Failure> {
        let settings = Arc::new(Settings::new(config.proxy.clone()));
        let registry = Arc::clone(&daemon.registry);
        let house = House { registry, settings: Arc::clone(&settings), instance };
        // Held to the end of the process: a client that starts now waits for it and then starts a daemon of its own.
        let mut leaving = None;
        let done = self.runtime.block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
            let stop = async { leaving = until_done(&daemon, &settings, &mut self.signals).await };
            serve(listener, house, stop).await
        });
        self.runtime.shutdown_background();
        done
    }
}

/// The signals that say something to a daemon.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }
}

/// Waits for the reason to stop; the lock that keeps clients waiting, where it is idleness.
async fn until_done(daemon: &Daemon, settings: &Settings, signals: &mut Signals) -> Option<File> {
    let mut next = Instant::now();
    loop {
        next = next.checked_add(pause(daemon.stay)).unwrap_or(next);
        tokio::select! {
            _ = signals.terminate.recv() => return None,
            _ = signals.interrupt.recv() => return None,
            _ = signals.hangup.recv() => reload(settings),
            () = sleep_until(next) => {
                if daemon.voice == Voice::Log {
                    // A log that cannot be put aside goes on as it is.
                    let _ = rotate(&log_path(&daemon.dir));
                }
                if let Some(leaving) = idle(daemon) {
                    return Some(leaving);
                }
            }
        }
    }
}

fn pause(stay: Stay) -> Duration {
    match stay {
        Stay::Always => TICK,
        Stay::UntilIdle(idle) => idle.clamp(TICK_MIN, TICK),
    }
}

fn idle(daemon: &Daemon) -> Option<File> {
    let Stay::UntilIdle(limit) = daemon.stay else { return None };
    if daemon.registry.quiet_for() < limit {
        return None;
    }
    // While the lock cannot be asked for, it stays.
    post::nobody_uses(&daemon.dir.run_dir()).ok().flatten()
}

/// Takes the upstreams of the file as it is now; one that is no configuration changes nothing.
fn reload(settings: &Settings) {
    if let Ok(config) = Config::load(&Flags::default(), Environment::of_process()) {
        settings.set(config.proxy);
    }
}

/// `<state>/log/proxy.log`.
fn log_path(dir: &StateDir) -> PathBuf {
    dir.log_dir().join("proxy.log")
}

/// Lets go of whoever started it: nothing more on its stdout, messages into the log.
pub(crate) fn detach(dir: &StateDir) -> Result<(), Failure> {
    let null = File::options().write(true).open("/dev/null").map_err(failed)?;
    rustix::stdio::dup2_stdout(&null).map_err(|cause| failed(cause.into()))?;
    let path = log_path(dir);
    rotate(&path).and_then(|_| speak_into(&path)).map_err(failed)
}

/// Puts a log aside that is large enough; whether it did.
fn rotate(path: &Path) -> io::Result<bool> {
    let large = path.metadata().is_ok_and(|meta| meta.len() >= LOG_BYTES_MAX);
    if large {
        std::fs::rename(path, path.with_extension("log.1"))?;
        speak_into(path)?;
    }
    Ok(large)
}

fn speak_into(path: &Path) -> io::Result<()> {
    let file = File::options().create(true).append(true).mode(0o600).open(path)?;
    rustix::stdio::dup2_stderr(&file).map_err(io::Error::from)
}

fn failed(cause: io::Error) -> Failure {
    Failure::other(
        format!("The proxy did not start: {}", cause.kind()),
        "Check the limits of this system: ulimit -a",
    )
}
