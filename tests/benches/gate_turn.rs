//! What the gate costs a turn: wall, CPU and fsyncs, next to one fsync of the same disk in the same run.
//!
//! `cargo bench --bench gate_turn`. Two measurements, because the chat is a binary:
//!
//! 1. The steps of `src/turn.rs` through the library crates, in this process: bind, plan, recall over the memory ledger,
//!    compose, issue, keep, consume, admit. `keep` stands in for the chat's session store: one event and the span in one
//!    flushed SQLite transaction. Building the host's own body, the model and the screen are not in it.
//! 2. The real `agentspine chat --plain` over the demo model: (110 prompts - 10 prompts) / 100, everything included.
//!
//! `strace` counts the flushes of the second; where it is missing that line says so.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs)]

use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agentspine_gate::instructions::{HostHomes, project_id};
use agentspine_gate::os_fs::OsFs;
use agentspine_gate::remember::{Proposal, RememberScope};
use agentspine_gate::seams::{Clock, Rng, Seams};
use agentspine_gate::span::{Draft, Span};
use agentspine_gate::state_dir::StateDir;
use agentspine_gate::turn::{CallKind, Host, Identity, Injection, InstructionHost, Scope, TurnRequest};
use agentspine_gate::{CallOutcome, Digest, Fresh, Gate, Id, admit};
use agentspine_memory::{Kind, Ledger, MemoryScope, NewMemory, Origin, Provenance, Trust};
use agentspine_model::{AssistantBlock, Conversation, Message, ModelSpec, Target};
use agentspine_recall::{Commands, Providers, Supervisor, cancellation};
use rusqlite::Connection;
use rustix::time::{ClockId, clock_gettime};

const RULES: usize = 10;
const MEMORIES: u64 = 1_000;
/// Turns before measuring starts: caches are warm then, as in a running chat.
const WARM_UP: usize = 20;
const TURNS: usize = 200;
/// Flushes timed for the disk's own figure.
const FLUSHES: usize = 100;
/// What one turn may flush: conversation event, consumed row, anchor.
const FLUSHES_GOAL: f64 = 3.0;
/// What checkpoints of the write-ahead logs may add to it on average.
const FLUSHES_OF_CHECKPOINTS: f64 = 0.25;
/// Turns of an ordinary conversation.
const SESSION_TURNS: usize = 20;
/// What one turn may cost in CPU, 95th percentile.
const CPU_GOAL: Duration = Duration::from_millis(3);
/// Prompts of the short and of the long run of the real binary.
const PROMPTS: [usize; 2] = [10, 110];

fn main() {
    // On the disk that holds the build, not on a temporary file system in memory.
    let temp = tempfile::Builder::new().prefix("gate-turn").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let machine = Machine::new(temp.path());
    println!(
        "a turn with 4 instruction files, {RULES} rules and {MEMORIES} memories; p50 and p95 of {TURNS} turns"
    );
    let flush = flush_time(&temp.path().join("flushed"));
    println!("one flush of this disk, 4 KiB         {}", flush.shown());

    println!(
        "\nthe path through the library crates: bind, plan, recall, compose, issue, keep, consume, admit"
    );
    println!(
        "(keep stands in for the session store, with its flush; the host's own body, model and screen are not in it)"
    );
    path(&machine, SESSION_TURNS, &flush);
    println!(
        "the same at the end of one conversation of {} turns, each with recalled notes",
        WARM_UP + TURNS
    );
    path(&machine, WARM_UP + TURNS, &flush);

    println!(
        "\nthe real binary, `agentspine chat --plain` over the demo model: (110 prompts - 10 prompts) / 100"
    );
    let [short, long] = PROMPTS.map(|prompts| chat_time(&machine, prompts));
    let (wall, cpu) = (long.0.saturating_sub(short.0) / 100, long.1.saturating_sub(short.1) / 100);
    println!(
        "  wall {}, CPU {} a turn; runtime, demo model, printing and keeping the answer are in it",
        ms(wall),
        ms(cpu)
    );
    match chat_flushes(&machine) {
        Some(flushes) => println!(
            "  {flushes:.2} flushes a turn: conversation event 1, consumed row 1, anchor 1, the rest WAL checkpoints; goal {FLUSHES_GOAL}: {}",
            met(flushes < FLUSHES_GOAL + FLUSHES_OF_CHECKPOINTS)
        ),
        None => println!("  flushes are not counted: strace is not here or may not trace"),
    }
}

