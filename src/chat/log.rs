//! What a chat session remembers, as typed events, and how messages are read back from them.
//!
//! The event log is the source of truth: the running session and a resumed one read their messages by the same rules.

use std::collections::HashSet;

use agentspine_gate::span::{Place, Span};
use agentspine_gate::turn::CallKind;
use agentspine_gate::{Digest, Id, ReceiptId};
use agentspine_model::{AssistantBlock, Message, ToolResult, Usage, summary};
use serde::{Deserialize, Serialize};

use crate::conversations::{Event, EventKind, NewEvent};

/// One event of a session's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum LogEvent {
    /// Human text, kept before its call is made.
    Prompt {
        /// As typed.
        text: String,
        /// Receipt of the call it started.
        receipt: ReceiptId,
    },
    /// Tool results, kept before the continuation is made.
    ToolResults {
        /// In call order.
        results: Vec<ToolResult>,
        /// Receipt of the continuation.
        receipt: ReceiptId,
    },
    /// What the model said, whole or as far as it came.
    Assistant {
        /// In the order received.
        blocks: Vec<AssistantBlock>,
        /// Receipt of the call.
        receipt: ReceiptId,
        /// How the answer ended.
        ended: Ended,
        /// What the call cost, where the server said so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },
    /// The call was refused after its event was kept; nothing was sent.
    Refused {
        /// Receipt of the refused call.
        receipt: ReceiptId,
        /// `code/detail`.
        key: String,
    },
    /// The model's server failed; nothing was received.
    Failed {
        /// Receipt of the call.
        receipt: ReceiptId,
    },
    /// The turn is closed.
    TurnEnd,
    /// A summary was asked for; kept before its call is made.
    #[serde(rename = "compaction/begin")]
    Compacting {
        /// Receipt of the call.
        receipt: ReceiptId,
    },
    /// What stands in for everything said before.
    #[serde(rename = "compaction/summary")]
    Summary(Summary),
    /// A call of another program's that went through the proxy; what was said stays in that program.
    Call {
        /// Receipt of the call.
        receipt: ReceiptId,
        /// Its kind.
        call: CallKind,
        /// What it was recognised as.
        sort: String,
        /// SHA-256 of the program's own body.
        body: Digest,
        /// Where the words stand that a turn answers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<Place>,
    },
}

impl LogEvent {
    /// As the store keeps it.
    pub(crate) fn stored(&self, at: i64) -> NewEvent {
        let kind = match self {
            Self::Prompt { .. } => EventKind::Prompt,
            Self::ToolResults { .. } => EventKind::ToolResults,
            Self::Assistant { .. } => EventKind::Assistant,
            Self::Refused { .. } => EventKind::Refused,
            Self::Failed { .. } => EventKind::ModelError,
            Self::TurnEnd => EventKind::TurnEnd,
            Self::Compacting { .. } => EventKind::CompactionBegin,
            Self::Summary(_) => EventKind::CompactionSummary,
            Self::Call { .. } => EventKind::Call,
        };
        // Plain data of our own always serialises.
        NewEvent { kind, at, body: serde_json::to_value(self).unwrap_or_default() }
    }

    /// Reads a stored event; one of a later version is passed over.
    pub(crate) fn read(event: Event) -> Option<Self> {
        serde_json::from_value(event.body).ok()
    }
}

/// A summary, what it was made from and for whom.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Summary {
    /// The model's words.
    pub text: String,
    /// Receipt of the call.
    pub receipt: ReceiptId,
    /// First event it was made from.
    pub from_seq: u64,
    /// Last event it was made from.
    pub through_seq: u64,
    /// Turns of the session until then.
    pub turn: u64,
    /// Model name as sent.
    pub model: String,
    /// Where it was sent.
    pub route: String,
    /// What it cost, where the server said so.
    pub usage: Option<Usage>,
    /// Whose conversation it was.
    pub tenant_id: Id,
    /// Whose conversation it was.
    pub user_id: Id,
    /// The repository it was about.
    pub project_id: Id,
    /// The group it was for.
    pub group_id: Option<Id>,
}

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Ended {
    /// Complete.
    Complete,
    /// The stream broke off.
    Cut,
    /// The person interrupted it.
    Interrupted,
}

