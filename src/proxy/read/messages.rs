//! Anthropic Messages, from Claude Code and from any other client.
//!
//! Claude Code is read by the table that was measured on it (`claude`); any other client by structure alone: text is
//! human text, tool results without text go on with a turn.

use std::borrow::Cow;

use agentspine_gate::ids::Id;
use agentspine_gate::turn::Host;
use http::HeaderMap;

use super::claude::{self, Voice, voice};
use super::json::{At, compact, is_empty_list, list, object, object_if, string, string_if};
use super::thread::{self, Form, Message, Piece, Shape, StringShape};
use super::{Asked, PromptPath, Sort, Unreadable, header, id_of};

const SHAPE: Shape = Shape {
    block: (r#",{"type":"text","text":""#, r#""}"#),
    string: StringShape::Wrap(r#"[{"type":"text","text":"#, r#"},{"type":"text","text":""#, r#""}]"#),
};

const SESSION_HEADER: &str = "x-claude-code-session-id";
const AGENT_HEADER: &str = "x-claude-code-agent-id";

/// Whose marks are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    Claude,
    Generic,
}

/// What is needed of the body beside its messages.
struct Head<'a> {
    model: String,
    user_id: Option<Cow<'a, str>>,
    /// A structured answer with a title, and no tools.
    wants_title: bool,
    is_subagent: bool,
}

pub(super) fn read(
    host: Host,
    path: PromptPath,
    headers: &HeaderMap,
    body: &str,
    chain: Option<&Id>,
) -> Result<Asked, Unreadable> {
    let client = if host == Host::Claude { Client::Claude } else { Client::Generic };
    let names = ["model", "messages", "system", "metadata", "output_config", "tools"];
    let [model, messages, system, metadata, output, tools] = object(body, At::ROOT, names)?;
    let model = thread::model(model)?;
    let at = At::ROOT.key("messages");
    let elements = list(messages.ok_or_else(|| at.missing())?, at)?;
    let each = elements.iter().enumerate().map(|(n, json)| message(client, body, json, at.index(n)));
    let messages: Vec<Message<'_>> = each.collect::<Result<_, _>>()?;
    let has_tools = tools.is_some_and(|tools| !is_empty_list(tools));
    let head = Head {
        model,
        user_id: user_id(metadata)?,
        wants_title: !has_tools && wants_title(output)?,
        is_subagent: headers.contains_key(AGENT_HEADER) || says_subagent(system)?,
    };
    Ok(asked(client, path, headers, chain, head, &messages))
}

