//! Request bodies: to the byte, within their limits, decoded.

use std::io::Write as _;

use super::super::route::{PassPath, PromptPath};
use super::*;

const BODY: &[u8] = br#"{"model":"m","messages":[]}"#;
/// [`BODY`] as brotli.
const BROTLI: &str = "0b0d807b226d6f64656c223a226d222c226d65737361676573223a5b5d7d03";
/// 33 MiB of spaces as brotli.
const BROTLI_BOMB: &str = "cbffff3ff82540e2b14020f7fe8fffff7ff04b00c4611180eefd1fffffffe0970088c30200ddfb3ffeffffc12f0110870500baf77ff5fffff82500e2b00040f7fe01";

#[tokio::test]
async fn a_request_reaches_the_house_as_its_client_meant_it() {
    let house = House::start([ok()]).await;
    let body = "{ \"model\" : \"m\",\r\n\t\"unheard_of\": [1.0, 1e400, \"\\u00e9\u{1F600}\"], \"model\": \"again\" } ";
    let lines = "anthropic-beta: b-1,b-2\r\nanthropic-version: 2026-10-21\r\nX-Claude-Code-Session-Id: s\r\nx-unheard-of: 1\r\n\
                 authorization: Bearer sk-test\r\naccept-encoding: gzip, br\r\nconnection: keep-alive, x-hop\r\nx-hop: 1\r\nte: trailers\r\n\
                 keep-alive: timeout=5\r\nproxy-authorization: Basic x\r\n";
    assert_eq!(house.post("/v1/messages?beta=true&x=%20", lines, body.as_bytes()).await.status, 200);
    let seen = house.stage.seen.lock().unwrap();
    assert_eq!(seen[0].path, PromptPath::Messages);
    assert_eq!(seen[0].query.as_deref(), Some("beta=true&x=%20"));
    assert_eq!(seen[0].body, body);
    assert_eq!(
        seen[0].headers,
        headers(&[
            ("content-type", "application/json"),
            ("anthropic-beta", "b-1,b-2"),
            ("anthropic-version", "2026-10-21"),
            ("x-claude-code-session-id", "s"),
            ("x-unheard-of", "1"),
            ("authorization", "Bearer sk-test"),
            ("accept-encoding", "gzip, br"),
            ("agentspine-hop", "1"),
        ])
    );
}

#[tokio::test]
async fn questions_without_a_prompt_pass_and_carry_no_body() {
    let models = answer(200, &[("content-length", "2")], b"[]");
    let hello = answer(204, &[("x-up", "1")], b"");
    let house = House::start([models, hello]).await;
    let with = "host: HOST\r\nx-agentspine-workspace: SECRET\r\n";
    let got = house.ask(&format!("GET /v1/models?limit=1000 HTTP/1.1\r\n{with}\r\n")).await;
    assert_eq!((got.status, got.body.as_slice()), (200, &b"[]"[..]));
    let mut client = house.client().await;
    client.send(format!("HEAD /api/hello HTTP/1.1\r\n{with}\r\n").as_bytes()).await;
    let got = client.head().await;
    assert_eq!((got.status, got.header("x-up")), (204, Some("1")));
    {
        let passed = house.stage.passed.lock().unwrap();
        let asked: Vec<_> = passed.iter().map(|passing| (passing.path, passing.query.as_deref())).collect();
        assert_eq!(asked, [(PassPath::Models, Some("limit=1000")), (PassPath::Hello, None)]);
    }
    let got = house.ask(&format!("GET /v1/models HTTP/1.1\r\n{with}content-length: 2\r\n\r\n{{}}")).await;
    assert_eq!((got.status, got.reason()), (400, "proxy-refused/body"));
    // The warm-up of a client that does not say whose it is is answered here.
    let mut client = house.client().await;
    client.send(b"HEAD /api/hello HTTP/1.1\r\nhost: HOST\r\n\r\n").await;
    assert_eq!(client.head().await.status, 200);
    assert_eq!(house.stage.asked(), 2);
}

