//! Where requests go on to: the configured servers, by workspace and dialect, never by anything a request says.

use std::sync::{Arc, PoisonError, RwLock};

use agentspine_model::{ListQuery, Promptless, Upstream as Base};

use super::read::PromptPath;
use super::route::PassPath;
use super::workspaces::{Upstream, Upstreams};
use crate::config::ProxySettings;

/// The configured servers.
#[derive(Clone)]
pub(crate) struct Bases {
    /// Anthropic's API, or a gateway that speaks it.
    pub anthropic: Base,
    /// `OpenAI`'s API, or a gateway that speaks it.
    pub openai: Base,
    /// What a ChatGPT login of Codex is good for; it has no version in its paths.
    pub chatgpt: Base,
}

impl Bases {
    /// As `[proxy]` says.
    pub(crate) fn of(settings: &ProxySettings) -> Self {
        let ProxySettings { anthropic, openai, chatgpt, .. } = settings.clone();
        Self { anthropic, openai, chatgpt }
    }

    /// The absolute URL for a prompt; `None` where the workspace has no server for this dialect.
    pub(crate) fn endpoint(&self, to: Upstreams, path: PromptPath, query: Option<&str>) -> Option<String> {
        let (upstream, tail) = match path {
            PromptPath::Messages => (to.anthropic()?, "/messages"),
            PromptPath::CountTokens => (to.anthropic()?, "/messages/count_tokens"),
            PromptPath::Responses => (to.openai()?, "/responses"),
            PromptPath::ChatCompletions => (to.openai()?, "/chat/completions"),
        };
        let version = if upstream == Upstream::ChatGpt { "" } else { "/v1" };
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        Some(self.base(upstream).at(&format!("{version}{tail}{query}")))
    }

    /// The question that a request without a prompt asks; `None` where it could hold more than that, or nobody is there
    /// to be asked.
    pub(crate) fn question(&self, to: Upstreams, path: PassPath, query: Option<&str>) -> Option<Promptless> {
        let upstream = to.anthropic().or(to.openai())?;
        let base = self.base(upstream).clone();
        match path {
            PassPath::Hello => to.anthropic().map(|_| Promptless::Hello(base)),
            PassPath::Models => {
                let query = ListQuery::parse(query.unwrap_or_default()).ok()?;
                Some(if upstream == Upstream::ChatGpt {
                    Promptless::CodexModels(base, query)
                } else {
                    Promptless::Models(base, query)
                })
            }
        }
    }

    fn base(&self, upstream: Upstream) -> &Base {
        match upstream {
            Upstream::Anthropic => &self.anthropic,
            Upstream::OpenAi => &self.openai,
            Upstream::ChatGpt => &self.chatgpt,
        }
    }
}

/// The servers of now: a reload replaces them for the requests that come after.
pub(crate) struct Onward(RwLock<Arc<Bases>>);

impl Onward {
    /// With these at the start.
    pub(crate) fn to(bases: Bases) -> Self {
        Self(RwLock::new(Arc::new(bases)))
    }

    /// What holds for a request that begins now.
    pub(super) fn now(&self) -> Arc<Bases> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces them.
    pub(crate) fn set(&self, bases: Bases) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(bases);
    }
}

#[cfg(test)]
mod tests {
    use agentspine_model::PlainHttp;

    use super::*;

    #[test]
    fn a_request_goes_to_its_dialects_server_with_its_query() {
        let base = |text| Base::parse(text, PlainHttp::LoopbackOnly).unwrap();
        let bases = Bases {
            anthropic: base("https://api.anthropic.com"),
            openai: base("http://127.0.0.1:8080/gate/v1/"),
            chatgpt: base("https://chatgpt.com/backend-api/codex"),
        };
        let beta = Some("beta=true");
        for (to, path, query, expected) in [
            (
                Upstreams::Anthropic,
                PromptPath::Messages,
                beta,
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
            assert_eq!(bases.endpoint(to, path, query).as_deref(), expected);
        }
        assert!(bases.question(Upstreams::OpenAi, PassPath::Hello, None).is_none());
        assert!(bases.question(Upstreams::Anthropic, PassPath::Models, Some("q=a+prompt")).is_none());
    }
}
