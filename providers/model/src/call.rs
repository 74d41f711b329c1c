//! The one door: [`ModelClient::call`] posts an admitted body and streams its answer.

use std::time::Duration;

use agentspine_gate::receipt::Admitted;
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _};
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT,
};
use reqwest::{Client, RequestBuilder, Response, Url};
use tokio::time::timeout;

use crate::demo;
use crate::error::{ModelError, body_message, parse_retry_after};
use crate::http::{self, HttpConfig, HttpError};
use crate::reply::Reply;
use crate::secret::Secret;
use crate::spec::{Dialect, Target};

/// Most bytes read of an error body.
pub const ERROR_BODY_BYTES_MAX: usize = 64 * 1024;
/// How long an error body may take: one that drips is not waited for.
const BODY_WAIT: Duration = Duration::from_secs(10);
/// What we call ourselves where the request is ours; a relayed one keeps its client's name.
const OWN_NAME: &str = concat!("agentspine/", env!("CARGO_PKG_VERSION"));
/// The Anthropic API version this crate is written for.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// The only HTTP client of the house, with two doors: [`Self::call`] for what carries a prompt (for a proxy:
/// [`Self::relay`], the same proof), [`Self::pass`] for a closed list of questions that cannot.
pub struct ModelClient {
    pub(crate) http: Client,
    pub(crate) config: HttpConfig,
}

impl ModelClient {
    /// A client that reads nothing but `config` and the certificates it names.
    pub fn new(config: HttpConfig) -> Result<Self, HttpError> {
        Ok(Self { http: http::client(&config)?, config })
    }

    /// Posts exactly the admitted bytes, once, and returns after the response head. Never retries, never follows a
    /// redirect. Dropping the future or the [`Reply`] closes the connection.
    ///
    /// ```
    /// use agentspine_gate::receipt::Admitted;
    /// async fn admitted(client: &agentspine_model::ModelClient, target: &agentspine_model::Target, body: Admitted) {
    ///     let _ = client.call(target, body).await;
    /// }
    /// ```
    /// A body without its proof does not fit through the door:
    /// ```compile_fail,E0308
    /// async fn bare(client: &agentspine_model::ModelClient, target: &agentspine_model::Target, body: Vec<u8>) {
    ///     let _ = client.call(target, body).await;
    /// }
    /// ```
    pub async fn call(&self, target: &Target, admitted: Admitted) -> Result<Reply, ModelError> {
        if admitted.endpoint() != target.endpoint {
            return Err(ModelError::Endpoint);
        }
        let receipt = admitted.receipt();
        if target.dialect == Dialect::Demo {
            return Ok(Reply::demo(receipt, demo::answer(&admitted.into_body()), self.config.demo_pause));
        }
        let host = host_of(&target.endpoint);
        let request = self.request(target, &host)?.body(admitted.into_body());
        let response = self.send(request, &host).await?;
        let response = accept(response, &host, target.credential.as_ref()).await?;
        Ok(Reply::http(receipt, response, target, host, self.config.idle))
    }

    fn request(&self, target: &Target, host: &str) -> Result<RequestBuilder, ModelError> {
        let request = self
            .http
            .post(&target.endpoint)
            .header(USER_AGENT, OWN_NAME)
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "text/event-stream");
        let (name, prefix, request) = match target.dialect {
            Dialect::OpenAiChat | Dialect::OpenAiResponses => (AUTHORIZATION, "Bearer ", request),
            Dialect::AnthropicMessages | Dialect::Demo => {
                let versioned = request.header("anthropic-version", ANTHROPIC_VERSION);
                (HeaderName::from_static("x-api-key"), "", versioned)
            }
        };
        let Some(secret) = &target.credential else { return Ok(request) };
        let value = secret.header(prefix).map_err(|_| ModelError::Credential { host: host.to_owned() })?;
        Ok(request.header(name, value))
    }

    pub(crate) async fn send(&self, request: RequestBuilder, host: &str) -> Result<Response, ModelError> {
        let host = host.to_owned();
        match timeout(self.config.head, request.send()).await {
            // Nobody asked for another protocol: what follows is no answer.
            Ok(Ok(response)) if response.status().is_informational() => Err(ModelError::Broken { host }),
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) if error.is_connect() || error.is_builder() => {
                Err(ModelError::Connect { host, why: why(&error) })
            }
            Ok(Err(_)) => Err(ModelError::Broken { host }),
            Err(_) => Err(ModelError::Head { host, after: self.config.head }),
        }
    }
}

/// Host and port of an endpoint, for messages.
pub(crate) fn host_of(endpoint: &str) -> String {
    Url::parse(endpoint).map_or_else(|_| "the server".to_owned(), |url| host_of_url(&url))
}

/// The same of a URL.
pub(crate) fn host_of_url(url: &Url) -> String {
    let host = url.host_str().unwrap_or("the server");
    let port = url.port().map(|port| format!(":{port}"));
    format!("{host}{}", port.unwrap_or_default())
}

fn why(error: &reqwest::Error) -> String {
    if error.is_builder() {
        return "the address cannot be used".to_owned();
    }
    if error.is_dns() {
        return "its name is unknown".to_owned();
    }
    if error.is_timeout() {
        return "it did not respond in time".to_owned();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    crate::error::for_people(&cause.to_string(), None)
}

/// Lets a stream through and turns everything else into one readable error.
async fn accept(response: Response, host: &str, secret: Option<&Secret>) -> Result<Response, ModelError> {
    let status = response.status();
    let kind = header(&response, &CONTENT_TYPE).to_ascii_lowercase();
    if status.is_success() && (kind.is_empty() || kind.contains("event-stream")) {
        return Ok(response);
    }
    let retry_after = parse_retry_after(header(&response, &RETRY_AFTER));
    if status.is_redirection() {
        let message = "the server points to another address; redirects are not followed".to_owned();
        return Err(ModelError::Status { status: status.as_u16(), message, retry_after });
    }
    let body = read_capped(Box::pin(response.bytes_stream()), ERROR_BODY_BYTES_MAX).await;
    if !status.is_success() {
        let message = body_message(&body, secret);
        return Err(ModelError::Status { status: status.as_u16(), message, retry_after });
    }
    match serde_json::from_slice::<serde_json::Value>(&body) {
        Ok(json) if json.get("error").is_some() => Err(ModelError::in_stream(&json, secret)),
        Ok(_) => Err(ModelError::NotAStream { host: host.to_owned(), what: "one JSON document".to_owned() }),
        Err(_) if kind.contains("html") => {
            Err(ModelError::NotAStream { host: host.to_owned(), what: "a web page".to_owned() })
        }
        Err(_) => Err(ModelError::NotAStream { host: host.to_owned(), what: "something else".to_owned() }),
    }
}

fn header<'a>(response: &'a Response, name: &HeaderName) -> &'a str {
    response.headers().get(name).map(HeaderValue::to_str).and_then(Result::ok).unwrap_or_default()
}

/// The first `limit` bytes of a body; a body that breaks or stalls gives what came.
pub(crate) async fn read_capped<E>(
    mut pieces: impl Stream<Item = Result<Bytes, E>> + Unpin,
    limit: usize,
) -> Vec<u8> {
    let mut body = Vec::new();
    let read = async {
        while let Some(Ok(piece)) = pieces.next().await {
            body.extend_from_slice(piece.get(..limit.saturating_sub(body.len())).unwrap_or(&piece));
            if body.len() >= limit {
                break;
            }
        }
    };
    // Out of time: the part that came is used.
    let _ = timeout(BODY_WAIT, read).await;
    body
}
