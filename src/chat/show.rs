//! From what happened to what the screen shows: plain data, scrubbed by the screen itself.

use std::path::Path;

use agentspine_gate::Id;
use agentspine_gate::instructions::{DocumentState, Listed};
use agentspine_gate::policy::InstructionBudget;
use agentspine_gate::recall::{Item, Status};
use agentspine_gate::receipt::claims::{BoundDocument, BoundItem, BoundProvider, Delivery};
use agentspine_gate::turn::CallKind;
use agentspine_tui::{
    self as data, AppEvent, Blocked, InstructionRow, Instructions, Level, Preflight, ProviderRow,
    ProviderStatus, Recall, RecallItem, ReceiptState,
};

use super::compact::{Compaction, Outcome, Why};
use super::intake::Permission;
use super::log::Summary;
use super::rules;
use super::told::{ChatEvent, End, PassedView};
use crate::cli::table;
use crate::conversations::{Range, Session};
use crate::turn::{Heard, Seen};

/// Steps of a preflight on the screen: files, recall, receipt.
const STEPS: u32 = 3;
/// A token is estimated as this many bytes.
const BYTES_PER_TOKEN: u64 = 4;
/// The recall budget of a turn without a profile, tokens.
const RECALL_TOKENS: u64 = 2000;

/// Tokens of what a call injected, estimated.
pub(super) fn injected_tokens(view: &PassedView) -> u64 {
    view.span.as_ref().map_or(0, |span| (span.text.len() as u64).div_ceil(BYTES_PER_TOKEN))
}

/// One line for a passed preflight.
pub(super) fn summary(view: &PassedView) -> String {
    let claims = &view.claims;
    let failed: Vec<&str> = claims
        .providers
        .iter()
        .filter(|provider| matches!(provider.status, Status::Failed | Status::FailedOptional))
        .map(|provider| provider.id.as_str())
        .collect();
    let failed = if failed.is_empty() {
        String::new()
    } else {
        format!(" · failed, optional: {}", failed.join(", "))
    };
    let word = if claims.kind == CallKind::Side { "preflight of the summary" } else { "preflight" };
    format!(
        "{word} {} ms · {} recalled{failed} · files {}/{} ok · receipt {} consumed · +{} tok",
        view.ms,
        recalled(&claims.providers),
        bound(&claims.documents),
        claims.documents.len(),
        claims.id.short(),
        injected_tokens(view)
    )
}

fn recalled(providers: &[BoundProvider]) -> usize {
    providers.iter().map(|provider| provider.injected.len()).sum()
}

fn bound(documents: &[BoundDocument]) -> usize {
    documents.iter().filter(|doc| doc.state != Delivery::Unverified).count()
}

/// Turns the engine's events into the screen's; keeps what was seen on the way to the call.
pub(super) struct Show<'a> {
    short_path: &'a dyn Fn(&Path) -> String,
    files: Vec<Listed>,
    heard: Vec<Heard>,
}

impl<'a> Show<'a> {
    /// Shows paths as `short_path` writes them.
    pub(super) fn new(short_path: &'a dyn Fn(&Path) -> String) -> Self {
        Self { short_path, files: Vec::new(), heard: Vec::new() }
    }

    /// The screen's events for one event of the engine.
    pub(super) fn events(&mut self, event: ChatEvent) -> Vec<AppEvent> {
        match event {
            ChatEvent::Started { turn, prompt } => vec![AppEvent::TurnStarted { turn, prompt }],
            ChatEvent::Seen { turn, ms, seen } => self.seen(turn, ms, seen),
            ChatEvent::Passed(view) => self.passed(&view),
            ChatEvent::Delta(text) => vec![AppEvent::Delta(text)],
            ChatEvent::ToolUse { name, query } => vec![AppEvent::ToolCall { name, line: query }],
            ChatEvent::ToolResult { ok, line } => vec![AppEvent::ToolResult { ok, line }],
            ChatEvent::Rule(rule) => vec![rules::notice(&rule)],
            ChatEvent::Usage { usage, percent } => {
                let (input, output) = (usage.input, usage.output);
                vec![AppEvent::Usage(data::Usage { input, output, context_percent: percent })]
            }
            ChatEvent::Compacting { why, .. } => {
                vec![AppEvent::CompactionStarted { line: compacting(why).to_owned() }]
            }
            ChatEvent::Summarising(bytes) => vec![AppEvent::CompactionProgress { bytes: bytes as u64 }],
            ChatEvent::Compacted(Compaction { outcome, .. }) => vec![compaction_done(outcome)],
            ChatEvent::Notice(text) => vec![AppEvent::Notice { level: Level::Warn, text }],
            ChatEvent::Ended(end) => ended(end),
        }
    }

