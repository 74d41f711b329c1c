//! Why a call gave no whole answer, in words for people. Never a raw body, a prompt or a credential.

use std::time::Duration;

use serde_json::Value;

use crate::secret::Secret;

/// Longest part of a provider's own message that is shown, in characters.
pub const PROVIDER_MESSAGE_CHARS_MAX: usize = 300;
/// How deep an error may be wrapped in itself: gateways put the upstream's JSON into their own message.
const WRAP_DEPTH_MAX: usize = 3;
/// Longest wait a server may ask for that is believed: one day.
const RETRY_AFTER_SECONDS_MAX: f64 = 86_400.0;
/// Statuses with which providers say "too many, wait": rate limit, unavailable, Anthropic's overloaded.
const BUSY: [u16; 3] = [429, 503, 529];

/// Whether the provider may have seen the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Surely not: no connection, or refused on our side.
    No,
    /// Nobody can tell.
    Unknown,
    /// Yes: it answered.
    Yes,
}

/// Why [`crate::ModelClient::call`] or a [`crate::Reply`] failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The receipt admits another endpoint than the target's.
    #[error("the receipt admits a call to another endpoint than the chosen model's")]
    Endpoint,
    /// The key cannot be sent as a header.
    #[error("the API key for {host} holds characters that no key has")]
    Credential {
        /// Host and port.
        host: String,
    },
    /// No connection.
    #[error("no connection to {host}: {why}")]
    Connect {
        /// Host and port.
        host: String,
        /// Short reason.
        why: String,
    },
    /// Connected, but the connection broke before an answer began.
    #[error("the connection to {host} broke before an answer began")]
    Broken {
        /// Host and port.
        host: String,
    },
    /// No response head in time.
    #[error("{host} did not begin to answer within {} s", .after.as_secs())]
    Head {
        /// Host and port.
        host: String,
        /// The limit.
        after: Duration,
    },
    /// An error status.
    #[error("status {status}: {message}")]
    Status {
        /// HTTP status.
        status: u16,
        /// The provider's message, cleaned and cut.
        message: String,
        /// How long the server asks to wait.
        retry_after: Option<Duration>,
    },
    /// An error in the middle of a stream.
    #[error("the provider stopped with an error: {message}")]
    Provider {
        /// The provider's message, cleaned and cut.
        message: String,
        /// Whether it says that it is overloaded or rate-limited.
        busy: bool,
    },
    /// A success status without a stream.
    #[error("{host} answered with {what} instead of a streamed answer")]
    NotAStream {
        /// Host and port.
        host: String,
        /// What came, such as `an HTML page`.
        what: String,
    },
    /// The stream does not speak the dialect.
    #[error("{host} sent something that is no {dialect} stream")]
    Malformed {
        /// Host and port.
        host: String,
        /// Which dialect was expected.
        dialect: &'static str,
    },
    /// More bytes than any answer has.
    #[error("{host} sent more than {limit} bytes")]
    TooLarge {
        /// Host and port.
        host: String,
        /// The limit in bytes.
        limit: usize,
    },
    /// Silence in the middle of a stream.
    #[error("{host} fell silent for {} s in the middle of the answer", .after.as_secs())]
    Idle {
        /// Host and port.
        host: String,
        /// The limit.
        after: Duration,
    },
    /// The stream ended before the model was done. What was received stays with the caller.
    #[error("the answer was cut off: the connection to {host} ended before the model was done")]
    Cut {
        /// Host and port.
        host: String,
    },
}

impl ModelError {
    /// Whether the provider may have seen the request.
    pub fn sent(&self) -> Sent {
        match self {
            Self::Endpoint | Self::Credential { .. } | Self::Connect { .. } => Sent::No,
            Self::Broken { .. } | Self::Head { .. } => Sent::Unknown,
            Self::Status { .. }
            | Self::Provider { .. }
            | Self::NotAStream { .. }
            | Self::Malformed { .. }
            | Self::TooLarge { .. }
            | Self::Idle { .. }
            | Self::Cut { .. } => Sent::Yes,
        }
    }

    /// How long the server asked to wait before another call.
    pub fn retry_after(&self) -> Option<Duration> {
        if let Self::Status { retry_after, .. } = self { *retry_after } else { None }
    }

