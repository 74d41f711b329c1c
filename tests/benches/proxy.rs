//! What the proxy adds to a call: latency, time to the first streamed byte, CPU and memory, beside a plain hyper
//! pass-through and beside the call itself, in one run.
//!
//! `cargo bench --bench proxy`, or `cargo bench --bench proxy -- quick` for a tenth of the calls; `only` and the beginning
//! of a row's name, such as `only "turn 1 kB JSON"`, for these rows. Five processes: this
//! one asks; `upstream` answers; `through` passes bytes on and does nothing else; and twice the real `agentspine proxy`,
//! with its state on this disk and with its state in memory, where a flush costs nothing. Each round asks all four ways
//! one after the other, so that other work on the machine meets all of them.
//!
//! A conversation is 20 calls that grow: its first call, which gets the instruction files, is not measured. `turn`: 19
//! human prompts, each with recall over a memory ledger. `continuation`: 19 rounds of tool results, as agents mostly make.
//! CPU is user and system time of the whole process from /proc, in ticks of 10 ms, so only sums over a row are told.
// Counts of calls are far below what a float holds exactly.
#![allow(clippy::cast_precision_loss)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs)]

use std::convert::Infallible;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use agentspine_gate::Id;
use agentspine_gate::instructions::project_id;
use agentspine_gate::os_fs::OsFs;
use agentspine_gate::state_dir::StateDir;
use agentspine_memory::{Kind, Ledger, MemoryScope, NewMemory, Origin, Provenance, Trust};
use futures_util::stream;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// Memories a turn recalls from.
const MEMORIES: u64 = 1_000;
/// Calls of a conversation, its unmeasured first one included.
const CALLS: usize = 20;
/// Connections at a time, and how many rounds are asked of each way.
const ROUNDS: [(usize, usize); 3] = [(1, 20), (16, 4), (64, 1)];
/// What a body is filled up to, bytes.
const SIZES: [(&str, usize); 2] = [("1 kB", 1_000), ("100 kB", 100_000)];
/// Events of a streamed answer.
const EVENTS: usize = 30;
/// Flushes timed for the disk's own figure.
const FLUSHES: usize = 100;
/// What the proxy may add, as a multiple of what the pass-through adds.
const RATIO_GOAL: f64 = 2.0;
/// CPU of one call by size, milliseconds.
const CPU_GOALS: [f64; 2] = [0.15, 0.6];
/// Memory of the process, KiB.
const RSS_GOAL: u64 = 30 * 1024;
/// Silence after a round in which outcomes are written down, before CPU is read.
const SETTLE: Duration = Duration::from_millis(30);

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["upstream"] => upstream(),
        ["through", base] => through(base),
        ["quick"] => measure(10, ""),
        ["quick", rows] => measure(10, rows),
        ["only", rows] => measure(1, rows),
        _ => measure(1, ""),
    }
}

