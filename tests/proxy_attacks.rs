//! A hostile upstream, a hostile or dying client, and a daemon that is killed: every request that went out has a consumed
//! receipt that says what became of it, as far as anybody can know, and the proxy goes on serving.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use agentspine_gate::Digest;
use serde_json::{Value, json};

use crate::api::{Api, Say};
use crate::support::Home;
use crate::support::bulk;
use crate::support::law::Shown;
use crate::support::proxied::{Http, Proxied, until};

/// What one connection of an upstream does.
type Deed = Box<dyn FnMut(usize, TcpStream) + Send>;

/// An upstream of raw bytes: the n-th connection is handed to its deed.
struct Hostile {
    base: String,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Hostile {
    /// Each connection's whole request is read, and then `answer` writes what it likes.
    fn start(mut answer: impl FnMut(usize, &mut TcpStream) + Send + 'static) -> Self {
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&bodies);
        let base = Self::listen(Box::new(move |n, mut stream| {
            let Some(body) = request(&mut stream) else { return };
            seen.lock().unwrap().push(body);
            answer(n, &mut stream);
        }));
        Self { base, bodies }
    }

    fn listen(mut deed: Deed) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        // Ends with the test's process.
        std::thread::spawn(move || {
            for (n, stream) in listener.incoming().enumerate() {
                deed(n, stream.unwrap());
            }
        });
        base
    }

    fn bodies(&self) -> Vec<Vec<u8>> {
        self.bodies.lock().unwrap().clone()
    }
}

/// The body of one request with a content length.
fn request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut got = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        got.extend_from_slice(&piece[..count]);
        let Some(end) = got.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&got[..end]).to_ascii_lowercase();
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok())?;
        if got.len() >= end + 4 + length {
            return Some(got[end + 4..].to_vec());
        }
    }
}

fn body(words: &str) -> Value {
    json!({ "model": "m", "max_tokens": 8, "stream": true, "messages": [{ "role": "user", "content": words }] })
}

fn ground(base: &str) -> Proxied {
    let home = Home::new();
    home.write("src/project/CLAUDE.md", "The rule.\n");
    Proxied::start(home, base, "generic")
}

/// Waits until every consumed receipt says what became of its call; their outcomes by request digest.
fn outcomes(proxied: &Proxied) -> Vec<Shown> {
    let mut found = Vec::new();
    until("every outcome", || {
        found = bulk::receipts(&proxied.home);
        found.iter().all(|one| !one.is_consumed() || !one.outcome().is_empty())
    });
    found.retain(Shown::is_consumed);
    found
}

/// The outcome of the call with this body.
fn outcome_of<'r>(receipts: &'r [Shown], sent: &[u8]) -> &'r str {
    let digest = Digest::of(sent).to_hex();
    let of: Vec<_> = receipts.iter().filter(|one| one.text("requestDigest") == digest).collect();
    assert_eq!(of.len(), 1, "one receipt binds {digest}");
    of[0].outcome()
}

const ANSWER: &str = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 4\r\n\r\n\"ok\"";

#[test]
fn an_upstream_that_breaks_off_at_any_byte_is_told_as_it_is() {
    let upstream = Hostile::start(|n, stream| {
        stream.write_all(&ANSWER.as_bytes()[..n.min(ANSWER.len())]).unwrap();
    });
    let proxied = ground(&upstream.base);
    let head = ANSWER.find("\r\n\r\n").unwrap() + 4;
    for n in 0..=ANSWER.len() {
        let got =
            proxied.connect().post("/v1/messages", &[], body(&format!("cut {n}")).to_string().as_bytes());
        match n {
            n if n < head => assert_eq!(got.as_ref().map(|got| got.status).ok(), Some(502), "{n} {got:?}"),
            n if n < ANSWER.len() => assert!(got.is_err(), "{n} {got:?}"),
            _ => assert_eq!(got.unwrap().text(), "\"ok\""),
        }
    }
    let (bodies, receipts) = (upstream.bodies(), outcomes(&proxied));
    assert_eq!((bodies.len(), receipts.len()), (ANSWER.len() + 1, ANSWER.len() + 1), "never sent twice");
    for (n, sent) in bodies.iter().enumerate() {
        let wanted = match n {
            n if n < head => "unknown",
            n if n < ANSWER.len() => "cut",
            _ => "answered",
        };
        assert_eq!(outcome_of(&receipts, sent), wanted, "cut after {n} bytes");
    }
}

