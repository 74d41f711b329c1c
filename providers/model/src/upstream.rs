//! What a proxy may ask an API for without a prompt: whom ([`Upstream`]) and with which parameters ([`ListQuery`]).

use reqwest::Url;

use crate::spec::{PlainHttp, SpecError, parse_base};

/// Parameters of a list of models: paging in both dialects, and the version Codex names.
const LIST_PARAMETERS: [&str; 7] =
    ["after", "after_id", "before_id", "beta", "client_version", "limit", "order"];
/// Longest value of a parameter, in bytes: an id or a number, never a sentence.
const VALUE_BYTES_MAX: usize = 128;

/// The base URL of an API, from the person's own configuration: never from a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// Without `/` and without `/v1` at its end.
    base: String,
}

impl Upstream {
    /// Parses an absolute http or https URL; it may end in `/v1` or not.
    ///
    /// ```
    /// use agentspine_model::{PlainHttp, Upstream};
    /// let upstream = Upstream::parse("https://api.openai.com/v1/", PlainHttp::LoopbackOnly)?;
    /// assert_eq!(upstream.at("/v1/responses"), "https://api.openai.com/v1/responses");
    /// # Ok::<(), agentspine_model::SpecError>(())
    /// ```
    pub fn parse(text: &str, plain: PlainHttp) -> Result<Self, SpecError> {
        Ok(Self { base: bare(&parse_base(text, plain)?) })
    }

    /// The base itself.
    pub fn as_str(&self) -> &str {
        &self.base
    }

    /// The URL of a path and query, which begins with `/`.
    pub fn at(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }
}

/// A base URL as paths are put behind it.
pub(crate) fn bare(url: &Url) -> String {
    let text = url.as_str().trim_end_matches('/');
    text.strip_suffix("/v1").unwrap_or(text).trim_end_matches('/').to_owned()
}

/// The query of a list of models: known parameters with ids or numbers, in the client's order and spelling.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ListQuery(String);

/// A query that could hold more than a list of models needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a list of models takes no such parameter")]
pub struct ListQueryError;

impl ListQuery {
    /// Parses what stands behind `?`, which may be empty. A parameter not on the list, one that comes twice, and a value
    /// that is more than an id are refused.
    ///
    /// ```
    /// use agentspine_model::ListQuery;
    /// assert!(ListQuery::parse("limit=1000&after_id=claude-x").is_ok());
    /// assert!(ListQuery::parse("q=what+I+wanted+to+ask").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, ListQueryError> {
        let mut seen = Vec::new();
        for pair in text.split('&').filter(|_| !text.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or(ListQueryError)?;
            if !LIST_PARAMETERS.contains(&name) || seen.contains(&name) || !is_id(value) {
                return Err(ListQueryError);
            }
            seen.push(name);
        }
        Ok(Self(text.to_owned()))
    }

    /// `path`, with the query behind it where there is one.
    pub(crate) fn after(&self, path: &str) -> String {
        if self.0.is_empty() { path.to_owned() } else { format!("{path}?{}", self.0) }
    }
}

fn is_id(value: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':');
    value.len() <= VALUE_BYTES_MAX && value.bytes().all(fits)
}
