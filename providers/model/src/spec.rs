//! Which model: `demo`, `anthropic:NAME`, `openai:NAME`, `chat:NAME@BASE_URL`, `responses:NAME@BASE_URL`, parsed once.

use reqwest::Url;

use crate::secret::Secret;
use crate::upstream::bare;

/// Where Anthropic's own API lives.
const ANTHROPIC_BASE: &str = "https://api.anthropic.com";
/// Where OpenAI's own API lives.
const OPENAI_BASE: &str = "https://api.openai.com";
/// The variable for every server that is neither a vendor's own nor on this machine.
const OTHER_KEY: &str = "AGENTSPINE_API_KEY";
/// The endpoint of the embedded demo model; not a URL anybody connects to.
pub const DEMO_ENDPOINT: &str = "demo:";
/// The model name of the embedded demo model.
pub const DEMO_MODEL: &str = "agentspine-demo";
/// Longest model name, in characters.
const NAME_CHARS_MAX: usize = 200;

/// The wire format a target speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// Anthropic Messages, streamed as named events.
    AnthropicMessages,
    /// OpenAI Chat Completions, streamed as unnamed events with a final `[DONE]`.
    OpenAiChat,
    /// OpenAI Responses, streamed as named events; nothing is stored on the server.
    OpenAiResponses,
    /// The embedded stand-in; reads a body of the Anthropic shape and connects to nothing.
    Demo,
}

impl Dialect {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::AnthropicMessages => "Anthropic Messages",
            Self::OpenAiChat => "Chat Completions",
            Self::OpenAiResponses => "Responses",
            Self::Demo => "demo",
        }
    }
}

/// Where a request goes and as whom.
#[derive(Debug, Clone)]
pub struct Target {
    /// Wire format.
    pub dialect: Dialect,
    /// Absolute URL to POST to, or [`DEMO_ENDPOINT`].
    pub endpoint: String,
    /// Model name as sent.
    pub model: String,
    /// Key, where the server wants one.
    pub credential: Option<Secret>,
}

/// To which hosts an unencrypted base URL may point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainHttp {
    /// This machine only: prompts do not cross a network unencrypted.
    LoopbackOnly,
    /// Anywhere: the person said so in their own configuration.
    Anywhere,
}

/// A parsed `--model` value: everything of a [`Target`] but the credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelSpec {
    dialect: Dialect,
    model: String,
    endpoint: String,
    key: Option<&'static str>,
}

/// Why a `--model` value is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// Not one of the five forms.
    #[error(
        "not a model: write demo, anthropic:NAME, openai:NAME, chat:NAME@BASE_URL or responses:NAME@BASE_URL"
    )]
    Form,
    /// The name is empty, too long, or holds white space or control characters.
    #[error("not a model name: 1 to {NAME_CHARS_MAX} characters without white space")]
    Name,
    /// `chat:` or `responses:` without a server.
    #[error(
        "chat:NAME and responses:NAME need their server: chat:NAME@http://127.0.0.1:11434 for a local Ollama"
    )]
    NoBase,
    /// Not an absolute http or https URL, or one with credentials, query or fragment in it.
    #[error("not a base URL: http:// or https://, a host, perhaps a path; no credentials, no query")]
    Base,
    /// Plain http to another machine.
    #[error(
        "plain http to {host} would send prompts unencrypted: use https, or allow it in config.toml ([http] allow_plain = true)"
    )]
    Plain {
        /// The host named.
        host: String,
    },
}

impl ModelSpec {
    /// The embedded demo model.
    pub fn demo() -> Self {
        Self { dialect: Dialect::Demo, model: DEMO_MODEL.into(), endpoint: DEMO_ENDPOINT.into(), key: None }
    }

