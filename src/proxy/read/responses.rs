//! OpenAI Responses, from Codex and from any other client.
//!
//! A request is a turn where a person's item stands after the last item of the model or of a tool. Codex's own marks
//! (`codex`) name side calls, subagents and windows, and tell its own user items from the person's.

use std::borrow::Cow;

use agentspine_gate::ids::{Digest, Id};
use agentspine_gate::turn::Host;
use http::HeaderMap;

use super::codex::{self, Marks, Request, Thread, Voice, voice};
use super::json::{At, list, object, object_if, string, string_if};
use super::thread::{self, Form, Message, Piece, Shape, StringShape};
use super::{Asked, Sort, Unreadable};

const BLOCK: (&str, &str) = (r#",{"type":"input_text","text":""#, r#""}"#);
const BETWEEN: &str = r#"},{"type":"input_text","text":""#;

const SHAPE: Shape =
    Shape { block: BLOCK, string: StringShape::Wrap(r#"[{"type":"input_text","text":"#, BETWEEN, r#""}]"#) };

/// The whole input is one string.
const BARE: Shape = Shape {
    block: BLOCK,
    string: StringShape::Wrap(
        r#"[{"type":"message","role":"user","content":[{"type":"input_text","text":"#,
        BETWEEN,
        r#""}]}]"#,
    ),
};

/// Whose marks are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Client {
    Codex,
    Generic,
}

/// One input item.
struct Item<'a> {
    message: Message<'a>,
    class: Class,
    /// Of a user message: whose words each of its texts is.
    voices: Vec<Voice>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// A message with the user's role.
    User,
    /// What the model said, thought or called.
    Model,
    /// What a tool answered.
    Output,
    /// Where the client's own compaction stands.
    Compaction,
    /// Asks for a compaction.
    CompactionTrigger,
    /// Anything else, such as the developer's words.
    Aside,
}

pub(super) fn read(
    host: Host,
    headers: &HeaderMap,
    body: &str,
    chain: Option<&Id>,
) -> Result<Asked, Unreadable> {
    let client = if matches!(host, Host::Codex | Host::King) { Client::Codex } else { Client::Generic };
    let names = ["model", "input", "previous_response_id", "conversation", "generate", "client_metadata"];
    let [model, input, previous, server_side, generate, metadata] = object(body, At::ROOT, names)?;
    let model = thread::model(model)?;
    let marks = match client {
        Client::Codex => Marks::read(headers, metadata)?,
        Client::Generic => Marks::default(),
    };
    let at = At::ROOT.key("input");
    let input = input.ok_or_else(|| at.missing())?;
    let (shape, items) = items(client, &marks, body, input)?;
    // Codex's own word; a server that does not know it would answer.
    let warms = client == Client::Codex && generate == Some("false");
    let (sort, prompt) = if warms { (Sort::Prewarm, String::new()) } else { sort(&marks, &items) };
    let slots = if client == Client::Codex { host_slot(&items).into_iter().collect() } else { Vec::new() };
    let messages: Vec<Message<'_>> = items.into_iter().map(|item| item.message).collect();
    let conversation = match previous.or(server_side) {
        // What the server keeps is not seen here: a conversation of its own.
        Some(kept) => Id::of_digest("generic", Digest::of(kept.as_bytes())),
        None => marks.conversation.unwrap_or_else(|| thread::generic_id(&messages)),
    };
    let draft = thread::draft(chain.unwrap_or(&conversation), &messages, shape, slots);
    let standing = thread::standing(sort, &messages);
    Ok(Asked { conversation, sort, prompt, standing, model, draft })
}

fn items<'a>(
    client: Client,
    marks: &Marks,
    body: &str,
    input: &'a str,
) -> Result<(&'static Shape, Vec<Item<'a>>), Unreadable> {
    let at = At::ROOT.key("input");
    if input.starts_with('"') {
        let (form, pieces) = thread::content(body, input, at, block)?;
        let message = Message { role: Cow::Borrowed("user"), pieces, form, holds_spans: true };
        return Ok((&BARE, vec![Item { message, class: Class::User, voices: vec![Voice::Human] }]));
    }
    let elements = list(input, at)?;
    let each = elements.iter().enumerate().map(|(n, json)| item(client, marks, body, json, at.index(n)));
    Ok((&SHAPE, each.collect::<Result<_, _>>()?))
}

const FIELDS: [&str; 8] = [
    "type",
    "role",
    "content",
    "id",
    "call_id",
    "arguments",
    "input",
    "internal_chat_message_metadata_passthrough",
];

