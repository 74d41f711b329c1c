//! Making one admitted call and listening to its end.

use agentspine_gate::CallOutcome;
use agentspine_model::{Answer, ModelError, ModelEvent, Sent, StopReason, Usage};
use tokio::sync::mpsc::UnboundedSender;

use super::cancel::Cancel;
use super::engine::{ANSWER_TOKENS_MAX, Engine, say};
use super::told::ChatEvent;
use crate::turn::Passed;

/// How one call ended.
pub(super) enum Heard {
    Whole(StopReason),
    Broken(ModelError),
    /// By the person; whether the server had begun to answer.
    Stopped {
        begun: bool,
    },
}

impl Heard {
    /// What the receipt says of it.
    pub(super) fn outcome(&self) -> CallOutcome {
        match self {
            Self::Whole(_) => CallOutcome::Answered,
            Self::Stopped { begun: true } => CallOutcome::Interrupted,
            // Stopped on the way: nobody can tell whether the server saw it.
            Self::Stopped { begun: false } => CallOutcome::Unknown,
            Self::Broken(error) => outcome_of(error),
        }
    }
}

/// What came of one call so far.
#[derive(Default)]
pub(super) struct Hearing {
    pub(super) answer: Answer,
    pub(super) usage: Option<Usage>,
    begun: bool,
}

impl Engine {
    /// Makes the call and listens to its end, to a break, or until the person stops it.
    pub(super) async fn call(
        &self,
        passed: Passed,
        out: &UnboundedSender<ChatEvent>,
        cancel: &Cancel,
    ) -> (Hearing, Heard) {
        let mut hearing = Hearing::default();
        let heard = tokio::select! {
            heard = self.listen(passed, &mut hearing, out) => Some(heard),
            () = cancel.cancelled() => None,
        };
        let begun = hearing.begun;
        (hearing, heard.unwrap_or(Heard::Stopped { begun }))
    }

    async fn listen(&self, passed: Passed, hearing: &mut Hearing, out: &UnboundedSender<ChatEvent>) -> Heard {
        let mut reply = match self.client.call(&self.target, passed.admitted).await {
            Ok(reply) => reply,
            Err(error) => return Heard::Broken(error),
        };
        hearing.begun = true;
        while let Some(event) = reply.next().await {
            let event = match event {
                Ok(event) => event,
                Err(error) => return Heard::Broken(error),
            };
            hearing.answer.absorb(&event);
            match event {
                ModelEvent::Text(text) => say(out, ChatEvent::Delta(text)),
                ModelEvent::Usage(usage) => {
                    hearing.usage = Some(usage);
                    say(out, ChatEvent::Usage { usage, percent: self.percent(usage) });
                }
                ModelEvent::Stop(reason) => return Heard::Whole(reason),
                ModelEvent::Thinking(_) | ModelEvent::ToolUse { .. } | ModelEvent::Raw(_) => {}
            }
        }
        Heard::Whole(StopReason::EndTurn)
    }
}

/// What to say of an answer that ended otherwise than by the model being done.
pub(super) fn cut_short(reason: &StopReason) -> Option<String> {
    match reason {
        StopReason::EndTurn | StopReason::ToolUse => None,
        StopReason::MaxTokens => {
            Some(format!("The answer reached its limit of {ANSWER_TOKENS_MAX} tokens and is not whole."))
        }
        StopReason::Refusal => Some("The model or its provider declined to answer.".to_owned()),
        StopReason::Other(word) => Some(format!("The answer ended early: {word}.")),
    }
}

fn outcome_of(error: &ModelError) -> CallOutcome {
    match (error, error.sent()) {
        (ModelError::Status { status, .. }, _) => CallOutcome::Failed(*status),
        (_, Sent::No) => CallOutcome::NotSent,
        (_, Sent::Yes) => CallOutcome::Cut,
        (_, Sent::Unknown) => CallOutcome::Unknown,
    }
}
