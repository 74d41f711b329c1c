//! The chat without a screen: one answer (`-p`), append-only lines (`--plain`), or JSON events (`--json`).

use agentspine_gate::recall::Status;
use agentspine_model::{ModelError, ModelSpec, Target};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader, Stdin};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use super::cancel::Cancel;
use super::compact::{Compaction, Outcome, Why};
use super::engine::{Binding, Engine};
use super::fork::Forked;
use super::pick::{self, Choice};
use super::rules::{self, Rule};
use super::told::{ChatEvent, End, PassedView};
use super::{history, log, show};
use crate::cli::chat::ChatArgs;
use crate::cli::table;
use crate::compose::{self, Opening};
use crate::config::Config;
use crate::conversations::Session;
use crate::report::{Exit, Failure, Output, Report};
use crate::turn::{Heard, Seen};

/// Schema of the events.
const EVENTS_SCHEMA: &str = "agentspine.events/v1";
/// Longest line of `--plain`, bytes: a prompt one byte too long, which the gate refuses, and its line end.
const LINE_BYTES_MAX: u64 = agentspine_gate::turn::PROMPT_BYTES_MAX as u64 + 2;

/// Answers one prompt.
pub(super) async fn one(
    args: &ChatArgs,
    config: &Config,
    opening: Opening,
    binding: Binding,
    prompt: String,
    report: &mut Report,
) -> Result<(), Failure> {
    let mut interrupts = interrupts()?;
    let mut engine = engine(args, config, opening, binding, report).await?;
    let done = step(&mut engine, prompt, &mut interrupts, report).await;
    engine.finish().await;
    done
}

/// Does what a line asks for: a command, or else a turn.
async fn step(
    engine: &mut Engine,
    line: String,
    interrupts: &mut Signal,
    report: &mut Report,
) -> Result<(), Failure> {
    match line.trim() {
        "/retry" => retry(engine, interrupts, report).await,
        "/compact" => compact(engine, interrupts, report).await,
        "/fork" => fork_chat(engine, report).await,
        _ => turn(engine, line, interrupts, report).await,
    }
}

/// Reads one prompt a line until the input ends.
pub(super) async fn lines(
    args: &ChatArgs,
    config: &Config,
    opening: Opening,
    binding: Binding,
    report: &mut Report,
) -> Result<(), Failure> {
    let mut interrupts = interrupts()?;
    let mut engine = engine(args, config, opening, binding, report).await?;
    let done = follow_lines(&mut engine, &mut interrupts, report).await;
    engine.finish().await;
    done
}

async fn follow_lines(
    engine: &mut Engine,
    interrupts: &mut Signal,
    report: &mut Report,
) -> Result<(), Failure> {
    let mut input = BufReader::new(tokio::io::stdin());
    let mut last = Ok(());
    loop {
        let line = tokio::select! {
            line = next_line(&mut input) => line?,
            _ = interrupts.recv() => return Err(Failure::Told(Exit::Interrupted)),
        };
        let Some(line) = line else { return last };
        match line.trim() {
            "" => {}
            "/quit" => return last,
            _ => last = step(engine, line, interrupts, report).await,
        }
        // In a conversation a refused turn is told and the next line is read; the exit code is the last turn's.
        if let Err(failure) = &last {
            report.tell(failure);
            last = Err(Failure::Told(failure.exit()));
        }
        if report.is_closed() {
            return last;
        }
    }
}

/// One line without its end; `None` where the input ends. Not safe to drop halfway.
async fn next_line(input: &mut BufReader<Stdin>) -> Result<Option<String>, Failure> {
    let failed = |what: String| Failure::usage(what, "Send one prompt a line, as UTF-8 text");
    let mut line = Vec::new();
    let read = input.take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await;
    read.map_err(|error| failed(format!("stdin cannot be read: {error}")))?;
    if line.is_empty() {
        return Ok(None);
    }
    let line = String::from_utf8(line).map_err(|_| failed("a line of stdin is not UTF-8 text".to_owned()))?;
    if line.len() as u64 == LINE_BYTES_MAX && !line.ends_with('\n') {
        return Err(failed(format!("a line of stdin holds more than {} bytes", LINE_BYTES_MAX - 2)));
    }
    Ok(Some(line.trim_end_matches(['\n', '\r']).to_owned()))
}