fn item<'a>(
    client: Client,
    marks: &Marks,
    body: &str,
    json: &'a str,
    at: At<'_>,
) -> Result<Item<'a>, Unreadable> {
    let [kind, role, content, id, call_id, arguments, input, passed] = object(json, at, FIELDS)?;
    // The short form of a message names no type.
    let kind = match (kind, role) {
        (None, Some(_)) => Cow::Borrowed("message"),
        (kind, _) => string(kind.ok_or_else(|| at.key("type").missing())?, at.key("type"))?,
    };
    let call_id = string_if(call_id, at.key("call_id"))?;
    let (class, piece) = match kind.as_ref() {
        "message" => {
            let role = string(role.ok_or_else(|| at.key("role").missing())?, at.key("role"))?;
            let spoken = Spoken { role, content, passed };
            return spoken.item(client, marks, body, at);
        }
        "function_call" | "custom_tool_call" => {
            let input = string_if(arguments.or(input), at.key("arguments"))?.unwrap_or_default();
            (Class::Model, Some(Piece::ToolUse(call_id.unwrap_or_default(), input)))
        }
        "reasoning" => (Class::Model, None),
        // The client's settings, which come and go.
        "additional_tools" | "configuration_update" => (Class::Aside, None),
        "compaction_trigger" => (Class::CompactionTrigger, None),
        output if output.ends_with("_output") => {
            (Class::Output, Some(Piece::ToolResult(call_id.unwrap_or_default())))
        }
        other => {
            let id = call_id.or(string_if(id, at.key("id"))?).unwrap_or_default();
            let class = match other {
                "compaction" | "compaction_summary" => Class::Compaction,
                call if call.ends_with("_call") => Class::Model,
                _ => Class::Aside,
            };
            (class, Some(Piece::Other(kind.clone(), id)))
        }
    };
    let pieces = piece.into_iter().collect();
    let message = Message { role: kind, pieces, form: Form::Closed, holds_spans: false };
    Ok(Item { message, class, voices: Vec::new() })
}

/// A message item.
struct Spoken<'a> {
    role: Cow<'a, str>,
    content: Option<&'a str>,
    passed: Option<&'a str>,
}

