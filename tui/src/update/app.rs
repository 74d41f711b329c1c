//! News of the turn.

use crate::data::{
    Blocked, CallKind, Candidate, InstructionRow, Instructions, Level, ModelError, Preflight, ProviderRow,
    Recall, RecallItem, ReceiptDetail, ReceiptRow, Verdict,
};
use crate::event::{AppEvent, Effect};
use crate::state::{Ask, Focus, Phase, Screen, State, Turn};
use crate::text::{scrub, scrub_line};
use crate::transcript::{Body, Compaction, End};

/// Steps of a preflight before the host named their number: files, memory, providers, receipt.
const STEPS: u32 = 4;

pub(super) fn take(state: &mut State, news: AppEvent) -> Vec<Effect> {
    match news {
        AppEvent::TurnStarted { turn, prompt } => start(state, turn, &prompt),
        AppEvent::PreflightStep { done, total, ms } => step(state, done, total, ms),
        AppEvent::Preflight(p) => preflight(state, p),
        AppEvent::Recall(r) => recall(state, r),
        AppEvent::Instructions(i) => state.instructions = Some(clean_instructions(i)),
        AppEvent::Receipt(row) => receipt(state, row),
        AppEvent::Delta(text) => delta(state, &text),
        AppEvent::ToolCall { name, line } => tool_call(state, &name, &line),
        AppEvent::ToolResult { ok, line } => tool_result(state, ok, &line),
        AppEvent::Usage(usage) => state.usage = usage,
        AppEvent::TurnDone => end(state, End::Done),
        AppEvent::Blocked(b) => blocked(state, b),
        AppEvent::ModelError(e) => model_error(state, e),
        AppEvent::Cut { reason } => cut(state, &reason),
        AppEvent::Interrupted => interrupted(state),
        AppEvent::SpentUnknown { receipt, prompt } => {
            state.composer.learn(&prompt);
            push(state, Body::Spent { receipt: scrub_line(&receipt) });
        }
        AppEvent::Receipts(rows) => return receipts(state, rows),
        AppEvent::ReceiptDetail(d) => state.receipts.detail = Some(clean_detail(d)),
        AppEvent::Verified { id, verdict } => verified(state, &id, verdict),
        AppEvent::SessionNamed { label } => state.setup.session = scrub_line(&label),
        AppEvent::ModelNamed { label, note } => {
            state.model = scrub_line(&label);
            state.model_note = scrub_line(&note);
        }
        AppEvent::ServerFound { name } => state.server = Some(scrub_line(&name)),
        AppEvent::AskInstructionHost => ask(state, Ask::Host),
        AppEvent::AskModel { choices } => {
            ask(state, Ask::Model(choices.iter().map(|c| scrub_line(c)).collect()));
        }
        AppEvent::AskSession { choices } => {
            ask(state, Ask::Session(choices.iter().map(|c| scrub_line(c)).collect()));
        }
        AppEvent::CompactionStarted { line } => compaction_started(state, &line),
        AppEvent::CompactionProgress { bytes } => compaction_progress(state, bytes),
        AppEvent::CompactionDone { level, line, summary } => {
            compaction_done(state, level, &line, &summary);
        }
        AppEvent::Candidates(list) => candidates(state, list),
        AppEvent::Draft(text) => draft(state, &text),
        AppEvent::Notice { level, text } => push(state, Body::Notice { level, text: scrub(&text) }),
    }
    Vec::new()
}

fn push(state: &mut State, body: Body) {
    let turn = state.turns.last().map_or(0, |t| t.number);
    state.transcript.push(turn, body);
}

fn ask(state: &mut State, ask: Ask) {
    state.ask = Some(ask);
    state.ask_cursor = 0;
}

fn start(state: &mut State, turn: u64, prompt: &str) {
    state.in_flight = None;
    state.composer.learn(prompt);
    state.turns.push(Turn { number: turn, prompt: prompt.to_owned(), ..Turn::default() });
    state.transcript.push(turn, Body::Prompt(scrub(prompt)));
    state.phase = Phase::Preflight { done: 0, total: STEPS, ms: 0 };
    if state.selected.is_none() {
        state.recall_cursor = 0;
        state.recall_open = false;
    }
}

fn step(state: &mut State, done: u32, total: u32, ms: u64) {
    if state.phase != Phase::Stopping {
        state.phase = Phase::Preflight { done, total, ms };
    }
}

fn turn_mut(state: &mut State, turn: u64) -> Option<&mut Turn> {
    state.turns.iter_mut().rfind(|t| t.number == turn)
}

