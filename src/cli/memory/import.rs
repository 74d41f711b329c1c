//! Taking in other programs' notes: a plan first, then, with `--yes`, the same plan done.

mod files;

use std::path::{Path, PathBuf};

use agentspine_gate::Id;
use agentspine_gate::remember::{CandidateStatus, Proposal, RememberScope};
use agentspine_memory::import::{self, Draft, Item, Place, Reach, RuleDraft, Verdict, What};
use agentspine_memory::remember::Settled;
use agentspine_memory::{Capability, Grants};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::{Door, SCHEMA};
use crate::cli::table;
use crate::report::{Exit, Failure, Output, Report};

#[derive(Args)]
#[command(after_help = "Examples:
  agentspine memory import --from claude-memory
  agentspine memory import --from upstream ~/.local/state/agentspine/context/must-remember.json
  agentspine memory import --from jsonl notes.jsonl --yes

Shows what would come in and changes nothing; --yes does it. Doing it twice changes nothing more.
Rules come in as proposals, which you confirm one by one.")]
pub(super) struct ImportArgs {
    /// Whose notes these are
    #[arg(long, value_name = "FORMAT")]
    from: Format,
    /// The folder or the file [default: Claude Code's notes on this project]
    #[arg(value_name = "PATH", required_if_eq_any = [("from", "upstream"), ("from", "jsonl")])]
    path: Option<PathBuf>,
    /// Only show what would come in
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Do it
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Claude Code's notes on a project: its memory folder, or MEMORY.md
    ClaudeMemory,
    /// must-remember.json of the earlier AgentSpine
    Upstream,
    /// One JSON object a line, such as an export
    Jsonl,
}

/// One line of the plan.
struct Step {
    at: Place,
    deed: Deed,
    /// What became of it, or would.
    state: &'static str,
    /// Of what is left, the reason; of what is redacted or ignored, what that is.
    notes: Vec<String>,
}

enum Deed {
    Memory(Draft),
    /// A memory that is here already.
    Known(Draft),
    /// A rule, and the candidate it became.
    Rule(RuleDraft, Option<Id>),
    Pointer,
    Left,
}

/// Plans, shows, and does it where the person said so.
pub(super) fn run(args: &ImportArgs, door: &mut Door, report: &mut Report) -> Result<(), Failure> {
    let (_, _, grants) = door.parts();
    grants
        .check(Capability::SemanticWrite)
        .map_err(|error| Failure::usage(error.to_string(), error.advice()))?;
    let path = args.path.clone().unwrap_or_else(|| door.claude_notes());
    let mut steps = plan(read(args.from, &path, door)?, door)?;
    if args.yes {
        for step in &mut steps {
            carry_out(step, door)?;
        }
    }
    show(&steps, args, report);
    if args.yes || args.dry_run {
        return Ok(());
    }
    match report.output() {
        Output::Json => Err(Failure::Told(Exit::Usage)),
        Output::People => {
            Err(Failure::usage("nothing was changed", "To do it, run the same command with --yes"))
        }
    }
}

fn read(from: Format, path: &Path, door: &Door) -> Result<Vec<Item>, Failure> {
    match from {
        Format::ClaudeMemory => {
            let notes = files::notes(path)?;
            let mut items = import::claude(&notes.files);
            items.extend(notes.left);
            Ok(items)
        }
        Format::Jsonl => {
            let file = files::file(path)?;
            Ok(import::lines(&file.name, &file.text, door.now_ms()))
        }
        Format::Upstream => {
            let file = files::file(path)?;
            let scope = door.scope();
            import::upstream(&file.name, &file.text, &scope.user_id, &scope.tenant_id).map_err(|error| {
                Failure::usage(
                    format!("{}: {error}", file.name),
                    "Name a must-remember.json of the earlier AgentSpine",
                )
            })
        }
    }
}

/// What would become of every item, in its order.
fn plan(items: Vec<Item>, door: &mut Door) -> Result<Vec<Step>, Failure> {
    let drafts: Vec<Draft> = items
        .iter()
        .filter_map(|item| if let What::Memory(draft) = &item.what { Some(draft.clone()) } else { None })
        .collect();
    let (ledger, scope, grants) = door.parts();
    let verdicts = ledger.judge(scope, &drafts);
    let verdicts = verdicts.map_err(|error| Failure::other(error.to_string(), "Run: agentspine doctor"))?;
    let grants = grants.clone();
    let mut verdicts = verdicts.into_iter();
    Ok(items.into_iter().map(|item| step(item, &mut verdicts, &grants)).collect())
}

fn step(item: Item, verdicts: &mut impl Iterator<Item = Verdict>, grants: &Grants) -> Step {
    let mut notes = Vec::new();
    if !item.ignored.is_empty() {
        notes.push(format!("ignored: {}", item.ignored.join(", ")));
    }
    let mut left = |why: String| {
        notes.push(why);
        (Deed::Left, "left out")
    };
    let (deed, state) = match item.what {
        What::Left(why) => left(why),
        What::Pointer(to) => {
            notes.push(format!("stands for {to}"));
            (Deed::Pointer, "taken there")
        }
        What::Rule(rule) if rule.reach.is_global() && !grants.allows(Capability::GlobalRuleWrite) => {
            left("a rule of every project needs the capability global-rule-write".to_owned())
        }
        What::Rule(rule) => {
            redacted(&rule.redacted, &mut notes);
            (Deed::Rule(rule, None), "to confirm")
        }
        What::Memory(draft) => match verdicts.next() {
            Some(Verdict::New(labels)) => {
                redacted(&labels, &mut notes);
                (Deed::Memory(draft), "new")
            }
            Some(Verdict::Known) => (Deed::Known(draft), "known"),
            Some(Verdict::Forgotten) => {
                left("it was forgotten here; to have it again: agentspine memory remember".to_owned())
            }
            Some(Verdict::Left(why)) => left(why),
            None => left("it could not be judged".to_owned()),
        },
    };
    Step { at: item.at, deed, state, notes }
}