impl<'a> Spoken<'a> {
    fn item(self, client: Client, marks: &Marks, body: &str, at: At<'_>) -> Result<Item<'a>, Unreadable> {
        let class = match self.role.as_ref() {
            "user" => Class::User,
            "assistant" => Class::Model,
            _ => Class::Aside,
        };
        if class == Class::Aside {
            let message =
                Message { role: self.role, pieces: Vec::new(), form: Form::Closed, holds_spans: false };
            return Ok(Item { message, class, voices: Vec::new() });
        }
        let content = self.content.ok_or_else(|| at.key("content").missing())?;
        let (form, mut pieces) = thread::content(body, content, at.key("content"), block)?;
        let mut voices = Vec::new();
        if class == Class::User {
            let kinds = if client == Client::Codex { kinds(self.passed, at)? } else { Vec::new() };
            let named = kinds.len() == pieces.len();
            for (n, piece) in pieces.iter_mut().enumerate() {
                let kind = kinds.get(n).filter(|_| named).map(AsRef::as_ref);
                voices.extend(tell(client, kind, piece));
            }
        }
        let holds_spans = class == Class::User && holds_spans(marks, &pieces, &voices);
        let message = Message { role: self.role, pieces, form, holds_spans };
        Ok(Item { message, class, voices })
    }
}

/// Marks text that is the client's own, and says whose words it is.
fn tell(client: Client, kind: Option<&str>, piece: &mut Piece<'_>) -> Option<Voice> {
    let Piece::Text(text) = piece else { return None };
    if client == Client::Generic {
        return Some(Voice::Human);
    }
    let voice = voice(kind, text);
    if voice != Voice::Human {
        *piece = Piece::Told(std::mem::take(text));
    }
    Some(voice)
}

/// A subagent may get its task in a form that is not seen here, so each of its user items holds spans.
fn holds_spans(marks: &Marks, pieces: &[Piece<'_>], voices: &[Voice]) -> bool {
    let is_said = pieces.iter().filter_map(Piece::text).any(|text| !text.is_empty());
    let shows = voices.is_empty() && !pieces.is_empty();
    marks.thread == Thread::Subagent || is_said || shows || voices.contains(&Voice::Summary)
}

fn block<'a>(json: &'a str, at: At<'_>) -> Result<Option<Piece<'a>>, Unreadable> {
    let (kind, [_, text]) = thread::typed(json, at, ["type", "text"])?;
    Ok(Some(match kind.as_ref() {
        "input_text" | "output_text" | "text" => {
            let at = at.key("text");
            Piece::Text(string(text.ok_or_else(|| at.missing())?, at)?)
        }
        _ => Piece::Other(kind, Cow::Borrowed("")),
    }))
}

/// `content_item_kinds`, one a block, where the client names them.
fn kinds<'a>(passed: Option<&'a str>, at: At<'_>) -> Result<Vec<Cow<'a, str>>, Unreadable> {
    let at = at.key("internal_chat_message_metadata_passthrough");
    let [kinds] = object_if(passed, at, ["content_item_kinds"])?;
    let at = at.key("content_item_kinds");
    let Some(kinds) = kinds.filter(|kinds| kinds.starts_with('[')) else { return Ok(Vec::new()) };
    let kinds = list(kinds, at)?;
    kinds.iter().map(|kind| Ok(string_if(Some(kind), at)?.unwrap_or(Cow::Borrowed("unknown")))).collect()
}

fn sort(marks: &Marks, items: &[Item<'_>]) -> (Sort, String) {
    if let Some(side) = side_call(marks, items) {
        return (side, String::new());
    }
    let tail = Tail::of(items);
    let (is_first, says) = (tail.items.len() == items.len(), tail.says());
    let speaks = if marks.thread == Thread::Subagent {
        (is_first || says).then_some(Sort::Subagent)
    } else if is_first && marks.window > 0 {
        Some(Sort::Afresh)
    } else {
        let queued = tail.after == Some(Class::Output) && !tail.has(Voice::Interrupted);
        says.then_some(if queued { Sort::Queued } else { Sort::Human })
    };
    match (speaks, tail.newest_voice()) {
        (Some(sort), _) => (sort, tail.prompt()),
        (None, Some(Voice::Bash)) => (Sort::Bash, String::new()),
        (None, Some(Voice::Notice)) => (Sort::Background, String::new()),
        (None, _) => (Sort::Continuation, String::new()),
    }
}

/// What the client's marks say, and where they are silent its own words.
fn side_call(marks: &Marks, items: &[Item<'_>]) -> Option<Sort> {
    let newest = items.iter().rev().find(|item| item.class == Class::User);
    let asks_summary = newest.is_some_and(|item| item.voices.contains(&Voice::Compact))
        || items.last().is_some_and(|item| item.class == Class::CompactionTrigger);
    match (marks.request, marks.thread) {
        (Request::Compaction, _) => Some(Sort::Compaction),
        _ if asks_summary => Some(Sort::Compaction),
        (Request::Prewarm, _) => Some(Sort::Prewarm),
        (Request::Turn, Thread::Title) => Some(Sort::Title),
        (Request::Turn, Thread::Person | Thread::Subagent) => None,
    }
}

/// What stands after the last item of the model or of a tool.
struct Tail<'i, 'a> {
    items: &'i [Item<'a>],
    after: Option<Class>,
}

impl<'i, 'a> Tail<'i, 'a> {
    fn of(items: &'i [Item<'a>]) -> Self {
        let last = items.iter().rposition(|item| matches!(item.class, Class::Model | Class::Output));
        let after = last.and_then(|n| items.get(n)).map(|item| item.class);
        Self { items: items.get(last.map_or(0, |n| n + 1)..).unwrap_or_default(), after }
    }

    /// Whether a person's item is in it: one that is not the client's own through and through.
    fn says(&self) -> bool {
        self.items.iter().any(is_human)
    }

    fn newest_voice(&self) -> Option<Voice> {
        self.items.iter().rev().find_map(|item| item.voices.last().copied())
    }

    fn has(&self, voice: Voice) -> bool {
        self.items.iter().any(|item| item.voices.contains(&voice))
    }

    /// The person's words after the last item of the client's own: before it may stand words kept from before a
    /// compaction. Where none came after it, the newest words; else the summary.
    fn prompt(&self) -> String {
        let own = |item: &Item<'_>| match item.class {
            Class::User => !is_human(item),
            Class::Compaction => true,
            Class::Model | Class::Output | Class::CompactionTrigger | Class::Aside => false,
        };
        let start = self.items.iter().rposition(own).map_or(0, |n| n + 1);
        let fresh: Vec<_> = self.items.iter().skip(start).filter(|item| is_human(item)).collect();
        let human = fresh.last().copied().or_else(|| self.items.iter().rfind(|item| is_human(item)));
        if let Some(item) = human {
            let all = if fresh.is_empty() { vec![item] } else { fresh };
            return thread::prompt_of(
                &all.iter().flat_map(|item| words(item)).collect::<Vec<_>>(),
                &item.message,
            );
        }
        let summary = self.items.iter().rfind(|item| item.voices.contains(&Voice::Summary));
        let texts = summary.into_iter().flat_map(|item| &item.message.pieces).filter_map(Piece::any_text);
        texts.collect::<Vec<_>>().join("\n")
    }
}

fn is_human(item: &Item<'_>) -> bool {
    let shows = item.voices.is_empty() && !item.message.pieces.is_empty();
    item.class == Class::User && (shows || words(item).next().is_some())
}

fn words<'m>(item: &'m Item<'_>) -> impl Iterator<Item = &'m str> {
    item.message.pieces.iter().filter_map(Piece::text).filter(|text| !text.is_empty())
}

/// Text of the client's item with the instruction files.
fn host_slot(items: &[Item<'_>]) -> Option<String> {
    let told = items.iter().flat_map(|item| &item.message.pieces).filter_map(|piece| match piece {
        Piece::Told(text) => Some(text),
        _ => None,
    });
    let mut slots = told.filter(|text| text.starts_with(codex::HOST_SLOT));
    slots.next().map(|text| text.clone().into_owned())
}
