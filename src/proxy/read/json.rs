//! A lens on JSON text: named fields, elements and strings as parts of the bytes they stand in, nothing re-written.
//!
//! Invariants: every part is borrowed from the body, so its offset is known; each level is scanned once; a key that is
//! read and stands twice is an error; what is not asked for is stepped over, however deep, without recursion.

use std::borrow::Cow;
use std::fmt;

use serde::Deserializer as _;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Deserializer;
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::Unreadable;

/// Most elements of one list that is read: messages, items, blocks. The Messages API itself takes 100,000 messages.
pub(super) const ELEMENTS_MAX: usize = 100_000;

/// Where in the body: a chain on the stack, written out as a JSON pointer only in an error.
#[derive(Clone, Copy)]
pub(super) struct At<'p> {
    parent: Option<&'p At<'p>>,
    step: Step,
}

#[derive(Clone, Copy)]
enum Step {
    Root,
    Key(&'static str),
    Index(usize),
}

impl At<'_> {
    /// The body itself.
    pub(super) const ROOT: At<'static> = At { parent: None, step: Step::Root };

    pub(super) fn key(&self, name: &'static str) -> At<'_> {
        At { parent: Some(self), step: Step::Key(name) }
    }

    pub(super) fn index(&self, n: usize) -> At<'_> {
        At { parent: Some(self), step: Step::Index(n) }
    }

    pub(super) fn missing(&self) -> Unreadable {
        Unreadable::Missing { at: self.to_string() }
    }

    pub(super) fn wrong(&self, expected: &'static str) -> Unreadable {
        Unreadable::WrongType { at: self.to_string(), expected }
    }

    fn refused(&self, error: &serde_json::Error, expected: &'static str) -> Unreadable {
        match (error.classify(), self.parent) {
            (Category::Data, _) => self.wrong(expected),
            (Category::Io | Category::Syntax | Category::Eof, None) => {
                Unreadable::NotJson { line: error.line(), column: error.column() }
            }
            (Category::Io | Category::Syntax | Category::Eof, Some(_)) => {
                Unreadable::NotUnicode { at: self.to_string() }
            }
        }
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Key(name) => write!(f, "/{name}"),
            Step::Index(n) => write!(f, "/{n}"),
        }
    }
}

/// The named fields of an object; `null` counts as absent.
pub(super) fn object<'a, const N: usize>(
    json: &'a str,
    at: At<'_>,
    names: [&'static str; N],
) -> Result<[Option<&'a str>; N], Unreadable> {
    let mut reader = Deserializer::from_str(json);
    let found = reader.deserialize_map(Fields(names)).and_then(|found| reader.end().map(|()| found));
    let (found, twice) = found.map_err(|error| at.refused(&error, "an object"))?;
    match twice {
        Some(name) => Err(Unreadable::Twice { at: at.key(name).to_string() }),
        None => Ok(found.map(|value| value.filter(|value| *value != "null"))),
    }
}

/// The same for a field that we can do without: absent or of another type, it has no fields.
pub(super) fn object_if<'a, const N: usize>(
    json: Option<&'a str>,
    at: At<'_>,
    names: [&'static str; N],
) -> Result<[Option<&'a str>; N], Unreadable> {
    match json.filter(|json| json.starts_with('{')) {
        Some(json) => object(json, at, names),
        None => Ok([None; N]),
    }
}

/// The elements of a list.
pub(super) fn list<'a>(json: &'a str, at: At<'_>) -> Result<Vec<&'a str>, Unreadable> {
    let found = Deserializer::from_str(json).deserialize_seq(Elements);
    let found = found.map_err(|error| at.refused(&error, "a list"))?;
    if found.len() > ELEMENTS_MAX {
        return Err(Unreadable::TooMany { at: at.to_string(), limit: ELEMENTS_MAX });
    }
    Ok(found)
}

/// Whether a value is a list without elements.
pub(super) fn is_empty_list(json: &str) -> bool {
    json.strip_prefix('[').is_some_and(|rest| rest.trim_start().starts_with(']'))
}

/// A string, decoded; borrowed where nothing in it is escaped.
pub(super) fn string<'a>(json: &'a str, at: At<'_>) -> Result<Cow<'a, str>, Unreadable> {
    let inner = json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let inner = inner.ok_or_else(|| at.wrong("a string"))?;
    if inner.contains('\\') {
        serde_json::from_str(json).map(Cow::Owned).map_err(|error| at.refused(&error, "a string"))
    } else {
        Ok(Cow::Borrowed(inner))
    }
}

/// A string that we can do without.
pub(super) fn string_if<'a>(json: Option<&'a str>, at: At<'_>) -> Result<Option<Cow<'a, str>>, Unreadable> {
    json.filter(|json| json.starts_with('"')).map(|json| string(json, at)).transpose()
}

/// Byte offset of a part in the body it is borrowed from.
pub(super) fn offset(body: &str, part: &str) -> usize {
    part.as_ptr().addr().wrapping_sub(body.as_ptr().addr())
}

/// JSON without white space between its tokens and with every string escaped one way: two writings of one value by
/// serialisers that keep order and numbers give the same text.
pub(super) fn compact(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut rest = json;
    while let Some((plain, tail)) =
        rest.find(['"', ' ', '\n', '\r', '\t']).and_then(|n| rest.split_at_checked(n))
    {
        out.push_str(plain);
        let step = if tail.starts_with('"') { string_len(tail) } else { 1 };
        let Some((token, after)) = tail.split_at_checked(step) else { break };
        if step > 1 {
            push_string(&mut out, token);
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Length of the string that JSON text begins with, its quotes included.
fn string_len(json: &str) -> usize {
    let mut escaped = false;
    let closing = json.bytes().skip(1).position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    });
    closing.map_or(json.len(), |n| n + 2)
}

fn push_string(out: &mut String, json: &str) {
    let varies = json.contains("\\u") || json.contains("\\/");
    let same = varies.then(|| serde_json::from_str::<String>(json).ok()).flatten();
    match same.and_then(|text| serde_json::to_string(&text).ok()) {
        Some(text) => out.push_str(&text),
        None => out.push_str(json),
    }
}

/// Reads the named fields of an object; names the first key that stands twice.
struct Fields<const N: usize>([&'static str; N]);

type Found<'de, const N: usize> = ([Option<&'de str>; N], Option<&'static str>);

impl<'de, const N: usize> Visitor<'de> for Fields<N> {
    type Value = Found<'de, N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut found, mut twice) = ([None; N], None);
        while let Some(known) = map.next_key_seed(Name(&self.0))? {
            let Some(index) = known else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let value: &RawValue = map.next_value()?;
            let slot = found.get_mut(index).ok_or_else(|| A::Error::custom("no such field"))?;
            if slot.replace(value.get()).is_some() {
                twice = twice.or(self.0.get(index).copied());
            }
        }
        Ok((found, twice))
    }
}

/// Which of the names a key is.
struct Name<'n>(&'n [&'static str]);

impl<'de> DeserializeSeed<'de> for Name<'_> {
    type Value = Option<usize>;

    fn deserialize<D: serde::Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|name| *name == key))
    }
}

struct Elements;

impl<'de> Visitor<'de> for Elements {
    type Value = Vec<&'de str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut found = Vec::new();
        while let Some(element) = seq.next_element::<&RawValue>()? {
            found.push(element.get());
        }
        Ok(found)
    }
}