fn measure(part: usize, rows: &str) {
    let temp = tempfile::Builder::new().prefix("proxy").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let memory = tempfile::Builder::new().prefix("agentspine-bench").tempdir_in("/dev/shm").unwrap();
    let upstream = Peer::of_this(&["upstream"]);
    let through = Peer::of_this(&["through", &upstream.base()]);
    let on_disk = Machine::new(&temp.path().join("a"), &temp.path().join("a/state"), &upstream.base());
    let in_memory = Machine::new(&temp.path().join("b"), &memory.path().join("state"), &upstream.base());
    let flush = flush_time(&temp.path().join("flushed"));
    println!("one flush of this disk, 4 KiB: p50 {}, p99 {}", ms(flush.p50), ms(flush.p99));
    match rows.is_empty().then(|| flushes_per_call(&on_disk)).flatten() {
        Some([turn, continuation]) => println!(
            "flushes a call, counted by strace: turn {turn:.2}, continuation {continuation:.2} \
             (conversation event, consumed row, anchor; the rest checkpoints)"
        ),
        None => println!("flushes are not counted: strace is not here or may not trace"),
    }
    let ways = [upstream, through, in_memory.proxy(), on_disk.proxy()];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    println!(
        "\nmilliseconds. direct: the whole call without anything between. then what each way adds to it:\n\
         p50 and p99 of the whole call, p50 of the time to the answer's first byte, CPU of the process a call\n"
    );
    println!(
        "{:<34}{:>13} |{:>30} |{:>39} |{:>39}",
        "", "direct", "plain hyper pass-through", "agentspine, state in memory", "agentspine, state on disk"
    );
    let way = format!("{:>8}{:>8}{:>8}{:>6}", "p50", "p99", "first", "CPU");
    println!(
        "{:<13}{:>6} {:<8}{:>6}{:>7}{:>6} |{way} |{way}{:>9} |{way}{:>9}",
        "call", "body", "answer", "at once", "p50", "p99", "p50/pass", "p50/pass"
    );
    let mut goals = Goals::default();
    for shape in [Shape::Continuation, Shape::Turn] {
        for (size, (name, bytes)) in SIZES.into_iter().enumerate() {
            for answer in [Answer::Json, Answer::Streamed] {
                for (at_once, rounds) in ROUNDS {
                    let label = format!("{} {name} {} {at_once}", shape.word(), answer.word());
                    if !label.starts_with(rows) {
                        continue;
                    }
                    let row = Row { shape, bytes, answer, at_once };
                    let figures = runtime.block_on(row.measure(&ways, rounds.div_ceil(part)));
                    println!(
                        "{:<13}{name:>6} {:<8}{at_once:>6}{}",
                        shape.word(),
                        answer.word(),
                        shown(&figures)
                    );
                    goals.take(size, &figures);
                }
            }
        }
    }
    goals.print();
    for (name, way) in [("pass-through", &ways[1]), ("in memory", &ways[2]), ("on disk", &ways[3])] {
        let [now, most] = ["VmRSS:", "VmHWM:"].map(|field| way.status(field));
        println!(
            "memory of {name}: {now} KiB now, {most} KiB at most; goal {RSS_GOAL}: {}",
            met(most <= RSS_GOAL)
        );
    }
}

/// What one row says of each way.
fn shown(figures: &[Figures; 4]) -> String {
    let [direct, through, ..] = figures;
    let mut text = format!("{:>8}{:>6}", two(direct.whole.p50), two(direct.whole.p99));
    for (n, figure) in figures.iter().enumerate().skip(1) {
        let added = figure.added_to(direct);
        let [p50, p99, first] = [added.0, added.1, added.2].map(|ms| format!("{ms:.2}"));
        write!(text, " |{p50:>8}{p99:>8}{first:>8}{:>6.2}", figure.cpu_ms).unwrap();
        if n > 1 {
            write!(text, "{:>9.1}", figure.added_to(direct).0 / through.added_to(direct).0).unwrap();
        }
    }
    text
}

/// How many rows keep what they should.
#[derive(Default)]
struct Goals {
    rows: [usize; 2],
    ratio: [usize; 2],
    cpu: [usize; 2],
}

impl Goals {
    fn take(&mut self, size: usize, [direct, through, in_memory, _]: &[Figures; 4]) {
        self.rows[size] += 1;
        let [own, plain] = [in_memory, through].map(|way| way.added_to(direct).0);
        self.ratio[size] += usize::from(own <= RATIO_GOAL * plain);
        self.cpu[size] += usize::from(in_memory.cpu_ms <= CPU_GOALS[size]);
    }

    fn print(&self) {
        println!();
        for (size, (name, _)) in SIZES.iter().enumerate() {
            let rows = self.rows[size];
            println!(
                "{name}: state in memory, added p50 <= {RATIO_GOAL} x the pass-through's in {} of {rows} rows; \
                 CPU <= {} ms in {} of {rows} rows",
                self.ratio[size], CPU_GOALS[size], self.cpu[size]
            );
        }
    }
}

