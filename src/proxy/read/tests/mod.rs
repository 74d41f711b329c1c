//! What a request is, by its bytes. Bodies are our own, of the shape that the clients were seen to send.

mod chat;
mod claude;
mod codex;
mod laws;
mod unreadable;

use agentspine_gate::turn::Host;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::{Asked, PromptPath, Sort, Unreadable};

fn read(
    client: Host,
    path: PromptPath,
    headers: &HeaderMap,
    body: impl AsRef<[u8]>,
) -> Result<Asked, Unreadable> {
    super::read(client, path, headers, body.as_ref().to_vec().into())
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&'static str, &str)| {
        (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
    };
    pairs.iter().map(pair).collect()
}

/// What a test says of a request: conversation, sort, prompt, places of its slots as the bytes before each.
fn told(asked: &Asked) -> (&str, Sort, &str) {
    (asked.conversation.as_str(), asked.sort, asked.prompt.as_str())
}

/// The body with `text` in every slot.
fn filled(asked: &Asked, text: &str) -> String {
    let texts: Vec<_> = (0..asked.draft.slots.len()).map(|n| (n, text)).collect();
    String::from_utf8(asked.draft.splice(&texts).unwrap()).unwrap()
}

fn error(result: Result<Asked, Unreadable>) -> String {
    result.err().map(|error| error.to_string()).unwrap_or_default()
}
