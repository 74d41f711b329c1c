//! Everything that can go wrong, each as one readable error, each with at most one request.

use std::time::Duration;

use agentspine_gate::receipt::Admitted;
use agentspine_model::call::ERROR_BODY_BYTES_MAX;
use agentspine_model::reply::EVENT_BYTES_MAX;
use agentspine_model::{Dialect, ModelClient, ModelError, ModelEvent, Sent};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::fake_model::{Answer, End, FakeModel, chunk, named};
use crate::{ALL, KEY, call, client, drain, hasty, once, target, text_of};

async fn error_of(dialect: Dialect, answer: Answer) -> ModelError {
    once(dialect, answer).await.1.expect("an error")
}

#[tokio::test]
async fn every_error_envelope_becomes_one_readable_line() {
    let long = "x".repeat(1000);
    let wrapped =
        json!({ "error": { "message": json!({ "error": { "message": "inner" } }).to_string() } }).to_string();
    let table: &[(u16, &str, &str)] = &[
        (
            400,
            r#"{"type":"error","error":{"type":"invalid_request_error","message":"bad"},"request_id":"r"}"#,
            "bad",
        ),
        (
            401,
            r#"{"error":{"message":"Incorrect API key provided: sk-canary-0123456789.","code":"invalid_api_key"}}"#,
            "Incorrect API key provided: ***.",
        ),
        (402, r#"{"error":{"code":402,"message":"no credits","metadata":{"x":1}}}"#, "no credits"),
        (
            400,
            r#"[{"error":{"code":400,"message":"gemini says","status":"INVALID_ARGUMENT"}}]"#,
            "gemini says",
        ),
        (
            404,
            r#"{"error":"model 'x' not found, try pulling it first"}"#,
            "model 'x' not found, try pulling it first",
        ),
        (400, r#"{"object":"error","message":"vllm says","type":"BadRequestError","code":400}"#, "vllm says"),
        (422, r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#, "field required"),
        (500, &wrapped, "inner"),
        (500, r#"{"error":{"message":"a\u001b[31mb\u202ec\u0000\nd\te"}}"#, "a[31mbc d e"),
        (500, r#"{"unknown":{"shape":"secret"}}"#, "the server gave no readable reason"),
        (500, r#"{"error":{"mess"#, "the server gave no readable reason"),
        (500, "", "the server gave no readable reason"),
        (502, "<html><body>Bad gateway</body></html>", "the server answered with a web page"),
        (503, "no healthy upstream\n", "no healthy upstream"),
        (500, &long, &format!("{}…", "x".repeat(299))),
    ];
    for (status, body, message) in table {
        for dialect in ALL {
            let error = error_of(dialect, Answer::status(*status, &[], body)).await;
            assert_eq!(error.to_string(), format!("status {status}: {message}"), "{body}");
            assert_eq!((error.sent(), error.exit_code()), (Sent::Yes, 20));
        }
    }
}

#[tokio::test]
async fn a_busy_provider_says_how_long_to_wait() {
    let waits: [(&str, Option<Duration>); 5] = [
        ("7", Some(Duration::from_secs(7))),
        ("0.5", Some(Duration::from_millis(500))),
        ("Wed, 21 Oct 2026 07:28:00 GMT", None),
        ("-1", None),
        ("99999999999", None),
    ];
    for status in [429, 529] {
        for (text, wait) in waits {
            let body = r#"{"error":{"message":"slow down"}}"#;
            let error =
                error_of(Dialect::AnthropicMessages, Answer::status(status, &[("retry-after", text)], body))
                    .await;
            assert_eq!((error.is_busy(), error.retry_after()), (true, wait), "{text}");
        }
    }
}

#[tokio::test]
async fn an_oversize_error_body_is_cut_and_an_endless_one_is_not_waited_for() {
    let body = vec![b'a'; ERROR_BODY_BYTES_MAX * 4];
    let answer = Answer::Raw { status: 500, headers: vec![], chunks: vec![body], end: End::Hang };
    let error = error_of(Dialect::OpenAiChat, answer).await;
    assert_eq!(error.to_string(), format!("status 500: {}…", "a".repeat(299)));
}

#[tokio::test]
async fn an_error_in_mid_stream_ends_the_answer_and_keeps_what_came() {
    let piece = || chunk(&json!({ "content": "half" }), None);
    let anthropic =
        named("error", &json!({ "error": { "type": "overloaded_error", "message": "Overloaded" } }));
    let choice = json!({ "index": 0, "delta": { "content": "" }, "finish_reason": "error" });
    let router = json!({ "choices": [choice], "error": { "code": 429, "message": "Upstream" } });
    let table = [
        (Dialect::AnthropicMessages, anthropic, "", "Overloaded", true),
        (Dialect::OpenAiChat, format!("{}data: {router}\n\n", piece()), "half", "Upstream", true),
        (
            Dialect::OpenAiChat,
            format!("{}data: {{\"error\":{{\"message\":\"plain\"}}}}\n\n", piece()),
            "half",
            "plain",
            false,
        ),
        (
            Dialect::OpenAiChat,
            format!("{}data: {{\"object\":\"error\",\"message\":\"vllm\"}}\n\n", piece()),
            "half",
            "vllm",
            false,
        ),
        (Dialect::OpenAiChat, format!("{}event: error\ndata: gone\n\n", piece()), "half", "gone", false),
        (
            Dialect::OpenAiChat,
            "data: {\"error\":{\"message\":\"no sk-canary-0123456789\"}}\n\n".into(),
            "",
            "no ***",
            false,
        ),
    ];
    for (dialect, body, text, message, busy) in table {
        let (events, error) = once(dialect, Answer::sse(&body)).await;
        let error = error.unwrap();
        assert_eq!(text_of(&events), text);
        assert_eq!(error, ModelError::Provider { message: message.into(), busy });
        assert_eq!(error.is_busy(), busy);
    }
}

#[tokio::test]
async fn a_success_that_is_no_stream_is_an_error() {
    let html = Answer::status(200, &[("content-type", "text/html; charset=utf-8")], "<html>Sign in</html>");
    let document = Answer::json(200, &json!({ "choices": [{ "message": { "content": "whole" } }] }));
    let refused = Answer::json(200, &json!({ "error": { "message": "no" } }));
    let host = |error: &ModelError| error.to_string().split_once(' ').unwrap().1.to_owned();
    assert_eq!(
        host(&error_of(Dialect::OpenAiChat, html).await),
        "answered with a web page instead of a streamed answer"
    );
    assert_eq!(
        host(&error_of(Dialect::OpenAiChat, document).await),
        "answered with one JSON document instead of a streamed answer"
    );
    assert_eq!(
        error_of(Dialect::OpenAiChat, refused).await,
        ModelError::Provider { message: "no".into(), busy: false }
    );
}

#[tokio::test]
async fn a_stream_of_another_kind_is_malformed_and_shows_nothing_of_it() {
    let not_utf8 = Answer::Raw {
        status: 200,
        headers: vec![("content-type", "text/event-stream".into())],
        chunks: vec![b"data: {\"choices\":[]}\n\n".to_vec(), b"data: \xff\xfe\n\n".to_vec()],
        end: End::Clean,
    };
    let table = [
        (Dialect::OpenAiChat, not_utf8),
        (Dialect::OpenAiChat, Answer::sse("data: {broken secret\n\n")),
        (Dialect::OpenAiChat, Answer::sse("data: {\"type\":\"message_start\"}\n\n")),
        (Dialect::AnthropicMessages, Answer::sse(&chunk(&json!({ "content": "x" }), None))),
    ];
    for (dialect, answer) in table {
        let error = error_of(dialect, answer).await;
        assert!(matches!(error, ModelError::Malformed { .. }), "{error:?}");
        assert!(!error.to_string().contains("secret"));
    }
}

#[tokio::test]
async fn an_event_without_end_is_too_large() {
    let headers = vec![("content-type", "text/event-stream".to_owned())];
    let chunks = vec![vec![b'a'; EVENT_BYTES_MAX / 4]; 8];
    let error =
        error_of(Dialect::OpenAiChat, Answer::Raw { status: 200, headers, chunks, end: End::Hang }).await;
    assert!(matches!(error, ModelError::TooLarge { limit: EVENT_BYTES_MAX, .. }), "{error:?}");
}

#[tokio::test]
async fn a_cut_stream_is_an_error_that_keeps_what_came() {
    for dialect in ALL {
        for end in [End::Clean, End::Reset] {
            let (events, error) = once(dialect, Answer::cut(&["half ", "an answer"], end)).await;
            assert_eq!(text_of(&events), "half an answer", "{dialect:?} {end:?}");
            let error = error.unwrap();
            assert!(matches!(error, ModelError::Cut { .. }));
            assert_eq!((error.sent(), error.exit_code()), (Sent::Yes, 21));
        }
    }
}

#[tokio::test]
async fn silence_in_mid_stream_ends_it_and_closes_the_connection() {
    for dialect in ALL {
        let server = FakeModel::start([Answer::cut(&["half"], End::Hang)]).await;
        let client = hasty(|config, short| config.idle = short);
        let (_, error) = drain(call(&client, &target(dialect, server.base()), b"{}").await.unwrap()).await;
        assert!(matches!(error, Some(ModelError::Idle { .. })), "{error:?}");
        server.gone().await;
    }
}

#[tokio::test]
async fn no_response_head_in_time_leaves_open_whether_it_was_sent() {
    let server = FakeModel::start([Answer::Hang]).await;
    let client = hasty(|config, short| config.head = short);
    let error = call(&client, &target(Dialect::OpenAiChat, server.base()), b"{}").await.err().unwrap();
    assert!(matches!(error, ModelError::Head { .. }), "{error:?}");
    assert_eq!(error.sent(), Sent::Unknown);
    assert_eq!(server.requests().len(), 1);
    server.gone().await;
}

#[tokio::test]
async fn a_dropped_reply_closes_the_connection() {
    for dialect in ALL {
        let server = FakeModel::start([Answer::cut(&["half"], End::Hang)]).await;
        let mut reply = call(&client(), &target(dialect, server.base()), b"{}").await.unwrap();
        assert_eq!(reply.next().await, Some(Ok(ModelEvent::Text("half".into()))));
        drop(reply);
        server.gone().await;
    }
}

#[tokio::test]
async fn a_dropped_call_closes_the_connection_before_the_head() {
    let server = FakeModel::start([Answer::Hang]).await;
    let (client, target) = (client(), target(Dialect::OpenAiChat, server.base()));
    tokio::select! {
        _ = call(&client, &target, b"{}") => panic!("a hanging server answers nothing"),
        () = server.arrived() => {}
    }
    server.gone().await;
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_the_key_goes_nowhere_else() {
    let other = FakeModel::start([Answer::text(&["stolen"])]).await;
    let server = FakeModel::start([Answer::redirect(&format!("{}/v1/messages", other.base()))]).await;
    let error =
        call(&client(), &target(Dialect::AnthropicMessages, server.base()), b"{}").await.err().unwrap();
    let message = "status 307: the server points to another address; redirects are not followed";
    assert_eq!(error.to_string(), message);
    assert_eq!((server.requests().len(), other.requests().len()), (1, 0));
}

#[tokio::test]
async fn a_refused_connection_was_surely_not_sent() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", free.local_addr().unwrap());
    drop(free);
    let error = call(&client(), &target(Dialect::OpenAiChat, &base), b"{}").await.err().unwrap();
    assert!(matches!(error, ModelError::Connect { .. }), "{error:?}");
    assert_eq!((error.sent(), error.exit_code()), (Sent::No, 20));
}

#[tokio::test]
async fn a_connection_that_breaks_before_the_head_is_not_tried_again() {
    let server = Breaking::start(0).await;
    let target = target(Dialect::OpenAiChat, &server.base);
    let error = call(&client(), &target, b"{}").await.err().unwrap();
    assert!(matches!(error, ModelError::Broken { .. }), "{error:?}");
    assert_eq!((error.sent(), server.requests()), (Sent::Unknown, 1));
}

#[tokio::test]
async fn a_kept_connection_that_breaks_is_not_tried_again() {
    let server = Breaking::start(1).await;
    let (client, target) = (client(), target(Dialect::OpenAiChat, &server.base));
    assert_eq!(text_of(&drain(call(&client, &target, b"{}").await.unwrap()).await.0), "x");
    let error = call(&client, &target, b"{}").await.err().unwrap();
    assert!(matches!(error, ModelError::Broken { .. }), "{error:?}");
    assert_eq!((server.connections(), server.requests()), (1, 2));
}

/// A server that answers so many requests of each connection and then breaks it after reading one more.
struct Breaking {
    base: String,
    seen: std::sync::Arc<std::sync::Mutex<(usize, usize)>>,
}

impl Breaking {
    async fn start(answers: usize) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let seen = std::sync::Arc::new(std::sync::Mutex::new((0, 0)));
        let counts = seen.clone();
        tokio::spawn(async move {
            while let Ok((mut socket, _)) = listener.accept().await {
                counts.lock().unwrap().0 += 1;
                for round in 0..=answers {
                    read_request(&mut socket).await;
                    counts.lock().unwrap().1 += 1;
                    if round < answers {
                        let body = chunk(&json!({ "content": "x" }), Some("stop"));
                        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length";
                        let answer = format!("{head}: {}\r\n\r\n{body}", body.len());
                        socket.write_all(answer.as_bytes()).await.unwrap();
                    }
                }
            }
        });
        Self { base, seen }
    }

    fn connections(&self) -> usize {
        self.seen.lock().unwrap().0
    }

    fn requests(&self) -> usize {
        self.seen.lock().unwrap().1
    }
}

/// Reads one request with the body `{}`.
pub(crate) async fn read_request(socket: &mut tokio::net::TcpStream) {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n{}") {
        assert_ne!(socket.read_buf(&mut read).await.unwrap(), 0, "the request is whole");
    }
}

#[tokio::test]
async fn a_receipt_for_another_endpoint_sends_nothing() {
    let server = FakeModel::start([]).await;
    let target = target(Dialect::OpenAiChat, server.base());
    for endpoint in ["demo:", "http://127.0.0.1:1/v1/chat/completions", ""] {
        let error =
            client().call(&target, Admitted::for_tests(endpoint, b"{}".to_vec())).await.err().unwrap();
        assert_eq!((error.sent(), error), (Sent::No, ModelError::Endpoint));
    }
    assert_eq!(server.requests(), vec![]);
}

#[tokio::test]
async fn a_key_that_is_no_header_is_not_sent_and_not_shown() {
    let server = FakeModel::start([]).await;
    let mut target = target(Dialect::OpenAiChat, server.base());
    target.credential = agentspine_model::Secret::new(format!("{KEY}\nsecond line"));
    let error = call(&client(), &target, b"{}").await.err().unwrap();
    assert!(matches!(error, ModelError::Credential { .. }));
    assert!(!format!("{error:?} {error} {target:?}").contains("canary"));
    assert_eq!(server.requests(), vec![]);
}

#[test]
fn a_ca_file_without_a_certificate_is_refused() {
    let config = agentspine_model::HttpConfig { ca_file: Some("/dev/null".into()), ..Default::default() };
    assert!(ModelClient::new(config).is_err());
}