/// The messages a model gets: prompts that were answered (at least in part), their answers, tool results, then `next`.
/// Everything before the newest summary is left out; the summary opens the conversation, in its writer's own role.
///
/// A prompt without an answer is left out, so that sending it again does not say it twice, and so are tool results that
/// are sent again. A tool call without a result is left out too: servers refuse a request that holds one.
pub(crate) fn messages(events: &[LogEvent], next: Message) -> Vec<Message> {
    let (mut out, events) = opened(events);
    for event in events {
        match event {
            LogEvent::Prompt { text, .. } => put(&mut out, Message::User { text: text.clone() }),
            LogEvent::ToolResults { results, .. } => put(&mut out, Message::ToolResults(results.clone())),
            LogEvent::Assistant { blocks, .. } => out.push(Message::Assistant { blocks: blocks.clone() }),
            LogEvent::Refused { .. } => drop_unanswered(&mut out),
            LogEvent::Failed { .. }
            | LogEvent::TurnEnd
            | LogEvent::Compacting { .. }
            | LogEvent::Summary(_)
            | LogEvent::Call { .. } => {}
        }
    }
    put(&mut out, next);
    answer_every_tool_call(&mut out);
    out
}

/// How the conversation opens, and the events that go on from there.
fn opened(events: &[LogEvent]) -> (Vec<Message>, &[LogEvent]) {
    let since = since_summary(events);
    let Some(LogEvent::Summary(summary)) =
        events.len().checked_sub(since.len() + 1).and_then(|n| events.get(n))
    else {
        return (Vec::new(), events);
    };
    let blocks = vec![AssistantBlock::Text(summary.text.clone())];
    (vec![Message::User { text: summary::OPENER.to_owned() }, Message::Assistant { blocks }], since)
}

/// The events after the newest summary; all where there is none.
pub(crate) fn since_summary(events: &[LogEvent]) -> &[LogEvent] {
    let newest = events.iter().rposition(|event| matches!(event, LogEvent::Summary(_)));
    newest.and_then(|at| events.get(at + 1..)).unwrap_or(events)
}

/// Puts what a call carries in the place of what an earlier call carried without an answer.
fn put(out: &mut Vec<Message>, message: Message) {
    match (&message, out.last()) {
        (Message::User { .. }, _) => drop_unanswered(out),
        (Message::ToolResults(_), Some(Message::ToolResults(_))) => drop(out.pop()),
        (Message::ToolResults(_) | Message::Assistant { .. }, _) => {}
    }
    out.push(message);
}

fn drop_unanswered(out: &mut Vec<Message>) {
    if matches!(out.last(), Some(Message::User { .. })) {
        out.pop();
    }
}

fn answer_every_tool_call(out: &mut [Message]) {
    let answered: Vec<bool> =
        (0..out.len()).map(|i| matches!(out.get(i + 1), Some(Message::ToolResults(_)))).collect();
    for (message, answered) in out.iter_mut().zip(answered) {
        if let (Message::Assistant { blocks }, false) = (message, answered) {
            blocks.retain(|block| !matches!(block, AssistantBlock::ToolUse { .. }));
        }
    }
}

/// How much a request says of these events, bytes; what is around it is not counted.
pub(crate) fn said_bytes(events: &[LogEvent]) -> usize {
    let of = |event: &LogEvent| match event {
        LogEvent::Prompt { text, .. } => text.len(),
        LogEvent::ToolResults { results, .. } => results.iter().map(|result| result.text.len()).sum(),
        LogEvent::Assistant { blocks, .. } => blocks.iter().map(block_bytes).sum(),
        _ => 0,
    };
    events.iter().map(of).sum()
}

fn block_bytes(block: &AssistantBlock) -> usize {
    match block {
        AssistantBlock::Text(text) => text.len(),
        AssistantBlock::ToolUse { input: value, .. } | AssistantBlock::Raw(value) => value.to_string().len(),
    }
}

/// What the newest call of these events cost, where its server said so.
pub(crate) fn newest_usage(events: &[LogEvent]) -> Option<Usage> {
    events.iter().rev().find_map(|event| match event {
        LogEvent::Assistant { usage, .. } => *usage,
        _ => None,
    })
}

