//! What passes through for a proxy: the admitted bytes under the client's headers there, the untouched answer back.

use std::task::{Context, Waker};
use std::time::Duration;

use agentspine_gate::receipt::Admitted;
use agentspine_model::{
    HeaderMap, ListQuery, ListQueryError, ModelClient, ModelError, PlainHttp, Promptless, RelayBody, Relayed,
    Sent, Upstream,
};
use futures_util::StreamExt as _;
use serde_json::json;
use tokio::io::AsyncWriteExt as _;

use crate::client;
use crate::fake_model::{Answer, End, FakeModel};

/// Header names and values as a map.
fn headers(list: &[(&'static str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in list {
        map.append(*name, value.parse().unwrap());
    }
    map
}

async fn relay(client: &ModelClient, endpoint: &str) -> Result<Relayed, ModelError> {
    let accept = headers(&[("accept", "text/event-stream")]);
    client.relay(accept, Admitted::for_tests(endpoint, b"{}".to_vec())).await
}

/// All bytes, and the error the body ends with, if any.
async fn read(mut body: RelayBody) -> (Vec<u8>, Option<ModelError>) {
    let mut bytes = Vec::new();
    while let Some(piece) = body.next().await {
        match piece {
            Ok(more) => bytes.extend_from_slice(&more),
            Err(error) => {
                assert!(body.next().await.is_none(), "nothing follows an error");
                return (bytes, Some(error));
            }
        }
    }
    (bytes, None)
}

#[tokio::test]
async fn the_admitted_bytes_go_out_once_under_exactly_the_given_headers() {
    let server = FakeModel::start([Answer::status(200, &[], "ok")]).await;
    let body = b" {\"a\" : 1,\t\"\\u00e4\":\"\xc3\xa4\"}\n".to_vec();
    let given = [
        ("host", "127.0.0.1:9"),
        ("content-length", "3"),
        ("x-api-key", "sk-canary-0123456789"),
        ("anthropic-beta", "one"),
        ("anthropic-beta", "two"),
        ("accept-encoding", "gzip, zstd"),
        ("user-agent", "claude-cli/2"),
        ("accept", "application/json"),
    ];
    let endpoint = format!("{}/v1/messages?beta=true", server.base());
    let admitted = Admitted::for_tests(&endpoint, body.clone());
    let relayed = client().relay(headers(&given), admitted).await.unwrap();
    assert_eq!((relayed.receipt.to_string().len(), relayed.status.as_u16()), (32, 200));
    let request = server.requests().remove(0);
    assert_eq!(server.requests().len(), 1);
    assert_eq!(
        (request.method.as_str(), request.target.as_str(), &request.body),
        ("POST", "/v1/messages?beta=true", &body)
    );
    let (length, host) = (body.len().to_string(), server.base().trim_start_matches("http://"));
    let mut expected: Vec<(&str, &str)> = given.into_iter().skip(2).collect();
    expected.extend([("host", host), ("content-length", &length)]);
    expected.sort_unstable();
    let mut sent: Vec<(&str, &str)> =
        request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    sent.sort_unstable();
    assert_eq!(sent, expected);
}

#[tokio::test]
async fn every_status_header_and_body_comes_back_as_it_was_sent() {
    let gzip = b"\x1f\x8b\x08\x00 not opened \xff\x00".to_vec();
    let answers = [
        (307, vec![("location", "http://127.0.0.1:1/elsewhere")], Vec::new()),
        (429, vec![("retry-after", "7"), ("x-should-retry", "true")], b"{\"error\":1 }".to_vec()),
        (529, vec![("request-id", "req_1"), ("set-cookie", "a=1"), ("set-cookie", "b=2")], b"busy".to_vec()),
        (200, vec![("content-encoding", "gzip"), ("content-type", "text/event-stream")], gzip),
        (200, vec![], b": comment\n\nevent: ping\ndata: {}\n\nevent: unknown\ndata: \xff\n\n".to_vec()),
    ];
    for (status, sent, body) in answers {
        let own = sent.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let answer = Answer::Raw { status, headers: own, chunks: vec![body.clone()], end: End::Clean };
        let server = FakeModel::start([answer]).await;
        let relayed = relay(&client(), server.base()).await.unwrap();
        assert_eq!(relayed.status.as_u16(), status);
        for name in sent.iter().map(|(name, _)| *name) {
            let of = |list: &[(&str, &str)]| {
                list.iter()
                    .filter(|(known, _)| *known == name)
                    .map(|(_, v)| (*v).to_owned())
                    .collect::<Vec<_>>()
            };
            let got: Vec<String> = relayed
                .headers
                .get_all(name)
                .iter()
                .map(|value| value.to_str().unwrap().to_owned())
                .collect();
            assert_eq!(got, of(&sent));
        }
        assert_eq!(read(relayed.body).await, (body, None));
        assert_eq!(server.requests().len(), 1);
    }
}

#[tokio::test]
async fn an_answer_that_breaks_or_falls_silent_never_ends_as_if_it_were_complete() {
    let hasty = crate::hasty(|config, short| config.idle = short);
    for (client, end) in [(client(), End::Reset), (hasty, End::Hang)] {
        let server = FakeModel::start([Answer::cut(&["half"], end)]).await;
        let relayed = relay(&client, server.base()).await.unwrap();
        let (bytes, error) = read(relayed.body).await;
        assert!(String::from_utf8(bytes).unwrap().contains("half"), "what came before is kept");
        let fits = match end {
            End::Reset => matches!(error, Some(ModelError::Cut { .. })),
            End::Hang | End::Clean => matches!(error, Some(ModelError::Idle { .. })),
        };
        assert!(fits, "{error:?}");
        assert_eq!(server.requests().len(), 1, "and it is not asked for again");
    }
}

#[tokio::test]
async fn a_reader_that_pauses_is_not_taken_for_a_silent_upstream() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let (go_on, held) = tokio::sync::oneshot::channel();
    tokio::spawn(async move {
        let (mut socket, _) = listener.accept().await.unwrap();
        crate::failures::read_request(&mut socket).await;
        socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\na").await.unwrap();
        held.await.unwrap();
        socket.write_all(b"b").await.unwrap();
        std::future::pending::<()>().await;
    });
    let mut body = relay(&client(), &base).await.unwrap().body;
    assert_eq!(body.next().await.unwrap().unwrap(), "a");
    tokio::time::pause();
    tokio::time::advance(Duration::from_hours(1)).await;
    tokio::time::resume();
    let waiting = body.poll_next_unpin(&mut Context::from_waker(Waker::noop()));
    assert!(waiting.is_pending(), "{waiting:?}");
    go_on.send(()).unwrap();
    assert_eq!(read(body).await, (b"b".to_vec(), None));
}

