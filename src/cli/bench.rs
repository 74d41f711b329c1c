//! `agentspine bench recall`: how good recall is over a set, and how fast over many memories.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use agentspine_memory::Ledger;
use agentspine_memory::measure::dialogue::{self, Neighbours};
use agentspine_memory::measure::rules::{self, Hits, Split};
use agentspine_memory::measure::{Clock, Figures, Latency, MeasureError, scale};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};

use super::table;
use crate::report::{Failure, Output, Report};

/// Schema of everything printed here as JSON.
const SCHEMA: &str = "agentspine.bench/v1";

/// Measure this build on this machine
#[derive(Args)]
pub(super) struct BenchArgs {
    #[command(subcommand)]
    what: What,
    /// Print JSON (agentspine.bench/v1)
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Subcommand)]
enum What {
    /// How good the embedded recall is, and how fast
    #[command(
        after_help = "A folder holds records.jsonl + queries.jsonl (turns of conversations and questions about them)
or memories.jsonl + queries.jsonl (short memories and prompts). Everything is remembered in a
ledger of its own that is deleted afterwards; your memories are not touched.

Examples:
  agentspine bench recall --folder ~/locomo
  agentspine bench recall --folder tests/support/recall-set --split kept
  agentspine bench recall --scale"
    )]
    Recall(RecallArgs),
}

#[derive(Args)]
struct RecallArgs {
    /// The set
    #[arg(long, value_name = "DIR", required_unless_present = "scale")]
    folder: Option<PathBuf>,
    /// Which prompts of a set of short memories are asked
    #[arg(long, value_name = "PART", default_value = "tune")]
    split: Part,
    /// Ask 100 to 100,000 made-up memories from 1 and 4 sessions at once; takes some minutes
    #[arg(long)]
    scale: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Part {
    Tune,
    Kept,
}

/// Measures.
pub(super) fn run(args: &BenchArgs, report: &mut Report) -> Result<(), Failure> {
    let What::Recall(recall) = &args.what;
    let begun = Instant::now();
    let clock = move || begun.elapsed();
    let scratch = tempfile::tempdir()
        .map_err(|error| Failure::other(format!("No scratch directory: {}.", error.kind()), "Set TMPDIR."))?;
    let bench = Bench { scratch: scratch.path(), clock: &clock };
    if let Some(folder) = &recall.folder {
        bench.folder(folder, recall.split, report).map_err(failure)?;
    }
    if recall.scale {
        bench.scale(report).map_err(failure)?;
    }
    Ok(())
}

fn failure(error: MeasureError) -> Failure {
    Failure::other(format!("Not measured: {error}."), "See: agentspine bench recall --help")
}

struct Bench<'a> {
    scratch: &'a Path,
    clock: Clock<'a>,
}

