//! What the server says of itself, and what it writes down.

use serde_json::json;

use super::*;

#[tokio::test]
async fn health_needs_no_secret_and_metrics_and_summary_do() {
    let (_live, relayed) = Live::new();
    let house = House::start([ok(), relayed]).await;
    let health = house.ask("GET /healthz HTTP/1.1\r\nhost: HOST\r\n\r\n").await;
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(health.status, 200);
    assert_eq!((&health.json()["status"], &health.json()["version"]), (&"ok".into(), &version.into()));
    assert_eq!(health.json()["nonce"].as_str().unwrap().len(), 32);

    for path in ["/metrics", "/agentspine/summary"] {
        let without = house.ask(&format!("GET {path} HTTP/1.1\r\nhost: HOST\r\n\r\n")).await;
        assert_eq!(without.reason(), "proxy-refused/workspace", "{path}");
    }
    assert_eq!(house.post("/v1/messages", "", b"{}").await.status, 200);
    let mut streaming = house.client().await;
    streaming.post("/v1/responses", "", b"{}").await;
    streaming.head().await;
    house.post("/v1/responses", "content-encoding: x\r\n", b"{}").await;

    let summary = "GET /agentspine/summary HTTP/1.1\r\nhost: HOST\r\nx-agentspine-workspace: SECRET\r\n\r\n";
    assert_eq!(house.ask(summary).await.json(), json!({"calls": 3, "receipts": 2, "blocks": 1}));
    let metrics =
        house.ask("GET /metrics HTTP/1.1\r\nhost: HOST\r\nauthorization: Bearer SECRET\r\n\r\n").await;
    assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4"));
    let text = String::from_utf8(metrics.body).unwrap();
    for line in [
        "agentspine_requests_total{route=\"messages\",result=\"relayed\"} 1",
        "agentspine_requests_total{route=\"responses\",result=\"refused\"} 1",
        "agentspine_blocks_total{code=\"proxy-refused\",detail=\"encoding\"} 1",
        "agentspine_open_answers 1",
        "agentspine_head_seconds_count{route=\"messages\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    }
}

#[tokio::test]
async fn the_log_tells_every_request_and_nothing_of_its_content() {
    let (live, relayed) = Live::new();
    let house = House::start([relayed]).await;
    let mut client = house.client().await;
    let lines = "authorization: Bearer sk-CANARY\r\nx-other: CANARY\r\n";
    client.post("/v1/messages?q=CANARY", lines, br#"{"text":"CANARY"}"#).await;
    client.head().await;
    live.say("data: CANARY\n\n");
    client.until("\n\n").await;
    drop(client);
    house.ask("POST /w/SECRET/CANARY HTTP/1.1\r\nhost: HOST\r\ncontent-length: 0\r\n\r\n").await;
    house.ask("GET /CANARY HTTP/1.1\r\nhost: CANARY\r\n\r\n").await;
    let lines = house.lines(3).await;
    let text = serde_json::to_string(&lines).unwrap();
    assert!(!text.contains("CANARY") && !text.contains(SECRET), "{text}");
    let told = |at: usize, key: &str| lines[at][key].clone();
    let relayed = lines.iter().position(|line| line["result"] == "relayed").unwrap();
    assert_eq!(told(relayed, "route"), "messages");
    assert_eq!(told(relayed, "status"), 200);
    assert_eq!(told(relayed, "receipt"), "00112233445566778899aabbccddeeff");
    assert_eq!((told(relayed, "bytesIn"), told(relayed, "bytesOut")), (17.into(), 14.into()));
    assert_eq!(told(relayed, "end"), "interrupted");
    let refused: Vec<_> =
        lines.iter().filter(|line| line["result"] == "refused").map(|line| line["reason"].clone()).collect();
    assert_eq!(refused, ["proxy-refused/path", "proxy-refused/host"]);
}