#[tokio::test]
async fn a_reader_that_leaves_closes_the_upstream() {
    let server = FakeModel::start([Answer::cut(&["half"], End::Hang), Answer::Hang]).await;
    let relayed = relay(&client(), server.base()).await.unwrap();
    drop(relayed);
    server.gone().await;
    let (client, base) = (client(), server.base().to_owned());
    let waiting = tokio::spawn(async move { relay(&client, &base).await });
    server.arrived().await;
    server.arrived().await;
    waiting.abort();
    server.gone().await;
}

#[tokio::test]
async fn no_head_in_time_is_an_error_and_the_call_is_not_made_again() {
    let server = FakeModel::start([Answer::Hang]).await;
    let hasty = crate::hasty(|config, short| config.head = short);
    let error = relay(&hasty, server.base()).await.unwrap_err();
    assert!(matches!(error, ModelError::Head { .. }), "{error:?}");
    assert_eq!((error.sent(), server.requests().len()), (Sent::Unknown, 1));
}

#[tokio::test]
async fn an_endpoint_that_is_no_plain_http_address_is_not_asked() {
    let server = FakeModel::start([]).await;
    let with_user = server.base().replace("http://", "http://user:sk-canary@");
    for endpoint in ["demo:", "", "/v1/messages", "ftp://127.0.0.1/v1/messages", &with_user] {
        let error = relay(&client(), endpoint).await.unwrap_err();
        assert_eq!(error.sent(), Sent::No);
        assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    }
    assert_eq!(server.requests(), vec![]);
}

#[tokio::test]
async fn a_question_without_a_prompt_goes_out_as_named_and_its_answer_comes_back_untouched() {
    let answers =
        [Answer::status(200, &[("request-id", "r")], ""), Answer::json(200, &json!({ "data": [] }))];
    let server = FakeModel::start(answers.into_iter().chain([Answer::redirect("http://127.0.0.1:1/")])).await;
    let upstream = Upstream::parse(&format!("{}/v1/", server.base()), PlainHttp::LoopbackOnly).unwrap();
    let query = ListQuery::parse("limit=1000").unwrap();
    let key = || headers(&[("x-api-key", "k"), ("host", "127.0.0.1:9"), ("accept", "*/*")]);
    let questions = [
        (Promptless::Hello(upstream.clone()), "HEAD", "/api/hello", 200),
        (Promptless::Models(upstream.clone(), query), "GET", "/v1/models?limit=1000", 200),
        (Promptless::CodexModels(upstream, ListQuery::default()), "GET", "/models", 307),
    ];
    for (n, (question, method, target, status)) in questions.into_iter().enumerate() {
        let passed = client().pass(question, key()).await.unwrap();
        assert_eq!(passed.status.as_u16(), status);
        assert_eq!(passed.headers.contains_key("request-id"), n == 0);
        let expected = if n == 1 { br#"{"data":[]}"#.to_vec() } else { Vec::new() };
        assert_eq!(read(passed.body).await, (expected, None));
        let request = server.requests().remove(n);
        assert_eq!((request.method.as_str(), request.target.as_str()), (method, target));
        assert_eq!(request.body, b"");
        let host = server.base().trim_start_matches("http://");
        assert_eq!((request.header("x-api-key"), request.header("host")), (Some("k"), Some(host)));
        assert_eq!((request.header("user-agent"), request.headers.len()), (None, 3));
    }
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn the_query_of_a_list_holds_ids_and_numbers_only() {
    for fits in ["", "limit=20", "after_id=claude-opus-4.1&limit=1000", "client_version=0.171.0", "after=a:b"]
    {
        assert!(ListQuery::parse(fits).is_ok(), "{fits}");
    }
    let long = format!("after={}", "a".repeat(129));
    for refused in
        ["limit", "q=x", "limit=1&limit=2", "limit=a+b", "limit=%20", "limit=1&", "&", "after=a/b", &long]
    {
        assert_eq!(ListQuery::parse(refused), Err(ListQueryError), "{refused}");
    }
}

#[test]
fn an_upstream_is_encrypted_or_on_this_machine() {
    let parse =
        |text: &str| Upstream::parse(text, PlainHttp::LoopbackOnly).map(|upstream| upstream.at("/v1/x"));
    assert_eq!(parse("https://api.anthropic.com").unwrap(), "https://api.anthropic.com/v1/x");
    assert_eq!(parse("http://[::1]:8080/gate/").unwrap(), "http://[::1]:8080/gate/v1/x");
    for refused in
        ["http://model.example", "ftp://127.0.0.1", "https://user@model.example", "https://m.example/?a", "x"]
    {
        assert!(parse(refused).is_err(), "{refused}");
    }
}
