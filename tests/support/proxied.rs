//! A person's machine with the proxy on it, and an HTTP client that talks to it as any local program may.

use std::collections::VecDeque;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Home;
use super::live::Live;

/// Nothing here takes this long; a test that waits so long has failed.
const DEADLINE: Duration = Duration::from_mins(2);

/// A home, its daemon, and the secret of its project.
pub struct Proxied {
    pub home: Home,
    args: Vec<String>,
    live: Option<Live>,
    /// `127.0.0.1:PORT`.
    pub address: String,
    /// The project's secret.
    pub secret: String,
}

/// What a request was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Got {
    pub status: u16,
    /// Names lower-case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Got {
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }
}

impl Proxied {
    /// Upstreams of every dialect at `base`; `client` is `claude`, `codex` or `generic`, bound to Claude's files.
    pub fn start(home: Home, base: &str, client: &str) -> Self {
        let upstreams =
            format!("[proxy]\nanthropic = \"{base}\"\nopenai = \"{base}\"\nchatgpt = \"{base}\"\n");
        home.write(".config/agentspine/config.toml", &upstreams);
        let words: &[&str] = match client {
            "generic" => &["proxy", "--instruction-host", "claude"],
            client => &["proxy", "--host", client],
        };
        let args = words.iter().map(|word| (*word).to_owned()).collect();
        let mut proxied = Self { home, args, live: None, address: String::new(), secret: String::new() };
        proxied.wake();
        proxied
    }

    /// Starts the daemon, which says where it is.
    pub fn wake(&mut self) {
        let args: Vec<&str> = self.args.iter().map(String::as_str).collect();
        let mut live = Live::ask(&mut self.home.command(&args));
        let said = live.until("by itself").to_owned();
        let after =
            |mark: &str| said.split(mark).nth(1).unwrap().split([' ', '/', '\n']).next().unwrap().to_owned();
        (self.address, self.secret) = (after("on http://"), after("/w/"));
        self.live = Some(live);
    }

    /// Kills it as a crash would.
    pub fn crash(&mut self) {
        let live = self.live.take().unwrap();
        live.kill();
        live.end();
    }

    /// The secret of another directory, or of another client or identity: `args` of `agentspine env`.
    pub fn secret_for(&self, dir: &Path, args: &[&str]) -> String {
        let mut command = self.home.command(&[&["env"], args, &["--json"]].concat());
        let run = super::Run::of(command.current_dir(dir).output().unwrap());
        assert_eq!(run.code, 0, "{run:?}");
        let document: Value = serde_json::from_str(&run.out).unwrap();
        let variables = &document["variables"];
        let header =
            variables["ANTHROPIC_CUSTOM_HEADERS"].as_str().and_then(|header| header.split(": ").nth(1));
        header.or_else(|| variables["AGENTSPINE_WORKSPACE"].as_str()).unwrap().to_owned()
    }

    /// A connection with the project's secret.
    pub fn connect(&self) -> Http {
        Http::connect(&self.address, &self.secret)
    }

    /// One request on a connection of its own.
    pub fn post(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Got {
        self.connect().post(path, headers, body).unwrap()
    }

    /// What the daemon's own page says, with the project's secret.
    pub fn page(&self, path: &str) -> String {
        let mut http = self.connect();
        http.send("GET", path, &[], b"").unwrap();
        http.receive().unwrap().text()
    }
}

impl Drop for Proxied {
    fn drop(&mut self) {
        if self.live.is_some() {
            self.crash();
        }
    }
}

/// One kept-alive connection of a plain HTTP/1.1 client.
pub struct Http {
    stream: BufReader<TcpStream>,
    address: String,
    secret: String,
}

impl Http {
    pub fn connect(address: &str, secret: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Self { stream: BufReader::new(stream), address: address.to_owned(), secret: secret.to_owned() }
    }

    pub fn post(&mut self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> io::Result<Got> {
        self.send("POST", path, headers, body)?;
        self.receive()
    }

    /// Bytes of the request that [`Self::send`] would send.
    pub fn raw(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
        let mut lines = vec![format!("{method} {path} HTTP/1.1"), format!("host: {}", self.address)];
        if !self.secret.is_empty() {
            lines.push(format!("x-agentspine-workspace: {}", self.secret));
        }
        lines.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
        if method == "POST" {
            lines.push("content-type: application/json".to_owned());
            lines.push(format!("content-length: {}", body.len()));
        }
        let head = lines.join("\r\n") + "\r\n\r\n";
        [head.as_bytes(), body].concat()
    }

    pub fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> io::Result<()> {
        let raw = self.raw(method, path, headers, body);
        self.stream.get_mut().write_all(&raw)
    }

    /// The socket itself.
    pub fn socket(&mut self) -> &mut TcpStream {
        self.stream.get_mut()
    }

    pub fn receive(&mut self) -> io::Result<Got> {
        let mut lines = VecDeque::new();
        loop {
            match self.line()? {
                line if line.is_empty() => break,
                line => lines.push_back(line),
            }
        }
        let status = lines.pop_front().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let status = status.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))?;
        let split = |line: String| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        let headers: Vec<(String, String)> = lines.into_iter().map(split).collect();
        let mut got = Got { status, headers, body: Vec::new() };
        got.body = if got.header("transfer-encoding") == "chunked" {
            self.chunks()?
        } else {
            let mut body = vec![0; got.header("content-length").parse().unwrap_or(0)];
            self.stream.read_exact(&mut body)?;
            body
        };
        Ok(got)
    }

    fn chunks(&mut self) -> io::Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let size = usize::from_str_radix(&self.line()?, 16).map_err(|_| io::ErrorKind::InvalidData)?;
            let start = body.len();
            body.resize(start + size, 0);
            self.stream.read_exact(&mut body[start..])?;
            self.line()?;
            if size == 0 {
                return Ok(body);
            }
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end().to_owned())
    }
}

/// Waits for what the system only tells when asked.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < DEADLINE, "waited for {what}");
        std::thread::yield_now();
    }
}
