//! The proxy on the wire, real binary, raw sockets before it and a recording API behind it: the last column of the
//! conformance table (proxy.md, section 7). What needs no API behind it is tested beside the server itself.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::Home;
use crate::support::fake_model::{Answer, End};
use crate::support::served::Served;

/// Nothing here takes this long.
const DEADLINE: Duration = Duration::from_mins(1);
pub(super) const RULE: &str = "Say aye.";
/// What the client sends: odd white space, unknown fields, a number that a parser would write differently.
const BODY: &str = "{ \"model\":\"claude-test\",\r\n\"max_tokens\": 1, \"unheard_of\" : [1.0, {\"b\":1,\"a\":2}],\t\"messages\":[{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"\\u0068i \\/ there\"}]}], \"stream\":true }\n";

/// A proxy in the foreground, its API, and one workspace's secret.
pub(super) struct Proxy {
    pub home: Home,
    pub api: Served,
    child: Child,
    port: u16,
    secret: String,
}

impl Proxy {
    pub fn start(script: impl IntoIterator<Item = Answer>) -> Self {
        let api = Served::start(script);
        let base = api.base().to_owned();
        Self::with(api, &base)
    }

    fn with(api: Served, base: &str) -> Self {
        Self::with_flags(api, base, &["--instruction-host", "claude"])
    }

    /// One whose printed base URL is for Claude Code.
    pub fn of_claude(script: impl IntoIterator<Item = Answer>) -> Self {
        let api = Served::start(script);
        let base = api.base().to_owned();
        Self::with_flags(api, &base, &["--host", "claude"])
    }

    fn with_flags(api: Served, base: &str, flags: &[&str]) -> Self {
        let home = Home::new();
        home.write("src/project/CLAUDE.md", RULE);
        home.write(
            ".config/agentspine/config.toml",
            &format!("[proxy]\nanthropic = \"{base}\"\nopenai = \"{base}\"\n"),
        );
        let args = [&["proxy", "--listen", "127.0.0.1:0"], flags].concat();
        let log = std::fs::File::create(home.path().join("said.log")).unwrap();
        let mut child = home.command(&args).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut said).unwrap();
        let after = |mark: &str| said.split(mark).nth(1).unwrap_or_else(|| panic!("no {mark:?} in {said:?}"));
        let port = after("http://127.0.0.1:").split(|c: char| !c.is_ascii_digit()).next().unwrap();
        let secret = after("/w/").split('/').next().unwrap().to_owned();
        let port = port.parse().unwrap();
        Self { home, api, child, port, secret }
    }

    fn client(&self) -> Raw {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        Raw(BufReader::new(stream))
    }

    /// A `POST` with these header lines more.
    pub fn post(&self, path: &str, lines: &str, body: &[u8]) -> Raw {
        let (port, secret, length) = (self.port, &self.secret, body.len());
        let mut client = self.client();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nx-agentspine-workspace: {secret}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n{lines}\r\n"
        );
        client.0.get_mut().write_all(&[head.as_bytes(), body].concat()).unwrap();
        client
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that reads the bytes as they are.
pub(super) struct Raw(BufReader<TcpStream>);

#[derive(Debug)]
pub(super) struct Got {
    pub status: u16,
    headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Got {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

impl Raw {
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn head(&mut self) -> Got {
        let status = self.line();
        let status =
            status.split(' ').nth(1).unwrap_or_else(|| panic!("no status in {status:?}")).parse().unwrap();
        let mut headers = Vec::new();
        while let Some((name, value)) = self.line().split_once(": ") {
            headers.push((name.to_owned(), value.to_owned()));
        }
        Got { status, headers, body: Vec::new() }
    }

    /// One chunk; `None` at the proper end, an error where the connection ends without it.
    fn chunk(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let size = self.line();
        let size = usize::from_str_radix(&size, 16).map_err(|_| std::io::ErrorKind::UnexpectedEof)?;
        let mut chunk = vec![0; size + 2];
        self.0.read_exact(&mut chunk)?;
        chunk.truncate(size);
        Ok((size > 0).then_some(chunk))
    }

    pub fn answer(&mut self) -> Got {
        let mut got = self.head();
        if let Some(length) = got.header("content-length") {
            got.body.resize(length.parse().unwrap(), 0);
            self.0.read_exact(&mut got.body).unwrap();
        } else {
            while let Some(chunk) = self.chunk().unwrap() {
                got.body.extend(chunk);
            }
        }
        got
    }
}

/// What was put into the client's bytes to make these, if it is one piece.
fn inserted<'a>(client: &str, sent: &'a str) -> &'a str {
    let same = |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let back = |text: &str| text.chars().rev().collect::<String>();
    let prefix = same(client, sent);
    let suffix = same(&back(client), &back(sent)).min(client.len() - prefix);
    assert_eq!(prefix + suffix, client.len(), "more than one piece differs:\n{client}\n{sent}");
    &sent[prefix..sent.len() - suffix]
}