#[test]
fn an_upstream_that_floods_or_lies_in_its_head_is_an_error_and_never_an_answer() {
    let heads = [
        format!("HTTP/1.1 200 OK\r\n{}\r\n", "x-flood: 1234567890\r\n".repeat(60_000)),
        format!("HTTP/1.1 200 OK\r\nx-flood: {}\r\n\r\n", "x".repeat(4_000_000)),
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n".to_owned(),
        "SSH-2.0-hello\r\n".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-length: 4\r\ncontent-length: 9\r\n\r\n\"ok\"".to_owned(),
        "HTTP/1.1 200 OK\r\ncontent-length: -4\r\n\r\n\"ok\"".to_owned(),
        "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n"
            .to_owned(),
    ];
    let count = heads.len();
    let upstream = Hostile::start(move |n, stream| {
        // It may well be left in the middle.
        let _ = stream.write_all(heads[n].as_bytes());
    });
    let proxied = ground(&upstream.base);
    for n in 0..count {
        let got =
            proxied.connect().post("/v1/messages", &[], body(&format!("flood {n}")).to_string().as_bytes());
        let status = got.as_ref().map(|got| got.status).unwrap_or_default();
        assert!([502, 307].contains(&status), "{n} {got:?}");
    }
    assert_eq!(upstream.bodies().len(), count);
    let receipts = outcomes(&proxied);
    assert_eq!(receipts.len(), count);
    assert!(receipts.iter().all(|one| ["unknown", "failed"].contains(&one.outcome())));
    assert!(proxied.page("/healthz").contains("ok"));
}

#[test]
fn an_upstream_that_answers_before_it_read_the_body_leaves_a_receipt_that_tells() {
    let base = Hostile::listen(Box::new(|_, mut stream| {
        let mut piece = [0; 16];
        let _ = stream.read(&mut piece);
        let _ =
            stream.write_all(b"HTTP/1.1 413 Too Much\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno");
        let _ = stream.shutdown(Shutdown::Both);
    }));
    let proxied = ground(&base);
    for n in 0..5 {
        let mut large = body(&format!("early {n}"));
        large["system"] = json!("x".repeat(3_000_000));
        let got = proxied.connect().post("/v1/messages", &[], large.to_string().as_bytes()).unwrap();
        assert!([413, 502].contains(&got.status), "{got:?}");
    }
    let receipts = outcomes(&proxied);
    assert_eq!(receipts.len(), 5);
    assert!(receipts.iter().all(|one| ["unknown", "failed"].contains(&one.outcome())));
}

#[test]
fn a_client_that_leaves_at_any_byte_of_its_request_is_a_call_that_never_was() {
    let api = Api::start_unjudged(|_| Say::text("yes"));
    let proxied = ground(api.base());
    let whole = proxied.connect().raw("POST", "/v1/messages", &[], body("leaving").to_string().as_bytes());
    for end in (0..whole.len()).step_by(3) {
        let mut http = proxied.connect();
        http.socket().write_all(&whole[..end]).unwrap();
        http.socket().shutdown(Shutdown::Both).unwrap();
    }
    // A whole one afterwards: everything before it was looked at.
    assert_eq!(proxied.post("/v1/messages", &[], body("staying").to_string().as_bytes()).status, 200);
    assert_eq!(api.prompts().len(), 1);
    let receipts = outcomes(&proxied);
    assert_eq!(receipts.len(), 1);
}

#[test]
fn a_client_that_leaves_while_the_upstream_is_silent_or_speaks_leaves_a_receipt_that_says_so() {
    let (tell, told) = std::sync::mpsc::channel();
    let upstream = Hostile::start(move |n, stream| {
        if n % 2 == 1 {
            let head =
                "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
            stream.write_all(format!("{head}9\r\ndata: 1\n\n\r\n").as_bytes()).unwrap();
        }
        // Held until the proxy leaves it.
        tell.send(()).unwrap();
        let mut rest = [0; 16];
        while stream.read(&mut rest).is_ok_and(|count| count > 0) {}
    });
    let proxied = ground(&upstream.base);
    for n in 0..6 {
        let mut http = proxied.connect();
        let sent = body(&format!("leaving {n}")).to_string();
        http.send("POST", "/v1/messages", &[], sent.as_bytes()).unwrap();
        told.recv().unwrap();
        if n % 2 == 1 {
            let mut head = [0; 12];
            http.socket().read_exact(&mut head).unwrap();
            assert_eq!(&head, b"HTTP/1.1 200");
        }
        drop(http);
    }
    let (bodies, receipts) = (upstream.bodies(), outcomes(&proxied));
    assert_eq!((bodies.len(), receipts.len()), (6, 6));
    for (n, sent) in bodies.iter().enumerate() {
        let wanted = if n % 2 == 1 { "interrupted" } else { "unknown" };
        assert_eq!(outcome_of(&receipts, sent), wanted, "call {n}");
    }
}

