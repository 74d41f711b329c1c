//! What two readers could read differently is refused, and nothing after it is read.

use super::*;

const HEAD: &str = "POST /v1/messages HTTP/1.1\r\nhost: HOST\r\nx-agentspine-workspace: SECRET\r\ncontent-type: application/json\r\n";
/// What a smuggled request would look like.
const SECOND: &str = "POST /v1/messages HTTP/1.1\r\nhost: HOST\r\nx-agentspine-workspace: SECRET\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

#[tokio::test]
async fn contradicting_or_unclear_heads_are_refused_and_nothing_after_them_is_read() {
    let house = House::start([]).await;
    for (status, lines) in [
        (400, "content-length: 2\r\ntransfer-encoding: chunked\r\n"),
        (400, "transfer-encoding: chunked\r\ncontent-length: 2\r\n"),
        (400, "content-length: 2\r\ncontent-length: 2\r\n"),
        (400, "content-length: 2\r\ncontent-length: 3\r\n"),
        (400, "content-length: +2\r\n"),
        (400, "content-length: 2, 2\r\n"),
        (501, "transfer-encoding: gzip, chunked\r\n"),
        (501, "transfer-encoding: identity\r\n"),
        (400, "transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n"),
        (400, "content-length: 2\r\nx-a: 1\r\n folded\r\n"),
        (400, "content-length : 2\r\n"),
        (400, " content-length: 2\r\n"),
        (400, "content-length: 2\rx: y\r\n"),
        (400, "content-length: 2\nx: y\r\n"),
        (400, "host: other\r\ncontent-length: 2\r\n"),
    ] {
        let mut client = house.client().await;
        client.send(format!("{HEAD}{lines}\r\n{{}}{SECOND}").as_bytes()).await;
        let answer = client.answer().await;
        assert_eq!(answer.status, status, "{lines:?}");
        assert_eq!(answer.header("connection"), Some("close"), "{lines:?}");
        assert_eq!(client.rest().await, b"", "{lines:?}");
    }
    assert_eq!(house.stage.asked(), 0);
}

#[tokio::test]
async fn a_refused_head_waits_for_the_answer_before_it() {
    let (live, relayed) = Live::new();
    let house = House::start([relayed]).await;
    let mut client = house.client().await;
    client.post("/v1/messages", "", b"{}").await;
    client.send(format!("{HEAD}content-length: x\r\n\r\n").as_bytes()).await;
    assert_eq!(client.head().await.status, 200);
    live.say("data: 1\n\n");
    client.until("data: 1\n\n").await;
    drop(live);
    assert_eq!(client.chunk().await.unwrap(), None);
    assert_eq!(client.head().await.status, 400);
}

#[tokio::test]
async fn a_chunked_request_is_read_and_ends_its_connection() {
    let house = House::start([ok()]).await;
    let mut client = house.client().await;
    let chunked = "transfer-encoding: chunked\r\n\r\n3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n";
    client.send(format!("{HEAD}{chunked}{SECOND}").as_bytes()).await;
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.header("connection")), (200, Some("close")));
    assert_eq!(client.rest().await, b"");
    let seen = house.stage.seen.lock().unwrap();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].body, r#"{"a":1}"#);
    assert!(!seen[0].headers.contains_key("transfer-encoding"));
}

#[tokio::test]
async fn requests_follow_each_other_on_one_connection_also_unasked() {
    let house = House::start([ok(), ok(), ok()]).await;
    let mut client = house.client().await;
    client.send(format!("\r\n{SECOND}").as_bytes()).await;
    assert_eq!(client.answer().await.status, 200);
    client.send(format!("{SECOND}{SECOND}").as_bytes()).await;
    assert_eq!(client.answer().await.status, 200);
    assert_eq!(client.answer().await.status, 200);
    assert_eq!(house.stage.asked(), 3);
}

#[tokio::test]
async fn a_head_over_64_kib_is_refused_with_431_and_one_below_is_taken() {
    let house = House::start([ok()]).await;
    let long = format!("x-long: {}\r\n", "a".repeat(66 * 1024));
    let answer = house.post("/v1/messages", &long, b"{}").await;
    assert_eq!((answer.status, answer.reason()), (431, "proxy-refused/head-too-large"));
    assert_eq!(house.stage.asked(), 0);
    let long = format!("x-long: {}\r\n", "a".repeat(60 * 1024));
    assert_eq!(house.post("/v1/messages", &long, b"{}").await.status, 200);
}

#[tokio::test]
async fn other_versions_are_not_spoken() {
    let house = House::start([]).await;
    assert_eq!(house.ask("GET /healthz HTTP/1.0\r\nhost: HOST\r\n\r\n").await.status, 505);
    assert_eq!(house.ask("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.status, 505);
}

#[tokio::test(start_paused = true)]
async fn a_head_that_drips_is_cut_off_after_ten_seconds() {
    let house = House::start([]).await;
    let mut client = house.client().await;
    client.send(b"POST /v1/messages HTTP/1.1\r\nhost: ").await;
    let start = tokio::time::Instant::now();
    assert_eq!(client.answer().await.status, 408);
    assert_eq!(client.rest().await, b"");
    assert_eq!(start.elapsed().as_secs(), 10);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_says_nothing_is_closed() {
    let house = House::start([ok()]).await;
    let mut silent = house.client().await;
    let start = tokio::time::Instant::now();
    assert_eq!(silent.rest().await, b"");
    assert_eq!(start.elapsed().as_secs(), 10);
    // One that has asked before may rest longer.
    let mut client = house.client().await;
    client.post("/v1/messages", "", b"{}").await;
    assert_eq!(client.answer().await.status, 200);
    let start = tokio::time::Instant::now();
    assert_eq!(client.ends().await, 0);
    assert_eq!(start.elapsed().as_secs(), 300);
}

#[tokio::test(start_paused = true)]
async fn a_long_answer_is_no_rest() {
    let (live, relayed) = Live::with(&[]);
    let house = House::start([relayed]).await;
    let mut client = house.client().await;
    client.post("/v1/messages", "", b"{}").await;
    client.head().await;
    tokio::time::sleep(Duration::from_hours(2)).await;
    live.say("still here");
    client.until("still here").await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stalls_is_cut_off_after_thirty_seconds() {
    let house = House::start([]).await;
    let mut client = house.client().await;
    client.send(format!("{HEAD}content-length: 100\r\n\r\n{{").as_bytes()).await;
    let start = tokio::time::Instant::now();
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.reason()), (408, "proxy-refused/body-slow"));
    assert_eq!(start.elapsed().as_secs(), 30);
    assert_eq!(house.stage.asked(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_long_answer_is_no_rest_for_a_request_sent_before_the_one_before_was_answered_either() {
    let (live, relayed) = Live::with(&[]);
    let house = House::start([ok(), relayed]).await;
    let mut client = house.client().await;
    client.send(format!("{SECOND}{SECOND}").as_bytes()).await;
    assert_eq!(client.answer().await.status, 200);
    client.head().await;
    tokio::time::sleep(Duration::from_hours(2)).await;
    live.say("still here");
    client.until("still here").await;
}
