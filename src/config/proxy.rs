//! `[proxy]`: where the proxy listens and where it sends on to, parsed once.

use std::net::SocketAddr;
use std::path::Path;

use agentspine_model::{PlainHttp, Upstream};

use super::file::ProxyTable;
use crate::report::Failure;

/// Anthropic's API.
const ANTHROPIC: &str = "https://api.anthropic.com";
/// OpenAI's API.
const OPENAI: &str = "https://api.openai.com";
/// The API that a ChatGPT login of Codex uses.
const CHATGPT: &str = "https://chatgpt.com/backend-api/codex";

/// `[proxy]` with its defaults. Upstreams come from here alone, never from a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProxySettings {
    /// Where it listens, if the person named a place.
    pub listen: Option<SocketAddr>,
    /// For Anthropic's dialect.
    pub anthropic: Upstream,
    /// For `OpenAI`'s dialects.
    pub openai: Upstream,
    /// For Codex with a ChatGPT login.
    pub chatgpt: Upstream,
}

impl ProxySettings {
    pub(super) fn of(table: ProxyTable, allow_plain: bool, file: &Path) -> Result<Self, Failure> {
        let plain = if allow_plain { PlainHttp::Anywhere } else { PlainHttp::LoopbackOnly };
        let base = |key: &str, named: Option<String>, default: &str| {
            Upstream::parse(named.as_deref().unwrap_or(default), plain).map_err(|cause| {
                Failure::usage(
                    format!("{}: [proxy] {key}: {cause}", file.display()),
                    "Correct that line; the README lists every key",
                )
            })
        };
        Ok(Self {
            listen: table.listen,
            anthropic: base("anthropic", table.anthropic, ANTHROPIC)?,
            openai: base("openai", table.openai, OPENAI)?,
            chatgpt: base("chatgpt", table.chatgpt, CHATGPT)?,
        })
    }
}