/// One line of the table.
#[derive(Clone, Copy)]
struct Row {
    shape: Shape,
    bytes: usize,
    answer: Answer,
    at_once: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Turn,
    Continuation,
}

impl Shape {
    fn word(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Continuation => "continuation",
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Answer {
    Json,
    Streamed,
}

impl Answer {
    fn word(self) -> &'static str {
        match self {
            Self::Json => "JSON",
            Self::Streamed => "streamed",
        }
    }
}

/// What one way took.
struct Figures {
    whole: Spread,
    first: Spread,
    cpu_ms: f64,
}

impl Figures {
    /// Milliseconds more: p50 and p99 of the whole call, p50 of the first byte.
    fn added_to(&self, direct: &Self) -> (f64, f64, f64) {
        let more = |mine: Duration, its: Duration| (mine.as_secs_f64() - its.as_secs_f64()) * 1000.0;
        (
            more(self.whole.p50, direct.whole.p50),
            more(self.whole.p99, direct.whole.p99),
            more(self.first.p50, direct.first.p50),
        )
    }
}

impl Row {
    async fn measure(self, ways: &[Peer; 4], rounds: usize) -> [Figures; 4] {
        let mut seen: [(Vec<Took>, Duration); 4] = Default::default();
        for round in 0..rounds {
            for (way, (samples, cpu)) in ways.iter().zip(&mut seen) {
                let mut talks = Vec::new();
                for n in 0..self.at_once {
                    let mut talk = Talk::begin(self, way, &format!("{}-{round}-{n}", unique())).await;
                    talk.call().await;
                    talks.push(talk);
                }
                tokio::time::sleep(SETTLE).await;
                let before = way.cpu();
                samples.extend(all_of(talks).await);
                tokio::time::sleep(SETTLE).await;
                *cpu += way.cpu().saturating_sub(before);
            }
        }
        seen.map(|(samples, cpu)| {
            let calls = samples.len() as f64;
            Figures {
                whole: Spread::of(samples.iter().map(|took| took.whole).collect()),
                first: Spread::of(samples.iter().map(|took| took.first).collect()),
                cpu_ms: cpu.as_secs_f64() * 1000.0 / calls,
            }
        })
    }
}

/// Lets every conversation make the rest of its calls, all at once.
async fn all_of(talks: Vec<Talk>) -> Vec<Took> {
    let mut running = tokio::task::JoinSet::new();
    for mut talk in talks {
        running.spawn(async move {
            let mut took = Vec::new();
            for _ in 1..CALLS {
                took.push(talk.call().await);
            }
            took
        });
    }
    running.join_all().await.concat()
}

/// A word that no other conversation of this run begins with.
fn unique() -> usize {
    static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
    NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
}

/// What one call took, from its first byte out to the answer's first and last byte in.
#[derive(Clone, Copy)]
struct Took {
    first: Duration,
    whole: Duration,
}

/// One client's conversation over one connection.
struct Talk {
    row: Row,
    wire: TcpStream,
    head: String,
    filling: String,
    messages: String,
    made: usize,
    answer: Vec<u8>,
}

impl Talk {
    /// The history says a name, so that it is a conversation of its own, and a tool result that fills half of the body.
    async fn begin(row: Row, way: &Peer, name: &str) -> Self {
        let wire = TcpStream::connect(("127.0.0.1", way.port)).await.unwrap();
        wire.set_nodelay(true).unwrap();
        let head = format!(
            "POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1:{}\r\ncontent-type: application/json\r\n\
             anthropic-version: 2023-06-01\r\nx-api-key: none\r\naccept: application/json\r\nuser-agent: bench\r\n\
             x-agentspine-workspace: {}\r\ncontent-length: ",
            way.port, way.secret
        );
        let line = r#"Every line of a file: \"quoted\", with a number, and a break.\n"#;
        let filling = line.repeat(row.bytes.saturating_sub(600) / 2 / line.len());
        let messages = format!(
            r#"{{"role":"user","content":"Conversation {name}"}},{{"role":"assistant","content":[{{"type":"tool_use","id":"t","name":"read","input":{{"path":"a"}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t","content":"{filling}"}}]}},{{"role":"assistant","content":"It is read."}}"#
        );
        Self { row, wire, head, filling, messages, made: 0, answer: vec![0; 64 * 1024] }
    }

