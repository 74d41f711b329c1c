//! Where requests go on to: the configured servers, by workspace and dialect, never by anything a request says.

use agentspine_model::Url;

use super::read::PromptPath;
use super::workspaces::{Upstream, Upstreams};

/// Base URLs of the configured servers; each may end in `/v1` or not.
#[derive(Clone)]
pub(crate) struct Bases {
    /// Anthropic's API, or a gateway that speaks it.
    pub anthropic: Url,
    /// `OpenAI`'s API, or a gateway that speaks it.
    pub openai: Url,
    /// What a ChatGPT login of Codex is good for.
    pub chatgpt: Url,
}

impl Bases {
    /// The absolute URL for a prompt; `None` where the workspace has no server for this dialect.
    pub(crate) fn endpoint(&self, to: Upstreams, path: PromptPath, query: Option<&str>) -> Option<String> {
        let (upstream, tail) = match path {
            PromptPath::Messages => (to.anthropic()?, "/messages"),
            PromptPath::CountTokens => (to.anthropic()?, "/messages/count_tokens"),
            PromptPath::Responses => (to.openai()?, "/responses"),
            PromptPath::ChatCompletions => (to.openai()?, "/chat/completions"),
        };
        Some(self.join(upstream, tail, query))
    }

    /// The server's base without `/v1`, for questions that carry no prompt.
    pub(crate) fn base(&self, upstream: Upstream) -> Url {
        let mut url = self.of(upstream).clone();
        let path = url.path().trim_end_matches('/').trim_end_matches("/v1").to_owned();
        url.set_path(&path);
        url
    }

    fn of(&self, upstream: Upstream) -> &Url {
        match upstream {
            Upstream::Anthropic => &self.anthropic,
            Upstream::OpenAi => &self.openai,
            Upstream::ChatGpt => &self.chatgpt,
        }
    }

    fn join(&self, upstream: Upstream, tail: &str, query: Option<&str>) -> String {
        let mut url = self.base(upstream);
        // A ChatGPT login's server has no version in its paths.
        let version = if upstream == Upstream::ChatGpt { "" } else { "/v1" };
        let path = format!("{}{version}{tail}", url.path().trim_end_matches('/'));
        url.set_path(&path);
        url.set_query(query);
        url.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_goes_to_its_dialects_server_with_its_query() {
        let bases = Bases {
            anthropic: Url::parse("https://api.anthropic.com").unwrap(),
            openai: Url::parse("http://127.0.0.1:8080/gate/v1/").unwrap(),
            chatgpt: Url::parse("https://chatgpt.com/backend-api/codex").unwrap(),
        };
        let to = |upstreams, path, query| bases.endpoint(upstreams, path, query);
        for (upstreams, path, query, expected) in [
            (
                Upstreams::Anthropic,
                PromptPath::Messages,
                Some("beta=true"),
                Some("https://api.anthropic.com/v1/messages?beta=true"),
            ),
            (Upstreams::Anthropic, PromptPath::Responses, None, None),
            (
                Upstreams::ByDialect,
                PromptPath::ChatCompletions,
                None,
                Some("http://127.0.0.1:8080/gate/v1/chat/completions"),
            ),
            (
                Upstreams::ChatGpt,
                PromptPath::Responses,
                None,
                Some("https://chatgpt.com/backend-api/codex/responses"),
            ),
            (Upstreams::OpenAi, PromptPath::CountTokens, None, None),
        ] {
            assert_eq!(to(upstreams, path, query).as_deref(), expected);
        }
    }
}