    fn seen(&mut self, turn: u64, ms: u64, seen: Seen) -> Vec<AppEvent> {
        match seen {
            Seen::Files(seen) => {
                let host = seen.host;
                self.files.clone_from(&seen.listed);
                let budget = InstructionBudget::default_for(host);
                let used = self.files.iter().filter(|file| file.state == DocumentState::Mandatory);
                let rows = self.files.iter().map(|file| self.row(file, None)).collect();
                let instructions = Instructions {
                    host: host.as_str().to_owned(),
                    rows,
                    used_bytes: used.map(|file| file.bytes).sum(),
                    standard_bytes: budget.standard_bytes,
                    hard_bytes: budget.hard_limit_bytes,
                };
                vec![
                    AppEvent::Instructions(instructions),
                    AppEvent::PreflightStep { done: 1, total: STEPS, ms },
                ]
            }
            Seen::Recall(heard) => {
                self.heard = heard;
                let step = AppEvent::PreflightStep { done: 2, total: STEPS, ms };
                // A continuation asks nobody; the turn's own recall stays in the pane.
                let asked = !self.heard.is_empty();
                asked.then(|| AppEvent::Recall(self.answers(turn))).into_iter().chain([step]).collect()
            }
        }
    }

    /// What providers said before anything is chosen: also a refused turn shows it.
    fn answers(&self, turn: u64) -> Recall {
        Recall {
            turn,
            ms: self.heard.iter().map(|heard| heard.outcome.latency_ms).max().unwrap_or(0),
            providers: self.heard.iter().map(answer_row).collect(),
            items: Vec::new(),
            tokens: 0,
            budget_tokens: RECALL_TOKENS,
            left_out: 0,
        }
    }

    fn passed(&self, view: &PassedView) -> Vec<AppEvent> {
        let claims = &view.claims;
        let turn = claims.kind == CallKind::Turn;
        let preflight = Preflight {
            turn: view.turn,
            kind: match claims.kind {
                CallKind::Turn => data::CallKind::Turn,
                CallKind::Continuation | CallKind::Subagent => data::CallKind::Continuation,
                CallKind::Side => data::CallKind::Side,
            },
            ms: view.ms,
            recalled: count(recalled(&claims.providers)),
            files_ok: count(bound(&claims.documents)),
            files: count(claims.documents.len()),
            receipt: claims.id.short(),
            state: ReceiptState::Consumed,
            injected_tokens: injected_tokens(view),
        };
        let recall = turn.then(|| AppEvent::Recall(self.recall(view)));
        let files = AppEvent::Instructions(self.instructions(view));
        recall.into_iter().chain([files, AppEvent::Preflight(preflight)]).collect()
    }

    fn recall(&self, view: &PassedView) -> Recall {
        let providers = &view.claims.providers;
        let injected =
            providers.iter().flat_map(|provider| provider.injected.iter().map(move |item| (provider, item)));
        let found =
            injected.filter_map(|(provider, bound)| Some((provider, self.item(&provider.id, bound)?)));
        let items: Vec<RecallItem> = found
            .enumerate()
            .map(|(n, (provider, item))| RecallItem {
                n: count(n + 1),
                id: item.id.to_string(),
                provider: provider.id.to_string(),
                source: item.source.to_string(),
                why: item.why_loaded.clone(),
                text: item.claim.clone(),
                tokens: (item.claim.len() as u64).div_ceil(BYTES_PER_TOKEN),
            })
            .collect();
        Recall {
            tokens: items.iter().map(|item| item.tokens).sum(),
            left_out: count(providers.iter().map(|provider| provider.left_out.len()).sum()),
            items,
            ..self.answers(view.turn)
        }
    }

    fn item(&self, provider: &Id, bound: &BoundItem) -> Option<&Item> {
        let heard = self.heard.iter().find(|heard| heard.outcome.provider_id == *provider)?;
        let answer = heard.outcome.result.as_ref().ok()?;
        answer.items.iter().find(|item| item.id == bound.id && item.revision == bound.revision)
    }

    /// Every instruction file looked at: bound ones with how they reach the model, others with why they do not.
    fn instructions(&self, view: &PassedView) -> Instructions {
        let budget = &view.claims.instruction_budget;
        let row = |file| self.row(file, view.claims.documents.iter().find(|doc| doc.id == file.id));
        Instructions {
            host: view.claims.instruction_host.clone(),
            rows: self.files.iter().map(row).collect(),
            used_bytes: budget.used_bytes,
            standard_bytes: budget.standard_bytes,
            hard_bytes: budget.hard_limit_bytes,
        }
    }

    fn row(&self, file: &Listed, bound: Option<&BoundDocument>) -> InstructionRow {
        let (state, level) = match bound {
            Some(doc) if doc.state == Delivery::Unverified => (delivery(doc), Level::Warn),
            Some(doc) => (delivery(doc), Level::Good),
            None if file.state == DocumentState::Mandatory => (word(file.state), Level::Good),
            None => (word(file.state), Level::Info),
        };
        InstructionRow {
            id: file.id.clone(),
            path: (self.short_path)(&file.path),
            bytes: file.bytes,
            sha: file.sha256.map(agentspine_gate::Digest::short).unwrap_or_default(),
            state: state.to_owned(),
            reason: file.reason.clone(),
            level,
        }
    }
}