#[test]
fn what_reaches_the_api_is_the_clients_request_and_one_span() {
    let proxy = Proxy::start([Answer::text(&["aye"])]);
    let lines = "anthropic-beta: b-1,b-2\r\nanthropic-version: 2026-10-21\r\nx-claude-code-session-id: s-1\r\nx-unheard-of: 1\r\n\
                 x-api-key: sk-dummy\r\naccept-encoding: gzip, br\r\nconnection: keep-alive, x-hop\r\nx-hop: 1\r\nte: trailers\r\n\
                 keep-alive: timeout=5\r\nproxy-authorization: Basic x\r\n";
    let got = proxy.post("/v1/messages?beta=true&x=%20y", lines, BODY.as_bytes()).answer();
    assert_eq!(got.status, 200, "{}", String::from_utf8_lossy(&got.body));
    let requests = proxy.api.requests();
    assert_eq!(requests.len(), 1);
    let sent = &requests[0];
    assert_eq!((sent.method.as_str(), sent.target.as_str()), ("POST", "/v1/messages?beta=true&x=%20y"));
    let body = String::from_utf8(sent.body.clone()).unwrap();
    assert!(inserted(BODY, &body).contains(RULE), "{body}");

    let length = sent.body.len().to_string();
    let mut found: Vec<(&str, &str)> = sent.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    let mut wanted = vec![
        ("content-type", "application/json"),
        ("anthropic-beta", "b-1,b-2"),
        ("anthropic-version", "2026-10-21"),
        ("x-claude-code-session-id", "s-1"),
        ("x-unheard-of", "1"),
        ("x-api-key", "sk-dummy"),
        ("accept-encoding", "gzip, br"),
        ("agentspine-hop", "1"),
        ("accept", "*/*"),
        ("host", proxy.api.base().strip_prefix("http://").unwrap()),
        ("content-length", &length),
    ];
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

#[test]
fn a_compressed_request_is_sent_on_plain_with_its_span() {
    let proxy = Proxy::start([Answer::text(&["aye"])]);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(BODY.as_bytes()).unwrap();
    let got = proxy.post("/v1/messages", "content-encoding: gzip\r\n", &gzip.finish().unwrap()).answer();
    assert_eq!(got.status, 200);
    let sent = proxy.api.requests().remove(0);
    assert_eq!(sent.header("content-encoding"), None);
    assert!(inserted(BODY, std::str::from_utf8(&sent.body).unwrap()).contains(RULE));
}

#[test]
fn a_compressed_answer_and_its_headers_come_back_unchanged() {
    let bytes = vec![0x1f, 0x8b, 8, 0, 0xff, 0, b'\n'];
    let headers = [
        ("content-type", "application/json"),
        ("content-encoding", "gzip"),
        ("request-id", "req_1"),
        ("anthropic-ratelimit-requests-remaining", "7"),
        ("x-should-retry", "true"),
        ("x-unheard-of", "1"),
    ];
    let of = headers.map(|(name, value)| (name, value.to_owned())).to_vec();
    let proxy = Proxy::start([Answer::Raw {
        status: 200,
        headers: of,
        chunks: vec![bytes.clone()],
        end: End::Clean,
    }]);
    let got = proxy.post("/v1/messages", "", BODY.as_bytes()).answer();
    assert_eq!((got.status, got.body.as_slice()), (200, bytes.as_slice()));
    for (name, value) in headers {
        assert_eq!(got.header(name), Some(value), "{name}");
    }
    let receipt = got.header("agentspine-receipt").unwrap();
    let shown = proxy.home.json(&["receipts", "show", receipt, "--json"]);
    assert!(shown.to_string().contains(receipt));
    proxy.home.ok(&["receipts", "verify"]);
}

#[test]
fn an_apis_errors_come_back_to_the_byte_and_it_is_asked_once() {
    let body = "{ \"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"no \\u0041\"}}\n";
    let errors = [400, 429, 529, 500];
    let proxy = Proxy::start(errors.map(|status| Answer::status(status, &[("retry-after", "9")], body)));
    for (asked, status) in errors.into_iter().enumerate() {
        let got = proxy.post("/v1/messages", "", BODY.as_bytes()).answer();
        assert_eq!((got.status, got.header("retry-after")), (status, Some("9")));
        assert_eq!(String::from_utf8(got.body).unwrap(), body);
        assert_eq!(proxy.api.requests().len(), asked + 1);
    }
}

#[test]
fn an_api_that_dies_in_the_middle_never_looks_like_a_clean_end() {
    let event = "event: ping\ndata: {}\n\n: comment\n\nevent: x-new\ndata: half";
    let headers = vec![("content-type", "text/event-stream".to_owned())];
    let chunks = vec![event.as_bytes().to_vec()];
    let proxy = Proxy::start([Answer::Raw { status: 200, headers, chunks, end: End::Reset }]);
    let mut client = proxy.post("/v1/messages", "", BODY.as_bytes());
    assert_eq!(client.head().status, 200);
    let mut got = Vec::new();
    let ended = loop {
        match client.chunk() {
            Ok(Some(chunk)) => got.extend(chunk),
            other => break other,
        }
    };
    assert!(ended.is_err(), "a proper end");
    assert_eq!(String::from_utf8(got).unwrap(), event);
}

#[test]
fn a_client_that_leaves_makes_the_api_stop() {
    let headers = vec![("content-type", "text/event-stream".to_owned())];
    let chunks = vec![b"data: 1\n\n".to_vec()];
    let streaming = Answer::Raw { status: 200, headers, chunks, end: End::Hang };
    let proxy = Proxy::start([streaming, Answer::Hang]);
    let mut client = proxy.post("/v1/messages", "", BODY.as_bytes());
    client.head();
    assert_eq!(client.chunk().unwrap().unwrap(), b"data: 1\n\n");
    drop(client);
    proxy.api.arrived();
    proxy.api.gone();
    // And one that leaves before the answer's head.
    let client = proxy.post("/v1/messages", "", BODY.as_bytes());
    proxy.api.arrived();
    drop(client);
    proxy.api.gone();
}

#[test]
fn a_refusal_is_one_readable_answer_in_each_dialect_and_nothing_is_sent() {
    let proxy = Proxy::start([]);
    std::fs::write(proxy.home.project().join("CLAUDE.md"), b"no \xff text").unwrap();
    let chat = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    let responses = json!({"model": "m", "input": "hi"});
    for (path, mut body, status) in [
        ("/v1/messages", chat.clone(), 424),
        ("/v1/chat/completions", chat, 400),
        ("/v1/responses", responses, 400),
    ] {
        for stream in [true, false] {
            body["stream"] = stream.into();
            let got = proxy.post(path, "", body.to_string().as_bytes()).answer();
            assert_eq!(got.status, status, "{path}");
            assert_eq!(got.header("agentspine-block"), Some("instructions-failed/non-utf8"), "{path}");
            assert_eq!(got.header("x-should-retry"), Some("false"));
            let receipt = got.header("agentspine-receipt").unwrap();
            assert_eq!(got.header("request-id"), Some(format!("req_as_{receipt}").as_str()));
            let error = got.json()["error"].clone();
            let message = error["message"].as_str().unwrap();
            assert!(
                message.starts_with("agentspine blocked this call: ") && message.contains("CLAUDE.md"),
                "{message}"
            );
            assert!(message.contains("Nothing was sent. Next: ") && !message.contains('\n'), "{message}");
            let code = if status == 424 { &error["details"]["error_code"] } else { &error["code"] };
            assert_eq!(code, "agentspine_preflight_blocked", "{path}");
        }
    }
    assert_eq!(proxy.api.requests(), []);
}

#[test]
fn an_api_that_is_away_is_502_and_no_block() {
    // Nobody listens on a port that was just given back.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let proxy = Proxy::with(Served::start([]), &base);
    let got = proxy.post("/v1/messages", "", BODY.as_bytes()).answer();
    assert_eq!((got.status, got.json()["error"]["type"].as_str()), (502, Some("api_error")));
    assert_eq!((got.header("agentspine-block"), got.header("x-should-retry")), (None, None));
}

#[test]
fn strangers_get_nothing_and_the_log_holds_no_content() {
    let proxy = Proxy::start([Answer::text(&["sure thing"])]);
    let (port, secret) = (proxy.port, &proxy.secret);
    for (lines, status) in [
        ("host: evil.example".to_owned(), 421),
        (format!("host: 127.0.0.1:{port}\r\norigin: http://evil.example"), 403),
        (format!("host: 127.0.0.1:{port}\r\ntransfer-encoding: chunked"), 400),
    ] {
        let mut client = proxy.client();
        let head = format!(
            "POST /v1/messages HTTP/1.1\r\n{lines}\r\nx-agentspine-workspace: {secret}\r\n\
             content-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"
        );
        client.0.get_mut().write_all(head.as_bytes()).unwrap();
        assert_eq!(client.answer().status, status, "{lines}");
    }
    assert_eq!(proxy.api.requests(), []);
    assert_eq!(
        proxy.post("/v1/messages?canary=1", "x-api-key: canary\r\n", BODY.as_bytes()).answer().status,
        200
    );
    let read = |path| std::fs::read_to_string(path).unwrap();
    let lines = read(proxy.home.state().join("log/proxy.log"));
    for told in
        ["proxy-refused/host", "proxy-refused/origin", "proxy-refused/framing", "\"result\":\"relayed\""]
    {
        assert!(lines.contains(told), "{told} in {lines}");
    }
    let log = lines + &read(proxy.home.path().join("said.log"));
    for text in ["canary", "there", RULE, secret.as_str(), "sure thing"] {
        assert!(!log.contains(text), "{text} in {log}");
    }
}
