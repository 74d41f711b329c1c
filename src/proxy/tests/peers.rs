//! Who may speak: this machine's own clients, by this server's own name, with a workspace.

use super::*;

const REST: &str =
    "x-agentspine-workspace: SECRET\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";

fn nothing_for_pages(answer: &Answer) {
    assert!(answer.headers.iter().all(|(name, _)| !name.starts_with("access-control")), "{answer:?}");
}

#[tokio::test]
async fn only_this_servers_own_names_are_answered() {
    let house = House::start([ok(), ok(), ok(), ok()]).await;
    let port = house.port;
    for name in ["127.0.0.1", "localhost", "LocalHost", "[::1]"] {
        let answer = house.ask(&format!("POST /v1/messages HTTP/1.1\r\nhost: {name}:{port}\r\n{REST}")).await;
        assert_eq!(answer.status, 200, "{name}");
        nothing_for_pages(&answer);
    }
    for host in [
        "host: evil.example\r\n".to_owned(),
        format!("host: evil.example:{port}\r\n"),
        format!("host: 127.0.0.1.evil.example:{port}\r\n"),
        format!("host: 127.0.0.2:{port}\r\n"),
        format!("host: localhost.:{port}\r\n"),
        "host: localhost\r\n".to_owned(),
        format!("host: localhost:{}\r\n", port ^ 1),
        "host:\r\n".to_owned(),
        String::new(),
    ] {
        let answer = house.ask(&format!("POST /v1/messages HTTP/1.1\r\n{host}{REST}")).await;
        assert_eq!((answer.status, answer.reason()), (421, "proxy-refused/host"), "{host:?}");
        nothing_for_pages(&answer);
    }
    assert_eq!(house.stage.asked(), 4);
}

#[tokio::test]
async fn web_pages_are_turned_away() {
    let house = House::start([ok()]).await;
    for line in [
        "origin: http://evil.example",
        "origin: null",
        "Origin: http://127.0.0.1",
        "sec-fetch-site: cross-site",
        "sec-fetch-site: same-site",
    ] {
        let answer = house.post("/v1/messages", &format!("{line}\r\n"), b"{}").await;
        assert_eq!((answer.status, answer.reason()), (403, "proxy-refused/origin"), "{line}");
        nothing_for_pages(&answer);
    }
    let preflight =
        "OPTIONS /v1/messages HTTP/1.1\r\nhost: HOST\r\naccess-control-request-method: POST\r\n\r\n";
    let answer = house.ask(preflight).await;
    assert_eq!(answer.status, 403);
    nothing_for_pages(&answer);
    assert_eq!(house.stage.asked(), 0);
    // What runtimes of programs send is fine.
    let plain = house.post("/v1/messages", "sec-fetch-mode: cors\r\nsec-fetch-site: none\r\n", b"{}").await;
    assert_eq!(plain.status, 200);
}

