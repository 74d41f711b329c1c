//! From what happened to what the screen shows: plain data, scrubbed by the screen itself.

use agentspine_gate::instructions::{DocumentState, Listed};
use agentspine_gate::recall::Status;
use agentspine_gate::receipt::claims::{BoundDocument, BoundProvider, Delivery};
use agentspine_gate::turn::CallKind;
use agentspine_tui::{
    self as data, AppEvent, Blocked, InstructionRow, Instructions, Level, Preflight, ProviderRow,
    ProviderStatus, Recall, RecallItem, ReceiptState,
};

use super::engine::{ChatEvent, End, PassedView};

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
    format!(
        "preflight {} ms · {} recalled{failed} · files {}/{} ok · receipt {} consumed · +{} tok",
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

/// The screen's events for one event of the engine.
pub(super) fn events(event: ChatEvent, short_path: &dyn Fn(&std::path::Path) -> String) -> Vec<AppEvent> {
    match event {
        ChatEvent::Started { turn, prompt } => vec![AppEvent::TurnStarted { turn, prompt }],
        ChatEvent::Passed(view) => passed(&view, short_path),
        ChatEvent::Delta(text) => vec![AppEvent::Delta(text)],
        ChatEvent::ToolUse { name, query } => vec![AppEvent::ToolCall { name, line: query }],
        ChatEvent::ToolResult { ok, line } => vec![AppEvent::ToolResult { ok, line }],
        ChatEvent::Usage(usage) => {
            vec![AppEvent::Usage(data::Usage {
                input: usage.input,
                output: usage.output,
                context_percent: None,
            })]
        }
        ChatEvent::Ended(end) => ended(end),
    }
}

fn passed(view: &PassedView, short_path: &dyn Fn(&std::path::Path) -> String) -> Vec<AppEvent> {
    let claims = &view.claims;
    let kind =
        if claims.kind == CallKind::Turn { data::CallKind::Turn } else { data::CallKind::Continuation };
    let preflight = Preflight {
        turn: view.turn,
        kind,
        ms: view.ms,
        recalled: count(recalled(&claims.providers)),
        files_ok: count(bound(&claims.documents)),
        files: count(claims.documents.len()),
        receipt: claims.id.short(),
        state: ReceiptState::Consumed,
        injected_tokens: injected_tokens(view),
    };
    let mut out =
        vec![AppEvent::Instructions(instructions(view, short_path)), AppEvent::Preflight(preflight)];
    if claims.kind == CallKind::Turn {
        out.insert(0, AppEvent::Recall(recall(view)));
    }
    out
}

fn recall(view: &PassedView) -> Recall {
    let mut items = Vec::new();
    for provider in &view.claims.providers {
        for bound in &provider.injected {
            let answers = view.outcomes.iter().filter(|outcome| outcome.provider_id == provider.id);
            let found =
                answers.filter_map(|outcome| outcome.result.as_ref().ok()).flat_map(|answer| &answer.items);
            for item in found.filter(|item| item.id == bound.id && item.revision == bound.revision).take(1) {
                items.push(RecallItem {
                    n: count(items.len() + 1),
                    id: item.id.to_string(),
                    provider: provider.id.to_string(),
                    source: item.source.to_string(),
                    why: item.why_loaded.clone(),
                    text: item.claim.clone(),
                    tokens: (item.claim.len() as u64).div_ceil(BYTES_PER_TOKEN),
                });
            }
        }
    }
    let providers = &view.claims.providers;
    Recall {
        turn: view.turn,
        ms: providers.iter().map(|provider| provider.latency_ms).max().unwrap_or(0),
        tokens: items.iter().map(|item| item.tokens).sum(),
        budget_tokens: RECALL_TOKENS,
        left_out: count(providers.iter().map(|provider| provider.left_out.len()).sum()),
        providers: providers.iter().map(provider_row).collect(),
        items,
    }
}

fn provider_row(provider: &BoundProvider) -> ProviderRow {
    let status = match provider.status {
        Status::Loaded => ProviderStatus::Loaded,
        Status::Empty => ProviderStatus::Empty,
        Status::Failed => ProviderStatus::Failed,
        Status::FailedOptional => ProviderStatus::FailedOptional,
    };
    ProviderRow {
        id: provider.id.to_string(),
        status,
        items: count(provider.injected.len() + provider.replayed.len()),
        ms: provider.latency_ms,
        reason: provider.reason.clone(),
        required: false,
    }
}

/// Every instruction file looked at: bound ones with how they reach the model, others with why they do not.
fn instructions(view: &PassedView, short_path: &dyn Fn(&std::path::Path) -> String) -> Instructions {
    let budget = &view.claims.instruction_budget;
    let row = |listed: &Listed| {
        let bound = view.claims.documents.iter().find(|doc| doc.id == listed.id);
        let (state, level) = match bound {
            Some(doc) => {
                (delivery(doc), if doc.state == Delivery::Unverified { Level::Warn } else { Level::Good })
            }
            None => (word(listed.state), Level::Info),
        };
        InstructionRow {
            id: listed.id.clone(),
            path: short_path(&listed.path),
            bytes: listed.bytes,
            sha: listed.sha256.map(agentspine_gate::Digest::short).unwrap_or_default(),
            state: state.to_owned(),
            reason: listed.reason.clone(),
            level,
        }
    };
    Instructions {
        host: view.claims.instruction_host.clone(),
        rows: view.listed.iter().map(row).collect(),
        used_bytes: budget.used_bytes,
        standard_bytes: budget.standard_bytes,
        hard_bytes: budget.hard_limit_bytes,
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