#[tokio::test]
async fn a_client_that_expects_a_go_ahead_gets_it_at_once() {
    let house = House::start([ok()]).await;
    let mut client = house.client().await;
    client.send(b"POST /v1/messages HTTP/1.1\r\nhost: HOST\r\nx-agentspine-workspace: SECRET\r\ncontent-type: application/json\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n").await;
    assert_eq!(client.head().await.status, 100);
    client.send(b"{}").await;
    assert_eq!(client.answer().await.status, 200);
    assert!(!house.stage.seen.lock().unwrap()[0].headers.contains_key("expect"));
}

#[tokio::test]
async fn five_megabytes_pass_and_33_are_refused_before_they_are_read() {
    let house = House::start([ok()]).await;
    let body = vec![b' '; 5_000_000];
    assert_eq!(house.post("/v1/messages", "", &body).await.status, 200);
    assert_eq!(house.stage.seen.lock().unwrap()[0].body, body);
    for (path, kind) in [("/v1/messages", "request_too_large"), ("/v1/responses", "invalid_request_error")] {
        let mut client = house.client().await;
        let lines = format!(
            "POST {path} HTTP/1.1\r\nhost: HOST\r\nx-agentspine-workspace: SECRET\r\ncontent-type: application/json\r\ncontent-length: 34603008\r\nexpect: 100-continue\r\n\r\n"
        );
        client.send(lines.as_bytes()).await;
        let refused = client.answer().await;
        assert_eq!((refused.status, refused.reason()), (413, "proxy-refused/body-too-large"));
        assert_eq!(refused.json()["error"]["type"], kind);
    }
    assert_eq!(house.stage.asked(), 1);
}

#[tokio::test]
async fn a_client_that_writes_everything_first_still_reads_why_33_mib_are_refused() {
    let house = House::start([]).await;
    let refused = house.post("/v1/messages", "", &vec![b' '; 33 << 20]).await;
    assert_eq!((refused.status, refused.reason()), (413, "proxy-refused/body-too-large"));
    assert_eq!(refused.header("connection"), Some("close"));
}

#[tokio::test]
async fn chunks_are_metered() {
    let house = House::start([]).await;
    let mut client = house.client().await;
    client.send(b"POST /v1/messages HTTP/1.1\r\nhost: HOST\r\nx-agentspine-workspace: SECRET\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n").await;
    let chunk = [b"100000\r\n".as_slice(), &vec![b' '; 1 << 20], b"\r\n"].concat();
    for _ in 0..33 {
        client.send(&chunk).await;
    }
    let refused = client.answer().await;
    assert_eq!((refused.status, refused.reason()), (413, "proxy-refused/body-too-large"));
    assert_eq!(house.stage.asked(), 0);
}

