//! Two questions to our own daemon: is it there, and what has it counted. No prompt, no other server.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use crate::config::Secret;

/// Longest wait for a connection, and for each piece of the answer.
const WAIT: Duration = Duration::from_secs(2);
/// Largest answer, bytes.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// What `/healthz` says.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct Health {
    /// Version of the daemon.
    pub version: String,
    /// The daemon's own random mark.
    pub nonce: String,
}

/// What `/agentspine/summary` says: a workspace's counts since the daemon started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct Summary {
    /// Calls that came.
    pub calls: u64,
    /// Receipts consumed.
    pub receipts: u64,
    /// Calls refused.
    pub blocks: u64,
}

impl Summary {
    /// What came since `before`; a daemon that started anew meanwhile counts from nothing.
    pub(crate) fn since(self, before: Self) -> Self {
        if self.calls < before.calls {
            return self;
        }
        Self {
            calls: self.calls.saturating_sub(before.calls),
            receipts: self.receipts.saturating_sub(before.receipts),
            blocks: self.blocks.saturating_sub(before.blocks),
        }
    }
}

/// Asks for its health.
pub(crate) fn health(address: SocketAddr) -> io::Result<Health> {
    get(address, "/healthz", None)
}

/// Asks for a workspace's counts.
pub(crate) fn summary(address: SocketAddr, secret: &Secret) -> io::Result<Summary> {
    get(address, "/agentspine/summary", Some(secret))
}

fn get<T: DeserializeOwned>(address: SocketAddr, path: &str, secret: Option<&Secret>) -> io::Result<T> {
    let mut stream = TcpStream::connect_timeout(&address, WAIT)?;
    stream.set_read_timeout(Some(WAIT))?;
    stream.set_write_timeout(Some(WAIT))?;
    let header = secret.map(|secret| format!("x-agentspine-workspace: {}\r\n", secret.expose()));
    let head = Zeroizing::new(format!(
        "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n{}\r\n",
        header.unwrap_or_default()
    ));
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    let body = body(&answer).ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
    serde_json::from_slice(body).map_err(io::Error::from)
}

/// The body of a whole 200 answer.
fn body(answer: &[u8]) -> Option<&[u8]> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let status = answer.strip_prefix(b"HTTP/1.1 200 ")?;
    (!status.is_empty()).then(|| answer.get(end.saturating_add(4)..))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_200_has_a_body_to_read() {
        assert_eq!(body(b"HTTP/1.1 200 OK\r\na: b\r\n\r\n{}"), Some(&b"{}"[..]));
        for other in ["HTTP/1.1 403 Forbidden\r\n\r\n{}", "HTTP/1.1 200 OK\r\n", "SSH-2.0\r\n\r\n{}", ""] {
            assert_eq!(body(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn counts_are_taken_from_where_the_client_began() {
        let count = |calls, receipts, blocks| Summary { calls, receipts, blocks };
        assert_eq!(count(15, 13, 2).since(count(3, 3, 0)), count(12, 10, 2));
        // Started anew in between.
        assert_eq!(count(2, 2, 0).since(count(3, 3, 0)), count(2, 2, 0));
    }
}