fn answer_row(heard: &Heard) -> ProviderRow {
    let Heard { required, outcome } = heard;
    let status = match outcome.status(*required) {
        Status::Loaded => ProviderStatus::Loaded,
        Status::Empty => ProviderStatus::Empty,
        Status::Failed => ProviderStatus::Failed,
        Status::FailedOptional => ProviderStatus::FailedOptional,
    };
    ProviderRow {
        id: outcome.provider_id.to_string(),
        status,
        items: count(outcome.items().len()),
        ms: outcome.latency_ms,
        reason: outcome.reason(),
        required: *required,
    }
}

fn delivery(doc: &BoundDocument) -> &'static str {
    match doc.state {
        Delivery::Injected => "injected",
        Delivery::Replayed => "replayed",
        Delivery::Present => "present",
        Delivery::Unverified => "unverified",
    }
}

fn word(state: DocumentState) -> &'static str {
    match state {
        DocumentState::Mandatory => "mandatory",
        DocumentState::Lazy => "lazy",
        DocumentState::Hidden => "hidden",
        DocumentState::Empty => "empty",
        DocumentState::ExternalNotApproved => "external-not-approved",
        DocumentState::CutByHost => "cut-by-host",
    }
}

/// One line while a summary is made.
pub(super) fn compacting(why: Why) -> &'static str {
    match why {
        Why::Asked => "compacting: the model summarises what was said",
        Why::Full => "the model's context fills up: it summarises what was said",
    }
}

/// One line for what came of it.
pub(super) fn compacted(outcome: &Outcome) -> String {
    let unchanged = "nothing was changed, /compact tries again";
    match outcome {
        Outcome::Done { text, range, intake, .. } => {
            let memory = match intake {
                Permission::Granted => "; what is its own becomes a memory of this project",
                Permission::Denied => "",
            };
            let (from, through, words) = (range.from_seq, range.through_seq, text.split_whitespace().count());
            format!(
                "compacted: events {from} to {through} are a summary of {words} words from here on; the next turn \
                 carries every instruction file and rule again{memory}"
            )
        }
        Outcome::Nothing => "nothing to compact: nothing was answered since the last summary".to_owned(),
        Outcome::Refused(refusal) => {
            format!("not compacted, {}: {} {}", refusal.key(), refusal.message, refusal.advice)
        }
        Outcome::Failed(error) => format!("not compacted: {error}; {unchanged}"),
        Outcome::Useless(why) => format!("not compacted: {why}; {unchanged}"),
        Outcome::Interrupted => format!("not compacted: stopped; {unchanged}"),
    }
}

fn compaction_done(outcome: Outcome) -> AppEvent {
    let line = compacted(&outcome);
    let level = match &outcome {
        Outcome::Done { .. } => Level::Good,
        Outcome::Nothing | Outcome::Interrupted => Level::Info,
        Outcome::Refused(_) | Outcome::Failed(_) | Outcome::Useless(_) => Level::Bad,
    };
    let summary = if let Outcome::Done { text, .. } = outcome { text } else { String::new() };
    AppEvent::CompactionDone { level, line, summary }
}

/// A summary of an earlier run.
pub(super) fn summary_of_past(summary: &Summary) -> AppEvent {
    let range = Range { from_seq: summary.from_seq, through_seq: summary.through_seq };
    // Whether memory takes it up was told when it was made.
    let intake = Permission::Denied;
    compaction_done(Outcome::Done { text: summary.text.clone(), range, usage: summary.usage, intake })
}

/// One line for a session that may be chosen.
pub(super) fn session(session: &Session) -> String {
    let title = session.title.as_deref().unwrap_or("without a title");
    format!("{title} · {} · {}", table::when(session.last_at), session.id)
}

/// One line for a chat that goes on in a copy.
pub(super) fn forked(parent: &Id, child: &Id) -> String {
    format!("forked: this is {child} from here on; {parent} stays as it is")
}

fn ended(end: End) -> Vec<AppEvent> {
    match end {
        End::Done => vec![AppEvent::TurnDone],
        End::Refused { turn, refusal, prompt, ms } => vec![AppEvent::Blocked(Blocked {
            turn,
            code: refusal.code().as_str().to_owned(),
            detail: refusal.detail.to_string(),
            receipt: refusal.receipt.map(agentspine_gate::ReceiptId::short),
            message: refusal.message,
            advice: refusal.advice,
            ms,
            draft: prompt,
        })],
        End::ModelFailed { turn, error } => vec![AppEvent::ModelError(data::ModelError {
            turn,
            message: format!("{error}; {}", error.advice()),
            retry_after_s: error.retry_after().map(|wait| wait.as_secs()),
            retryable: true,
        })],
        End::Cut { error } => vec![AppEvent::Cut { reason: error.to_string() }],
        End::Interrupted { prompt } => {
            let back = prompt.map(AppEvent::Draft);
            std::iter::once(AppEvent::Interrupted).chain(back).collect()
        }
    }
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}
