//! One provider from start to fate.

use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, WaitOptions, setrlimit};

use super::fate::Fate;
use super::order::Order;
#[cfg(target_os = "linux")]
use super::tree::kill_tree;
use super::{STDERR_BYTES_MAX, STDIN_BYTES_MAX, STDOUT_BYTES_MAX};

/// How long killing may take before the supervisor gives up; only an uninterruptible process takes longer than a moment.
const KILL_WITHIN: Duration = Duration::from_secs(2);

/// Pause between two rounds of killing.
const ROUND: Duration = Duration::from_millis(5);

/// What happened, in whatever order.
enum Event {
    /// Whoever started us is gone or wants us to stop.
    Stop,
    /// A pipe gave more than its cap.
    Oversize,
    /// The provider's whole output.
    Output(Vec<u8>),
    /// Its error output ended.
    ErrorsEnded,
    /// It exited.
    Exited(io::Result<ExitStatus>),
}

/// What was seen so far.
#[derive(Default)]
struct Seen {
    fate: Option<Fate>,
    oversize: bool,
    output: Option<Vec<u8>>,
    errors_ended: bool,
    exited: bool,
}

/// Runs the provider and kills its tree; the output counts only with `exit 0`.
pub(super) fn run(order: &Order) -> (Fate, Vec<u8>) {
    let end = Instant::now() + Duration::from_millis(order.deadline_ms);
    tie_to_parent(order.inside);
    // A core file would hold credentials.
    let _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) });
    let (events, happened) = channel();
    listen_to_signals(&events);
    let spawned = Command::new(&order.command)
        .args(&order.args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Its own group: a provider that kills its group does not kill us.
        .process_group(0)
        .spawn();
    let child = match spawned {
        Ok(child) => child,
        Err(error) => return (Fate::Exec(error.raw_os_error().unwrap_or(0)), Vec::new()),
    };
    let tree = Tree { inside: order.inside, group: i32::try_from(child.id()).unwrap_or(0) };
    serve(child, events);
    let mut seen = Seen::default();
    while seen.fate.is_none() {
        match happened.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(event) => seen.take(event),
            Err(_) => seen.fate = Some(Fate::Timeout),
        }
    }
    tree.kill_everything(&happened, &mut seen);
    seen.settled()
}

impl Seen {
    fn take(&mut self, event: Event) {
        match event {
            Event::Stop => self.end(Fate::Cancelled),
            Event::Oversize => {
                self.oversize = true;
                self.end(Fate::Oversize);
            }
            Event::Output(bytes) => self.output = Some(bytes),
            Event::ErrorsEnded => self.errors_ended = true,
            Event::Exited(status) => {
                self.exited = true;
                self.end(fate_of(status));
            }
        }
    }

    /// The first end counts; what comes after our own kill is its consequence.
    fn end(&mut self, fate: Fate) {
        self.fate.get_or_insert(fate);
    }

    fn quiet(&self) -> bool {
        self.exited && (self.oversize || (self.output.is_some() && self.errors_ended))
    }

    /// Too much output is too much, even where the exit was seen before the last bytes.
    fn settled(self) -> (Fate, Vec<u8>) {
        match self.fate.unwrap_or(Fate::Timeout) {
            // A flood that meets a closed pipe ends by its signal: what stopped it is the limit.
            Fate::Exit(_) | Fate::Signal(_) if self.oversize => (Fate::Oversize, Vec::new()),
            Fate::Exit(0) => (Fate::Exit(0), self.output.unwrap_or_default()),
            fate => (fate, Vec::new()),
        }
    }
}

fn fate_of(status: io::Result<ExitStatus>) -> Fate {
    match status {
        Ok(status) => match (status.code(), status.signal()) {
            (Some(code), _) => Fate::Exit(code),
            (None, signal) => Fate::Signal(signal.unwrap_or(0)),
        },
        Err(error) => Fate::Exec(error.raw_os_error().unwrap_or(0)),
    }
}

/// What the provider started, and how it is found.
struct Tree {
    /// In a PID namespace of its own, of which this process is the first.
    inside: bool,
    /// The provider's process group: all that can be killed where there is neither namespace nor `/proc`.
    #[cfg_attr(target_os = "linux", allow(dead_code))]
    group: i32,
}