#[test]
fn clients_that_leave_whenever_they_like_never_leave_a_request_without_its_receipt() {
    let api = Api::start_unjudged(|_| Say::text("yes"));
    let proxied = ground(api.base());
    std::thread::scope(|scope| {
        for thread in 0..8_usize {
            let proxied = &proxied;
            scope.spawn(move || {
                for n in 0..25_usize {
                    let mut http = proxied.connect();
                    let sent = body(&format!("thread {thread}, call {n}")).to_string();
                    http.send("POST", "/v1/messages", &[], sent.as_bytes()).unwrap();
                    // Some wait for nothing, some for a few bytes.
                    let mut some = vec![0; (thread * 25 + n) % 5];
                    let _ = http.socket().read_exact(&mut some);
                }
            });
        }
    });
    let receipts = outcomes(&proxied);
    // Those that the client left may still be on their way: a later one is not overtaken by them.
    until("the API to have what was sent", || {
        let sent = receipts.iter().filter(|one| !["not-sent", "unknown"].contains(&one.outcome())).count();
        api.prompts().len() >= sent
    });
    let requests: Vec<_> = api.prompts().into_iter().map(|seen| seen.request).collect();
    let (_, unsent) = bulk::pairs(&receipts, api.base(), &requests);
    assert!(unsent.iter().all(|one| ["not-sent", "unknown"].contains(&one.outcome())));
    assert_eq!(proxied.home.json(&["receipts", "verify", "--json"])["ok"], true);
    assert!(proxied.page("/healthz").contains("ok"));
}

