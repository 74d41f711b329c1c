//! The closed table of paths. What is not in it is not passed on: a new endpoint must not slip past the gate.

use hyper::Method;

pub(crate) use super::read::PromptPath;
use super::refused::Refused;

/// A question that cannot carry a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum PassPath {
    /// `HEAD /api/hello`, Claude Code's warm-up.
    Hello,
    /// `GET /v1/models`.
    Models,
}

/// What the proxy answers itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Own {
    /// `GET /healthz`.
    Health,
    /// `GET /metrics`.
    Metrics,
    /// `GET /agentspine/summary`.
    Summary,
}

/// Where a request goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Route {
    /// Through the gate.
    Prompt(PromptPath),
    /// Past it: nothing to check.
    Pass(PassPath),
    /// Nowhere.
    Own(Own),
}

impl Route {
    /// Its name in counters and in the log: a path may hold a secret.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Prompt(path) => path.as_str(),
            Self::Pass(PassPath::Hello) => "hello",
            Self::Pass(PassPath::Models) => "models",
            Self::Own(Own::Health) => "healthz",
            Self::Own(Own::Metrics) => "metrics",
            Self::Own(Own::Summary) => "summary",
        }
    }
}

/// A path cut into the secret it may carry and the rest: `/w/SECRET/v1/messages`.
pub(crate) fn split(path: &str) -> (Option<&str>, &str) {
    let Some(rest) = path.strip_prefix("/w/") else { return (None, path) };
    match rest.find('/') {
        Some(at) => {
            let (secret, path) = rest.split_at(at);
            (Some(secret), path)
        }
        None => (Some(rest), "/"),
    }
}

/// Looks a path up, without its prefix. Exact: no decoding, no trailing slash, no dot segments.
pub(crate) fn find(method: &Method, path: &str) -> Result<Route, Refused> {
    let route = match (method.as_str(), path) {
        ("POST", "/v1/messages") => Route::Prompt(PromptPath::Messages),
        ("POST", "/v1/messages/count_tokens") => Route::Prompt(PromptPath::CountTokens),
        ("POST", "/v1/responses" | "/responses") => Route::Prompt(PromptPath::Responses),
        ("POST", "/v1/chat/completions" | "/chat/completions") => Route::Prompt(PromptPath::ChatCompletions),
        ("HEAD", "/api/hello") => Route::Pass(PassPath::Hello),
        ("GET", "/v1/models" | "/models") => Route::Pass(PassPath::Models),
        ("GET" | "HEAD", "/healthz") => Route::Own(Own::Health),
        ("GET", "/metrics") => Route::Own(Own::Metrics),
        ("GET", "/agentspine/summary") => Route::Own(Own::Summary),
        ("POST", "/v1/completions" | "/completions" | "/v1/complete" | "/api/chat" | "/api/generate") => {
            return Err(Refused::Legacy);
        }
        _ => return Err(Refused::Path),
    };
    Ok(route)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_tables_paths_are_found_and_only_exactly() {
        let post = |path| find(&Method::POST, path);
        assert_eq!(post("/v1/messages"), Ok(Route::Prompt(PromptPath::Messages)));
        assert_eq!(post("/responses"), Ok(Route::Prompt(PromptPath::Responses)));
        assert_eq!(post("/v1/completions"), Err(Refused::Legacy));
        for path in [
            "/v1/messages/",
            "//v1/messages",
            "/v1/%6dessages",
            "/V1/messages",
            "/v1/x/../messages",
            "/v1/messages/batches",
            "/v1/responses/compact",
            "/v1/embeddings",
            "/messages",
            "*",
            "",
        ] {
            assert_eq!(post(path), Err(Refused::Path), "{path}");
        }
        assert_eq!(find(&Method::GET, "/v1/messages"), Err(Refused::Path));
        assert_eq!(find(&Method::PUT, "/v1/models"), Err(Refused::Path));
    }

    #[test]
    fn a_prefix_is_cut_off_once() {
        assert_eq!(split("/w/abc/v1/messages"), (Some("abc"), "/v1/messages"));
        assert_eq!(split("/w/abc/w/def/v1/messages"), (Some("abc"), "/w/def/v1/messages"));
        assert_eq!(split("/w//v1/messages"), (Some(""), "/v1/messages"));
        assert_eq!(split("/w/abc"), (Some("abc"), "/"));
        assert_eq!(split("/v1/messages"), (None, "/v1/messages"));
    }
}