    fn body(&mut self) -> String {
        let (n, messages) = (self.made, &mut self.messages);
        self.made += 1;
        match self.row.shape {
            Shape::Continuation if n > 0 => write!(
                messages,
                r#",{{"role":"assistant","content":[{{"type":"tool_use","id":"t{n}","name":"read","input":{{"line":{n}}}}}]}},{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t{n}","content":"line {n}"}}]}}"#
            ),
            _ if n > 0 => write!(
                messages,
                r#",{{"role":"assistant","content":"Noted."}},{{"role":"user","content":"{}"}}"#,
                prompt(n)
            ),
            _ => write!(messages, r#",{{"role":"user","content":"{}"}}"#, prompt(n)),
        }
        .unwrap();
        format!(
            r#"{{"model":"claude-test","max_tokens":64,"stream":{},"system":"{}","messages":[{messages}]}}"#,
            self.row.answer == Answer::Streamed,
            self.filling
        )
    }

    async fn call(&mut self) -> Took {
        let body = self.body();
        let request = format!("{}{}\r\n\r\n{body}", self.head, body.len());
        let began = Instant::now();
        self.wire.write_all(request.as_bytes()).await.unwrap();
        let (mut filled, mut first) = (0, None);
        loop {
            let count = self.wire.read(&mut self.answer[filled..]).await.unwrap();
            assert!(count > 0, "the connection ended");
            filled += count;
            let got = &self.answer[..filled];
            let Some(head) = got.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            let (head, body) = got.split_at(head + 4);
            if !body.is_empty() && first.is_none() {
                first = Some(began.elapsed());
            }
            if is_whole(&String::from_utf8_lossy(head).to_ascii_lowercase(), body) {
                let whole = began.elapsed();
                assert!(got.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(got));
                return Took { first: first.unwrap(), whole };
            }
        }
    }
}

fn is_whole(head: &str, body: &[u8]) -> bool {
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    match length.and_then(|length| length.parse::<usize>().ok()) {
        Some(length) => body.len() == length,
        None => body.ends_with(b"\r\n0\r\n\r\n"),
    }
}

/// Another process that listens.
struct Peer {
    child: Child,
    /// Whose figures are read: the child, or what it runs.
    pid: u32,
    port: u16,
    secret: String,
}

impl Peer {
    /// A role of this very program.
    fn of_this(arguments: &[&str]) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        Self::start(command.args(arguments).stdin(Stdio::piped()))
    }

    /// Starts a program that says its address in its first line; a secret too, where it has one.
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let until = |text: &str, end: fn(char) -> bool| text.split(end).next().unwrap().to_owned();
        let port = said.split("http://127.0.0.1:").nth(1).expect("an address");
        let port = until(port, |c| !c.is_ascii_digit()).parse().unwrap();
        let secret = said.split("/w/").nth(1).map(|rest| until(rest, |c| !c.is_ascii_hexdigit()));
        Self { pid: child.id(), child, port, secret: secret.unwrap_or_else(|| "none".to_owned()) }
    }

    fn base(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// utime and stime of all threads: fields 14 and 15, in ticks of 10 ms.
    fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap();
        let after_name = stat.rsplit_once(')').unwrap().1;
        let ticks: u64 =
            after_name.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
        Duration::from_millis(ticks * 10)
    }