/// How much was injected since the newest summary, bytes.
pub(crate) fn injected_bytes(events: &[LogEvent], spans: &[Span]) -> usize {
    let called: HashSet<ReceiptId> = since_summary(events)
        .iter()
        .filter_map(|event| match event {
            LogEvent::Prompt { receipt, .. } => Some(*receipt),
            _ => None,
        })
        .collect();
    spans.iter().filter(|span| called.contains(&span.receipt)).map(|span| span.text.len()).sum()
}

/// What the newest call carried, where it got no answer at all: sent again it is a retry.
pub(crate) fn last_call(events: &[LogEvent]) -> Option<&LogEvent> {
    let told = |event: &&LogEvent| {
        !matches!(event, LogEvent::TurnEnd | LogEvent::Failed { .. } | LogEvent::Compacting { .. })
    };
    let last = events.iter().rev().find(told)?;
    matches!(last, LogEvent::Prompt { .. } | LogEvent::ToolResults { .. }).then_some(last)
}

/// The newest prompt, where it got no answer at all.
pub(crate) fn unanswered(events: &[LogEvent]) -> Option<(ReceiptId, &str)> {
    match last_call(events)? {
        LogEvent::Prompt { text, receipt } => Some((*receipt, text)),
        _ => None,
    }
}

/// The newest prompt.
pub(crate) fn newest_prompt(events: &[LogEvent]) -> Option<&str> {
    events.iter().rev().find_map(|event| match event {
        LogEvent::Prompt { text, .. } => Some(text.as_str()),
        _ => None,
    })
}

/// The newest prompt, where an earlier run ended before it was told how its call went: spent, outcome unknown.
pub(crate) fn outcome_unknown(events: &[LogEvent]) -> Option<(ReceiptId, &str)> {
    match events.last() {
        Some(LogEvent::Prompt { text, receipt }) => Some((*receipt, text)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const R: ReceiptId = ReceiptId([1; 16]);

    fn prompt(text: &str) -> LogEvent {
        LogEvent::Prompt { text: text.into(), receipt: R }
    }

    fn answer(blocks: Vec<AssistantBlock>) -> LogEvent {
        LogEvent::Assistant { blocks, receipt: R, ended: Ended::Complete, usage: None }
    }

    fn user(text: &str) -> Message {
        Message::User { text: text.into() }
    }

    #[test]
    fn a_prompt_that_was_sent_again_is_said_once() {
        let events = [prompt("hi"), LogEvent::Failed { receipt: R }, LogEvent::TurnEnd, prompt("hi")];
        assert_eq!(messages(&events, user("hi")), [user("hi")]);
    }

    #[test]
    fn tool_results_that_are_sent_again_are_said_once_after_their_call() {
        let call = vec![AssistantBlock::ToolUse {
            id: "1".into(),
            name: "memory_search".into(),
            input: "{}".into(),
        }];
        let results = vec![ToolResult { id: "1".into(), text: "none".into(), is_error: false }];
        let kept = LogEvent::ToolResults { results: results.clone(), receipt: R };
        let events =
            [prompt("a"), answer(call.clone()), kept, LogEvent::Failed { receipt: R }, LogEvent::TurnEnd];
        let expected =
            [user("a"), Message::Assistant { blocks: call }, Message::ToolResults(results.clone())];
        assert_eq!(messages(&events, Message::ToolResults(results.clone())), expected);
        assert_eq!(messages(&events[..2], Message::ToolResults(results)), expected);
    }

    #[test]
    fn a_refused_prompt_is_no_message() {
        let refused = LogEvent::Refused { receipt: R, key: "receipt-failed/expired".into() };
        assert_eq!(messages(&[prompt("a"), refused], user("b")), [user("b")]);
    }

    #[test]
    fn a_tool_call_without_a_result_is_left_out() {
        let call =
            AssistantBlock::ToolUse { id: "1".into(), name: "memory_search".into(), input: "{}".into() };
        let text = AssistantBlock::Text("let me look".into());
        let events = [prompt("a"), answer(vec![text.clone(), call]), LogEvent::TurnEnd];
        assert_eq!(
            messages(&events, user("b")),
            [user("a"), Message::Assistant { blocks: vec![text] }, user("b")]
        );
    }

    #[test]
    fn events_survive_the_store() {
        let event = answer(vec![AssistantBlock::Text("x".into())]);
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!(json["kind"], "assistant");
        assert_eq!(serde_json::from_value::<LogEvent>(json).unwrap(), event);
    }
}
