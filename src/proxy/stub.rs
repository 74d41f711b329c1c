//! Stands where the server will: answers `/healthz` and `/agentspine/summary`, and 503 to everything else.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::settings::Settings;
use super::workspaces::Registry;
use crate::report::Failure;

/// Longest request head, bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// What the server stands on.
pub(crate) struct House {
    /// Who may ask.
    pub registry: Arc<Registry>,
    /// Where requests go.
    pub settings: Arc<Settings>,
    /// What `/healthz` answers with.
    pub instance: String,
}

type Counts = Arc<Mutex<BTreeMap<String, u64>>>;

/// Serves until `stop`.
pub(crate) async fn serve(
    listener: TcpListener,
    house: House,
    stop: impl Future<Output = ()>,
) -> Result<(), Failure> {
    let (house, counts) = (Arc::new(house), Counts::default());
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => return Ok(()),
            Ok((stream, _)) = listener.accept() => {
                tokio::spawn(answer(stream, Arc::clone(&house), Arc::clone(&counts)));
            }
        }
    }
}

async fn answer(mut stream: TcpStream, house: Arc<House>, counts: Counts) -> Option<()> {
    let mut head = vec![0; HEAD_BYTES_MAX];
    let mut read = 0;
    while !head.get(..read)?.windows(4).any(|window| window == b"\r\n\r\n") {
        match stream.read(head.get_mut(read..)?).await.ok()? {
            0 => return None,
            more => read += more,
        }
    }
    let head = String::from_utf8_lossy(head.get(..read)?).into_owned();
    let (status, body) = reply(&head, &house, &counts);
    let body = body.to_string();
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
    stream.write_all(text.as_bytes()).await.ok()
}

fn reply(head: &str, house: &House, counts: &Counts) -> (&'static str, Value) {
    let path = head.split(' ').nth(1).unwrap_or_default();
    if path == "/healthz" {
        let version = env!("CARGO_PKG_VERSION");
        return ("200 OK", json!({"status": "ok", "version": version, "instance": house.instance}));
    }
    let named = head.lines().find_map(|line| line.strip_prefix("x-agentspine-workspace: "));
    let secret = named.or_else(|| path.strip_prefix("/w/")?.split('/').next()).unwrap_or_default();
    let Some(workspace) = house.registry.find(secret) else {
        return ("403 Forbidden", json!({"error": "unknown workspace"}));
    };
    let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
    let blocks = counts.entry(secret.to_owned()).or_default();
    if path == "/agentspine/summary" {
        return ("200 OK", json!({"calls": *blocks, "receipts": 0, "blocks": *blocks}));
    }
    *blocks += 1;
    let upstreams = workspace.binding.upstreams;
    let upstream = if path.ends_with("/messages") { upstreams.anthropic() } else { upstreams.openai() };
    let base = upstream.map(|upstream| house.settings.base(upstream).to_string());
    ("503 Service Unavailable", json!({"error": "no server yet", "upstream": base}))
}