fn path(machine: &Machine, turns_per_session: usize, flush: &Spread) {
    let [wall, cpu, parts @ ..] = library_turns(machine, turns_per_session);
    println!("  conversations of {turns_per_session} turns");
    println!(
        "    wall                              {}  = {:.1} flushes",
        wall.shown(),
        ratio(wall.p50, flush.p50)
    );
    println!(
        "    CPU                               {}  goal p95 <= {}: {}",
        cpu.shown(),
        ms(CPU_GOAL),
        met(cpu.p95 <= CPU_GOAL)
    );
    for (name, part) in STEPS.iter().zip(&parts) {
        println!("      of it {name:<27} {}", part.shown());
    }
}

/// A person's machine: home, project, state.
struct Machine {
    home: PathBuf,
    project: PathBuf,
    project_id: Id,
}

impl Machine {
    fn new(root: &Path) -> Self {
        let (home, project) = (root.join("home"), root.join("home/src/project"));
        std::fs::create_dir_all(project.join(".git")).unwrap();
        std::fs::create_dir_all(home.join(".claude")).unwrap();
        let text = "Use tabs. Say what you do and why. Tests are promises by name.\n".repeat(16);
        for file in [
            home.join(".claude/CLAUDE.md"),
            home.join("src/CLAUDE.md"),
            project.join("CLAUDE.md"),
            project.join("CLAUDE.local.md"),
        ] {
            std::fs::write(file, &text).unwrap();
        }
        let machine = Self { project_id: project_id(&OsFs, &project), home, project };
        machine.furnish();
        machine
    }

    fn state(&self) -> StateDir {
        StateDir::open(self.home.join(".local/state/agentspine"), None).unwrap()
    }

    fn furnish(&self) {
        let mut gate = Gate::open(self.state(), seams()).unwrap();
        for n in 0..RULES {
            let scope = RememberScope {
                user_id: id("local-user"),
                tenant_id: id("local-tenant"),
                project_id: None,
                group_id: None,
                task_id: None,
            };
            let claim = format!(
                "Rule {n}: release notes are written before the tag, in one sentence a change, and read once more."
            );
            let proposal = Proposal {
                claim: &claim,
                scope,
                any_group: false,
                kind: None,
                source_digest: None,
                now_ms: 0,
            };
            let candidate = gate.remember().propose(proposal).unwrap().candidate.id;
            gate.remember().confirm(&candidate, None, 0).unwrap();
        }
        let mut ledger = Ledger::open(&self.state().memory_db()).unwrap();
        for n in 0..MEMORIES {
            ledger.remember(&memory(n), &self.memory_scope()).unwrap();
        }
    }

    fn memory_scope(&self) -> MemoryScope {
        MemoryScope {
            tenant_id: id("local-tenant"),
            user_id: id("local-user"),
            project_id: Some(self.project_id.clone()),
            group_id: None,
        }
    }

    fn request(
        &self,
        (session, turn): (&str, usize),
        prompt: &str,
        draft: &Draft,
        target: &Target,
    ) -> TurnRequest {
        TurnRequest {
            identity: Identity {
                agent_id: id("host-agent:default"),
                persona_id: None,
                user_id: id("local-user"),
                tenant_id: id("local-tenant"),
                profile_id: id("default"),
            },
            host: Host::Agentspine,
            instruction_host: Some(InstructionHost::Claude),
            homes: HostHomes {
                home: self.home.clone(),
                claude_managed_dir: Some(self.home.join("etc")),
                ..HostHomes::default()
            },
            scope: Scope {
                session_id: id(session),
                project_id: self.project_id.clone(),
                task_id: None,
                group_id: None,
            },
            cwd: self.project.clone(),
            delivery_id: id(&format!("{session}/{turn}")),
            kind: CallKind::Turn,
            prompt: prompt.to_owned(),
            parent: None,
            retry_of: None,
            injection: Injection::On,
            client_body_digest: Digest::of(&draft.body),
            endpoint: target.endpoint.clone(),
            model: target.model.clone(),
        }
    }
}

const TOPICS: [&str; 8] =
    ["receipts", "anchors", "ledgers", "briefings", "policies", "spans", "deadlines", "keyrings"];
const PLACES: [&str; 13] = [
    "kitchen", "garden", "library", "harbour", "workshop", "attic", "cellar", "stable", "orchard", "bakery",
    "tower", "mill", "chapel",
];

