//! A real HTTP server that plays a model: scripted answer by answer, recording every request to the byte.
//!
//! It speaks the dialect of the path it is asked on: named events on `/v1/messages` and `/v1/responses`, unnamed ones
//! with `[DONE]` on `/v1/chat/completions`. Nothing here sleeps: a slow answer is held until the test releases it, and a test waits for
//! what happened ([`FakeModel::arrived`], [`FakeModel::gone`]), never for time to pass.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot};

/// Largest request body taken.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One request, as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// `POST`.
    pub method: String,
    /// Path without query.
    pub path: String,
    /// Path with its query.
    pub target: String,
    /// Names lower-case, in order of arrival.
    pub headers: Vec<(String, String)>,
    /// Raw bytes.
    pub body: Vec<u8>,
}

impl Recorded {
    /// The first header of that name.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("the request body is JSON")
    }
}

/// How a scripted body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Properly.
    Clean,
    /// The connection breaks.
    Reset,
    /// Never: the connection stays open and silent.
    Hang,
}

/// One scripted answer.
pub enum Answer {
    /// A whole streamed text answer in the path's dialect, one delta a piece.
    Text(Vec<String>),
    /// A streamed tool call in the path's dialect, its arguments in pieces.
    Tool {
        /// Call id.
        id: String,
        /// Tool name.
        name: String,
        /// Input.
        input: Value,
    },
    /// The beginning of a text answer in the path's dialect, then this end; the terminator never comes.
    Cut(Vec<String>, End),
    /// Any status, headers and body.
    Raw {
        /// HTTP status.
        status: u16,
        /// Response headers.
        headers: Vec<(&'static str, String)>,
        /// Body in chunks.
        chunks: Vec<Vec<u8>>,
        /// And then.
        end: End,
    },
    /// No byte until released.
    Held(oneshot::Receiver<()>, Box<Answer>),
    /// No byte, ever.
    Hang,
}

impl Answer {
    /// A whole streamed text answer.
    pub fn text(pieces: &[&str]) -> Self {
        Self::Text(pieces.iter().map(|piece| (*piece).to_owned()).collect())
    }

    /// A streamed tool call.
    pub fn tool(id: &str, name: &str, input: Value) -> Self {
        Self::Tool { id: id.to_owned(), name: name.to_owned(), input }
    }

    /// A text answer that stops in the middle.
    pub fn cut(pieces: &[&str], end: End) -> Self {
        Self::Cut(pieces.iter().map(|piece| (*piece).to_owned()).collect(), end)
    }

