//! OpenAI Chat Completions, by structure alone: a turn ends with a user's message.
//!
//! String content stays a string, because many compatible servers mis-template lists: a span stands inside it.

use std::borrow::Cow;

use agentspine_gate::Id;

use super::json::{At, list, object, object_if, string, string_if};
use super::thread::{self, Form, Message, Piece, Shape, StringShape};
use super::{Asked, Sort, Unreadable};

const SHAPE: Shape =
    Shape { block: (r#",{"type":"text","text":""#, r#""}"#), string: StringShape::Inside(r"\n\n") };

pub(super) fn read(body: &str, chain: Option<&Id>) -> Result<Asked, Unreadable> {
    let [model, messages] = object(body, At::ROOT, ["model", "messages"])?;
    let model = thread::model(model)?;
    let at = At::ROOT.key("messages");
    let elements = list(messages.ok_or_else(|| at.missing())?, at)?;
    let each = elements.iter().enumerate().map(|(n, json)| message(body, json, at.index(n)));
    let messages: Vec<Message<'_>> = each.collect::<Result<_, _>>()?;
    let (sort, prompt) = sort(&messages);
    let conversation = thread::generic_id(&messages);
    let draft = thread::draft(chain.unwrap_or(&conversation), &messages, &SHAPE, Vec::new());
    let standing = thread::standing(sort, &messages);
    Ok(Asked { conversation, sort, prompt, standing, model, draft })
}

fn message<'a>(body: &str, json: &'a str, at: At<'_>) -> Result<Message<'a>, Unreadable> {
    let names = ["role", "content", "tool_calls", "tool_call_id", "function_call"];
    let [role, content, calls, answers, call] = object(json, at, names)?;
    let role = string(role.ok_or_else(|| at.key("role").missing())?, at.key("role"))?;
    let (form, mut pieces) = match (role.as_ref(), content) {
        ("user" | "assistant", Some(content)) => thread::content(body, content, at.key("content"), block)?,
        ("tool" | "function", _) => {
            let id = string_if(answers, at.key("tool_call_id"))?.unwrap_or_default();
            (Form::Closed, vec![Piece::ToolResult(id)])
        }
        _ => (Form::Closed, Vec::new()),
    };
    if role == "assistant" {
        pieces.extend(tool_calls(calls, at)?);
        let (call, at) = (call.filter(|call| call.starts_with('{')), at.key("function_call"));
        pieces.extend(call.map(|call| tool_use(Cow::Borrowed(""), call, at)).transpose()?);
    }
    let holds_spans = role == "user" && pieces.iter().any(speaks);
    Ok(Message { role, pieces, form, holds_spans })
}

fn speaks(piece: &Piece<'_>) -> bool {
    piece.text().is_some_and(|text| !text.is_empty()) || matches!(piece, Piece::Other(..))
}

fn tool_calls<'a>(calls: Option<&'a str>, at: At<'_>) -> Result<Vec<Piece<'a>>, Unreadable> {
    let at = at.key("tool_calls");
    let Some(calls) = calls else { return Ok(Vec::new()) };
    let calls = list(calls, at)?;
    let each = calls.iter().enumerate().map(|(n, call)| {
        let at = at.index(n);
        let [id, function, custom] = object(call, at, ["id", "function", "custom"])?;
        let id = string_if(id, at.key("id"))?.unwrap_or_default();
        tool_use(id, function.or(custom).unwrap_or_default(), at.key("function"))
    });
    each.collect()
}

fn tool_use<'a>(id: Cow<'a, str>, function: &'a str, at: At<'_>) -> Result<Piece<'a>, Unreadable> {
    let [arguments, input] = object_if(Some(function), at, ["arguments", "input"])?;
    let input = string_if(arguments.or(input), at.key("arguments"))?.unwrap_or_default();
    Ok(Piece::ToolUse(id, input))
}

fn block<'a>(json: &'a str, at: At<'_>) -> Result<Option<Piece<'a>>, Unreadable> {
    let (kind, [_, text]) = thread::typed(json, at, ["type", "text"])?;
    Ok(Some(if kind == "text" {
        let at = at.key("text");
        Piece::Text(string(text.ok_or_else(|| at.missing())?, at)?)
    } else {
        Piece::Other(kind, Cow::Borrowed(""))
    }))
}

/// A turn where a user's message is the newest of user and tool messages; queued where a tool's stands right before it.
fn sort(messages: &[Message<'_>]) -> (Sort, String) {
    let is_tool = |message: &Message<'_>| matches!(message.role.as_ref(), "tool" | "function");
    let newest = messages.iter().rposition(|message| message.role == "user" || is_tool(message));
    let (before, newest) = messages.split_at(newest.unwrap_or(messages.len()));
    let Some(newest) = newest.first().filter(|message| message.holds_spans) else {
        return (Sort::Continuation, String::new());
    };
    let answered = before.iter().rfind(|message| message.role != "system" && message.role != "developer");
    let texts: Vec<&str> = newest.pieces.iter().filter_map(Piece::text).filter(|t| !t.is_empty()).collect();
    let sort = if answered.is_some_and(is_tool) { Sort::Queued } else { Sort::Human };
    (sort, thread::prompt_of(&texts, newest))
}
