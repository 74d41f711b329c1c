//! Spans and places: text we injected, where it stands in a conversation, and how it is spliced into a body.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::body::Body;
use crate::ids::{Digest, ReceiptId};

/// Where a span stands: a running digest over the conversation up to and including one message.
///
/// `place_n` = SHA-256(`place_{n-1}` ‖ role ‖ each block's type and decoded text, or tool id and input), every part
/// length-prefixed; `place_0` = SHA-256 of the conversation id. The injected text itself is never part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Place(pub Digest);

/// One part of a message, as far as places see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// A text block, or string content.
    Text(&'a str),
    /// A tool call: id and raw input.
    ToolUse(&'a str, &'a str),
    /// A tool result: id and text.
    ToolResult(&'a str, &'a str),
    /// A block of another type, such as an image: its type, and its id where it has one.
    Other(&'a str, &'a str),
}

impl Place {
    /// `place_0` of a conversation.
    pub fn start(conversation_id: &str) -> Self {
        Self(Digest::of(conversation_id.as_bytes()))
    }

    /// The place after one more message.
    pub fn then(self, role: &str, parts: &[Part<'_>]) -> Self {
        let mut hash = Sha256::new();
        hash.update(self.0.0);
        absorb(&mut hash, role);
        for part in parts {
            let (kind, a, b) = match part {
                Part::Text(text) => ("text", *text, ""),
                Part::ToolUse(id, input) => ("tool_use", *id, *input),
                Part::ToolResult(id, text) => ("tool_result", *id, *text),
                Part::Other(kind, id) => (*kind, *id, ""),
            };
            for field in [kind, a, b] {
                absorb(&mut hash, field);
            }
        }
        Self(Digest(hash.finalize().into()))
    }
}

fn absorb(hash: &mut Sha256, field: &str) {
    hash.update((field.len() as u64).to_be_bytes());
    hash.update(field.as_bytes());
}

/// Injected text, kept by the conversation and replayed byte for byte. What is in it stands in its receipt.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Where it stands.
    pub place: Place,
    /// The receipt that bound it (`briefingDigest` = SHA-256 of [`Self::text`]).
    pub receipt: ReceiptId,
    /// Decoded text with its marks.
    pub text: String,
}

impl std::fmt::Debug for Span {
    /// Without the text: recalled text never reaches debug output.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Span")
            .field("place", &self.place)
            .field("receipt", &self.receipt)
            .finish_non_exhaustive()
    }
}

/// A point in a body where the span of one place goes: `before` + JSON-escaped text + `after` are spliced in at `at`,
/// and what `wrap` names before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// Which span belongs here.
    pub place: Place,
    /// Byte offset in the body.
    pub at: usize,
    /// Bytes that open the block, such as `,{"type":"text","text":"`.
    pub before: &'static str,
    /// Bytes that close it, such as `"}`.
    pub after: &'static str,
    /// What must be opened before the human text for the span to stand beside it.
    pub wrap: Option<Wrap>,
}

/// Bytes that go in at an earlier point where, and only where, a span fills the slot: string content becomes a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrap {
    /// Byte offset in the body, before the slot's.
    pub at: usize,
    /// Bytes that open the list, such as `[{"type":"text","text":`.
    pub open: &'static str,
}

/// A request body as the host would send it without us, and where spans go. Slots ascend by offset; in a `turn` the
/// last one is the newest human message.
#[derive(Clone)]
pub struct Draft {
    /// The body, valid JSON.
    pub body: Body,
    /// Where spans go.
    pub slots: Vec<Slot>,
    /// Decoded texts of the host's own slots for instruction files in this body, the newest last. Chat has none; the proxy
    /// finds them.
    pub host_slots: Vec<String>,
}

/// A draft whose slots do not fit its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a slot lies outside the body, or slots do not ascend")]
pub struct SpliceError;

impl Draft {
    /// The body with each text put into its slot; `texts` ascend by slot index. Every other byte stays as it is.
    pub fn splice(&self, texts: &[(usize, &str)]) -> Result<Vec<u8>, SpliceError> {
        let extra: usize = texts.iter().map(|(_, text)| text.len() + text.len() / 8 + 64).sum();
        let mut out = Vec::with_capacity(self.body.len() + extra);
        let mut done = 0;
        for (index, text) in texts {
            let slot = self.slots.get(*index).ok_or(SpliceError)?;
            if let Some(wrap) = slot.wrap {
                out.extend_from_slice(self.body.get(done..wrap.at).ok_or(SpliceError)?);
                out.extend_from_slice(wrap.open.as_bytes());
                done = wrap.at;
            }
            out.extend_from_slice(self.body.get(done..slot.at).ok_or(SpliceError)?);
            out.extend_from_slice(slot.before.as_bytes());
            escape_into(&mut out, text)?;
            out.extend_from_slice(slot.after.as_bytes());
            done = slot.at;
        }
        out.extend_from_slice(self.body.get(done..).ok_or(SpliceError)?);
        Ok(out)
    }
}

/// JSON string content of `text`, without the quotes.
fn escape_into(out: &mut Vec<u8>, text: &str) -> Result<(), SpliceError> {
    let quote = out.len();
    serde_json::to_writer(&mut *out, text).map_err(|_| SpliceError)?;
    out.pop();
    out.remove(quote);
    Ok(())
}
