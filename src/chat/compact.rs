//! Compaction: the model summarises what was said, and from then on the summary stands in for it.
//!
//! The summary is a call of its own: it walks the path with its own consumed receipt (kind `side`), asks no provider and
//! adds nothing. What comes counts only whole; else the conversation stays as it was. Nothing that was injected before
//! stands in the request any more, so the next turn injects everything mandatory again.

use std::ops::ControlFlow;
use std::time::Instant;

use agentspine_gate::Refusal;
use agentspine_gate::receipt::claims::Claims;
use agentspine_gate::turn::CallKind;
use agentspine_model::{
    AssistantBlock, Conversation, Message, ModelError, StopReason, Usage, context_tokens, summary as words,
};
use tokio::sync::mpsc::{self, UnboundedSender};

use super::cancel::Cancel;
use super::engine::{Engine, SYSTEM, millis, say};
use super::frames;
use super::hear::{Heard, Hearing};
use super::intake::Permission;
use super::log::{self, LogEvent, Summary};
use super::told::ChatEvent;
use super::tools;
use crate::config::CompactionSettings;
use crate::conversations::Range;
use crate::desk;
use crate::turn::{self, Call, Passed, Stopped};

/// Longest summary, tokens; the request asks for 600 words.
const SUMMARY_TOKENS_MAX: u32 = 4096;
/// The window of a model this build does not know, tokens.
const CONTEXT_TOKENS_UNKNOWN: u64 = 128_000;
/// A token is estimated as this many bytes.
const BYTES_PER_TOKEN: u64 = 4;
/// A conversation is compacted by itself only where that frees at least this part of the threshold: mandatory files that
/// fill a small window are injected again whatever is summarised.
const WORTH_IT: u64 = 4;

/// Who wants the summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// The person.
    Asked,
    /// The model's window fills up.
    Full,
}

/// What came of a compaction.
pub(crate) struct Compaction {
    pub why: Why,
    pub outcome: Outcome,
}

/// How a compaction ended. Only [`Self::Done`] changes the conversation.
pub(crate) enum Outcome {
    /// The summary stands in for the range.
    Done {
        text: String,
        range: Range,
        usage: Option<Usage>,
        /// Whether memory takes it up.
        intake: Permission,
    },
    /// Nothing was answered since the last one.
    Nothing,
    /// Something required failed before the call, or the summary could not be kept.
    Refused(Refusal),
    /// The model's server failed, or its stream broke off.
    Failed(ModelError),
    /// What came is no whole summary: why.
    Useless(String),
    /// The person stopped it.
    Interrupted,
}

/// How full the model's window is, beside what the log itself tells.
pub(super) struct Fill {
    pub(super) settings: CompactionSettings,
    /// Injected text since the newest summary, bytes.
    pub(super) injected_bytes: usize,
    /// One that failed is not tried again by itself.
    pub(super) given_up: bool,
}

impl Engine {
    /// Summarises what was said, as the person asked.
    pub(crate) async fn compact(&mut self, out: UnboundedSender<ChatEvent>, cancel: &Cancel) {
        // The front end reads what came of it.
        let _ = Box::pin(self.summarise(Why::Asked, &out, cancel)).await;
    }

