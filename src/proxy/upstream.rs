//! Where requests go on to: the configured servers, by workspace and dialect, never by anything a request says.

use std::sync::{Arc, PoisonError, RwLock};

use agentspine_gate::screen::redact;
use agentspine_model::{ListQuery, Promptless, Upstream as Base};
use http::HeaderMap;

use super::block::Envelope;
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
    /// to be asked. Where both are, its headers tell whose key they hold.
    pub(crate) fn question(
        &self,
        to: Upstreams,
        path: PassPath,
        query: Option<&str>,
        headers: &HeaderMap,
    ) -> Option<Promptless> {
        let upstream = match Envelope::guess("", headers) {
            Envelope::Anthropic => to.anthropic().or(to.openai()),
            Envelope::OpenAi => to.openai().or(to.anthropic()),
        };
        let upstream = upstream?;
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

/// Ends of parameters' names that stand for a credential somewhere.
const CREDENTIALS: [&str; 7] = ["key", "token", "secret", "password", "sig", "signature", "credential"];

/// Whether a query could hold a credential. A receipt keeps the URL, and never a credential.
pub(crate) fn may_hold_credential(query: &str) -> bool {
    let names = query.split('&').map(|pair| pair.split('=').next().unwrap_or_default().to_ascii_lowercase());
    let holds_key = |name: String| CREDENTIALS.iter().any(|end| name.ends_with(end));
    names.into_iter().any(holds_key) || !redact(query).1.is_empty()
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
    use http::{HeaderName, HeaderValue};

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
        let no_headers = HeaderMap::new();
        assert!(bases.question(Upstreams::OpenAi, PassPath::Hello, None, &no_headers).is_none());
        assert!(
            bases.question(Upstreams::Anthropic, PassPath::Models, Some("q=a+prompt"), &no_headers).is_none()
        );
    }

    #[test]
    fn a_key_goes_to_the_server_it_is_for() {
        let base = |text| Base::parse(text, PlainHttp::LoopbackOnly).unwrap();
        let [anthropic, openai, chatgpt] =
            ["https://a.example", "https://o.example", "https://c.example"].map(base);
        let bases = Bases { anthropic: anthropic.clone(), openai: openai.clone(), chatgpt };
        let no_headers = HeaderMap::new();
        let versioned: HeaderMap =
            [(HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01"))]
                .into_iter()
                .collect();
        let asked = |to, headers| bases.question(to, PassPath::Models, None, headers);
        let list = |base: &Base| Promptless::Models(base.clone(), ListQuery::default());
        assert_eq!(asked(Upstreams::ByDialect, &no_headers), Some(list(&openai)));
        assert_eq!(asked(Upstreams::ByDialect, &versioned), Some(list(&anthropic)));
        assert_eq!(asked(Upstreams::Anthropic, &no_headers), Some(list(&anthropic)));
        assert_eq!(asked(Upstreams::OpenAi, &versioned), Some(list(&openai)));
    }

    #[test]
    fn a_query_that_could_hold_a_credential_is_told_from_one_that_says_how() {
        for query in ["key=abc", "a=1&api-key=abc", "access_token=x", "API_KEY=x", "sig=x"] {
            assert!(may_hold_credential(query), "{query}");
        }
        for query in ["beta=true", "beta=true&x=%20y", "api-version=2024-10-01-preview", "", "max_tokens=1"] {
            assert!(!may_hold_credential(query), "{query}");
        }
    }
}
