//! Messages of any dialect as places and slots see them.
//!
//! Invariants: a place grows by what a message says, not by how it is written down: string or list, cache marks,
//! thinking, the client's reminders and empty text count for nothing, and a message of which nothing counts leaves the
//! place as it is; a slot stands after the last block of its message.

use std::borrow::Cow;

use agentspine_gate::ids::{Digest, Id};
use agentspine_gate::span::{Draft, Part, Place, Slot, Wrap};
use agentspine_gate::turn::CallKind;

use super::json::{At, list, object, offset, string};
use super::{Sort, Unreadable};

/// One message or item.
pub(super) struct Message<'a> {
    /// Its role; an item without one has its type here.
    pub(super) role: Cow<'a, str>,
    /// What counts for the place.
    pub(super) pieces: Vec<Piece<'a>>,
    pub(super) form: Form,
    /// Whether a span may stand here.
    pub(super) holds_spans: bool,
}

/// One block of a message.
pub(super) enum Piece<'a> {
    /// Text.
    Text(Cow<'a, str>),
    /// Text of the client's own, which nobody said.
    Told(Cow<'a, str>),
    /// Text that the client adds and takes away at will. It counts for nothing.
    Reminder(Cow<'a, str>),
    /// A tool call: id, input in one form.
    ToolUse(Cow<'a, str>, Cow<'a, str>),
    /// A tool result: id.
    ToolResult(Cow<'a, str>),
    /// Any other block: type, and id where it has one of its own.
    Other(Cow<'a, str>, Cow<'a, str>),
}

impl Piece<'_> {
    /// Text that is not the client's own.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Told(_) | Self::Reminder(_) | Self::ToolUse(..) | Self::ToolResult(_) | Self::Other(..) => {
                None
            }
        }
    }

    /// Text, whoever's.
    pub(super) fn any_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Told(text) | Self::Reminder(text) => Some(text),
            Self::ToolUse(..) | Self::ToolResult(_) | Self::Other(..) => None,
        }
    }

    fn part(&self) -> Option<Part<'_>> {
        match self {
            Self::Text(text) | Self::Told(text) => (!text.is_empty()).then_some(Part::Text(text)),
            Self::Reminder(_) => None,
            Self::ToolUse(id, input) => Some(Part::ToolUse(id, input)),
            Self::ToolResult(id) => Some(Part::ToolResult(id, "")),
            Self::Other(kind, id) => Some(Part::Other(kind, id)),
        }
    }
}

/// Where a message's content stands in the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// Nowhere that a span could join.
    Closed,
    /// A string, from its opening quote to after its closing one.
    Text { from: usize, to: usize },
    /// A list; the offset after its last block.
    List { after: usize },
}

/// How a dialect writes a span beside content.
pub(super) struct Shape {
    /// Before and after one more block of a list.
    pub(super) block: (&'static str, &'static str),
    pub(super) string: StringShape,
}