fn unhex(text: &str) -> Vec<u8> {
    agentspine_gate::ids::unhex(text).unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    to.write_all(bytes).unwrap();
    to.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut to = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    to.write_all(bytes).unwrap();
    to.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// An empty skippable frame (RFC 8878, 3.1.2) before a frame.
fn zstd_skippable(bytes: &[u8]) -> Vec<u8> {
    [&[0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 7, 7][..], &zstd(bytes)].concat()
}

#[tokio::test]
async fn compressed_bodies_are_decoded_and_described_as_plain() {
    let (one, two) = BODY.split_at(9);
    let cases = [
        ("gzip", gzip(BODY)),
        ("GZIP", [gzip(one), gzip(two)].concat()),
        ("deflate", zlib(BODY)),
        ("br", unhex(BROTLI)),
        ("zstd", zstd(BODY)),
        ("zstd", [zstd(one), zstd(two)].concat()),
        ("zstd", zstd_skippable(BODY)),
        ("identity", BODY.to_vec()),
    ];
    let house = House::start(cases.iter().map(|_| ok())).await;
    for (coding, body) in &cases {
        let lines = format!(
            "content-encoding: {coding}\r\ncontent-md5: x\r\ncontent-digest: sha-256=:x:\r\ndigest: x\r\n"
        );
        assert_eq!(house.post("/v1/responses", &lines, body).await.status, 200, "{coding}");
        let seen = house.stage.seen.lock().unwrap().pop().unwrap();
        assert_eq!(seen.body, BODY, "{coding}");
        assert_eq!(seen.headers, headers(&[("content-type", "application/json"), ("agentspine-hop", "1")]));
    }
}

#[tokio::test]
async fn bombs_broken_and_unknown_codings_are_refused() {
    let house = House::start([]).await;
    let bomb = vec![b' '; 33 << 20];
    for (coding, body) in
        [("gzip", gzip(&bomb)), ("deflate", zlib(&bomb)), ("zstd", zstd(&bomb)), ("br", unhex(BROTLI_BOMB))]
    {
        let answer = house.post("/v1/messages", &format!("content-encoding: {coding}\r\n"), &body).await;
        assert_eq!(answer.status, 413, "{coding}");
    }
    for coding in ["gzip", "deflate", "zstd", "br"] {
        for body in [&b"{\"plain\":1}"[..], b""] {
            let answer = house.post("/v1/messages", &format!("content-encoding: {coding}\r\n"), body).await;
            assert_eq!((answer.status, answer.reason()), (424, "proxy-refused/undecodable"), "{coding}");
        }
    }
    for whole in
        [gzip(BODY), zlib(BODY), zstd(BODY), unhex(BROTLI)].iter().zip(["gzip", "deflate", "zstd", "br"])
    {
        let (body, coding) = (&whole.0[..whole.0.len() / 2], whole.1);
        let answer = house.post("/v1/messages", &format!("content-encoding: {coding}\r\n"), body).await;
        assert_eq!(answer.reason(), "proxy-refused/undecodable", "half of {coding}");
    }
    for lines in [
        "content-encoding: compress\r\n",
        "content-encoding: gzip, br\r\n",
        "content-encoding: gzip\r\ncontent-encoding: br\r\n",
    ] {
        assert_eq!(house.post("/v1/messages", lines, b"{}").await.status, 415, "{lines}");
    }
    assert_eq!(house.stage.asked(), 0);
}

#[tokio::test]
async fn only_json_is_taken() {
    let house = House::start([ok()]).await;
    for line in ["content-type: text/plain\r\n", "", "content-type: application/jsonx\r\n"] {
        let answer = house
            .ask(&format!(
                "POST /v1/messages HTTP/1.1\r\nhost: HOST\r\nx-agentspine-workspace: SECRET\r\n{line}content-length: 2\r\n\r\n{{}}"
            ))
            .await;
        assert_eq!((answer.status, answer.reason()), (415, "proxy-refused/media-type"), "{line:?}");
    }
    let answer = house
        .ask("POST /v1/messages HTTP/1.1\r\nhost: HOST\r\nx-agentspine-workspace: SECRET\r\ncontent-type: Application/JSON; charset=utf-8\r\ncontent-length: 2\r\n\r\n{}")
        .await;
    assert_eq!(answer.status, 200);
}

#[tokio::test]
async fn a_body_that_ends_early_reaches_nobody() {
    let house = House::start([]).await;
    let mut client = house.client().await;
    client.send(b"POST /v1/messages HTTP/1.1\r\nhost: HOST\r\nx-agentspine-workspace: SECRET\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{}").await;
    drop(client);
    // Another request afterwards, to know that the first one is over.
    assert_eq!(house.ask("GET /healthz HTTP/1.1\r\nhost: HOST\r\n\r\n").await.status, 200);
    assert_eq!(house.stage.asked(), 0);
}

#[tokio::test]
async fn bodies_beyond_what_all_may_take_wait_their_turn() {
    let mut house = House::start([]).await;
    let body = vec![b' '; 32 << 20];
    let mut clients = Vec::new();
    for _ in 0..8 {
        let mut client = house.client().await;
        client.post("/v1/messages", "", &body).await;
        within("the call", house.stage.arrived.acquire()).await.unwrap().forget();
        house.stage.seen.lock().unwrap().clear();
        clients.push(client);
    }
    let mut ninth = house.client().await;
    ninth.post("/v1/messages", "", b"{}").await;
    // Whoever does not need room is answered meanwhile.
    assert_eq!(house.ask("GET /healthz HTTP/1.1\r\nhost: HOST\r\n\r\n").await.status, 200);
    assert_eq!(house.stage.asked(), 0);
    clients.pop();
    within("a call to be dropped", house.dropped.recv()).await.unwrap();
    within("the ninth call", house.stage.arrived.acquire()).await.unwrap().forget();
}