    /// A field of /proc/PID/status, KiB.
    fn status(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap();
        let line = status.lines().find(|line| line.starts_with(field)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A person's machine: home, project with instruction files, memories, where the state is.
struct Machine {
    home: PathBuf,
    project: PathBuf,
    state: PathBuf,
}

impl Machine {
    fn new(home: &Path, state: &Path, upstream: &str) -> Self {
        let (home, state, project) = (home.to_owned(), state.to_owned(), home.join("src/project"));
        let text = "Use tabs. Say what you do and why. Tests are promises by name.\n".repeat(16);
        let config = format!("[proxy]\nanthropic = \"{upstream}\"\n");
        for (file, text) in [
            (home.join(".claude/CLAUDE.md"), &text),
            (project.join("CLAUDE.md"), &text),
            (project.join("CLAUDE.local.md"), &text),
            (home.join(".config/agentspine/config.toml"), &config),
        ] {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        std::fs::create_dir_all(project.join(".git")).unwrap();
        let machine = Self { home, project, state };
        machine.furnish();
        machine
    }

    fn furnish(&self) {
        let state = StateDir::open(self.state.clone(), None).unwrap();
        let mut ledger = Ledger::open(&state.memory_db()).unwrap();
        let scope = MemoryScope {
            tenant_id: id("local-tenant"),
            user_id: id("local-user"),
            project_id: Some(project_id(&OsFs, &self.project)),
            group_id: None,
        };
        (0..MEMORIES).for_each(|n| drop(ledger.remember(&memory(n), &scope).unwrap()));
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", "/usr/bin:/bin")
            .env("AGENTSPINE_STATE_DIR", &self.state)
            .current_dir(&self.project)
            .stdin(Stdio::null());
        command
    }

    fn proxy(&self) -> Peer {
        Peer::start(self.command(env!("CARGO_BIN_EXE_agentspine")).args(SERVE))
    }
}

const SERVE: [&str; 5] = ["proxy", "--listen", "127.0.0.1:0", "--instruction-host", "claude"];

const TOPICS: [&str; 8] =
    ["receipts", "anchors", "ledgers", "briefings", "policies", "spans", "deadlines", "keyrings"];
const PLACES: [&str; 5] = ["kitchen", "garden", "library", "harbour", "workshop"];

fn memory(n: u64) -> NewMemory {
    let at = usize::try_from(n).unwrap();
    let (topic, place) = (TOPICS[at % TOPICS.len()], PLACES[at % PLACES.len()]);
    NewMemory {
        kind: Kind::Decision,
        title: format!("{topic} {n}"),
        summary: format!("{topic} number {n} go to the {place}, shelf {}.", n * 7919 % 1009),
        tags: Vec::new(),
        subject: None,
        trust: Trust::Explicit,
        origin: Origin {
            source: id("session:1"),
            from_seq: n,
            through_seq: n,
            range_key: String::new(),
            extractor: id("memory-tool/v1"),
        },
        created_at_ms: 0,
        provenance: Provenance::default(),
        relations: Vec::new(),
    }
}

fn prompt(turn: usize) -> String {
    format!("Which {} did we put into the {}?", TOPICS[turn % TOPICS.len()], PLACES[turn % PLACES.len()])
}

fn id(text: &str) -> Id {
    Id::new(text).unwrap()
}

/// Flushes of one turn and of one continuation, from two runs of different length under strace.
fn flushes_per_call(machine: &Machine) -> Option<[f64; 2]> {
    let works = Command::new("strace").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
    works.ok().filter(std::process::ExitStatus::success)?;
    let of = |shape| {
        let [short, long] = [1, 11].map(|talks| counted_flushes(machine, shape, talks));
        Some((long? - short?) / (10 * CALLS) as f64)
    };
    Some([of(Shape::Turn)?, of(Shape::Continuation)?])
}

fn counted_flushes(machine: &Machine, shape: Shape, talks: usize) -> Option<f64> {
    let counted = machine.home.join("strace");
    let mut strace = machine.command("strace");
    strace.args(["-f", "-c", "-e", "trace=fsync,fdatasync", "-o"]).arg(&counted);
    let mut peer = Peer::start(strace.arg(env!("CARGO_BIN_EXE_agentspine")).args(SERVE));
    let row = Row { shape, bytes: 1_000, answer: Answer::Json, at_once: 1 };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for _ in 0..talks {
            let mut talk = Talk::begin(row, &peer, &format!("flushes-{}", unique())).await;
            for _ in 0..CALLS {
                talk.call().await;
            }
        }
    });
    // The proxy itself is asked to leave: strace then writes what it counted.
    let children = format!("/proc/{0}/task/{0}/children", peer.pid);
    let traced = std::fs::read_to_string(children).ok()?;
    let _ = Command::new("kill").args(["-TERM", traced.split_whitespace().next()?]).status();
    let _ = peer.child.wait();
    let table = std::fs::read_to_string(counted).ok()?;
    let rows = table.lines().filter(|line| line.ends_with("fsync") || line.ends_with("fdatasync"));
    let calls: Vec<f64> = rows.filter_map(|line| line.split_whitespace().nth(3)?.parse().ok()).collect();
    (!calls.is_empty()).then(|| calls.iter().sum())
}

fn flush_time(path: &Path) -> Spread {
    let file = std::fs::File::create_new(path).unwrap();
    let flush = |n: usize| {
        file.write_all_at(&[1; 4096], n as u64 * 4096).unwrap();
        let began = Instant::now();
        file.sync_data().unwrap();
        began.elapsed()
    };
    Spread::of((0..FLUSHES).map(flush).collect())
}

/// Median and 99th percentile.
struct Spread {
    p50: Duration,
    p99: Duration,
}

impl Spread {
    fn of(mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        let at = |percent: usize| samples[(samples.len() * percent / 100).min(samples.len() - 1)];
        Self { p50: at(50), p99: at(99) }
    }
}

fn ms(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1000.0)
}

fn two(time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1000.0)
}