/// How a dialect writes a span beside string content.
pub(super) enum StringShape {
    /// The string becomes the first block of a list: what goes before it, between, and after the span.
    Wrap(&'static str, &'static str, &'static str),
    /// The span goes inside the string, after these escaped characters.
    Inside(&'static str),
}

impl Shape {
    fn slot(&self, form: Form, place: Place) -> Option<Slot> {
        let (before, after) = self.block;
        match (form, &self.string) {
            (Form::Closed, _) => None,
            (Form::List { after: at }, _) => Some(Slot { place, at, before, after, wrap: None }),
            (Form::Text { from, to }, StringShape::Wrap(open, before, after)) => {
                Some(Slot { place, at: to, before, after, wrap: Some(Wrap { at: from, open }) })
            }
            (Form::Text { to, .. }, StringShape::Inside(before)) => {
                Some(Slot { place, at: to.saturating_sub(1), before, after: "", wrap: None })
            }
        }
    }
}

/// `generic:` and the digest of the first message that counts.
pub(super) fn generic_id(messages: &[Message<'_>]) -> Id {
    Id::of_digest("generic", first_digest(messages))
}

/// Digest of the first message that counts.
pub(super) fn first_digest(messages: &[Message<'_>]) -> Digest {
    let start = Place::start("first");
    let mut places = messages.iter().map(|message| then(start, message));
    places.find(|place| *place != start).unwrap_or(start).0
}

/// The draft: a slot for each message that holds spans. Its body is put in by [`super::read`].
pub(super) fn draft(
    conversation: &Id,
    messages: &[Message<'_>],
    shape: &Shape,
    host_slots: Vec<String>,
) -> Draft {
    let mut place = Place::start(conversation.as_str());
    let mut slots = Vec::new();
    for message in messages {
        place = then(place, message);
        if message.holds_spans {
            slots.extend(shape.slot(message.form, place));
        }
    }
    Draft { body: Vec::new().into(), slots, host_slots }
}

fn then(place: Place, message: &Message<'_>) -> Place {
    let parts: Vec<Part<'_>> = message.pieces.iter().filter_map(Piece::part).collect();
    if parts.is_empty() { place } else { place.then(&message.role, &parts) }
}

/// Content that is a string or a list of blocks, each read by `block`.
pub(super) fn content<'a>(
    body: &str,
    json: &'a str,
    at: At<'_>,
    block: impl Fn(&'a str, At<'_>) -> Result<Option<Piece<'a>>, Unreadable>,
) -> Result<(Form, Vec<Piece<'a>>), Unreadable> {
    let from = offset(body, json);
    if json.starts_with('"') {
        let form = Form::Text { from, to: from.saturating_add(json.len()) };
        return Ok((form, vec![Piece::Text(string(json, at)?)]));
    }
    if !json.starts_with('[') {
        return Err(at.wrong("a string or a list"));
    }
    let blocks = list(json, at)?;
    let after = blocks.last().map(|last| offset(body, last).saturating_add(last.len()));
    let form = after.map_or(Form::Closed, |after| Form::List { after });
    let pieces = blocks.iter().enumerate().map(|(n, json)| block(json, at.index(n)));
    Ok((form, pieces.filter_map(Result::transpose).collect::<Result<_, _>>()?))
}

/// Longest model name, bytes: receipts and lists show it, so it must be a name.
const MODEL_BYTES_MAX: usize = 256;

/// `model`, which every dialect has.
pub(super) fn model(model: Option<&str>) -> Result<String, Unreadable> {
    let at = At::ROOT.key("model");
    let model = string(model.ok_or_else(|| at.missing())?, at)?;
    match model.len() {
        0 => Err(at.missing()),
        1..=MODEL_BYTES_MAX => Ok(model.into_owned()),
        _ => Err(at.wrong("a model's name")),
    }
}

/// Human texts as one prompt; where they are blank, a stand-in for what else is shown, because a turn has a prompt.
pub(super) fn prompt_of(texts: &[&str], message: &Message<'_>) -> String {
    let kinds = message.pieces.iter().filter_map(|piece| match piece {
        Piece::Other(kind, _) => Some(format!("[{kind}]")),
        _ => None,
    });
    let is_blank = texts.iter().all(|text| text.trim().is_empty());
    let shown = if is_blank { kinds.collect() } else { Vec::new() };
    if shown.is_empty() { texts.join("\n") } else { shown.join("\n") }
}

/// The newest words that a continuation's request still holds: those of its last message that holds spans.
pub(super) fn standing(sort: Sort, messages: &[Message<'_>]) -> String {
    let newest = messages.iter().rfind(|message| message.holds_spans);
    let Some(message) = newest.filter(|_| sort.kind() == CallKind::Continuation) else {
        return String::new();
    };
    let said: Vec<&str> = message.pieces.iter().filter_map(Piece::text).collect();
    let said =
        if said.is_empty() { message.pieces.iter().filter_map(Piece::any_text).collect() } else { said };
    prompt_of(&said, message)
}

/// The named fields of an object, or the error that the type is missing.
pub(super) fn typed<'a, const N: usize>(
    json: &'a str,
    at: At<'_>,
    names: [&'static str; N],
) -> Result<(Cow<'a, str>, [Option<&'a str>; N]), Unreadable> {
    let fields = object(json, at, names)?;
    let kind = fields.first().copied().flatten().ok_or_else(|| at.key("type").missing())?;
    Ok((string(kind, at.key("type"))?, fields))
}