fn preflight(state: &mut State, mut p: Preflight) {
    p.receipt = scrub_line(&p.receipt);
    if p.kind == CallKind::Turn
        && let Some(turn) = turn_mut(state, p.turn)
    {
        turn.preflight = Some(p.clone());
    }
    if state.phase != Phase::Stopping {
        state.phase = Phase::Calling { ms: 0 };
    }
    let mut summary = (p.kind == CallKind::Side).then(|| p.clone());
    let shown = state.transcript.change(is_compacting, |body| {
        if let Body::Compaction(c) = body {
            c.preflight = summary.take();
        }
    });
    if p.kind != CallKind::Side || !shown {
        state.transcript.push(p.turn, Body::Preflight(p));
    }
}

fn recall(state: &mut State, mut r: Recall) {
    for ProviderRow { id, reason, .. } in &mut r.providers {
        *id = scrub_line(id);
        *reason = reason.as_deref().map(scrub_line);
    }
    for item in &mut r.items {
        let RecallItem { id, provider, source, why, text, .. } = item;
        for field in [id, provider, source, why] {
            *field = scrub_line(field);
        }
        *text = scrub(text);
    }
    if let Some(turn) = turn_mut(state, r.turn) {
        turn.recall = Some(r);
    }
}

fn clean_instructions(mut i: Instructions) -> Instructions {
    i.host = scrub_line(&i.host);
    let prefix = format!("{}:", i.host);
    for row in &mut i.rows {
        let InstructionRow { id, path, sha, state, reason, .. } = row;
        for field in [&mut *id, path, sha, state, reason] {
            *field = scrub_line(field);
        }
        // The title names the host; each row need not.
        *id = id.strip_prefix(&prefix).unwrap_or(id).to_owned();
    }
    i
}

fn clean_row(mut row: ReceiptRow) -> ReceiptRow {
    for field in [&mut row.id, &mut row.short, &mut row.kind, &mut row.at, &mut row.files, &mut row.call] {
        *field = scrub_line(field);
    }
    row
}

pub(super) fn clean_detail(mut d: ReceiptDetail) -> ReceiptDetail {
    d.id = scrub_line(&d.id);
    d.json = scrub(&d.json);
    d.verify = d.verify.map(clean_verdict);
    for (label, value) in &mut d.fields {
        *label = scrub_line(label);
        *value = scrub_line(value);
    }
    d
}

pub(super) fn clean_verdict(mut v: Verdict) -> Verdict {
    v.text = scrub_line(&v.text);
    v
}

fn receipt(state: &mut State, row: ReceiptRow) {
    let row = clean_row(row);
    if let Some(turn) = row.turn.and_then(|t| turn_mut(state, t)) {
        put(&mut turn.receipts, row.clone());
    }
    if !state.receipts.rows.is_empty() {
        put_first(&mut state.receipts, row);
    }
}

/// Replaces the row of the same id or adds it at the end.
fn put(rows: &mut Vec<ReceiptRow>, row: ReceiptRow) {
    match rows.iter_mut().find(|r| r.id == row.id) {
        Some(old) => *old = row,
        None => rows.push(row),
    }
}

/// The list runs from new to old; the cursor stays on the row it is on.
fn put_first(receipts: &mut crate::state::Receipts, row: ReceiptRow) {
    if let Some(old) = receipts.rows.iter_mut().find(|r| r.id == row.id) {
        *old = row;
        return;
    }
    receipts.rows.insert(0, row);
    receipts.cursor += usize::from(receipts.filter.is_empty());
}

fn delta(state: &mut State, text: &str) {
    let turn = state.turns.last().map_or(0, |t| t.number);
    state.transcript.delta(turn, &scrub(text));
}

fn tool_call(state: &mut State, name: &str, line: &str) {
    state.transcript.end_answer(End::Done);
    push(state, Body::Tool { name: scrub_line(name), line: scrub_line(line), result: None });
}

fn tool_result(state: &mut State, ok: bool, line: &str) {
    let line = scrub_line(line);
    state.transcript.change(
        |b| matches!(b, Body::Tool { result: None, .. }),
        |b| {
            if let Body::Tool { result, .. } = b {
                *result = Some((ok, line));
            }
        },
    );
}

fn compaction_started(state: &mut State, line: &str) {
    push(state, Body::Compaction(Compaction { line: scrub_line(line), ..Compaction::default() }));
    if state.phase != Phase::Stopping {
        state.phase = Phase::Preflight { done: 0, total: STEPS, ms: 0 };
    }
}

fn compaction_progress(state: &mut State, bytes: u64) {
    state.transcript.change(is_compacting, |body| {
        if let Body::Compaction(c) = body {
            c.bytes = bytes;
        }
    });
}

fn is_compacting(body: &Body) -> bool {
    matches!(body, Body::Compaction(Compaction { level: None, .. }))
}

