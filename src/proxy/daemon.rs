//! The serving process: a place to listen, signals, leaving when nobody needs it.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use agentspine_gate::state_dir::StateDir;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::sleep;

use super::counters::Counters;
use super::line::Log;
use super::listen::{ListenError, Server, Stop};
use super::log::LogFile;
use super::post::{self, Notice};
use super::serve::House;
use super::upstream::{Bases, Onward};
use super::workspaces::Registry;
use crate::compose::{self, DemoPace};
use crate::config::{Config, Environment, Flags};
use crate::report::Failure;

/// How often a daemon asks whether it may leave, at most and at least.
const TICK_MAX: Duration = Duration::from_secs(10);
const TICK_MIN: Duration = Duration::from_millis(20);

/// How long it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stay {
    /// Until it is told to stop.
    Always,
    /// Also until there was no request for this long and no client runs.
    UntilIdle(Duration),
}

/// A daemon that listens and hears signals, and does not serve yet: whoever is told of it now may already end it.
pub(crate) struct Daemon {
    runtime: Runtime,
    signals: Signals,
    house: Arc<House>,
    server: Server<Arc<House>>,
    onward: Arc<Onward>,
    registry: Arc<Registry>,
    run_dir: PathBuf,
}

impl Daemon {
    /// Opens the rooms and binds the address; port 0 for a free one.
    pub(crate) fn bind(
        address: SocketAddr,
        dir: &StateDir,
        registry: Arc<Registry>,
        config: &Config,
    ) -> Result<Self, Failure> {
        // One, beside the desk: a second one costs each call wake-ups, and memory. Large bodies are read aside.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(failed)?;
        // The daemon belongs to no project; each workspace brings its own.
        let rooms = compose::opening(config, Path::new("/")).rooms()?;
        let client = compose::client(config, DemoPace::Instant)?;
        let onward = Arc::new(Onward::to(Bases::of(&config.proxy)));
        let house = House::new(rooms, client, Arc::clone(&onward), Arc::clone(&registry));
        let log = Log::to(Box::new(LogFile::open(log_path(dir)).map_err(failed)?));
        let (server, signals) = runtime.block_on(async {
            let server =
                Server::bind(address, Arc::new(Arc::clone(&house)), Arc::new(Counters::new()), log).await?;
            Ok::<_, Failure>((server, Signals::new().map_err(failed)?))
        })?;
        Ok(Self { runtime, signals, house, server, onward, registry, run_dir: dir.run_dir() })
    }

    /// This process, as others are told of it.
    pub(crate) fn notice(&self) -> Notice {
        Notice {
            pid: std::process::id(),
            address: self.server.address(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            nonce: self.server.nonce().to_owned(),
        }
    }

    /// Serves until a signal, or until nobody needs it. A first signal lets answers end, a second one cuts them.
    pub(crate) fn serve(self, stay: Stay) {
        let Self { runtime, mut signals, house, server, onward, registry, run_dir } = self;
        let (tell, told) = watch::channel(Stop::Not);
        // Held to the end: a client that starts meanwhile waits for it, and then starts a daemon of its own.
        let mut leaving = None;
        runtime.block_on(async {
            let serving = server.run(told);
            let stopping = async {
                leaving = until_done(stay, &registry, &run_dir, &onward, &mut signals).await;
                tell.send_replace(Stop::Drain);
                signals.end().await;
                tell.send_replace(Stop::Now);
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = serving => {}
                () = stopping => {}
                () = house.keep_tidy() => {}
            }
        });
        runtime.shutdown_background();
    }
}

impl From<ListenError> for Failure {
    fn from(error: ListenError) -> Self {
        let advice = match error {
            ListenError::NotLoopback(_) => "Listen on this machine: agentspine proxy --listen 127.0.0.1:0",
            ListenError::Taken(_) => {
                "End that program, or take another port: agentspine proxy --listen 127.0.0.1:0 \
                 (clients that have the old address are started again)"
            }
            ListenError::Refused { .. } => "Take another place: agentspine proxy --listen 127.0.0.1:0",
        };
        Self::other(error.to_string(), advice)
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

    /// Waits for one that asks for the end.
    async fn end(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Waits for the reason to stop; the lock that keeps clients waiting, where it is idleness.
async fn until_done(
    stay: Stay,
    registry: &Registry,
    run_dir: &Path,
    onward: &Onward,
    signals: &mut Signals,
) -> Option<File> {
    loop {
        tokio::select! {
            _ = signals.terminate.recv() => return None,
            _ = signals.interrupt.recv() => return None,
            _ = signals.hangup.recv() => reload(onward),
            leaving = idle(stay, registry, run_dir) => return Some(leaving),
        }
    }
}

/// Waits until there was no request for long enough and no client runs.
async fn idle(stay: Stay, registry: &Registry, run_dir: &Path) -> File {
    let Stay::UntilIdle(limit) = stay else { return std::future::pending().await };
    loop {
        sleep(limit.clamp(TICK_MIN, TICK_MAX)).await;
        if registry.quiet_for() >= limit
            // While the lock cannot be asked for, it stays.
            && let Ok(Some(leaving)) = post::nobody_uses(run_dir)
        {
            return leaving;
        }
    }
}

/// Takes the upstreams of the file as it is now; one that is no configuration changes nothing.
fn reload(onward: &Onward) {
    if let Ok(config) = Config::load(&Flags::default(), Environment::of_process()) {
        onward.set(Bases::of(&config.proxy));
    }
}

fn log_path(dir: &StateDir) -> PathBuf {
    dir.log_dir().join("proxy.log")
}

/// Lets go of whoever started it: nothing more on its stdout, what a panic says into the log.
pub(crate) fn detach(dir: &StateDir) -> Result<(), Failure> {
    let null = File::options().write(true).open("/dev/null").map_err(failed)?;
    let log = LogFile::open(log_path(dir)).map_err(failed)?;
    rustix::stdio::dup2_stdout(&null).map_err(|cause| failed(cause.into()))?;
    rustix::stdio::dup2_stderr(log.file()).map_err(|cause| failed(cause.into()))
}

fn failed(cause: io::Error) -> Failure {
    Failure::other(
        format!("The proxy did not start: {}", cause.kind()),
        "Check disk space, and the limits of this system: ulimit -a",
    )
}
