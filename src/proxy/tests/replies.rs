//! Answers: the upstream's bytes as they come, its errors to the byte, our own in the dialect's form.

use std::sync::atomic::{AtomicUsize, Ordering};

use agentspine_gate::{Detail, Refusal};
use serde_json::json;

use super::super::block::Envelope;
use super::super::reply::{How, ReplyBody};
use super::*;

#[tokio::test]
async fn an_answers_head_and_bytes_come_back_unchanged() {
    let of = [
        ("content-type", "application/json"),
        ("content-encoding", "gzip"),
        ("content-length", "4"),
        ("request-id", "req_1"),
        ("anthropic-ratelimit-requests-remaining", "7"),
        ("x-should-retry", "true"),
        ("set-cookie", "a=1"),
        ("set-cookie", "b=2"),
        ("connection", "x-drop"),
        ("x-drop", "1"),
        ("keep-alive", "timeout=5"),
        ("date", "Mon, 30 Nov 2026 00:00:00 GMT"),
    ];
    let house = House::start([answer(200, &of, b"\x1f\x8b\x00\xff")]).await;
    let got = house.post("/v1/messages", "", b"{}").await;
    assert_eq!((got.status, got.body.as_slice()), (200, &b"\x1f\x8b\x00\xff"[..]));
    let mut wanted: Vec<(&str, &str)> = of.to_vec();
    wanted.retain(|(name, _)| !["connection", "x-drop", "keep-alive"].contains(name));
    wanted.push(("agentspine-receipt", "00112233445566778899aabbccddeeff"));
    let mut found: Vec<(&str, &str)> = got.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

#[tokio::test]
async fn an_upstreams_errors_come_back_to_the_byte() {
    let body: &[u8] = b"{ \"type\":\"error\", \"error\":{\"type\":\"overloaded_error\",\"message\":\"prompt is too long\"}}\n";
    for status in [301, 400, 401, 429, 500, 529] {
        let of = [
            ("content-type", "application/json"),
            ("retry-after", "17"),
            ("location", "https://other.test/"),
        ];
        let house = House::start([answer(status, &of, body)]).await;
        let got = house.post("/v1/messages", "", b"{}").await;
        assert_eq!((got.status, got.body.as_slice(), got.header("retry-after")), (status, body, Some("17")));
        assert_eq!(got.header("agentspine-block"), None);
    }
}

#[tokio::test]
async fn events_pings_and_comments_come_as_they_are_sent() {
    let (live, relayed) = Live::new();
    let house = House::start([relayed]).await;
    let mut client = house.client().await;
    client.post("/v1/messages", "", b"{}").await;
    let head = client.head().await;
    assert_eq!((head.header("transfer-encoding"), head.header("content-length")), (Some("chunked"), None));
    // Each is read before the next one is sent.
    for event in
        ["event: ping\ndata: {}\n\n", ": OPENROUTER PROCESSING\n\n", "event: x-new\ndata: half", " whole\n\n"]
    {
        live.say(event);
        client.until(event).await;
    }
    let ended = live.ended;
    drop(live.to);
    assert_eq!(client.chunk().await.unwrap(), None);
    assert_eq!(ended.await.unwrap(), End { how: How::Whole, bytes: 78 });
}

#[tokio::test]
async fn an_upstream_that_dies_never_looks_like_a_clean_end() {
    for of in [vec![("content-type", "text/event-stream")], vec![("content-length", "100")]] {
        let (live, relayed) = Live::with(&of);
        let house = House::start([relayed]).await;
        let mut client = house.client().await;
        client.post("/v1/messages", "", b"{}").await;
        let head = client.head().await;
        live.say("data: 1\n\n");
        live.breaks();
        let got = client.rest().await;
        assert!(String::from_utf8_lossy(&got).contains("data: 1\n\n"), "what came before the fault arrives");
        assert!(!got.ends_with(b"0\r\n\r\n"), "{head:?}");
        assert!(got.len() < 100);
        assert_eq!(live.ended.await.unwrap(), End { how: How::Cut, bytes: 9 });
    }
}

#[tokio::test]
async fn an_upstream_that_ends_before_the_length_it_announced_is_cut() {
    let (live, relayed) = Live::with(&[("content-length", "100")]);
    let house = House::start([relayed]).await;
    let mut client = house.client().await;
    client.post("/v1/messages", "", b"{}").await;
    client.head().await;
    live.say("short");
    drop(live.to);
    assert_eq!(client.rest().await, b"short");
    assert_eq!(live.ended.await.unwrap().how, How::Cut);
}

#[tokio::test]
async fn a_known_length_ends_whole() {
    let (live, relayed) = Live::with(&[("content-length", "5")]);
    let house = House::start([relayed]).await;
    let mut client = house.client().await;
    client.post("/v1/messages", "", b"{}").await;
    live.say("whole");
    assert_eq!(client.answer().await.body, b"whole");
    assert_eq!(live.ended.await.unwrap(), End { how: How::Whole, bytes: 5 });
}

#[tokio::test]
async fn a_client_that_leaves_ends_the_upstreams_answer_at_once() {
    let (live, relayed) = Live::new();
    let house = House::start([relayed]).await;
    let mut client = house.client().await;
    client.post("/v1/messages", "", b"{}").await;
    client.head().await;
    live.say("data: 1\n\n");
    client.until("data: 1\n\n").await;
    let left = std::time::Instant::now();
    drop(client);
    within("the upstream to be dropped", live.to.closed()).await;
    assert!(left.elapsed() < Duration::from_secs(5), "without another byte of the upstream's");
    assert_eq!(live.ended.await.unwrap(), End { how: How::Interrupted, bytes: 9 });
}

#[tokio::test]
async fn a_client_that_leaves_before_the_head_cancels_its_call() {
    let mut house = House::start([]).await;
    let mut client = house.client().await;
    client.post("/v1/messages", "", b"{}").await;
    within("the call", house.stage.arrived.acquire()).await.unwrap().forget();
    drop(client);
    within("the call to be dropped", house.dropped.recv()).await.unwrap();
}

#[tokio::test]
async fn a_client_that_does_not_read_makes_the_upstream_wait() {
    static PULLED: AtomicUsize = AtomicUsize::new(0);
    const PIECE: &[u8] = &[b'a'; 64 * 1024];
    let endless: Source = Box::pin(stream::repeat_with(|| {
        PULLED.fetch_add(1, Ordering::SeqCst);
        Ok(Bytes::from_static(PIECE))
    }));
    let house = House::start([relay(200, &[], endless)]).await;
    let mut client = house.client().await;
    client.post("/v1/messages", "", b"{}").await;
    client.head().await;
    // Until nothing more is pulled.
    let mut before = usize::MAX;
    while before != PULLED.load(Ordering::SeqCst) {
        before = PULLED.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let held = before * PIECE.len();
    assert!(held < 16 << 20, "{held} bytes stand between upstream and client");
    // And it goes on when the client reads again.
    for _ in 0..before + 10 {
        client.chunk().await.unwrap();
    }
    assert!(PULLED.load(Ordering::SeqCst) > before);
}

#[tokio::test]
async fn a_block_is_one_final_readable_answer_in_each_dialect() {
    let refusal = || Refusal {
        receipt: Some(receipt()),
        ..Refusal::new(Detail::Exit(3), "The provider `mnemo`\n ended with an error.", "agentspine doctor")
    };
    let message = "agentspine blocked this call: The provider `mnemo` ended with an error (receipt 00112233445566778899aabbccddeeff). Nothing was sent. Next: agentspine doctor";
    let request_id = "req_as_00112233445566778899aabbccddeeff";
    let anthropic = json!({
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": message,
            "details": {"error_code": "agentspine_preflight_blocked"},
        },
        "request_id": request_id,
    });
    let openai = json!({"error": {
        "message": message, "type": "invalid_request_error", "param": null, "code": "agentspine_preflight_blocked",
    }});
    for (path, status, body, id) in [
        ("/v1/messages", 424, &anthropic, None),
        ("/v1/messages/count_tokens", 424, &anthropic, None),
        ("/v1/responses", 400, &openai, Some(request_id)),
        ("/v1/chat/completions", 400, &openai, Some(request_id)),
    ] {
        let house = House::start([Outgoing::Blocked(refusal())]).await;
        let got = house.post(path, "", br#"{"stream":true}"#).await;
        assert_eq!((got.status, &got.json()), (status, body), "{path}");
        for (name, value) in [
            ("content-type", Some("application/json")),
            ("x-should-retry", Some("false")),
            ("request-id", Some(request_id)),
            ("x-request-id", id),
            ("agentspine-block", Some("provider-failed/exit(3)")),
            ("agentspine-receipt", Some("00112233445566778899aabbccddeeff")),
            ("cache-control", Some("no-store")),
            ("retry-after", None),
        ] {
            assert_eq!(got.header(name), value, "{path} {name}");
        }
    }
}

#[tokio::test]
async fn a_body_that_is_no_request_is_blocked_and_an_upstream_that_is_away_is_not_a_block() {
    let away = || Outgoing::UpstreamFailed {
        receipt: Some(receipt()),
        error: ModelError::Connect { host: "api.test".into(), why: "connection refused".into() },
    };
    let house = House::start([
        Outgoing::Unreadable("The body is no JSON object.".into()),
        Outgoing::Unreadable("The body is no JSON object.".into()),
        away(),
        away(),
    ])
    .await;
    for (path, status) in [("/v1/messages", 424), ("/v1/responses", 400)] {
        let got = house.post(path, "", b"[]").await;
        assert_eq!((got.status, got.reason()), (status, "proxy-refused/unreadable"));
        assert_eq!(got.header("x-should-retry"), Some("false"));
    }
    for (path, kind) in [("/v1/messages", "api_error"), ("/v1/responses", "server_error")] {
        let got = house.post(path, "", b"{}").await;
        assert_eq!((got.status, &got.json()["error"]["type"]), (502, &kind.into()));
        assert_eq!((got.header("agentspine-block"), got.header("x-should-retry")), (None, None));
        let message = got.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("no connection to api.test"), "{message}");
    }
}

fn body_of(live: Outgoing, envelope: Envelope) -> ReplyBody {
    let Outgoing::Relayed(relay) = live else { unreachable!() };
    ReplyBody::streamed(relay.body, relay.status, &relay.headers, envelope, relay.outcome)
}

async fn frame(body: &mut ReplyBody) -> Option<Bytes> {
    use hyper::body::Body as _;
    let next = std::future::poll_fn(|context| std::pin::Pin::new(&mut *body).poll_frame(context)).await;
    next.map(|frame| frame.unwrap().into_data().unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_silent_upstream_gets_signs_of_life_between_its_events_and_never_inside_one() {
    for (envelope, sign) in [
        (Envelope::Anthropic, "event: ping\ndata: {\"type\": \"ping\"}\n\n"),
        (Envelope::OpenAi, ": agentspine\n\n"),
    ] {
        let (live, relayed) = Live::new();
        let mut body = body_of(relayed, envelope);
        let start = tokio::time::Instant::now();
        assert_eq!(frame(&mut body).await.unwrap(), sign);
        live.say("data: 1\n");
        live.say("\n");
        assert_eq!(frame(&mut body).await.unwrap(), "data: 1\n");
        assert_eq!(frame(&mut body).await.unwrap(), "\n");
        assert_eq!(frame(&mut body).await.unwrap(), sign);
        assert_eq!(frame(&mut body).await.unwrap(), sign);
        assert_eq!(start.elapsed().as_secs(), 75);
        live.say("data: 2\n");
        assert_eq!(frame(&mut body).await.unwrap(), "data: 2\n");
        let silent = tokio::time::timeout(Duration::from_hours(1), frame(&mut body)).await;
        assert!(silent.is_err(), "inside an event");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_compressed_or_no_event_stream_gets_no_signs() {
    for of in [
        &[("content-type", "text/event-stream"), ("content-encoding", "gzip")][..],
        &[("content-type", "application/json")],
        &[("content-type", "text/event-stream"), ("content-length", "9")],
    ] {
        let (_live, relayed) = Live::with(of);
        let mut body = body_of(relayed, Envelope::Anthropic);
        assert!(tokio::time::timeout(Duration::from_hours(1), frame(&mut body)).await.is_err(), "{of:?}");
    }
}
