//! The second door: [`ModelClient::pass`], a closed list of questions that cannot carry a prompt.
//!
//! Some are ours (which model servers run on this machine), some are a proxied client's (is the API there, which models
//! does it have). No variant has a body, and none has a path or a method to choose.

use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::call::{ModelClient, host_of, read_capped};
use crate::error::ModelError;
use crate::relay::{RelayBody, forwarded};
use crate::upstream::{ListQuery, Upstream};

/// Where Ollama listens by default.
pub const OLLAMA_PORT: u16 = 11_434;
/// Where llama.cpp's server listens by default.
pub const LLAMA_CPP_PORT: u16 = 8080;
/// Most bytes read of a list of models.
const LIST_BYTES_MAX: usize = 256 * 1024;
/// Most models named.
const MODELS_MAX: usize = 100;

/// A request without a prompt, all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Promptless {
    /// `GET /api/tags` or `GET /v1/models` on this machine: which models it has.
    Local(LocalServer),
    /// `HEAD /api/hello`: how Claude Code warms its connection up.
    Hello(Upstream),
    /// `GET /v1/models[?…]`.
    Models(Upstream, ListQuery),
    /// `GET /models[?…]`: where ChatGPT's own API for Codex has its list.
    CodexModels(Upstream, ListQuery),
}

/// A model server on this machine, by its port on 127.0.0.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocalServer {
    /// Ollama: `GET /api/tags`.
    Ollama(u16),
    /// llama.cpp and other compatible servers: `GET /v1/models`.
    Compatible(u16),
}

/// The answer to a question without a prompt.
#[derive(Debug)]
pub struct Passed {
    /// As the server sent it, redirects too.
    pub status: StatusCode,
    /// As the server sent them, those of its connection too.
    pub headers: HeaderMap,
    /// Still being received; empty after `HEAD`.
    pub body: RelayBody,
}

/// A model server found on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Base URL, as in `chat:NAME@BASE_URL`.
    pub base_url: String,
    /// Names of its models, in its order.
    pub models: Vec<String>,
}

impl Found {
    /// The `--model` value of its first model.
    pub fn first(&self) -> Option<String> {
        self.models.first().map(|name| format!("chat:{name}@{}", self.base_url))
    }
}

impl ModelClient {
    /// Asks once under exactly these headers and returns after the response head, as [`Self::relay`] does: no redirect
    /// is followed, nothing is decompressed or tried again.
    ///
    /// Only what [`Promptless`] can name passes:
    /// ```
    /// use agentspine_model::{HeaderMap, ModelClient, Promptless, Upstream};
    /// async fn named(client: &ModelClient, upstream: Upstream) {
    ///     let _ = client.pass(Promptless::Hello(upstream), HeaderMap::new()).await;
    /// }
    /// ```
    /// ```compile_fail,E0308
    /// use agentspine_model::{HeaderMap, ModelClient};
    /// async fn any(client: &ModelClient, path: &str) {
    ///     let _ = client.pass(path, HeaderMap::new()).await;
    /// }
    /// ```
    pub async fn pass(&self, question: Promptless, headers: HeaderMap) -> Result<Passed, ModelError> {
        let (method, url) = question.line();
        let host = host_of(&url);
        let request = self.http.request(method, &url).headers(forwarded(headers));
        let (status, headers, body) = self.parts(self.send(request, &host).await?, host);
        Ok(Passed { status, headers, body })
    }

    /// The models of a local server; `None` when nothing answers in time, or not as such a server does.
    pub async fn find(&self, server: LocalServer) -> Option<Found> {
        let ask = async {
            let passed = self.pass(Promptless::Local(server), HeaderMap::new()).await.ok()?;
            if passed.status.is_success() {
                Some(read_capped(passed.body, LIST_BYTES_MAX).await)
            } else {
                None
            }
        };
        let body = tokio::time::timeout(self.config.probe, ask).await.ok()??;
        let json: Value = serde_json::from_slice(&body).ok()?;
        let (list, name) = match server {
            LocalServer::Ollama(_) => ("models", "name"),
            LocalServer::Compatible(_) => ("data", "id"),
        };
        let names = json.get(list)?.as_array()?.iter().filter_map(|model| model.get(name)?.as_str());
        let models: Vec<String> =
            names.filter(|name| is_name(name)).take(MODELS_MAX).map(str::to_owned).collect();
        (!models.is_empty()).then(|| Found { base_url: server.base(), models })
    }

    /// Local servers that run now, at their default ports: Ollama, then llama.cpp.
    pub async fn probe(&self) -> Vec<Found> {
        let (ollama, llama) = futures_util::future::join(
            self.find(LocalServer::Ollama(OLLAMA_PORT)),
            self.find(LocalServer::Compatible(LLAMA_CPP_PORT)),
        )
        .await;
        ollama.into_iter().chain(llama).collect()
    }
}

impl Promptless {
    /// Method and absolute URL.
    fn line(&self) -> (Method, String) {
        match self {
            Self::Local(server @ LocalServer::Ollama(_)) => {
                (Method::GET, format!("{}/api/tags", server.base()))
            }
            Self::Local(server @ LocalServer::Compatible(_)) => {
                (Method::GET, format!("{}/v1/models", server.base()))
            }
            Self::Hello(upstream) => (Method::HEAD, upstream.at("/api/hello")),
            Self::Models(upstream, query) => (Method::GET, upstream.at(&query.after("/v1/models"))),
            Self::CodexModels(upstream, query) => (Method::GET, upstream.at(&query.after("/models"))),
        }
    }
}

impl LocalServer {
    fn base(self) -> String {
        let (Self::Ollama(port) | Self::Compatible(port)) = self;
        format!("http://127.0.0.1:{port}")
    }
}

/// Only names that could be typed after `--model` are shown.
fn is_name(name: &str) -> bool {
    crate::spec::parse_name(name).is_ok()
}