fn asked(
    client: Client,
    path: PromptPath,
    headers: &HeaderMap,
    chain: Option<&Id>,
    head: Head<'_>,
    messages: &[Message<'_>],
) -> Asked {
    let newest = messages.iter().rev().find(|message| message.role == "user");
    let (sort, prompt) = match (path, newest, client) {
        (PromptPath::CountTokens, ..) => (Sort::Count, String::new()),
        (_, None, _) => (Sort::Continuation, String::new()),
        (_, Some(newest), Client::Claude) => of_claude(&head, messages, newest),
        (_, Some(newest), Client::Generic) => by_structure(newest),
    };
    let (conversation, slots) = match client {
        Client::Claude => (claude_id(headers, &head, messages), host_slots(messages)),
        Client::Generic => (thread::generic_id(messages), Vec::new()),
    };
    let draft = thread::draft(chain.unwrap_or(&conversation), messages, &SHAPE, slots);
    let standing = thread::standing(sort, messages);
    Asked { conversation, sort, prompt, standing, model: head.model, draft }
}

fn message<'a>(client: Client, body: &str, json: &'a str, at: At<'_>) -> Result<Message<'a>, Unreadable> {
    let [role, content] = object(json, at, ["role", "content"])?;
    let role = string(role.ok_or_else(|| at.key("role").missing())?, at.key("role"))?;
    if role != "user" && role != "assistant" {
        return Ok(Message { role, pieces: Vec::new(), form: Form::Closed, holds_spans: false });
    }
    let marked = client == Client::Claude && role == "user";
    let content = content.ok_or_else(|| at.key("content").missing())?;
    let (form, pieces) = thread::content(body, content, at.key("content"), block)?;
    let pieces: Vec<_> = pieces.into_iter().map(|p| if marked { told_apart(p) } else { p }).collect();
    let holds_spans = role == "user" && holds_spans(client, &pieces);
    Ok(Message { role, pieces, form, holds_spans })
}

/// A reminder of the client's is no text of the conversation.
fn told_apart(piece: Piece<'_>) -> Piece<'_> {
    match piece {
        Piece::Text(text) if text.starts_with(claude::REMINDER) => Piece::Reminder(text),
        other => other,
    }
}

fn block<'a>(json: &'a str, at: At<'_>) -> Result<Option<Piece<'a>>, Unreadable> {
    let names = ["type", "text", "id", "input", "tool_use_id"];
    let (kind, [_, text, id, input, tool_use_id]) = thread::typed(json, at, names)?;
    Ok(match kind.as_ref() {
        "text" => {
            let at = at.key("text");
            Some(Piece::Text(string(text.ok_or_else(|| at.missing())?, at)?))
        }
        "tool_use" => {
            let id = string_if(id, at.key("id"))?.unwrap_or_default();
            Some(Piece::ToolUse(id, Cow::Owned(compact(input.unwrap_or_default()))))
        }
        "tool_result" => {
            Some(Piece::ToolResult(string_if(tool_use_id, at.key("tool_use_id"))?.unwrap_or_default()))
        }
        "thinking" | "redacted_thinking" => None,
        _ => Some(Piece::Other(kind, Cow::Borrowed(""))),
    })
}

fn holds_spans(client: Client, pieces: &[Piece<'_>]) -> bool {
    let speaks = |text: &str| match client {
        Client::Claude => matches!(voice(text), Voice::Human | Voice::Queued | Voice::Summary),
        Client::Generic => true,
    };
    pieces.iter().filter_map(Piece::text).filter(|text| !text.is_empty()).any(speaks) || shows(pieces)
}

/// Whether a message shows something, such as an image, and answers no tool.
fn shows(pieces: &[Piece<'_>]) -> bool {
    pieces.iter().any(|piece| matches!(piece, Piece::Other(..))) && !answers(pieces)
}

/// Whether a message answers a tool.
fn answers(pieces: &[Piece<'_>]) -> bool {
    pieces.iter().any(|piece| matches!(piece, Piece::ToolResult(_)))
}

fn by_structure(newest: &Message<'_>) -> (Sort, String) {
    let texts: Vec<&str> = newest.pieces.iter().filter_map(Piece::text).filter(|t| !t.is_empty()).collect();
    if newest.holds_spans {
        let sort = if answers(&newest.pieces) { Sort::Queued } else { Sort::Human };
        (sort, thread::prompt_of(&texts, newest))
    } else {
        (Sort::Continuation, String::new())
    }
}

/// The table that was measured on the client, in its order.
fn of_claude(head: &Head<'_>, messages: &[Message<'_>], newest: &Message<'_>) -> (Sort, String) {
    let said = Said::in_message(newest);
    let silent = |sort| (sort, String::new());
    if head.wants_title && said.texts.iter().any(|(_, text)| text.starts_with(claude::TITLE)) {
        return silent(Sort::Title);
    }
    if said.has(Voice::Compact) {
        return silent(Sort::Compaction);
    }
    let summary = open_summary(messages, newest);
    let answers = answers(&newest.pieces);
    if head.is_subagent {
        let is_first = !messages.iter().any(|message| message.role == "assistant");
        let is_given = is_first || summary.is_some() || said.has(Voice::Queued) || said.has(Voice::Human);
        return if is_given {
            (Sort::Subagent, said.prompt(newest, summary))
        } else {
            silent(Sort::Continuation)
        };
    }
    match summary {
        Some(_) => (Sort::Afresh, said.prompt(newest, summary)),
        None if answers && said.has(Voice::Queued) => (Sort::Queued, said.of(Voice::Queued).join("\n")),
        None if answers && !said.goes_on_after_interruption() => silent(Sort::Continuation),
        None if said.ends_with(Voice::Bash) => silent(Sort::Bash),
        None if said.has(Voice::Human) || shows(&newest.pieces) => (Sort::Human, said.prompt(newest, None)),
        None => silent(Sort::Background),
    }
}

/// The summary of a compaction that this is the first call after: the model has not answered it, or its last answer was
/// kept after it and the client shows its files again in this very message, the first of the person's since.
fn open_summary<'m>(messages: &'m [Message<'_>], newest: &Message<'_>) -> Option<&'m str> {
    let summary_of = |message: &'m Message<'_>| {
        let texts = message.pieces.iter().filter_map(Piece::text);
        texts.filter(|_| message.role == "user").find(|text| voice(text) == Voice::Summary)
    };
    let at = messages.iter().rposition(|message| summary_of(message).is_some())?;
    let since = messages.get(at + 1..).unwrap_or_default();
    let unanswered = !since.iter().any(|message| message.role == "assistant");
    let is_first = since.iter().filter(|message| message.role == "user").count() == 1;
    let summary = messages.get(at).and_then(summary_of);
    summary.filter(|_| unanswered || (is_first && shows_files(newest)))
}

/// Whether the client shows its instruction files, or other context of a start, in a message.
fn shows_files(message: &Message<'_>) -> bool {
    let is_slot =
        |piece: &Piece<'_>| matches!(piece, Piece::Reminder(text) if text.starts_with(claude::HOST_SLOT));
    matches!(message.pieces.first(), Some(Piece::Reminder(_))) || message.pieces.iter().any(is_slot)
}

/// What the newest user message says, text by text.
struct Said<'m> {
    texts: Vec<(Voice, &'m str)>,
}

impl<'m> Said<'m> {
    fn in_message(message: &'m Message<'_>) -> Self {
        let texts = message.pieces.iter().filter_map(Piece::any_text);
        Self { texts: texts.filter(|text| !text.is_empty()).map(|text| (voice(text), text)).collect() }
    }

    fn has(&self, voice: Voice) -> bool {
        self.texts.iter().any(|(v, _)| *v == voice)
    }

    fn ends_with(&self, voice: Voice) -> bool {
        self.texts.iter().rev().find(|(v, _)| *v != Voice::Reminder).is_some_and(|(v, _)| *v == voice)
    }

    fn of(&self, voice: Voice) -> Vec<&'m str> {
        self.texts.iter().filter(|(v, _)| *v == voice).map(|(_, text)| *text).collect()
    }

    /// The person's words after the last interruption; all of them where none came after it.
    fn human(&self) -> Vec<&'m str> {
        let stop = self.texts.iter().rposition(|(v, _)| *v == Voice::Interrupted);
        let after = self.texts.iter().skip(stop.map_or(0, |n| n + 1));
        let fresh: Vec<_> = after.filter(|(v, _)| *v == Voice::Human).map(|(_, text)| *text).collect();
        if fresh.is_empty() { self.of(Voice::Human) } else { fresh }
    }

    fn goes_on_after_interruption(&self) -> bool {
        let stop = self.texts.iter().rposition(|(v, _)| *v == Voice::Interrupted);
        stop.is_some_and(|n| self.texts.iter().skip(n).any(|(v, _)| *v == Voice::Human))
    }

    /// The person's words, else what was queued, else the summary, else a stand-in for what is shown.
    fn prompt(&self, message: &Message<'_>, summary: Option<&str>) -> String {
        let choices = [self.human(), self.of(Voice::Queued), summary.into_iter().collect()];
        let texts = choices.into_iter().find(|texts| !texts.is_empty()).unwrap_or_default();
        thread::prompt_of(&texts, message)
    }
}

/// The client's own slots: where a conversation begins, and where a later run of it found files changed.
fn host_slots(messages: &[Message<'_>]) -> Vec<String> {
    let users = messages.iter().filter(|message| message.role == "user");
    let again = users.flat_map(leading_reminders).filter(|text| text.starts_with(claude::READ_AGAIN));
    host_slot(messages).into_iter().chain(again.map(str::to_owned)).collect()
}

/// Text of the reminder that holds the instruction files: before any word of the person's, in the first user message or,
/// after a compaction that kept the last answer, in a later one. Older models get other reminders before it; should its
/// opening change, its documents still tell it in the first message.
fn host_slot(messages: &[Message<'_>]) -> Option<String> {
    let users = || messages.iter().filter(|message| message.role == "user");
    let named = users().flat_map(leading_reminders).find(|text| text.starts_with(claude::HOST_SLOT));
    let told = || leading_reminders(users().next()?).find(|text| text.contains(claude::DOCUMENT));
    named.or_else(told).map(str::to_owned)
}

fn leading_reminders<'m>(message: &'m Message<'_>) -> impl Iterator<Item = &'m str> {
    message.pieces.iter().map_while(|piece| match piece {
        Piece::Reminder(text) => Some(text.as_ref()),
        _ => None,
    })
}

fn claude_id(headers: &HeaderMap, head: &Head<'_>, messages: &[Message<'_>]) -> Id {
    let session = header(headers, SESSION_HEADER).map(Cow::Borrowed);
    let Some(session) = session.or_else(|| head.user_id.clone()) else { return thread::generic_id(messages) };
    match header(headers, AGENT_HEADER) {
        Some(agent) => id_of(&format!("{session}:{agent}")),
        None if head.is_subagent => {
            id_of(&format!("{session}:{}", Id::of_digest("task", thread::first_digest(messages))))
        }
        None => id_of(&session),
    }
}

/// `session_id` of `metadata.user_id`, which is JSON in a string, or the older `user_…_session_ID`.
fn user_id(metadata: Option<&str>) -> Result<Option<Cow<'_, str>>, Unreadable> {
    let at = At::ROOT.key("metadata");
    let [user_id] = object_if(metadata, at, ["user_id"])?;
    let at = at.key("user_id");
    let Some(text) = string_if(user_id, at)? else { return Ok(None) };
    let Ok([session]) = object_if(Some(&text), at, ["session_id"]) else { return Ok(None) };
    let inner = string_if(session, at.key("session_id"))?;
    let older = || text.rsplit_once("_session_").map(|(_, session)| session);
    let session = inner.as_deref().or_else(older).filter(|session| !session.is_empty());
    Ok(session.map(|session| Cow::Owned(session.to_owned())))
}

fn wants_title(output_config: Option<&str>) -> Result<bool, Unreadable> {
    let at = At::ROOT.key("output_config");
    let [format] = object_if(output_config, at, ["format"])?;
    let at = at.key("format");
    let [kind, schema] = object_if(format, at, ["type", "schema"])?;
    let at = at.key("schema");
    let [properties] = object_if(schema, at, ["properties"])?;
    let [title] = object_if(properties, at.key("properties"), ["title"])?;
    Ok(kind == Some(r#""json_schema""#) && title.is_some())
}

/// Whether the first system block, the client's attribution, names a subagent.
fn says_subagent(system: Option<&str>) -> Result<bool, Unreadable> {
    let at = At::ROOT.key("system");
    let Some(blocks) = system.filter(|system| system.starts_with('[')) else { return Ok(false) };
    let first = list(blocks, at)?.first().copied();
    let at = at.index(0);
    let [text] = object_if(first, at, ["text"])?;
    let text = string_if(text, at.key("text"))?.unwrap_or_default();
    Ok(text.starts_with(claude::BILLING) && text.contains(claude::IS_SUBAGENT))
}