    /// A status with headers and a body.
    pub fn status(status: u16, headers: &[(&'static str, &str)], body: &str) -> Self {
        let headers = headers.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Self::Raw { status, headers, chunks: vec![body.as_bytes().to_vec()], end: End::Clean }
    }

    /// One JSON document.
    pub fn json(status: u16, body: &Value) -> Self {
        Self::status(status, &[("content-type", "application/json")], &body.to_string())
    }

    /// An event stream of exactly these bytes.
    pub fn sse(body: &str) -> Self {
        Self::status(200, &[("content-type", "text/event-stream")], body)
    }

    /// A redirect.
    pub fn redirect(to: &str) -> Self {
        Self::status(307, &[("location", to)], "")
    }

    /// The same answer, held until the sender is used.
    pub fn held(self) -> (Self, oneshot::Sender<()>) {
        let (release, held) = oneshot::channel();
        (Self::Held(held, Box::new(self)), release)
    }
}

struct Shared {
    script: Mutex<VecDeque<Answer>>,
    seen: Mutex<Vec<Recorded>>,
    arrived: Semaphore,
    gone: Semaphore,
}

/// The server. It ends with the runtime it was started on.
pub struct FakeModel {
    base: String,
    shared: Arc<Shared>,
}

impl FakeModel {
    /// Listens on a free port of 127.0.0.1. An unscripted request is answered with status 500.
    pub async fn start(script: impl IntoIterator<Item = Answer>) -> Self {
        let shared = Arc::new(Shared {
            script: Mutex::new(script.into_iter().collect()),
            seen: Mutex::new(Vec::new()),
            arrived: Semaphore::new(0),
            gone: Semaphore::new(0),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let base = format!("http://{}", listener.local_addr().expect("an address"));
        let app = Router::new().fallback(serve).with_state(shared.clone());
        tokio::spawn(async move { axum::serve(listener, app).await.expect("the fake model serves") });
        Self { base, shared }
    }

    /// `http://127.0.0.1:PORT`.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.base.rsplit(':').next().and_then(|port| port.parse().ok()).expect("a port")
    }

    /// Adds an answer to the script.
    pub fn push(&self, answer: Answer) {
        self.shared.script.lock().unwrap().push_back(answer);
    }

    /// Every request so far.
    pub fn requests(&self) -> Vec<Recorded> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// Waits for one more request to have arrived completely.
    pub async fn arrived(&self) {
        self.shared.arrived.acquire().await.expect("open").forget();
    }

    /// Waits until the client left one more answer before its end.
    pub async fn gone(&self) {
        self.shared.gone.acquire().await.expect("open").forget();
    }
}

async fn serve(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, BODY_BYTES_MAX).await.expect("a readable body");
    let header = |(name, value): (&HeaderName, &HeaderValue)| {
        (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let path = parts.uri.path().to_owned();
    shared.seen.lock().unwrap().push(Recorded {
        method: parts.method.to_string(),
        path: path.clone(),
        target: parts.uri.to_string(),
        headers: parts.headers.iter().map(header).collect(),
        body: body.to_vec(),
    });
    let answer = shared.script.lock().unwrap().pop_front();
    shared.arrived.add_permits(1);
    let mut watch = Watch { shared, complete: false };
    let mut answer = answer.unwrap_or_else(|| Answer::status(500, &[], "the script has no more answers"));
    loop {
        answer = match answer {
            Answer::Held(held, inner) => {
                held.await.expect("the test releases what it holds");
                *inner
            }
            Answer::Hang => std::future::pending().await,
            Answer::Text(pieces) => stream_of(&path, &pieces, None),
            Answer::Cut(pieces, end) => stream_of(&path, &pieces, Some(end)),
            Answer::Tool { id, name, input } => tool_stream(&path, &id, &name, &input),
            Answer::Raw { status, headers, chunks, end } => {
                watch.complete = chunks.is_empty() && end == End::Clean;
                return respond(status, headers, chunks, end, watch);
            }
        }
    }
}

/// Tells the test when an answer was left before its end.
struct Watch {
    shared: Arc<Shared>,
    complete: bool,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.complete {
            self.shared.gone.add_permits(1);
        }
    }
}

fn respond(
    status: u16,
    headers: Vec<(&'static str, String)>,
    chunks: Vec<Vec<u8>>,
    end: End,
    watch: Watch,
) -> Response<Body> {
    let mut response = Response::new(Body::from_stream(stream::unfold(
        (VecDeque::from(chunks), watch),
        move |(mut chunks, mut watch)| async move {
            if let Some(chunk) = chunks.pop_front() {
                watch.complete = chunks.is_empty() && end == End::Clean;
                return Some((Ok(chunk), (chunks, watch)));
            }
            match end {
                End::Clean => None,
                End::Reset => {
                    watch.complete = true;
                    // Lets the server flush what it has before it breaks.
                    tokio::task::yield_now().await;
                    Some((Err(io::Error::from(io::ErrorKind::ConnectionReset)), (chunks, watch)))
                }
                End::Hang => std::future::pending().await,
            }
        },
    )));
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    for (name, value) in headers {
        response.headers_mut().append(name, HeaderValue::from_str(&value).expect("a header value"));
    }
    response
}

/// What the path asked on speaks.
#[derive(Clone, Copy)]
enum Speech {
    Anthropic,
    Chat,
    Responses,
}

impl Speech {
    fn of(path: &str) -> Self {
        match path {
            _ if path.ends_with("/chat/completions") => Self::Chat,
            _ if path.ends_with("/responses") => Self::Responses,
            _ => Self::Anthropic,
        }
    }
}

fn stream_of(path: &str, pieces: &[String], cut: Option<End>) -> Answer {
    let speech = Speech::of(path);
    let mut events = match speech {
        Speech::Anthropic => opening(&json!({ "type": "text", "text": "" })),
        Speech::Chat => Vec::new(),
        Speech::Responses => {
            let item = json!({ "id": "msg_1", "type": "message", "role": "assistant", "content": [] });
            vec![created(), named("response.output_item.added", &json!({ "output_index": 0, "item": item }))]
        }
    };
    events.extend(pieces.iter().map(|piece| match speech {
        Speech::Anthropic => block_delta(&json!({ "type": "text_delta", "text": piece })),
        Speech::Chat => chunk(&json!({ "content": piece }), None),
        Speech::Responses => named(
            "response.output_text.delta",
            &json!({ "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": piece }),
        ),
    }));
    if cut.is_none() {
        let part = json!({ "type": "output_text", "text": pieces.concat(), "annotations": [] });
        let item = json!({ "id": "msg_1", "type": "message", "role": "assistant", "content": [part] });
        events.extend(closing(speech, "end_turn", "stop", &item));
    }
    event_stream(events, cut.unwrap_or(End::Clean))
}

fn tool_stream(path: &str, id: &str, name: &str, input: &Value) -> Answer {
    let speech = Speech::of(path);
    let text = input.to_string();
    let halves = text.split_at(text.len() / 2);
    let item = |arguments: &str| json!({ "id": "fc_1", "type": "function_call", "call_id": id, "name": name, "arguments": arguments });
    let mut events = match speech {
        Speech::Anthropic => opening(&json!({ "type": "tool_use", "id": id, "name": name, "input": {} })),
        Speech::Chat => {
            let function = json!({ "name": name, "arguments": "" });
            let call = json!({ "index": 0, "id": id, "type": "function", "function": function });
            vec![chunk(&json!({ "tool_calls": [call] }), None)]
        }
        Speech::Responses => {
            let added = json!({ "output_index": 0, "item": item("") });
            vec![created(), named("response.output_item.added", &added)]
        }
    };
    events.extend([halves.0, halves.1].map(|half| match speech {
        Speech::Anthropic => block_delta(&json!({ "type": "input_json_delta", "partial_json": half })),
        Speech::Chat => {
            let call = json!({ "index": 0, "function": { "arguments": half } });
            chunk(&json!({ "tool_calls": [call] }), None)
        }
        Speech::Responses => named(
            "response.function_call_arguments.delta",
            &json!({ "item_id": "fc_1", "output_index": 0, "delta": half }),
        ),
    }));
    events.extend(closing(speech, "tool_use", "tool_calls", &item(&text)));
    event_stream(events, End::Clean)
}

fn event_stream(events: Vec<String>, end: End) -> Answer {
    let headers = vec![("content-type", "text/event-stream".to_owned())];
    Answer::Raw { status: 200, headers, chunks: events.into_iter().map(String::into_bytes).collect(), end }
}

fn opening(block: &Value) -> Vec<String> {
    let usage = json!({ "input_tokens": 7, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 30, "output_tokens": 1 });
    vec![
        named(
            "message_start",
            &json!({ "message": { "id": "msg_1", "role": "assistant", "content": [], "usage": usage } }),
        ),
        named("ping", &json!({})),
        named("content_block_start", &json!({ "index": 0, "content_block": block })),
    ]
}

fn block_delta(delta: &Value) -> String {
    named("content_block_delta", &json!({ "index": 0, "delta": delta }))
}

fn created() -> String {
    named(
        "response.created",
        &json!({ "response": { "status": "in_progress", "error": null, "output": [] } }),
    )
}

/// The end of a response whose one item is `item`.
fn closing(speech: Speech, anthropic: &str, chat: &str, item: &Value) -> Vec<String> {
    match speech {
        Speech::Anthropic => {
            let delta = json!({ "stop_reason": anthropic, "stop_sequence": null });
            vec![
                named("content_block_stop", &json!({ "index": 0 })),
                named("message_delta", &json!({ "delta": delta, "usage": { "output_tokens": 5 } })),
                named("message_stop", &json!({})),
            ]
        }
        Speech::Chat => {
            let usage = json!({ "prompt_tokens": 39, "completion_tokens": 5, "prompt_tokens_details": { "cached_tokens": 30 } });
            let last = json!({ "object": "chat.completion.chunk", "choices": [], "usage": usage });
            vec![chunk(&json!({}), Some(chat)), format!("data: {last}\n\n"), "data: [DONE]\n\n".to_owned()]
        }
        Speech::Responses => vec![
            named("response.output_item.done", &json!({ "output_index": 0, "item": item })),
            completed(&[item]),
        ],
    }
}

/// The last event of a whole response.
pub fn completed(output: &[&Value]) -> String {
    let usage =
        json!({ "input_tokens": 39, "input_tokens_details": { "cached_tokens": 30 }, "output_tokens": 5 });
    let response = json!({ "status": "completed", "error": null, "incomplete_details": null, "output": output, "usage": usage });
    named("response.completed", &json!({ "response": response }))
}

/// `event: NAME` with the same `type` in its data.
pub fn named(name: &str, data: &Value) -> String {
    let mut whole = json!({ "type": name });
    let members = data.as_object().expect("an object").clone();
    whole.as_object_mut().expect("an object").extend(members);
    format!("event: {name}\ndata: {whole}\n\n")
}

/// One Chat Completions chunk.
pub fn chunk(delta: &Value, finish: Option<&str>) -> String {
    let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
    format!("data: {}\n\n", json!({ "object": "chat.completion.chunk", "choices": [choice] }))
}