    /// Whether waiting is all that helps: rate limit or overload.
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Status { status, .. } => BUSY.contains(status),
            Self::Provider { busy, .. } => *busy,
            _ => false,
        }
    }

    /// Process exit code: 20 for a model error, 21 for a stream that was cut.
    pub fn exit_code(&self) -> u8 {
        if matches!(self, Self::Cut { .. } | Self::Idle { .. }) { 21 } else { 20 }
    }

    /// The next thing to do.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Endpoint => "send the prompt again; if it happens again, report it",
            Self::Credential { .. } => "set the key again, on one line, without quotes",
            Self::Connect { .. } => {
                "check that the server runs and the network is up; [http] proxy and ca_file in config.toml"
            }
            Self::Status { status: 401 | 403, .. } => "check the API key for this server",
            Self::Status { status: 404, .. } => "check the model's name and base URL: --model",
            Self::Status { status: 300..=399, .. } => "name the final base URL: redirects are never followed",
            Self::Status { status: 413, .. } => {
                "start a new conversation: this one is too long for the server"
            }
            Self::NotAStream { .. } | Self::Malformed { .. } | Self::TooLarge { .. } => {
                "check that the base URL points to a model server of this kind: --model"
            }
            _ if self.is_busy() => "wait, then send the prompt again: it gets a new receipt",
            _ => "send the prompt again: it gets a new receipt",
        }
    }

    /// An error event or error object in a stream.
    pub(crate) fn in_stream(data: &Value, secret: Option<&Secret>) -> Self {
        let kind = ["/error/type", "/error/code", "/type", "/code"].iter().filter_map(|at| data.pointer(at));
        let busy = kind.into_iter().any(says_busy);
        let message = message_of(data, WRAP_DEPTH_MAX).unwrap_or_else(|| "it gave no reason".to_owned());
        Self::Provider { message: for_people(&message, secret), busy }
    }
}

fn says_busy(kind: &Value) -> bool {
    let code = kind.as_u64().and_then(|code| u16::try_from(code).ok());
    let text = kind.as_str().unwrap_or_default();
    text.contains("overloaded")
        || text.contains("rate_limit")
        || code.is_some_and(|code| BUSY.contains(&code))
}

/// One readable sentence of an error body of any kind.
pub(crate) fn body_message(body: &[u8], secret: Option<&Secret>) -> String {
    let text = String::from_utf8_lossy(body);
    let text = text.trim();
    let found = match serde_json::from_str::<Value>(text) {
        Ok(json) => message_of(&json, WRAP_DEPTH_MAX),
        Err(_) if text.is_empty() || text.starts_with(['<', '{', '[']) => None,
        Err(_) => Some(text.to_owned()),
    };
    match found {
        Some(message) => for_people(&message, secret),
        None if text.starts_with('<') => "the server answered with a web page".to_owned(),
        None => "the server gave no readable reason".to_owned(),
    }
}

/// The message in any of the envelopes seen: Anthropic, OpenAI, OpenRouter, vLLM, FastAPI, Ollama, Gemini's array.
fn message_of(json: &Value, depth: usize) -> Option<String> {
    match json {
        Value::String(text) => return Some(text.clone()),
        Value::Array(items) => return message_of(items.first()?, depth.checked_sub(1)?),
        _ => {}
    }
    let places = ["/error/message", "/error", "/message", "/detail", "/detail/0/msg"];
    let text = places.iter().find_map(|at| json.pointer(at)?.as_str())?;
    match serde_json::from_str::<Value>(text) {
        Ok(inner @ (Value::Object(_) | Value::Array(_))) => message_of(&inner, depth.checked_sub(1)?),
        _ => Some(text.to_owned()),
    }
}

/// Text of a stranger, fit for a terminal: one line, no control or direction characters, no key, at most
/// [`PROVIDER_MESSAGE_CHARS_MAX`] characters.
pub(crate) fn for_people(text: &str, secret: Option<&Secret>) -> String {
    let text = secret.map_or_else(|| text.to_owned(), |secret| secret.redact(text));
    let visible: String =
        text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).filter(|c| !is_hidden(*c)).collect();
    let words = visible.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    match words.char_indices().nth(PROVIDER_MESSAGE_CHARS_MAX - 1) {
        Some((cut, _)) if words.chars().nth(PROVIDER_MESSAGE_CHARS_MAX).is_some() => {
            format!("{}…", words.get(..cut).unwrap_or_default())
        }
        _ => words,
    }
}

/// Control, zero-width, direction and tag characters.
fn is_hidden(c: char) -> bool {
    let hidden = [
        '\u{200B}'..='\u{200F}',
        '\u{202A}'..='\u{202E}',
        '\u{2060}'..='\u{206F}',
        '\u{E0000}'..='\u{E0FFF}',
    ];
    c.is_control()
        || matches!(c, '\u{FEFF}' | '\u{00AD}' | '\u{061C}')
        || hidden.iter().any(|range| range.contains(&c))
}

/// Seconds in `retry-after`; a date is not understood (it would need a clock).
pub(crate) fn parse_retry_after(text: &str) -> Option<Duration> {
    let seconds: f64 = text.trim().parse().ok()?;
    (0.0..=RETRY_AFTER_SECONDS_MAX).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}