/// A word of a topic stands in an eighth of the memories, one of a place in a thirteenth: a prompt finds about two hundred.
fn memory(n: u64) -> NewMemory {
    let at = usize::try_from(n).unwrap();
    let (topic, place) = (TOPICS[at % TOPICS.len()], PLACES[at % PLACES.len()]);
    NewMemory {
        kind: Kind::Decision,
        title: format!("{topic} {n}"),
        summary: format!(
            "{topic} number {n} go to the {place}, shelf {}, and somebody looks after them.",
            n * 7919 % 1009
        ),
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

/// Steps whose CPU is told apart.
const STEPS: [&str; 5] =
    ["bind and plan", "recall", "compose and issue", "keep (stand-in)", "consume and admit"];

/// Wall, CPU, and the CPU of each of [`STEPS`].
fn library_turns(machine: &Machine, turns_per_session: usize) -> [Spread; 7] {
    let mut gate = Gate::open(machine.state(), seams()).unwrap();
    let ledger = Ledger::open(&machine.state().memory_db()).unwrap();
    let providers = Providers {
        ledger: Some(Arc::new(Mutex::new(ledger))),
        recall: agentspine_recall::Recall::On,
        commands: no_commands(machine),
        wishes: agentspine_recall::Wishes::default(),
    };
    let store = store(&machine.home.join(format!("kept-{turns_per_session}.sqlite")));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let target = ModelSpec::demo().target(None);
    let (mut session, mut messages, mut spans) = (String::new(), Vec::<Message>::new(), Vec::<Span>::new());
    let mut samples: [Vec<Duration>; 7] = Default::default();
    for turn in 0..WARM_UP + TURNS {
        if turn % turns_per_session == 0 {
            session = format!("s-{turns_per_session}-{turn}");
            messages.clear();
            spans.clear();
        }
        let prompt = prompt(turn);
        messages.push(Message::User { text: prompt.clone() });
        let conversation = Conversation {
            system: "You are the model.",
            messages: messages.clone(),
            tools: Vec::new(),
            max_tokens: 1000,
        };
        let draft = agentspine_model::draft(&target, &conversation, &session);
        let request = machine.request((&session, turn), &prompt, &draft, &target);

        let (wall, mut cpu) = (Instant::now(), vec![cpu_time()]);
        let bound = gate.bind(request.clone()).unwrap();
        let plan = gate.plan(bound, &mut Fresh::default()).unwrap();
        cpu.push(cpu_time());
        let (_canceller, cancelled) = cancellation();
        let outcomes =
            runtime.block_on(agentspine_recall::run(plan.queries().to_vec(), &providers, cancelled));
        cpu.push(cpu_time());
        let composed = gate.compose(plan, &outcomes, &draft, &spans).unwrap();
        let prepared = gate.issue(&composed).unwrap();
        cpu.push(cpu_time());
        keep(&store, turn, &prompt, composed.span());
        cpu.push(cpu_time());
        let span = composed.span().cloned();
        let consumed = gate.consume(prepared, &composed, &request).unwrap();
        let admitted = admit(consumed, composed).unwrap();
        cpu.push(cpu_time());
        let took = wall.elapsed();

        gate.record_outcome(admitted.receipt(), CallOutcome::Answered).unwrap();
        spans.extend(span);
        messages.push(Message::Assistant {
            blocks: vec![AssistantBlock::Text("It was decided and written down.".into())],
        });
        if turn >= WARM_UP {
            let whole = cpu.last().unwrap().saturating_sub(cpu[0]);
            let steps = cpu.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
            [took, whole]
                .into_iter()
                .chain(steps)
                .zip(&mut samples)
                .for_each(|(sample, all)| all.push(sample));
        }
    }
    samples.map(Spread::of)
}

/// The chat's session store in small: write-ahead log, flushed with the commit.
fn store(path: &Path) -> Connection {
    let store = Connection::open(path).unwrap();
    store.pragma_update(None, "journal_mode", "WAL").unwrap();
    store.pragma_update(None, "synchronous", "FULL").unwrap();
    store.execute_batch("CREATE TABLE event(seq INTEGER PRIMARY KEY, body TEXT); CREATE TABLE span(place TEXT PRIMARY KEY, text TEXT)").unwrap();
    store
}

fn keep(store: &Connection, turn: usize, prompt: &str, span: Option<&Span>) {
    let tx = store.unchecked_transaction().unwrap();
    let body = serde_json::json!({ "kind": "prompt", "text": prompt, "turn": turn }).to_string();
    tx.prepare_cached("INSERT INTO event(body) VALUES (?1)").unwrap().execute([body]).unwrap();
    if let Some(span) = span {
        let values = (span.place.0.to_hex(), &span.text);
        tx.prepare_cached("INSERT INTO span VALUES (?1, ?2)").unwrap().execute(values).unwrap();
    }
    tx.commit().unwrap();
}

fn no_commands(machine: &Machine) -> Commands {
    let supervisor = Supervisor { exe: PathBuf::from("/nonexistent"), args_prefix: Vec::new() };
    Commands {
        supervisor,
        path: "/usr/bin".into(),
        scratch: machine.home.join("run"),
        credentials: Arc::new(|_| None),
    }
}

/// Wall and CPU of a whole chat of so many prompts, user and system together.
fn chat_time(machine: &Machine, prompts: usize) -> (Duration, Duration) {
    let (wall, before) = (Instant::now(), children_cpu());
    chat(machine, prompts, Command::new(env!("CARGO_BIN_EXE_agentspine")));
    (wall.elapsed(), children_cpu().saturating_sub(before))
}

/// CPU of all children so far, from /proc/self/stat: cutime and cstime, fields 16 and 17, in ticks of 10 ms.
fn children_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks: u64 =
        after_name.split_whitespace().skip(13).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn chat_flushes(machine: &Machine) -> Option<f64> {
    let [short, long] = PROMPTS.map(|prompts| {
        let counted = machine.home.join(format!("strace-{prompts}"));
        let mut strace = Command::new("strace");
        strace
            .args(["-f", "-c", "-e", "trace=fsync,fdatasync", "-o"])
            .arg(&counted)
            .arg(env!("CARGO_BIN_EXE_agentspine"));
        Command::new("strace")
            .arg("-V")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .ok()
            .filter(std::process::ExitStatus::success)?;
        chat(machine, prompts, strace);
        counted_calls(&std::fs::read_to_string(counted).ok()?)
    });
    Some((long? - short?) / 100.0)
}

/// The call column of `strace -c`: `% time, seconds, usecs/call, calls, [errors,] syscall`.
fn counted_calls(table: &str) -> Option<f64> {
    let rows = table.lines().filter(|line| line.ends_with("fsync") || line.ends_with("fdatasync"));
    let calls: Vec<f64> = rows.filter_map(|line| line.split_whitespace().nth(3)?.parse().ok()).collect();
    (!calls.is_empty()).then(|| calls.iter().sum())
}

fn chat(machine: &Machine, prompts: usize, mut program: Command) {
    let program = program
        .args(["chat", "--plain", "--model", "demo", "--instruction-host", "claude"])
        .env_clear()
        .env("HOME", &machine.home)
        .env("PATH", "/usr/bin:/bin")
        .current_dir(&machine.project)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = program.spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines: String = (0..prompts).map(|turn| prompt(turn) + "\n").collect();
    input.write_all(lines.as_bytes()).unwrap();
    drop(input);
    let done = child.wait_with_output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
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

/// Median and 95th percentile.
struct Spread {
    p50: Duration,
    p95: Duration,
}

impl Spread {
    fn shown(&self) -> String {
        format!("p50 {:>10}  p95 {:>10}", ms(self.p50), ms(self.p95))
    }

    fn of(mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        let at = |percent: usize| samples[(samples.len() * percent / 100).min(samples.len() - 1)];
        Self { p50: at(50), p95: at(95) }
    }
}

fn cpu_time() -> Duration {
    let at = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(at.tv_sec.try_into().unwrap(), at.tv_nsec.try_into().unwrap())
}

fn ms(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1000.0)
}

fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64().max(1e-9)
}

fn met(holds: bool) -> &'static str {
    if holds { "met" } else { "MISSED" }
}

fn id(text: &str) -> Id {
    Id::new(text).unwrap()
}

struct MachineClock;

impl Clock for MachineClock {
    fn wall_ms(&self) -> i64 {
        let at = clock_gettime(ClockId::Realtime);
        at.tv_sec * 1000 + at.tv_nsec / 1_000_000
    }
    fn boottime_ms(&self) -> u64 {
        let at = clock_gettime(ClockId::Boottime);
        u64::try_from(at.tv_sec * 1000 + at.tv_nsec / 1_000_000).unwrap()
    }
    fn boot_id(&self) -> String {
        std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim().to_owned()
    }
}

struct Urandom;

impl Rng for Urandom {
    fn fill(&self, out: &mut [u8]) -> io::Result<()> {
        std::fs::File::open("/dev/urandom")?.read_exact(out)
    }
}

fn seams() -> Seams {
    Seams { clock: Arc::new(MachineClock), rng: Arc::new(Urandom), fs: Arc::new(OsFs) }
}