impl Tree {
    /// Kills until the provider is reaped and its pipes are closed, then reaps the strays.
    fn kill_everything(&self, happened: &Receiver<Event>, seen: &mut Seen) {
        let end = Instant::now() + KILL_WITHIN;
        while Instant::now() < end && !seen.quiet() {
            self.kill_once(end);
            if let Ok(event) = happened.recv_timeout(ROUND) {
                seen.take(event);
            }
            while let Ok(event) = happened.try_recv() {
                seen.take(event);
            }
        }
        // The waiting thread has reaped the provider, so the rest may be collected; once more for what they started.
        reap();
        self.kill_once(end);
        reap();
    }

    #[cfg(target_os = "linux")]
    fn kill_once(&self, end: Instant) {
        if self.inside {
            kill_namespace();
        } else {
            kill_tree(own_pid(), end.saturating_duration_since(Instant::now()));
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn kill_once(&self, _end: Instant) {
        use rustix::process::{Pid, Signal, kill_process_group};
        let _ = Pid::from_raw(self.group).map(|group| kill_process_group(group, Signal::KILL));
    }
}

/// Everything in our PID namespace but us. Only ever as its first process: elsewhere the same call means everybody.
#[cfg(target_os = "linux")]
fn kill_namespace() {
    use nix::sys::signal::{Signal, kill};
    if own_pid() == 1 {
        let _ = kill(nix::unistd::Pid::from_raw(-1), Signal::SIGKILL);
    }
}

#[cfg(target_os = "linux")]
fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Collects the dead that were handed to us; there is nothing to learn from them.
fn reap() {
    while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
}

/// Inside a namespace we die with the process that made it; outside, orphans of the tree become our children.
#[cfg(target_os = "linux")]
fn tie_to_parent(inside: bool) {
    use rustix::process::{Signal, getpid, set_child_subreaper, set_parent_process_death_signal};
    let _ = if inside {
        set_parent_process_death_signal(Some(Signal::KILL))
    } else {
        set_child_subreaper(Some(getpid()))
    };
}

#[cfg(not(target_os = "linux"))]
fn tie_to_parent(_inside: bool) {}

fn listen_to_signals(events: &Sender<Event>) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let events = events.clone();
    if let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGTERM, SIGINT, SIGHUP]) {
        thread::spawn(move || {
            let _ = signals.forever().next().map(|_| events.send(Event::Stop));
        });
    }
}

/// One thread a stream, so that none waits for another.
fn serve(mut child: Child, events: Sender<Event>) {
    if let Some(stdin) = child.stdin.take() {
        let events = events.clone();
        thread::spawn(move || control(stdin, &events));
    }
    if let Some(stdout) = child.stdout.take() {
        let events = events.clone();
        thread::spawn(move || {
            let _ = events.send(capped(stdout, STDOUT_BYTES_MAX).map_or(Event::Oversize, Event::Output));
        });
    }
    if let Some(stderr) = child.stderr.take() {
        let events = events.clone();
        thread::spawn(move || {
            let read = capped(stderr, STDERR_BYTES_MAX);
            let _ = events.send(read.map_or(Event::Oversize, |_| Event::ErrorsEnded));
        });
    }
    thread::spawn(move || events.send(Event::Exited(child.wait())));
}

/// Reads the query, hands it to the provider, then waits for the end of our stdin.
fn control(mut provider: impl Write + Send + 'static, events: &Sender<Event>) {
    let mut from = io::stdin().lock();
    if let Ok(query) = query(&mut from) {
        // A provider may never read it, or close its end early: neither is a failure if its answer is valid.
        thread::spawn(move || provider.write_all(&query));
        let _ = from.read(&mut [0]);
    }
    let _ = events.send(Event::Stop);
}

fn query(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > STDIN_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut query = vec![0; length];
    from.read_exact(&mut query)?;
    Ok(query)
}

/// The whole stream; `None` where it is longer than the cap. A read error ends it like its end.
fn capped(from: impl Read, bytes_max: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    let _ = from.take(limit).read_to_end(&mut bytes);
    (bytes.len() <= bytes_max).then_some(bytes)
}
