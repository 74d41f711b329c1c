//! Who may speak to the server at all, checked before anything is looked up (proxy.md section 9).
//!
//! A web page in the person's browser reaches the loopback too. It cannot choose `Host` (a rebound name shows there) and
//! cannot hide `Origin` or `Sec-Fetch-Site`.

use std::net::SocketAddr;

use hyper::header::{HOST, HeaderValue, ORIGIN, UPGRADE};
use hyper::http::request::Parts;
use hyper::{Method, Version};

use super::headers::HOP;
use super::refused::Refused;

/// The names under which this server may be asked.
pub(crate) struct Names([String; 4]);

impl Names {
    /// The names of the loopback with this port, and the address that is listened on.
    pub(crate) fn of(address: SocketAddr) -> Self {
        let port = address.port();
        Self([
            format!("127.0.0.1:{port}"),
            format!("[::1]:{port}"),
            format!("localhost:{port}"),
            address.to_string(),
        ])
    }

    fn hold(&self, name: &str) -> bool {
        self.0.iter().any(|own| own.eq_ignore_ascii_case(name))
    }
}

/// Everything that is asked of a request before its path is read.
pub(crate) fn check(request: &Parts, names: &Names) -> Result<(), Refused> {
    if request.version != Version::HTTP_11 {
        return Err(Refused::Version);
    }
    let host = request.headers.get(HOST).and_then(|host| host.to_str().ok());
    if !host.is_some_and(|host| names.hold(host)) {
        return Err(Refused::Host);
    }
    if is_of_a_page(request) {
        return Err(Refused::Origin);
    }
    match request.method {
        // A preflight gets the answer that a page cannot use.
        Method::OPTIONS => return Err(Refused::Origin),
        Method::CONNECT | Method::TRACE => return Err(Refused::Method),
        _ => {}
    }
    if !is_ours(request, names) {
        return Err(Refused::Target);
    }
    if request.headers.contains_key(UPGRADE) {
        return Err(Refused::Upgrade);
    }
    if request.headers.contains_key(&HOP) {
        return Err(Refused::Loop);
    }
    Ok(())
}

fn is_of_a_page(request: &Parts) -> bool {
    let site = request.headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    request.headers.contains_key(ORIGIN) || matches!(site, Some(b"cross-site" | b"same-site"))
}

/// A target in absolute form must name this server; every other form names none.
fn is_ours(request: &Parts, names: &Names) -> bool {
    match (request.uri.scheme_str(), request.uri.authority()) {
        (None, None) => request.uri.path().starts_with('/'),
        (Some("http"), Some(authority)) => names.hold(authority.as_str()),
        _ => false,
    }
}