async fn engine(
    args: &ChatArgs,
    config: &Config,
    opening: Opening,
    mut binding: Binding,
    report: &mut Report,
) -> Result<Engine, Failure> {
    let target = target(config, report)?;
    let rooms = opening.rooms()?;
    if let Some(None) = args.resume {
        list(&history::offered(&rooms.desk, &binding).await?, report);
    }
    let held = history::open(args, &rooms.desk, &mut binding).await?;
    if let Some((receipt, _)) = log::outcome_unknown(&held.events) {
        report.note(format!("the last prompt was not answered: receipt {} is spent, its outcome unknown; nothing is sent again", receipt.short()));
    }
    let client = compose::client(config, compose::DemoPace::Instant)?;
    let mut engine = Engine::new(rooms, client, target, binding, held, config.compaction);
    engine.take_up();
    Ok(engine)
}

/// The sessions one of which must be named.
fn list(sessions: &[Session], report: &mut Report) {
    match report.output() {
        Output::Json => {
            report.event(&json!({ "schema": EVENTS_SCHEMA, "type": "sessions", "sessions": sessions }));
        }
        Output::People => {
            let row = |one: &Session| [one.id.to_string(), one.title.clone().unwrap_or_default()];
            report.lines(table::lines(["id", "title"], &sessions.iter().map(row).collect::<Vec<_>>()));
        }
    }
}

/// Without a screen nobody can be asked: two keys need `--model`, a local server counts only with it.
fn target(config: &Config, report: &mut Report) -> Result<Target, Failure> {
    match pick::choose(config)? {
        Choice::Model(target) => Ok(target),
        Choice::Ask(names) => Err(Failure::usage(
            format!("Two keys are set, and each names a model: {}", names.join(", ")),
            format!("Choose one: agentspine chat --model {}", names.first().map_or("demo", String::as_str)),
        )),
        Choice::Demo(_) => {
            report.note(format!("model: demo ({})", pick::DEMO_NOTE));
            Ok(ModelSpec::demo().target(None))
        }
    }
}

/// Interrupts from here on: one listener for the whole run, so that none falls between two turns.
fn interrupts() -> Result<Signal, Failure> {
    signal(SignalKind::interrupt()).map_err(|error| {
        Failure::other(format!("Interrupts cannot be heard: {error}"), "Run: agentspine doctor")
    })
}

async fn turn(
    engine: &mut Engine,
    prompt: String,
    interrupts: &mut Signal,
    report: &mut Report,
) -> Result<(), Failure> {
    let session = engine.binding().scope.session_id.to_string();
    let (out, news) = mpsc::unbounded_channel();
    let cancel = Cancel::new();
    let run = engine.prompt(prompt, out, &cancel);
    follow(run, news, &cancel, interrupts, &session, report).await
}

async fn retry(engine: &mut Engine, interrupts: &mut Signal, report: &mut Report) -> Result<(), Failure> {
    if !engine.may_retry() {
        return Err(Failure::usage(
            "There is nothing to retry: no call failed without an answer",
            "Send a prompt",
        ));
    }
    let session = engine.binding().scope.session_id.to_string();
    let (out, news) = mpsc::unbounded_channel();
    let cancel = Cancel::new();
    let run = engine.retry(out, &cancel);
    follow(run, news, &cancel, interrupts, &session, report).await
}

async fn compact(engine: &mut Engine, interrupts: &mut Signal, report: &mut Report) -> Result<(), Failure> {
    let session = engine.binding().scope.session_id.to_string();
    let (out, news) = mpsc::unbounded_channel();
    let cancel = Cancel::new();
    let run = engine.compact(out, &cancel);
    follow(run, news, &cancel, interrupts, &session, report).await
}

async fn fork_chat(engine: &mut Engine, report: &mut Report) -> Result<(), Failure> {
    let Forked { parent, child, seed } = engine.fork_here().await?;
    match report.output() {
        Output::Json => report.event(&json!({
            "schema": EVENTS_SCHEMA, "session": child, "type": "forked", "parent": parent, "seedLength": seed,
        })),
        Output::People => report.note(show::forked(&parent, &child)),
    }
    Ok(())
}

/// Prints what happens until the turn ends; an interrupt cancels the turn, a closed pipe too.
async fn follow(
    run: impl Future<Output = ()>,
    mut news: mpsc::UnboundedReceiver<ChatEvent>,
    cancel: &Cancel,
    interrupts: &mut Signal,
    session: &str,
    report: &mut Report,
) -> Result<(), Failure> {
    tokio::pin!(run);
    let mut running = true;
    let mut done = Ok(());
    loop {
        tokio::select! {
            biased;
            _ = interrupts.recv(), if running => cancel.cancel(),
            event = news.recv() => match event {
                Some(event) => done = print(event, session, report).unwrap_or(done),
                None => return done,
            },
            () = &mut run, if running => running = false,
        }
        if report.is_closed() {
            cancel.cancel();
        }
    }
}