    /// Parses a `--model` value. `@BASE_URL` is required after `chat:NAME` and `responses:NAME` and allowed after the
    /// other two, for gateways; it may end in `/v1` or not. A name may itself hold `:` and `@`.
    ///
    /// ```
    /// use agentspine_model::{ModelSpec, PlainHttp};
    /// let spec = ModelSpec::parse("chat:qwen3:8b@http://127.0.0.1:11434", PlainHttp::LoopbackOnly)?;
    /// assert_eq!(spec.endpoint(), "http://127.0.0.1:11434/v1/chat/completions");
    /// # Ok::<(), agentspine_model::SpecError>(())
    /// ```
    pub fn parse(text: &str, plain: PlainHttp) -> Result<Self, SpecError> {
        if text == "demo" {
            return Ok(Self::demo());
        }
        let (kind, rest) = text.split_once(':').ok_or(SpecError::Form)?;
        let (name, base) = split_base(rest);
        let (dialect, own) = match kind {
            "anthropic" => (Dialect::AnthropicMessages, Some(ANTHROPIC_BASE)),
            "openai" => (Dialect::OpenAiResponses, Some(OPENAI_BASE)),
            "chat" => (Dialect::OpenAiChat, None),
            "responses" => (Dialect::OpenAiResponses, None),
            _ => return Err(SpecError::Form),
        };
        let model = parse_name(name)?;
        let url = parse_base(base.or(own).ok_or(SpecError::NoBase)?, plain)?;
        let key = key_variable(&url);
        Ok(Self { dialect, model, endpoint: join(&url, dialect), key })
    }

    /// Wire format.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Model name as sent; what the status line shows.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Absolute URL, or [`DEMO_ENDPOINT`].
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The environment variable whose key may go to this server, if any. A vendor's own variable is named for that
    /// vendor's own host only, so a key never travels to a base URL it was not made for.
    pub fn key_variable(&self) -> Option<&'static str> {
        self.key
    }

    /// Whether the server surely refuses a call without a key: the vendors' own do; a gateway or a server of the
    /// local network may not want one.
    pub fn needs_key(&self) -> bool {
        self.key.is_some_and(|key| key != OTHER_KEY)
    }

    /// The target, with its key.
    pub fn target(self, credential: Option<Secret>) -> Target {
        Target { dialect: self.dialect, endpoint: self.endpoint, model: self.model, credential }
    }
}

/// `NAME@BASE` at the first `@` that a scheme follows.
fn split_base(rest: &str) -> (&str, Option<&str>) {
    let is_base = |text: &str| {
        text.split_once("://").is_some_and(|(scheme, _)| scheme.bytes().all(|b| b.is_ascii_alphabetic()))
    };
    let splits = rest.match_indices('@').filter_map(|(at, _)| Some((rest.get(..at)?, rest.get(at + 1..)?)));
    let found = splits.into_iter().find(|(_, base)| is_base(base));
    found.map_or((rest, None), |(name, base)| (name, Some(base)))
}

pub(crate) fn parse_name(name: &str) -> Result<String, SpecError> {
    let fits = !name.is_empty() && name.chars().count() <= NAME_CHARS_MAX;
    let clean = name.chars().all(|c| !c.is_whitespace() && !c.is_control());
    if fits && clean { Ok(name.to_owned()) } else { Err(SpecError::Name) }
}

pub(crate) fn parse_base(base: &str, plain: PlainHttp) -> Result<Url, SpecError> {
    let url = Url::parse(base).map_err(|_| SpecError::Base)?;
    let is_plain_url = url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    let host = url.host_str().unwrap_or_default().to_owned();
    match url.scheme() {
        _ if !is_plain_url || host.is_empty() => Err(SpecError::Base),
        "https" => Ok(url),
        "http" if plain == PlainHttp::Anywhere || is_loopback(&host) => Ok(url),
        "http" => Err(SpecError::Plain { host }),
        _ => Err(SpecError::Base),
    }
}

/// `localhost` and the loopback addresses.
pub(crate) fn is_loopback(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Whether a target is OpenAI's own API, which differs from the servers that speak its dialects.
pub(crate) fn is_openai(target: &Target) -> bool {
    target.endpoint.starts_with("https://api.openai.com/")
}

fn key_variable(url: &Url) -> Option<&'static str> {
    match url.host_str()? {
        "api.anthropic.com" => Some("ANTHROPIC_API_KEY"),
        "api.openai.com" => Some("OPENAI_API_KEY"),
        host if is_loopback(host) => None,
        _ => Some(OTHER_KEY),
    }
}

fn join(url: &Url, dialect: Dialect) -> String {
    let tail = match dialect {
        Dialect::AnthropicMessages | Dialect::Demo => "/v1/messages",
        Dialect::OpenAiChat => "/v1/chat/completions",
        Dialect::OpenAiResponses => "/v1/responses",
    };
    format!("{}{tail}", bare(url))
}
