//! The second door: [`ModelClient::pass`], a closed list of questions that cannot carry a prompt.

use serde_json::Value;

use crate::call::{ModelClient, read_capped};

/// Where Ollama listens by default.
pub const OLLAMA_PORT: u16 = 11_434;
/// Where llama.cpp's server listens by default.
pub const LLAMA_CPP_PORT: u16 = 8080;
/// Most bytes read of a list of models.
const LIST_BYTES_MAX: usize = 256 * 1024;
/// Most models named.
const MODELS_MAX: usize = 100;

/// A request without a prompt: a GET without query, body or credential, to this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promptless {
    /// `GET /api/tags`: Ollama's models.
    OllamaTags {
        /// Port on 127.0.0.1.
        port: u16,
    },
    /// `GET /v1/models`: the models of llama.cpp and other compatible servers.
    Models {
        /// Port on 127.0.0.1.
        port: u16,
    },
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
    /// Asks; `None` when nothing answers in time, or not as such a server does.
    pub async fn pass(&self, question: Promptless) -> Option<Found> {
        let (port, path, list, name) = match question {
            Promptless::OllamaTags { port } => (port, "/api/tags", "models", "name"),
            Promptless::Models { port } => (port, "/v1/models", "data", "id"),
        };
        let base_url = format!("http://127.0.0.1:{port}");
        let ask = async {
            let response = self.http.get(format!("{base_url}{path}")).send().await.ok()?;
            if response.status().is_success() {
                Some(read_capped(response, LIST_BYTES_MAX).await)
            } else {
                None
            }
        };
        let body = tokio::time::timeout(self.config.probe, ask).await.ok()??;
        let json: Value = serde_json::from_slice(&body).ok()?;
        let names = json.get(list)?.as_array()?.iter().filter_map(|model| model.get(name)?.as_str());
        let models: Vec<String> =
            names.filter(|name| is_name(name)).take(MODELS_MAX).map(str::to_owned).collect();
        (!models.is_empty()).then_some(Found { base_url, models })
    }

    /// Local servers that run now, at their default ports: Ollama, then llama.cpp.
    pub async fn probe(&self) -> Vec<Found> {
        let (ollama, llama) = futures_util::future::join(
            self.pass(Promptless::OllamaTags { port: OLLAMA_PORT }),
            self.pass(Promptless::Models { port: LLAMA_CPP_PORT }),
        )
        .await;
        ollama.into_iter().chain(llama).collect()
    }
}

/// Only names that could be typed after `--model` are shown.
fn is_name(name: &str) -> bool {
    crate::spec::parse_name(name).is_ok()
}