#[test]
fn a_daemon_killed_at_any_moment_leaves_no_request_without_a_consumed_receipt() {
    let api = Api::start_unjudged(|_| Say::text("yes"));
    let mut proxied = ground(api.base());
    let done = AtomicUsize::new(0);
    for round in 0..6_usize {
        let stop = AtomicBool::new(false);
        let target = done.load(Ordering::Relaxed) + 3 + round * 2;
        let (address, secret) = (proxied.address.clone(), proxied.secret.clone());
        std::thread::scope(|scope| {
            for thread in 0..6 {
                let (address, secret, stop, done) = (&address, &secret, &stop, &done);
                scope.spawn(move || {
                    let mut n = 0;
                    while !stop.load(Ordering::Relaxed) {
                        n += 1;
                        let Ok(_) = TcpStream::connect(address) else { return };
                        let sent = body(&format!("round {round}, thread {thread}, call {n}")).to_string();
                        let Ok(got) =
                            Http::connect(address, secret).post("/v1/messages", &[], sent.as_bytes())
                        else {
                            return;
                        };
                        assert_eq!(got.status, 200, "{}", got.text());
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            until("some answers", || done.load(Ordering::Relaxed) >= target);
            proxied.crash();
            stop.store(true, Ordering::Relaxed);
        });
        proxied.wake();
    }
    let last = body("after everything").to_string();
    assert_eq!(proxied.post("/v1/messages", &[], last.as_bytes()).status, 200);
    assert_eq!(proxied.home.json(&["receipts", "verify", "--json"])["ok"], true);
    let requests: Vec<_> = api.prompts().into_iter().map(|seen| seen.request).collect();
    let receipts = bulk::receipts(&proxied.home);
    let (pairs, unsent) = bulk::pairs(&receipts, api.base(), &requests);
    assert!(pairs.len() >= done.load(Ordering::Relaxed));
    // Spent, and the process died before it sent, or before it wrote that down.
    assert!(unsent.iter().all(|one| ["", "not-sent", "unknown"].contains(&one.outcome())));
}

#[test]
fn a_stranger_on_this_machine_gets_nothing_sent_and_nothing_told() {
    let api = Api::start_unjudged(|_| Say::text("yes"));
    let proxied = ground(api.base());
    let secret = proxied.secret.clone();
    let sent = body("let me in").to_string();
    let stranger = |secret: &str, path: &str, headers: &[(&str, &str)]| {
        Http::connect(&proxied.address, secret).post(path, headers, sent.as_bytes()).unwrap()
    };
    let upper = secret.to_uppercase();
    let other = secret.chars().rev().collect::<String>();
    let wrong = [String::new(), secret[..31].to_owned(), format!("{secret}0"), upper, other, "0".repeat(32)];
    for secret in &wrong {
        let got = stranger(secret, "/v1/messages", &[]);
        assert_eq!((got.status, got.header("agentspine-block")), (424, "proxy-refused/workspace"), "{got:?}");
        assert_eq!(stranger("", &format!("/w/{secret}/v1/chat/completions"), &[]).status / 100, 4);
        for page in ["/metrics", "/agentspine/summary", "/v1/models"] {
            let mut http = Http::connect(&proxied.address, secret);
            http.send("GET", page, &[], b"").unwrap();
            let got = http.receive().unwrap();
            assert_eq!(got.header("agentspine-block"), "proxy-refused/workspace", "{page} {got:?}");
        }
    }
    // With the secret, and yet not the client.
    let page = stranger(&secret, "/v1/messages", &[("origin", "http://evil.example")]);
    assert_eq!((page.status, page.header("access-control-allow-origin")), (403, ""));
    let twice = stranger(&secret, "/v1/messages", &[("x-agentspine-workspace", &secret)]);
    assert_eq!(twice.header("agentspine-block"), "proxy-refused/workspace");
    for path in
        ["/v1/completions", "/api/chat", "/v1/messages/../../v1/x", "/v1/messages/batches", "/v1//messages"]
    {
        let got = stranger(&secret, path, &[]);
        assert!(got.header("agentspine-block").starts_with("proxy-refused/"), "{path} {got:?}");
    }
    assert_eq!(api.seen().len(), 0);
    assert_eq!(bulk::receipts(&proxied.home).len(), 0);
    // A drawn anew secret ends the old one; a registry that others may read finds nobody.
    let client = ["generic", "--instruction-host", "claude"];
    let renewed = proxied.secret_for(&proxied.home.project(), &[&client[..], &["--renew"]].concat());
    assert_eq!(stranger(&secret, "/v1/messages", &[]).header("agentspine-block"), "proxy-refused/workspace");
    assert_eq!(stranger(&renewed, "/v1/messages", &[]).status, 200);
    let registry = proxied.home.state().join("proxy.json");
    std::fs::set_permissions(&registry, PermissionsExt::from_mode(0o644)).unwrap();
    assert_eq!(stranger(&renewed, "/v1/messages", &[]).header("agentspine-block"), "proxy-refused/workspace");
    assert_eq!(api.seen().len(), 1);
}

#[test]
fn keys_prompts_answers_and_secrets_of_calls_that_went_out_stand_nowhere_of_ours() {
    const CANARIES: [&str; 4] = ["canaryprompt", "canarykey", "canaryanswer", "canaryheader"];
    let upstream = Hostile::start(|n, stream| {
        let (status, body) =
            [(200, "canaryanswer"), (401, "canaryanswer canarykey"), (200, "canaryansw")][n % 3];
        let head =
            format!("HTTP/1.1 {status} Any\r\nset-cookie: canaryheader\r\ncontent-length: 12\r\n\r\n{body}");
        let _ = stream.write_all(head.as_bytes());
    });
    let proxied = ground(&upstream.base);
    let headers = [
        ("x-api-key", "sk-canarykey-0123456789"),
        ("authorization", "Bearer canarykey"),
        ("cookie", "canaryheader"),
    ];
    for path in ["/v1/messages?canaryheader=1", "/v1/chat/completions"] {
        for n in 0..3 {
            let sent = body(&format!("canaryprompt {n}")).to_string();
            let _ = proxied.connect().post(path, &headers, sent.as_bytes());
        }
    }
    assert_eq!(outcomes(&proxied).len(), 6);
    let metrics = proxied.page("/metrics").into_bytes();
    let listed = proxied.home.ok(&["receipts", "list", "--json"]).into_bytes();
    let mut kept = proxied.home.state_files();
    kept.extend([("metrics".to_owned(), metrics), ("receipts".to_owned(), listed)]);
    for (name, bytes) in kept {
        let holds = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
        // The endpoint of a call is bound as it was asked for, its query with it.
        let bound =
            |canary: &str| canary == "canaryheader" && (name.contains("journal") || name == "receipts");
        for canary in CANARIES {
            assert!(!holds(canary) || bound(canary), "{canary} in {name}");
        }
        assert!(!holds(&proxied.secret) || name.ends_with("proxy.json"), "the secret in {name}");
    }
}