#[tokio::test]
async fn it_is_no_open_proxy_and_no_socket() {
    let house = House::start([ok()]).await;
    for (status, request) in [
        (405, "CONNECT api.test:443 HTTP/1.1\r\nhost: HOST\r\n\r\n"),
        (405, "TRACE /v1/messages HTTP/1.1\r\nhost: HOST\r\n\r\n"),
        (400, "POST http://evil.example/v1/messages HTTP/1.1\r\nhost: HOST\r\ncontent-length: 0\r\n\r\n"),
        (400, "POST https://HOST/v1/messages HTTP/1.1\r\nhost: HOST\r\ncontent-length: 0\r\n\r\n"),
        (400, "GET http://user@HOST/healthz HTTP/1.1\r\nhost: HOST\r\n\r\n"),
        (
            426,
            "GET /v1/responses HTTP/1.1\r\nhost: HOST\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        ),
        (426, "GET /v1/messages HTTP/1.1\r\nhost: HOST\r\nconnection: Upgrade\r\nupgrade: h2c\r\n\r\n"),
    ] {
        assert_eq!(house.ask(request).await.status, status, "{request}");
    }
    assert_eq!(house.stage.asked(), 0);
    let own = format!("POST http://HOST/v1/messages HTTP/1.1\r\nhost: HOST\r\n{REST}");
    assert_eq!(house.ask(&own).await.status, 200);
}

#[tokio::test]
async fn a_request_that_comes_back_is_stopped() {
    let house = House::start([ok()]).await;
    assert_eq!(house.post("/v1/messages", "", b"{}").await.status, 200);
    let hop = house.stage.seen.lock().unwrap()[0].headers.get("agentspine-hop").unwrap().clone();
    let line = format!("agentspine-hop: {}\r\n", hop.to_str().unwrap());
    let answer = house.post("/v1/messages", &line, b"{}").await;
    assert_eq!((answer.status, answer.reason()), (424, "proxy-refused/loop"));
}

#[tokio::test]
async fn without_a_known_workspace_nothing_passes_and_the_message_says_how_to_get_one() {
    let house = House::start([ok(), ok()]).await;
    let tail = "content-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    for (path, status) in
        [("/v1/messages", 424), ("/v1/responses", 400), ("/w/wrong/v1/chat/completions", 400)]
    {
        let answer = house.ask(&format!("POST {path} HTTP/1.1\r\nhost: HOST\r\n{tail}")).await;
        assert_eq!((answer.status, answer.reason()), (status, "proxy-refused/workspace"), "{path}");
        assert_eq!(answer.header("x-should-retry"), Some("false"));
        let message = answer.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(message.contains("agentspine run claude"), "{message}");
        assert!(!message.contains("wrong"), "{message}");
    }
    let twice = "x-agentspine-workspace: SECRET\r\nx-agentspine-workspace: SECRET\r\n";
    let answer = house.ask(&format!("POST /v1/messages HTTP/1.1\r\nhost: HOST\r\n{twice}{tail}")).await;
    assert_eq!(answer.status, 424);
    // The header of a client's own key is no workspace.
    let bearer = "authorization: Bearer SECRET\r\n";
    let answer = house.ask(&format!("POST /v1/messages HTTP/1.1\r\nhost: HOST\r\n{bearer}{tail}")).await;
    assert_eq!(answer.status, 424);
    assert_eq!(house.stage.asked(), 0);
    let prefixed = format!("POST /w/SECRET/v1/responses?a=1 HTTP/1.1\r\nhost: HOST\r\n{tail}");
    assert_eq!(house.ask(&prefixed).await.status, 200);
    assert_eq!(house.stage.seen.lock().unwrap()[0].query.as_deref(), Some("a=1"));
}

#[tokio::test]
async fn paths_outside_the_table_fail_closed() {
    let house = House::start([]).await;
    for path in
        ["/v1/completions", "/v1/embeddings", "/api/chat", "/api/generate", "/v1/responses/compact", "/"]
    {
        let answer = house.post(path, "", b"{}").await;
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.json()["error"]["message"].as_str().unwrap().contains("Nothing was sent"), "{path}");
    }
    let answer = house.post("/v1/messages/batches", "", b"{}").await;
    assert_eq!((answer.status, &answer.json()["error"]["type"]), (404, &"not_found_error".into()));
    for method in ["PUT", "PATCH", "DELETE", "GET"] {
        let request =
            format!("{method} /v1/messages HTTP/1.1\r\nhost: HOST\r\nx-agentspine-workspace: SECRET\r\n\r\n");
        assert_eq!(house.ask(&request).await.status, 404, "{method}");
    }
    assert_eq!(house.stage.asked(), 0);
}

#[tokio::test]
async fn only_the_loopback_is_listened_on() {
    let house = House::start([]).await;
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"] {
        let address = address.parse().unwrap();
        let log = Log::to(Box::new(std::io::sink()));
        let bound = Server::bind(address, house.stage.clone(), house.counters.clone(), log).await;
        assert_eq!(bound.err(), Some(super::super::listen::ListenError::NotLoopback(address)));
    }
}