    /// Tells, tries, tells what came of it; breaks where the person stopped it.
    pub(super) async fn summarise(
        &mut self,
        why: Why,
        out: &UnboundedSender<ChatEvent>,
        cancel: &Cancel,
    ) -> ControlFlow<()> {
        let outcome = self.try_to_summarise(why, out, cancel).await;
        match &outcome {
            Outcome::Done { .. } => {
                (self.fill.injected_bytes, self.fill.given_up) = (0, false);
                self.take_up();
            }
            Outcome::Nothing | Outcome::Interrupted | Outcome::Refused(_) => {}
            Outcome::Failed(_) | Outcome::Useless(_) => self.fill.given_up = true,
        }
        let stopped = matches!(outcome, Outcome::Interrupted);
        say(out, ChatEvent::Compacted(Compaction { why, outcome }));
        if stopped { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    async fn try_to_summarise(
        &mut self,
        why: Why,
        out: &UnboundedSender<ChatEvent>,
        cancel: &Cancel,
    ) -> Outcome {
        let range = match self.unsummarised().await {
            Ok(Some(range)) => range,
            Ok(None) => return Outcome::Nothing,
            Err(refusal) => return Outcome::Refused(refusal),
        };
        say(out, ChatEvent::Compacting { why, range });
        let passed = match self.pass_for_summary(out, cancel).await {
            Ok(passed) => passed,
            Err(Stopped::Cancelled) => return Outcome::Interrupted,
            Err(Stopped::Refused(refusal)) => return Outcome::Refused(refusal),
        };
        let claims = passed.claims.clone();
        let (hearing, heard) = self.hear_summary(passed, out, cancel).await;
        let usage = hearing.usage;
        let outcome = heard.outcome();
        let text = text_of(hearing, heard);
        self.record(claims.id, outcome).await;
        let kept = match text {
            Ok(text) => {
                let summary = summary(text, &claims, (range, self.turns, usage));
                self.keep_summary(summary).await.map_err(Outcome::Refused)
            }
            Err(outcome) => Err(outcome),
        };
        match kept {
            Ok(text) => Outcome::Done { text, range, usage, intake: self.rooms.intake.permission },
            Err(outcome) => {
                self.keep(LogEvent::Failed { receipt: claims.id }).await;
                outcome
            }
        }
    }

    async fn unsummarised(&self) -> Result<Option<Range>, Refusal> {
        if !self.begun {
            return Ok(None);
        }
        let session = self.binding.scope.session_id.clone();
        self.rooms.desk.ask(move |at| at.conversations.unsummarised(&session).map_err(desk::store)).await
    }

    /// Walks the path for the summary's call.
    async fn pass_for_summary(
        &mut self,
        out: &UnboundedSender<ChatEvent>,
        cancel: &Cancel,
    ) -> Result<Passed, Stopped> {
        let began = Instant::now();
        let messages = log::messages(&self.events, Message::User { text: words::REQUEST.to_owned() });
        // Tools stay: servers refuse a history with tool calls where none is named, and caches begin with them.
        let conversation = Conversation {
            system: SYSTEM,
            messages,
            tools: tools::specs(&self.rooms.memory),
            max_tokens: SUMMARY_TOKENS_MAX,
        };
        let draft = self.draft(&conversation);
        let request = self.request("", CallKind::Side, None, draft.body.digest())?;
        let call = Call { request, draft, event: Box::new(|receipt| LogEvent::Compacting { receipt }) };
        let tell = |seen| say(out, ChatEvent::Seen { turn: self.turns, ms: millis(began), seen });
        let passed = turn::walk(&self.rooms, move |_| Ok(call), &tell, cancel).await?;
        self.events.push(LogEvent::Compacting { receipt: passed.claims.id });
        say(out, ChatEvent::Passed(Box::new(self.view(&passed, began))));
        Ok(passed)
    }

    /// Makes the call; its text is progress, no answer.
    async fn hear_summary(
        &self,
        passed: Passed,
        out: &UnboundedSender<ChatEvent>,
        cancel: &Cancel,
    ) -> (Hearing, Heard) {
        let (inner, mut told) = mpsc::unbounded_channel();
        let progress = async {
            let mut bytes = 0;
            while let Some(event) = told.recv().await {
                match event {
                    ChatEvent::Delta(text) => {
                        bytes += text.len();
                        say(out, ChatEvent::Summarising(bytes));
                    }
                    other => say(out, other),
                }
            }
        };
        let call = async {
            let heard = self.call(passed, &inner, cancel).await;
            drop(inner);
            heard
        };
        tokio::join!(call, progress).0
    }

    /// Durable when it returns; only then it counts.
    async fn keep_summary(&mut self, summary: Summary) -> Result<String, Refusal> {
        let (session, text) = (self.binding.scope.session_id.clone(), summary.text.clone());
        let event = LogEvent::Summary(summary);
        let stored = event.clone();
        self.rooms.desk.ask(move |at| at.keep(&session, &stored)).await?;
        self.events.push(event);
        Ok(text)
    }

    /// Whether the model's window is so full that the conversation is summarised before this prompt.
    pub(super) fn is_full(&self, prompt: &str) -> bool {
        let Some(percent) = self.fill.settings.at_percent.filter(|_| !self.fill.given_up) else {
            return false;
        };
        let limit = self.window().saturating_mul(u64::from(percent)) / 100;
        let events = log::since_summary(&self.events);
        let said = tokens(log::said_bytes(events));
        let estimated = said.saturating_add(tokens(self.fill.injected_bytes));
        let counted = log::newest_usage(events).map_or(0, |usage| usage.input.saturating_add(usage.output));
        let full = estimated.max(counted).saturating_add(tokens(prompt.len())) >= limit;
        full && said >= limit / WORTH_IT
    }

    /// The model's window, tokens.
    fn window(&self) -> u64 {
        self.known_window().unwrap_or(CONTEXT_TOKENS_UNKNOWN)
    }

    fn known_window(&self) -> Option<u64> {
        self.fill.settings.context_tokens.or_else(|| context_tokens(&self.target.model))
    }

    /// How much of the window a call took, percent.
    pub(super) fn percent(&self, usage: Usage) -> Option<u8> {
        let window = self.known_window()?;
        let used = usage.input.saturating_add(usage.output).saturating_mul(100) / window.max(1);
        Some(u8::try_from(used.min(100)).unwrap_or(100))
    }
}

/// The summary as the log keeps it; whose it is stands in its receipt.
fn summary(text: String, claims: &Claims, made: (Range, u64, Option<Usage>)) -> Summary {
    let (range, turn, usage) = made;
    Summary {
        text,
        receipt: claims.id,
        from_seq: range.from_seq,
        through_seq: range.through_seq,
        turn,
        model: claims.model.clone(),
        route: claims.endpoint.clone(),
        usage,
        tenant_id: claims.tenant_id.clone(),
        user_id: claims.user_id.clone(),
        project_id: claims.project_id.clone(),
        group_id: claims.group_id.clone(),
    }
}

fn tokens(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(BYTES_PER_TOKEN)
}

/// The summary, where it is one.
fn text_of(hearing: Hearing, heard: Heard) -> Result<String, Outcome> {
    let blocks = hearing.answer.into_blocks();
    let useless = |why: &str| Err(Outcome::Useless(why.to_owned()));
    match heard {
        Heard::Broken(error) => return Err(Outcome::Failed(error)),
        Heard::Stopped { .. } => return Err(Outcome::Interrupted),
        Heard::Whole(StopReason::MaxTokens) => return useless("it reached its limit and is not whole"),
        Heard::Whole(StopReason::Refusal) => return useless("the model or its provider declined"),
        Heard::Whole(StopReason::Other(word)) => return useless(&format!("it ended early: {word}")),
        Heard::Whole(StopReason::EndTurn | StopReason::ToolUse) => {}
    }
    if blocks.iter().any(|block| matches!(block, AssistantBlock::ToolUse { .. })) {
        return useless("the model called a tool instead of writing it");
    }
    let texts = blocks.iter().filter_map(|block| match block {
        AssistantBlock::Text(text) => Some(text.as_str()),
        AssistantBlock::ToolUse { .. } | AssistantBlock::Raw(_) => None,
    });
    let text = frames::without(&texts.collect::<String>());
    if text.trim().is_empty() { useless("it is empty") } else { Ok(text.trim().to_owned()) }
}