fn met(holds: bool) -> &'static str {
    if holds { "met" } else { "MISSED" }
}

/// Two workers, as the proxy has; ends with the process that started it.
fn listening() -> (Runtime, TcpListener) {
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    println!("http://{}", listener.local_addr().unwrap());
    (runtime, listener)
}

/// The plain pass-through: a pooled client behind a server, bytes as they come.
fn through(base: &str) {
    let (runtime, listener) = listening();
    let base: &'static str = base.to_owned().leak();
    runtime.block_on(async {
        let client: Client<_, Incoming> = Client::builder(TokioExecutor::new()).build_http();
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let client = client.clone();
            let service = service_fn(move |mut request: Request<Incoming>| {
                *request.uri_mut() = format!("{base}{}", request.uri().path()).parse::<Uri>().unwrap();
                client.request(request)
            });
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
    });
}

/// The model server: one JSON answer, or events one by one.
fn upstream() {
    let (runtime, listener) = listening();
    runtime.block_on(async {
        let app = axum::Router::new().fallback(answer);
        axum::serve(axum::serve::ListenerExt::tap_io(listener, |io| drop(io.set_nodelay(true))), app)
            .await
            .unwrap();
    });
}

async fn answer(body: axum::body::Bytes) -> axum::response::Response {
    let start = String::from_utf8_lossy(&body[..body.len().min(80)]).into_owned();
    let (kind, body) = if start.contains(r#""stream":true"#) {
        let events = stream::unfold(0, |n| async move {
            tokio::task::yield_now().await;
            let event = format!(
                "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"word {n}\"}}}}\n\n"
            );
            (n < EVENTS).then(|| (Ok::<_, Infallible>(event), n + 1))
        });
        ("text/event-stream", axum::body::Body::from_stream(events))
    } else {
        let words = "A sentence of the answer. ".repeat(30);
        let text = format!(
            r#"{{"id":"msg","type":"message","role":"assistant","content":[{{"type":"text","text":"{words}"}}],"usage":{{"input_tokens":1,"output_tokens":1}}}}"#
        );
        ("application/json", axum::body::Body::from(text))
    };
    axum::response::Response::builder().header("content-type", kind).body(body).unwrap()
}