/// A prompt that waited for it goes on; else nothing runs any more.
fn compaction_done(state: &mut State, level: Level, line: &str, summary: &str) {
    let (line, summary) = (scrub_line(line), scrub(summary));
    let mut done = Some(Compaction { level: Some(level), line, summary, ..Compaction::default() });
    state.transcript.change(is_compacting, |body| {
        if let (Body::Compaction(c), Some(done)) = (body, done.take()) {
            *c = Compaction { preflight: c.preflight.take(), ..done };
        }
    });
    if let Some(done) = done {
        push(state, Body::Compaction(done));
    }
    state.phase = match state.in_flight {
        Some(_) => Phase::Preflight { done: 0, total: STEPS, ms: 0 },
        None => Phase::Idle,
    };
}

fn end(state: &mut State, how: End) {
    state.transcript.end_answer(how);
    state.phase = Phase::Idle;
    // Ended without ever having been shown: the text is the person's again.
    if let Some(prompt) = state.in_flight.take() {
        give_back(state, &prompt);
    }
}

fn blocked(state: &mut State, mut b: Blocked) {
    for field in [&mut b.code, &mut b.detail, &mut b.message, &mut b.advice] {
        *field = scrub_line(field);
    }
    b.receipt = b.receipt.as_deref().map(scrub_line);
    if turn_mut(state, b.turn).is_none() {
        start(state, b.turn, &b.draft.clone());
    }
    if let Some(turn) = turn_mut(state, b.turn) {
        turn.blocked = Some(format!("{}/{}", b.code, b.detail));
    }
    end(state, End::Done);
    give_back(state, &b.draft.clone());
    state.transcript.push(b.turn, Body::Blocked { blocked: b });
    state.transcript.show_head(state.window());
    state.focus = Focus::Card;
}

/// The prompt returns to the composer; what was being written there is one ↑ away.
fn give_back(state: &mut State, prompt: &str) {
    if prompt.is_empty() {
        return;
    }
    if state.composer.give_back(prompt) {
        let text = "What you were writing is in the history: ↑ above the first line.".to_owned();
        push(state, Body::Notice { level: Level::Info, text });
    }
}

fn model_error(state: &mut State, mut e: ModelError) {
    e.message = scrub_line(&e.message);
    let left_ms = e.retry_after_s.unwrap_or(0).saturating_mul(1000);
    end(state, End::Cut(String::new()));
    let takes_focus = e.retryable && state.composer.is_empty() && state.screen == Screen::Chat;
    state.transcript.push(e.turn, Body::ModelError { error: e, left_ms });
    if takes_focus {
        state.focus = Focus::Card;
    }
}

fn cut(state: &mut State, reason: &str) {
    let reason = scrub_line(reason);
    if !state.transcript.end_answer(End::Cut(reason.clone())) {
        push(state, Body::Notice { level: Level::Bad, text: format!("The answer was cut off: {reason}") });
    }
    state.phase = Phase::Idle;
}

fn interrupted(state: &mut State) {
    state.phase = Phase::Idle;
    let sent = state.in_flight.take();
    let open = state.transcript.end_answer(End::Interrupted);
    let current = state.turns.last().map_or(0, |t| t.number);
    let shown = |b: &Body| matches!(b, Body::Answer { .. } | Body::Tool { .. });
    let anything = open || state.transcript.entries().iter().any(|e| e.turn == current && shown(&e.body));
    let text = if sent.is_none() && anything {
        if open {
            return;
        }
        "Stopped."
    } else {
        let prompt = sent.or_else(|| state.turns.last().map(|t| t.prompt.clone())).unwrap_or_default();
        give_back(state, &prompt);
        "Stopped before an answer came. Your text is back in the composer."
    };
    push(state, Body::Notice { level: Level::Info, text: text.to_owned() });
}

fn receipts(state: &mut State, rows: Vec<ReceiptRow>) -> Vec<Effect> {
    let current = state.receipts.selected().map(|r| r.id.clone());
    state.receipts.rows = rows.into_iter().map(clean_row).collect();
    let place = state.receipts.shown().iter().position(|r| Some(&r.id) == current.as_ref());
    state.receipts.cursor = place.unwrap_or(0);
    let open = state.screen == Screen::Receipts;
    state
        .receipts
        .selected()
        .filter(|_| open)
        .map(|r| Effect::ShowReceipt(r.id.clone()))
        .into_iter()
        .collect()
}

fn verified(state: &mut State, id: &str, verdict: Verdict) {
    if let Some(detail) = &mut state.receipts.detail
        && detail.id == id
    {
        detail.verify = Some(clean_verdict(verdict));
    }
}

fn candidates(state: &mut State, list: Vec<Candidate>) {
    let clean = |c: Candidate| Candidate { id: scrub_line(&c.id), text: scrub(&c.text) };
    state.candidates = list.into_iter().map(clean).collect();
}

fn draft(state: &mut State, text: &str) {
    state.composer.give_back(text);
}