/// Prints one event; what the turn's end means for the process, once it ends.
fn print(event: ChatEvent, session: &str, report: &mut Report) -> Option<Result<(), Failure>> {
    match report.output() {
        Output::Json => report.event(&as_json(&event, session)),
        Output::People => print_text(&event, report),
    }
    match event {
        ChatEvent::Ended(end) => {
            if let (Output::People, End::Done | End::Cut { .. }) = (report.output(), &end) {
                report.line("");
            }
            match end {
                // The reader went away (`| head`) with all it wanted.
                End::Interrupted { .. } if report.is_closed() => Some(Ok(())),
                end => Some(ended(end)),
            }
        }
        ChatEvent::Compacted(Compaction { why: Why::Asked, outcome }) => Some(compacted(outcome)),
        _ => None,
    }
}

fn print_text(event: &ChatEvent, report: &mut Report) {
    match event {
        ChatEvent::Passed(view) => report.note(show::summary(view)),
        ChatEvent::Delta(text) => report.text(text),
        ChatEvent::ToolUse { name, query } => report.note(format!("{name}: {query}")),
        ChatEvent::ToolResult { line, .. } | ChatEvent::Notice(line) => report.note(line),
        ChatEvent::Rule(rule) => report.note(rules::line(rule)),
        ChatEvent::Compacting { why, .. } => report.note(show::compacting(*why)),
        // One that was asked for and failed is told as the failure it is.
        ChatEvent::Compacted(Compaction { why, outcome }) => match (why, outcome) {
            (Why::Full, _) | (_, Outcome::Done { .. }) => report.note(show::compacted(outcome)),
            (Why::Asked, _) => {}
        },
        ChatEvent::Started { .. }
        | ChatEvent::Seen { .. }
        | ChatEvent::Summarising(_)
        | ChatEvent::Usage { .. }
        | ChatEvent::Ended(_) => {}
    }
}

/// What a compaction that was asked for means for the process.
fn compacted(outcome: Outcome) -> Result<(), Failure> {
    let unchanged = "Nothing was changed; /compact tries again";
    match outcome {
        Outcome::Done { .. } => Ok(()),
        Outcome::Nothing => Err(Failure::usage("There is nothing to summarise yet", "Go on, and ask later")),
        Outcome::Refused(refusal) => Err(Failure::Refused(refusal)),
        Outcome::Failed(error) => Err(model_failure(&error)),
        Outcome::Useless(why) => Err(Failure::said(Exit::Model, format!("No summary: {why}."), unchanged)),
        Outcome::Interrupted => Err(Failure::said(Exit::Interrupted, "Interrupted.", unchanged)),
    }
}

fn ended(end: End) -> Result<(), Failure> {
    match end {
        End::Done => Ok(()),
        End::Refused { refusal, .. } => Err(Failure::Refused(refusal)),
        End::ModelFailed { error, .. } | End::Cut { error } => Err(model_failure(&error)),
        End::Interrupted { .. } => Err(Failure::said(Exit::Interrupted, "Interrupted.", "")),
    }
}

fn model_failure(error: &ModelError) -> Failure {
    let exit = if error.exit_code() == Exit::CutStream.number() { Exit::CutStream } else { Exit::Model };
    let wait = error
        .retry_after()
        .filter(|wait| wait.as_secs() > 0)
        .map(|wait| format!(" The server asks to wait {} s.", wait.as_secs()))
        .unwrap_or_default();
    Failure::said(exit, format!("{error}.{wait}"), error.advice())
}

fn as_json(event: &ChatEvent, session: &str) -> Value {
    let mut body = match event {
        ChatEvent::Started { turn, .. } => json!({ "type": "turn.started", "turn": turn }),
        ChatEvent::Seen { turn, ms, seen } => seen_json(*turn, *ms, seen),
        ChatEvent::Passed(view) => passed_json(view),
        ChatEvent::Delta(text) => json!({ "type": "delta", "text": text }),
        ChatEvent::ToolUse { name, query } => json!({ "type": "tool", "name": name, "query": query }),
        ChatEvent::Rule(rule) => rule_json(rule),
        ChatEvent::ToolResult { ok, line } => json!({ "type": "tool.result", "ok": ok, "summary": line }),
        ChatEvent::Usage { usage, percent } => json!({
            "type": "usage", "input": usage.input, "output": usage.output, "cacheRead": usage.cache_read,
            "contextPercent": percent,
        }),
        ChatEvent::Compacting { why, range } => json!({
            "type": "compaction.started", "automatic": *why == Why::Full,
            "fromSeq": range.from_seq, "throughSeq": range.through_seq,
        }),
        ChatEvent::Summarising(bytes) => json!({ "type": "compaction.progress", "bytes": bytes }),
        ChatEvent::Compacted(compaction) => compaction_json(compaction),
        ChatEvent::Notice(text) => json!({ "type": "notice", "text": text }),
        ChatEvent::Ended(end) => end_json(end),
    };
    if let Value::Object(fields) = &mut body {
        fields.insert("schema".to_owned(), EVENTS_SCHEMA.into());
        fields.insert("session".to_owned(), session.into());
    }
    body
}