impl Bench<'_> {
    fn ledger(&self, name: &str) -> Result<Ledger, MeasureError> {
        Ok(Ledger::open(&self.scratch.join(name))?)
    }

    fn folder(&self, folder: &Path, split: Part, report: &mut Report) -> Result<(), MeasureError> {
        let dialogues = dialogue::Set::read(folder)?;
        let rules = if dialogues.is_none() { rules::Set::read(folder)? } else { None };
        match (dialogues, rules) {
            (Some(set), _) => self.dialogue(&set, report),
            (None, Some(set)) => self.rules(&set, split, report),
            (None, None) => {
                match report.output() {
                    Output::Json => {
                        report.json(&json!({ "schema": SCHEMA, "skipped": "no set in this folder" }));
                    }
                    Output::People => report.line(
                        "skipped: this folder has no records.jsonl or memories.jsonl with queries.jsonl",
                    ),
                }
                Ok(())
            }
        }
    }

    fn dialogue(&self, set: &dialogue::Set, report: &mut Report) -> Result<(), MeasureError> {
        let (mut rows, mut all) = (Vec::new(), Vec::new());
        for (name, neighbours) in [("with neighbours", Neighbours::With), ("without", Neighbours::Without)] {
            let mut ledger = self.ledger(name)?;
            let (measured, refused) = set.measure_ledger(&mut ledger, neighbours, self.clock)?;
            rows.push(figures_row(name, &measured.all));
            rows.extend(
                measured
                    .by_category
                    .iter()
                    .map(|(category, figures)| figures_row(&format!("  category {category}"), figures)),
            );
            rows.push(latency_row(measured.latency));
            let categories: Vec<Value> = measured
                .by_category
                .iter()
                .map(|(category, figures)| json!({ "category": category, "figures": figures_json(figures) }))
                .collect();
            all.push(json!({
                "neighbours": neighbours == Neighbours::With, "all": figures_json(&measured.all),
                "byCategory": categories, "latency": latency_json(measured.latency), "refused": refused,
            }));
        }
        match report.output() {
            Output::Json => report.json(&json!({ "schema": SCHEMA, "memories": set.turns(), "runs": all })),
            Output::People => {
                report.line(format!("{} turns, categories 1 to 4", set.turns()));
                report.lines(table::lines(
                    ["ledger/v1", "questions", "R@5", "R@10", "hit@5", "hit@10", "MRR"],
                    &rows,
                ));
            }
        }
        Ok(())
    }

    fn rules(&self, set: &rules::Set, split: Part, report: &mut Report) -> Result<(), MeasureError> {
        let split = match split {
            Part::Tune => Split::Tune,
            Part::Kept => Split::Kept,
        };
        let (measured, refused) = set.measure_ledger(&mut self.ledger("rules")?, split, self.clock)?;
        let groups = measured.by_language.iter().map(|(name, hits)| (format!("  {name}"), hits));
        let all = std::iter::once(("ledger/v1".to_owned(), &measured.all)).chain(groups);
        let all: Vec<_> =
            all.chain(std::iter::once(("  paraphrases".to_owned(), &measured.paraphrases))).collect();
        match report.output() {
            Output::Json => {
                let groups: Vec<Value> =
                    all.iter().map(|(name, hits)| hits_json(name.trim(), hits)).collect();
                report.json(&json!({
                    "schema": SCHEMA, "memories": set.memories(), "groups": groups, "refused": refused,
                    "unrelated": measured.unrelated, "silent": measured.silent, "latency": latency_json(measured.latency),
                }));
            }
            Output::People => {
                report.line(format!(
                    "{} memories, {} of them refused by the screen",
                    set.memories(),
                    refused.len()
                ));
                let rows: Vec<_> = all.iter().map(|(name, hits)| hits_row(name, hits)).collect();
                report.lines(table::lines(
                    ["related prompts", "prompts", "hit@1", "hit@3", "recall anything"],
                    &rows,
                ));
                report.line(format!(
                    "{} unrelated prompts, {:.3} recall nothing",
                    measured.unrelated, measured.silent
                ));
                report.line(latency_row(measured.latency).join(" ").trim().to_owned());
            }
        }
        Ok(())
    }

    fn scale(&self, report: &mut Report) -> Result<(), MeasureError> {
        let path = self.scratch.join("scale");
        let mut ledger = Ledger::open(&path)?;
        for memories in scale::SIZES {
            report.note(format_args!("remembering {memories}"));
            scale::fill(&mut ledger, memories)?;
        }
        drop(ledger);
        let mut rows = Vec::new();
        for memories in scale::SIZES {
            for sessions in scale::SESSIONS {
                rows.push(scale::measure(&path, memories, sessions, self.clock)?);
            }
        }
        let bytes = std::fs::metadata(&path).map_or(0, |file| file.len());
        let (opened, answered) = scale::first_question(&path, 100_000, self.clock)?;
        match report.output() {
            Output::Json => {
                let rows: Vec<Value> = rows.iter().map(|row| json!({
                    "memories": row.memories, "sessions": row.sessions, "latency": latency_json(row.latency),
                })).collect();
                report.json(&json!({
                    "schema": SCHEMA, "rows": rows, "bytes": bytes,
                    "openMs": millis(opened), "firstQuestionMs": millis(answered),
                }));
            }
            Output::People => {
                let row = |row: &scale::Measured| {
                    let Latency { p50, p95, max } = row.latency;
                    [row.memories.to_string(), row.sessions.to_string(), shown(p50), shown(p95), shown(max)]
                };
                let rows: Vec<_> = rows.iter().map(row).collect();
                report.lines(table::lines(["in scope", "sessions", "p50", "p95", "max"], &rows));
                report.line(format!(
                    "all in one file of {} MB; opening it takes {}, its first question {}",
                    bytes / 1_000_000,
                    shown(opened),
                    shown(answered)
                ));
            }
        }
        Ok(())
    }
}

fn figures_row(name: &str, figures: &Figures) -> [String; 7] {
    let share = |value: f64| format!("{value:.3}");
    [
        name.to_owned(),
        figures.queries.to_string(),
        share(figures.recall_5),
        share(figures.recall_10),
        share(figures.hit_5),
        share(figures.hit_10),
        share(figures.mrr),
    ]
}

fn latency_row(latency: Latency) -> [String; 7] {
    let Latency { p50, p95, max } = latency;
    let text = format!("  p50 {}, p95 {}, max {}", shown(p50), shown(p95), shown(max));
    [text, String::new(), String::new(), String::new(), String::new(), String::new(), String::new()]
}

fn hits_row(name: &str, hits: &Hits) -> [String; 5] {
    let share = |value: f64| format!("{value:.3}");
    [name.to_owned(), hits.queries.to_string(), share(hits.hit_1), share(hits.hit_3), share(hits.answered)]
}

fn figures_json(figures: &Figures) -> Value {
    json!({
        "queries": figures.queries, "recallAt5": figures.recall_5, "recallAt10": figures.recall_10,
        "hitAt5": figures.hit_5, "hitAt10": figures.hit_10, "mrr": figures.mrr,
    })
}

fn hits_json(name: &str, hits: &Hits) -> Value {
    json!({
        "group": name, "queries": hits.queries, "hitAt1": hits.hit_1, "hitAt3": hits.hit_3, "answered": hits.answered,
    })
}

fn latency_json(latency: Latency) -> Value {
    json!({ "p50Ms": millis(latency.p50), "p95Ms": millis(latency.p95), "maxMs": millis(latency.max) })
}

fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn shown(time: Duration) -> String {
    format!("{:.2} ms", millis(time))
}
