//! A scripted API that speaks like the vendors' own: it answers by rule, remembers every request to the byte, and holds
//! two laws over them ([`prefix`], [`cache`]).
//!
//! It listens on a free port of 127.0.0.1 and lives on a thread of its own until it is dropped.

pub mod cache;
pub mod chat;
pub mod messages;
pub mod prefix;
pub mod responses;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Response, StatusCode};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::support::fake_model::Recorded;

/// Largest request body taken.
const BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What a request is, by its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `POST /v1/messages`.
    Messages,
    /// `POST /v1/messages/count_tokens`.
    Count,
    /// `POST /v1/responses`.
    Responses,
    /// `POST /v1/chat/completions`.
    Chat,
    /// Anything without a prompt.
    Other,
}

impl Kind {
    fn of(method: &str, path: &str) -> Self {
        match path {
            _ if method != "POST" => Self::Other,
            path if path.ends_with("/messages") => Self::Messages,
            path if path.ends_with("/messages/count_tokens") => Self::Count,
            path if path.ends_with("/responses") => Self::Responses,
            path if path.ends_with("/chat/completions") => Self::Chat,
            _ => Self::Other,
        }
    }
}

/// What the model answers.
#[derive(Debug, Clone)]
pub enum Say {
    /// A text.
    Text(String),
    /// A tool call.
    Tool(&'static str, Value),
    /// A refusal with status 400.
    Refuse(&'static str),
}

impl Say {
    pub fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// One request with what was answered.
#[derive(Debug, Clone)]
pub struct Seen {
    pub request: Recorded,
    pub kind: Kind,
    /// Status answered.
    pub status: u16,
    /// How much of the prompt the simulated cache held.
    pub cache: cache::Usage,
}

impl Seen {
    pub fn json(&self) -> Value {
        self.request.json()
    }

    /// True where the call carries a prompt, and so needs a receipt.
    pub fn is_prompt(&self) -> bool {
        self.kind != Kind::Other
    }
}

/// What the model says to a request.
pub type Brain = Arc<dyn Fn(&Call) -> Say + Send + Sync>;

struct Shared {
    brain: Brain,
    calls: AtomicU32,
    seen: Mutex<Vec<Seen>>,
    broken: Mutex<Vec<String>>,
    cache: Mutex<cache::Cache>,
    /// Whether the prefix law is held over the requests.
    judged: bool,
}

/// The server.
pub struct Api {
    // Dropped last, with every connection of the server.
    _runtime: Runtime,
    base: String,
    shared: Arc<Shared>,
}

impl Api {
    /// Starts one that answers so.
    pub fn start(brain: impl Fn(&Call) -> Say + Send + Sync + 'static) -> Self {
        Self::start_as(true, brain)
    }

    /// One that holds no law over what it is sent: conversations made up from nothing.
    pub fn start_unjudged(brain: impl Fn(&Call) -> Say + Send + Sync + 'static) -> Self {
        Self::start_as(false, brain)
    }

    fn start_as(judged: bool, brain: impl Fn(&Call) -> Say + Send + Sync + 'static) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let shared = Arc::new(Shared {
            brain: Arc::new(brain),
            calls: AtomicU32::new(0),
            seen: Mutex::default(),
            broken: Mutex::default(),
            cache: Mutex::default(),
            judged,
        });
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        let app = Router::new().fallback(serve).with_state(shared.clone());
        runtime.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { _runtime: runtime, base, shared }
    }

    /// `http://127.0.0.1:PORT`.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Every request so far.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// Those that carry a prompt.
    pub fn prompts(&self) -> Vec<Seen> {
        self.seen().into_iter().filter(Seen::is_prompt).collect()
    }

    /// What broke the prefix law: one line a request.
    pub fn broken(&self) -> Vec<String> {
        self.shared.broken.lock().unwrap().clone()
    }
}

/// One request as the brain sees it.
pub struct Call<'a> {
    pub kind: Kind,
    pub body: &'a Value,
    headers: &'a [(String, String)],
}

impl Call<'_> {
    /// Everything the newest user message or item says.
    pub fn newest(&self) -> String {
        let member = if self.kind == Kind::Responses { "input" } else { "messages" };
        let said = self.body[member].as_array().into_iter().flatten();
        let newest = said.rev().find(|message| message["role"] == "user");
        newest.map(|message| texts(&message["content"]).join("\n")).unwrap_or_default()
    }

    /// True where the newest thing is the answer of a tool.
    pub fn answers_a_tool(&self) -> bool {
        if self.kind == Kind::Chat {
            let last = self.body["messages"].as_array().and_then(|messages| messages.last());
            return last.is_some_and(|message| message["role"] == "tool");
        }
        if self.kind == Kind::Responses {
            let last = self.body["input"].as_array().and_then(|items| items.last());
            return last.is_some_and(|item| item["type"].as_str().unwrap_or_default().ends_with("_output"));
        }
        let messages = self.body["messages"].as_array().into_iter().flatten();
        let newest = messages.rev().find(|message| message["role"] == "user");
        let blocks = newest.and_then(|message| message["content"].as_array()).into_iter().flatten();
        blocks.into_iter().any(|block| block["type"] == "tool_result")
    }

    /// True where the host asks for a summary of the conversation.
    pub fn is_compaction(&self) -> bool {
        let last = self.body["input"].as_array().and_then(|items| items.last());
        last.is_some_and(|item| item["type"] == "compaction_trigger")
            || self.newest().contains("CRITICAL: Respond with TEXT ONLY")
            || self.newest().contains("CONTEXT CHECKPOINT COMPACTION")
    }

    /// True where a subagent asks.
    pub fn is_subagent(&self) -> bool {
        self.headers.iter().any(|(name, _)| name == "x-claude-code-agent-id")
    }
}