fn compaction_json(Compaction { why, outcome }: &Compaction) -> Value {
    let (status, message) = match outcome {
        Outcome::Done { .. } => ("compacted", None),
        Outcome::Nothing => ("nothing", None),
        Outcome::Refused(refusal) => ("refused", Some(refusal.key())),
        Outcome::Failed(error) => ("failed", Some(error.to_string())),
        Outcome::Useless(why) => ("failed", Some(why.clone())),
        Outcome::Interrupted => ("interrupted", None),
    };
    let mut body = json!({
        "type": "compaction.done", "automatic": *why == Why::Full, "status": status, "message": message,
    });
    if let (Outcome::Done { text, range, usage, .. }, Value::Object(fields)) = (outcome, &mut body) {
        fields.insert("summary".to_owned(), text.clone().into());
        fields.insert("fromSeq".to_owned(), range.from_seq.into());
        fields.insert("throughSeq".to_owned(), range.through_seq.into());
        fields.insert("usage".to_owned(), json!(usage));
    }
    body
}

fn seen_json(turn: u64, ms: u64, seen: &Seen) -> Value {
    match seen {
        Seen::Files(files) => json!({
            "type": "instructions", "turn": turn, "ms": ms, "host": files.host,
            "files": files.listed.iter().map(|file| json!({ "id": file.id, "state": file.state })).collect::<Vec<_>>(),
        }),
        Seen::Recall(heard) => json!({
            "type": "recall", "turn": turn, "ms": ms, "providers": heard.iter().map(heard_json).collect::<Vec<_>>(),
        }),
    }
}

fn heard_json(heard: &Heard) -> Value {
    let outcome = &heard.outcome;
    json!({
        "id": outcome.provider_id, "required": heard.required, "status": outcome.status(heard.required),
        "items": outcome.items().len(), "reason": outcome.reason(), "latencyMs": outcome.latency_ms,
    })
}

fn passed_json(view: &PassedView) -> Value {
    let claims = &view.claims;
    let providers: Vec<Value> = claims.providers.iter().map(provider_json).collect();
    json!({
        "type": "receipt",
        "turn": view.turn,
        "receiptId": claims.id,
        "state": "consumed",
        "kind": claims.kind,
        "parent": claims.parent,
        "preflightMs": view.ms,
        "documents": claims.documents,
        "mustRemember": claims.must_remember,
        "recall": providers,
        "injectedTokens": show::injected_tokens(view),
        "requestDigest": claims.request_digest,
        "model": claims.model,
    })
}

fn provider_json(provider: &agentspine_gate::receipt::claims::BoundProvider) -> Value {
    let failed = matches!(provider.status, Status::Failed | Status::FailedOptional);
    json!({
        "id": provider.id, "status": provider.status, "reason": provider.reason, "failed": failed,
        "latencyMs": provider.latency_ms, "items": provider.injected, "leftOut": provider.left_out,
    })
}

fn rule_json(rule: &Rule) -> Value {
    match rule {
        Rule::Proposed { id, known } => json!({ "type": "rule", "candidateId": id, "known": known }),
        Rule::NotTaken { why } => json!({ "type": "rule", "candidateId": null, "message": why }),
    }
}

fn end_json(end: &End) -> Value {
    match end {
        End::Done => json!({ "type": "done", "status": "answered" }),
        End::Refused { refusal, turn, ms, .. } => json!({
            "type": "refused", "turn": turn, "code": refusal.code().as_str(), "detail": refusal.detail.to_string(),
            "message": refusal.message, "advice": refusal.advice, "receiptId": refusal.receipt, "preflightMs": ms,
        }),
        End::ModelFailed { error, .. } => json!({
            "type": "done", "status": "failed", "message": error.to_string(), "advice": error.advice(),
            "retryAfterS": error.retry_after().map(|wait| wait.as_secs()),
        }),
        End::Cut { error } => json!({ "type": "done", "status": "cut", "message": error.to_string() }),
        End::Interrupted { .. } => json!({ "type": "done", "status": "interrupted" }),
    }
}
