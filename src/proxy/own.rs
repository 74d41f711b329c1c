//! What the server answers for itself, never sent on: health, metrics, a workspace's numbers.

use agentspine_gate::Digest;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use serde_json::json;

use super::block::Answer;
use super::counters::Counters;

/// `GET /healthz`. `nonce` tells one daemon from the next on the same port.
pub(super) fn health(nonce: &str) -> Answer {
    let body = json!({"status": "ok", "version": env!("CARGO_PKG_VERSION"), "nonce": nonce});
    answer("application/json", body.to_string())
}

/// `GET /metrics`.
pub(super) fn metrics(counters: &Counters) -> Answer {
    answer("text/plain; version=0.0.4", counters.text())
}

/// `GET /agentspine/summary`.
pub(super) fn summary(counters: &Counters, workspace: Digest) -> Answer {
    // Three numbers always serialise.
    answer("application/json", serde_json::to_string(&counters.summary(workspace)).unwrap_or_default())
}

/// The warm-up of a client that does not say whose it is.
pub(super) fn hello() -> Answer {
    answer("text/plain", String::new())
}

fn answer(kind: &'static str, body: String) -> Answer {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Answer { status: StatusCode::OK, headers, body: body.into_bytes() }
}