fn redacted(labels: &[String], notes: &mut Vec<String>) {
    if !labels.is_empty() {
        notes.push(format!("redacted: {}", labels.join(", ")));
    }
}

/// Does one step. What is refused after all is told like everything else that is left.
fn carry_out(step: &mut Step, door: &mut Door) -> Result<(), Failure> {
    match &mut step.deed {
        Deed::Known(_) | Deed::Pointer | Deed::Left => {}
        Deed::Memory(draft) => {
            let (ledger, scope, _) = door.parts();
            match ledger.take(scope, draft) {
                Ok(done) => {
                    step.state = match done.settled {
                        Settled::Applied => "applied",
                        Settled::Replayed => "known",
                        Settled::Uncertain => "uncertain",
                        Settled::Forgotten => "left out",
                    };
                }
                Err(error) => {
                    step.state = "left out";
                    step.notes.push(error.to_string());
                }
            }
        }
        Deed::Rule(rule, id) => {
            let scope = scope(&rule.reach, door);
            let (kind, now_ms) = (Some(rule.kind.clone()), door.now_ms());
            let claim = rule.claim.as_str();
            let proposal = Proposal { claim, scope, any_group: false, kind, source_digest: None, now_ms };
            match door.remember()?.propose(proposal) {
                Ok(proposed) => {
                    step.state = if proposed.duplicate { "known" } else { "to confirm" };
                    *id = Some(proposed.candidate.id)
                        .filter(|_| proposed.candidate.status == CandidateStatus::PendingConfirmation);
                }
                Err(error) => {
                    step.state = "left out";
                    step.notes.push(error.to_string());
                }
            }
        }
    }
    Ok(())
}

/// Within the person's own identity: a source names project, group and task at most.
fn scope(reach: &Reach, door: &Door) -> RememberScope {
    let here = crate::memory::rules_of(door.scope());
    match reach {
        Reach::Here => here,
        Reach::Named { project, group, task } => RememberScope {
            project_id: project.clone(),
            group_id: group.clone(),
            task_id: task.clone(),
            ..here
        },
    }
}

fn show(steps: &[Step], args: &ImportArgs, report: &mut Report) {
    if report.output() == Output::Json {
        let format = args.from.to_possible_value().map(|value| value.get_name().to_owned());
        report.json(&json!({
            "schema": SCHEMA, "from": format, "done": args.yes, "counts": counts(steps),
            "steps": steps.iter().map(as_json).collect::<Vec<_>>(),
        }));
        return;
    }
    let rows: Vec<_> = steps.iter().map(row).collect();
    report.lines(table::lines(["where", "state", "kind", "what", "notes"], &rows));
    let counts = counts(steps);
    let counts = counts.as_object().into_iter().flatten().map(|(state, count)| format!("{count} {state}"));
    report.line(format!("{} items: {}", steps.len(), counts.collect::<Vec<_>>().join(", ")));
    let waiting = steps
        .iter()
        .filter_map(|step| if let Deed::Rule(_, Some(id)) = &step.deed { Some(id) } else { None });
    for id in waiting {
        report.line(format!(
            "to put it into every turn: agentspine remember-confirm {id} --confirm-local-user"
        ));
    }
}

/// How many items by state, in the order they first appear.
fn counts(steps: &[Step]) -> Value {
    let mut counts = serde_json::Map::new();
    for step in steps {
        let count = counts.get(step.state).and_then(Value::as_u64).unwrap_or_default();
        counts.insert(step.state.to_owned(), json!(count + 1));
    }
    Value::Object(counts)
}

fn row(step: &Step) -> [String; 5] {
    let (kind, what) = match &step.deed {
        Deed::Memory(draft) | Deed::Known(draft) => (draft.kind.as_str(), short(&draft.title)),
        Deed::Rule(rule, _) => (rule.kind.as_str(), short(&rule.claim)),
        Deed::Pointer | Deed::Left => ("-", String::new()),
    };
    [step.at.to_string(), step.state.to_owned(), kind.to_owned(), what, step.notes.join("; ")]
}

fn as_json(step: &Step) -> Value {
    let mut value = json!({
        "file": step.at.file, "line": step.at.line, "state": step.state, "notes": step.notes,
    });
    match &step.deed {
        Deed::Memory(draft) | Deed::Known(draft) => {
            value["kind"] = json!(draft.kind.as_str());
            value["title"] = json!(shown(&draft.title));
        }
        Deed::Rule(rule, id) => {
            value["kind"] = json!(rule.kind);
            value["claim"] = json!(shown(&rule.claim));
            value["candidate"] = json!(id);
        }
        Deed::Pointer | Deed::Left => {}
    }
    value
}

/// Characters of a title or a rule in the table.
const SHORT_CHARS: usize = 60;

fn short(text: &str) -> String {
    let text = shown(text);
    let cut: String = text.chars().take(SHORT_CHARS).collect();
    if cut.len() < text.len() { format!("{cut}…") } else { cut }
}

/// Harmless on a screen, and without secrets, which are redacted when it is stored.
fn shown(text: &str) -> String {
    agentspine_gate::screen::neutralise(&agentspine_gate::screen::redact(text).0)
}
