//! Which headers pass: an open list. Only what belongs to one connection, or to this proxy, stays here.

use std::collections::BTreeSet;

use hyper::HeaderMap;
use hyper::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, EXPECT, HOST, HeaderName, HeaderValue, TE, TRAILER,
    TRANSFER_ENCODING, UPGRADE,
};

/// Stands in every request that this proxy sends on; one that comes in with it came from here.
pub(crate) const HOP: HeaderName = HeaderName::from_static("agentspine-hop");
/// Carries the workspace's secret.
pub(crate) const WORKSPACE: HeaderName = HeaderName::from_static("x-agentspine-workspace");
/// Names the receipt in an answer.
pub(crate) const RECEIPT: HeaderName = HeaderName::from_static("agentspine-receipt");

/// Bound to one connection (RFC 9110, 7.6.1), whether `Connection` names them or not.
const CONNECTIONS_OWN: [&HeaderName; 5] = [&CONNECTION, &TE, &TRAILER, &TRANSFER_ENCODING, &UPGRADE];
/// Describe the body's bytes, which a splice changes (RFC 9530, RFC 9421, RFC 1864).
const OF_THE_BYTES: [&str; 6] =
    ["content-md5", "digest", "content-digest", "repr-digest", "signature", "signature-input"];

/// What of a request's headers is sent on, in their order. The body will be plain and of another length.
pub(crate) fn of_request(headers: &HeaderMap) -> HeaderMap {
    let named = named(headers);
    let stays = |name: &HeaderName| {
        is_of_connection(name, &named)
            || [HOST, EXPECT, CONTENT_LENGTH, CONTENT_ENCODING, HOP].contains(name)
            || OF_THE_BYTES.contains(&name.as_str())
            || name.as_str().starts_with("x-agentspine-")
    };
    let mut passed = without(headers, stays);
    passed.append(HOP, HeaderValue::from_static("1"));
    passed
}

/// What of an answer's headers is sent back, in their order. Its length and compression are the upstream's.
pub(crate) fn of_response(headers: &HeaderMap) -> HeaderMap {
    let named = named(headers);
    // Ours to say, nobody else's.
    without(headers, |name| is_of_connection(name, &named) || name.as_str().starts_with("agentspine-"))
}

/// A new map: removal from the old one would change the order of the others.
fn without(headers: &HeaderMap, stays: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let mut passed = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers.iter().filter(|(name, _)| !stays(name)) {
        passed.append(name, value.clone());
    }
    passed
}

fn is_of_connection(name: &HeaderName, named: &BTreeSet<String>) -> bool {
    let text = name.as_str();
    CONNECTIONS_OWN.contains(&name)
        || text == "keep-alive"
        || text.starts_with("proxy-")
        || named.contains(text)
}

/// The names that `Connection` lists, in lower case.
fn named(headers: &HeaderMap) -> BTreeSet<String> {
    let lines = headers.get_all(CONNECTION).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(|name| name.trim().to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .fold(HeaderMap::new(), |mut map, (name, value)| {
                map.append(name, value);
                map
            })
    }

    fn list(headers: &HeaderMap) -> Vec<(&str, &str)> {
        headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect()
    }

    #[test]
    fn a_requests_open_list_passes_in_order_and_what_belongs_here_stays() {
        let passed = of_request(&map(&[
            ("host", "127.0.0.1:1"),
            ("anthropic-beta", "a"),
            ("connection", "X-Hop, keep-alive"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("authorization", "Bearer k"),
            ("anthropic-beta", "b"),
            ("proxy-authorization", "Basic x"),
            ("te", "trailers"),
            ("trailer", "x-sum"),
            ("expect", "100-continue"),
            ("content-length", "7"),
            ("content-encoding", "zstd"),
            ("content-digest", "sha-256=:x:"),
            ("signature", "x"),
            ("x-agentspine-workspace", "s"),
            ("accept-encoding", "gzip, br"),
            ("x-unheard-of", ""),
        ]));
        assert_eq!(
            list(&passed),
            [
                ("anthropic-beta", "a"),
                ("anthropic-beta", "b"),
                ("authorization", "Bearer k"),
                ("accept-encoding", "gzip, br"),
                ("x-unheard-of", ""),
                ("agentspine-hop", "1"),
            ]
        );
    }

    #[test]
    fn an_answers_headers_pass_without_its_connections_and_without_forged_ones_of_ours() {
        let passed = of_response(&map(&[
            ("content-encoding", "gzip"),
            ("connection", "x-drop"),
            ("x-drop", "1"),
            ("transfer-encoding", "chunked"),
            ("set-cookie", "a"),
            ("set-cookie", "b"),
            ("agentspine-receipt", "forged"),
            ("retry-after", "7"),
        ]));
        assert_eq!(
            list(&passed),
            [("content-encoding", "gzip"), ("set-cookie", "a"), ("set-cookie", "b"), ("retry-after", "7")]
        );
    }
}