/// Every text of a content, which is a string or a list of blocks.
pub fn texts(content: &Value) -> Vec<String> {
    match content {
        Value::String(text) => vec![text.clone()],
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| block["text"].as_str()).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

async fn serve(State(shared): State<Arc<Shared>>, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, BODY_BYTES_MAX).await.expect("a readable body");
    let header = |(name, value): (&HeaderName, &HeaderValue)| {
        (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let recorded = Recorded {
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        target: parts.uri.to_string(),
        headers: parts.headers.iter().map(header).collect(),
        body: body.to_vec(),
    };
    let kind = Kind::of(&recorded.method, &recorded.path);
    let (answer, usage) = answer(&shared, kind, &recorded);
    let status = answer.status;
    shared.seen.lock().unwrap().push(Seen { request: recorded, kind, status, cache: usage });
    let mut response = Response::new(Body::from(answer.body));
    *response.status_mut() = StatusCode::from_u16(status).expect("a status");
    response.headers_mut().insert("content-type", HeaderValue::from_static(answer.content_type));
    response
}

/// What goes back.
pub struct Reply {
    status: u16,
    content_type: &'static str,
    body: String,
}

impl Reply {
    pub fn json(status: u16, body: &Value) -> Self {
        Self { status, content_type: "application/json", body: body.to_string() }
    }

    /// Status 400 in the envelope of the dialect.
    fn refusal(kind: Kind, message: &str) -> Self {
        let error =
            json!({ "type": "invalid_request_error", "message": message, "param": null, "code": null });
        match kind {
            Kind::Responses => Self::json(400, &json!({ "error": error })),
            _ => Self::json(400, &json!({ "type": "error", "error": error })),
        }
    }

    pub fn events(body: String) -> Self {
        Self { status: 200, content_type: "text/event-stream", body }
    }
}

fn answer(shared: &Shared, kind: Kind, request: &Recorded) -> (Reply, cache::Usage) {
    let nothing = cache::Usage::default();
    if kind == Kind::Other {
        return (promptless(request), nothing);
    }
    if request.header("content-encoding").is_some() {
        return (Reply::json(400, &json!({ "error": { "message": "compressed" } })), nothing);
    }
    let body = request.json();
    let call = Call { kind, body: &body, headers: &request.headers };
    if kind == Kind::Count {
        return (Reply::json(200, &json!({ "input_tokens": request.body.len() / 4 })), nothing);
    }
    let broken = match kind {
        Kind::Messages => prefix::messages(&body),
        Kind::Responses => prefix::responses(&body),
        Kind::Chat => prefix::chat(&body),
        Kind::Count | Kind::Other => unreachable!("answered above"),
    };
    if let Some(broken) = broken.filter(|_| shared.judged) {
        shared.broken.lock().unwrap().push(broken.clone());
        return (Reply::refusal(kind, &broken), nothing);
    }
    let mut cache = shared.cache.lock().unwrap();
    let usage = match kind {
        Kind::Messages => cache.messages(&body),
        Kind::Chat => cache.chat(&body),
        _ => cache.responses(&body),
    };
    let n = shared.calls.fetch_add(1, Ordering::Relaxed);
    let reply = match (shared.brain)(&call) {
        Say::Refuse(message) => Reply::refusal(kind, message),
        say => match kind {
            Kind::Messages => messages::reply(&call, &say, n, usage),
            Kind::Chat => chat::reply(&call, &say, n, usage),
            _ => responses::reply(&call, &say, n, usage),
        },
    };
    (reply, usage)
}

fn promptless(request: &Recorded) -> Reply {
    match (request.method.as_str(), request.path.as_str()) {
        ("HEAD", "/api/hello") => Reply::json(200, &json!({})),
        ("GET", "/v1/models") => Reply::json(200, &json!({ "data": [], "has_more": false })),
        _ => Reply::json(404, &json!({ "error": { "message": "no such thing here" } })),
    }
}

/// `event: NAME` with the same `type` in its data.
fn event(name: &str, data: &Value) -> String {
    let mut whole = json!({ "type": name });
    whole.as_object_mut().expect("an object").extend(data.as_object().expect("an object").clone());
    format!("event: {name}\ndata: {whole}\n\n")
}
