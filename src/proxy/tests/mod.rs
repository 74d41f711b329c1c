//! The server over real sockets, in front of a stage that plays the house: every row of the conformance table
//! (proxy.md section 7), and what local security asks.

mod bodies;
mod framing;
mod life;
mod many;
mod own;
mod peers;
mod replies;

use std::collections::VecDeque;
use std::future::Future;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use agentspine_model::ModelError;
use futures_util::stream;
use hyper::body::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::behind::{Behind, Inbound, Outgoing, Passing, Relay, Source};
use super::counters::Counters;
use super::line::Log;
use super::listen::{Server, Stop};
use super::reply::{End, Outcome};

pub(super) const SECRET: &str = "0123456789abcdef0123456789abcdef";
/// Nothing here takes this long; what does has failed.
const DEADLINE: Duration = Duration::from_mins(1);

pub(super) async fn within<T>(what: &str, waiting: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, waiting).await.unwrap_or_else(|_| panic!("waited too long for {what}"))
}

/// The house, played: answers from a script, remembers what it was asked.
pub(super) struct Stage {
    script: Mutex<VecDeque<Outgoing>>,
    pub seen: Mutex<Vec<Inbound>>,
    pub passed: Mutex<Vec<Passing>>,
    pub arrived: Semaphore,
    /// Closed when a call without a scripted answer is dropped.
    waiting: mpsc::UnboundedSender<()>,
}

impl Stage {
    fn next(&self) -> Option<Outgoing> {
        self.arrived.add_permits(1);
        self.script.lock().unwrap().pop_front()
    }

    pub(super) fn asked(&self) -> usize {
        self.seen.lock().unwrap().len() + self.passed.lock().unwrap().len()
    }
}

impl Behind for Stage {
    type Workspace = ();

    fn find(&self, secret: &str) -> Option<Arc<()>> {
        (secret == SECRET).then(|| Arc::new(()))
    }

    async fn serve(&self, _: Arc<()>, request: Inbound) -> Outgoing {
        self.seen.lock().unwrap().push(request);
        let Some(answer) = self.next() else {
            let _here = Told(self.waiting.clone());
            return std::future::pending().await;
        };
        answer
    }

    async fn pass(&self, _: Arc<()>, request: Passing) -> Outgoing {
        self.passed.lock().unwrap().push(request);
        self.next().expect("a scripted answer")
    }
}

struct Told(mpsc::UnboundedSender<()>);

impl Drop for Told {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// A running server and its stage.
pub(super) struct House {
    pub port: u16,
    pub stage: Arc<Stage>,
    pub counters: Arc<Counters>,
    pub stop: watch::Sender<Stop>,
    pub dropped: mpsc::UnboundedReceiver<()>,
    pub done: JoinHandle<()>,
    log: Shared,
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl House {
    pub(super) async fn start(script: impl IntoIterator<Item = Outgoing>) -> Self {
        let (waiting, dropped) = mpsc::unbounded_channel();
        let stage = Arc::new(Stage {
            script: Mutex::new(script.into_iter().collect()),
            seen: Mutex::default(),
            passed: Mutex::default(),
            arrived: Semaphore::new(0),
            waiting,
        });
        let (counters, log) = (Arc::new(Counters::new()), Shared::default());
        let address = "127.0.0.1:0".parse().unwrap();
        let to = Log::to(Box::new(log.clone()));
        let server = Server::bind(address, stage.clone(), counters.clone(), to).await.unwrap();
        let (stop, stopped) = watch::channel(Stop::Not);
        let port = server.address().port();
        let done = tokio::spawn(server.run(stopped));
        Self { port, stage, counters, stop, dropped, done, log }
    }

    pub(super) async fn client(&self) -> Client {
        Client::to(self.port).await
    }

    /// Sends text with `HOST` and `SECRET` filled in, and reads one whole answer.
    pub(super) async fn ask(&self, request: &str) -> Answer {
        let mut client = self.client().await;
        client.send(request.as_bytes()).await;
        client.answer().await
    }

    /// A `POST` of a JSON body with the workspace's header.
    pub(super) async fn post(&self, path: &str, extra: &str, body: &[u8]) -> Answer {
        let mut client = self.client().await;
        client.post(path, extra, body).await;
        client.answer().await
    }

    /// The log's lines, once there are so many.
    pub(super) async fn lines(&self, count: usize) -> Vec<serde_json::Value> {
        let read = async {
            loop {
                let text = String::from_utf8(self.log.0.lock().unwrap().clone()).unwrap();
                if text.lines().count() >= count {
                    return text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
                }
                tokio::task::yield_now().await;
            }
        };
        within("log lines", read).await
    }
}

/// A client that writes exactly what a test says.
pub(super) struct Client {
    stream: BufReader<TcpStream>,
    port: u16,
}

/// One answer, whole.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("a JSON body")
    }

    /// The machine-readable reason.
    pub(super) fn reason(&self) -> &str {
        self.header("agentspine-block").expect("a reason")
    }
}

impl Client {
    pub(super) async fn to(port: u16) -> Self {
        Self { stream: BufReader::new(TcpStream::connect(("127.0.0.1", port)).await.unwrap()), port }
    }

    pub(super) fn fill(&self, request: &str) -> String {
        request.replace("HOST", &format!("127.0.0.1:{}", self.port)).replace("SECRET", SECRET)
    }

    pub(super) async fn send(&mut self, request: &[u8]) {
        let filled = match std::str::from_utf8(request) {
            Ok(text) => self.fill(text).into_bytes(),
            Err(_) => request.to_vec(),
        };
        // A server that has answered already may have closed.
        let _ = self.stream.get_mut().write_all(&filled).await;
    }

    pub(super) async fn post(&mut self, path: &str, extra: &str, body: &[u8]) {
        let length = body.len();
        self.send(
            format!(
                "POST {path} HTTP/1.1\r\nhost: HOST\r\nx-agentspine-workspace: SECRET\r\n\
                 content-type: application/json\r\ncontent-length: {length}\r\n{extra}\r\n"
            )
            .as_bytes(),
        )
        .await;
        let _ = self.stream.get_mut().write_all(body).await;
    }

    pub(super) async fn line(&mut self) -> String {
        let mut line = String::new();
        within("a line", self.stream.read_line(&mut line)).await.unwrap();
        line
    }

    /// Status and headers; the body is still to be read.
    pub(super) async fn head(&mut self) -> Answer {
        let first = self.line().await;
        let status = first.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.unwrap_or_else(|| panic!("no status line but {first:?}"));
        let mut headers = Vec::new();
        loop {
            let line = self.line().await;
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.push((name.to_owned(), value.to_owned()));
        }
        Answer { status, headers, body: Vec::new() }
    }

    /// One chunk; `None` at the proper end, an error where the connection ends without it.
    pub(super) async fn chunk(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let size = self.line().await;
        let broken = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let size = usize::from_str_radix(size.trim_end(), 16).map_err(|_| broken())?;
        let mut chunk = vec![0; size + 2];
        within("a chunk", self.stream.read_exact(&mut chunk)).await?;
        chunk.truncate(size);
        Ok((size > 0).then_some(chunk))
    }

    /// Reads until this text has come in chunks.
    pub(super) async fn until(&mut self, text: &str) {
        let mut got = String::new();
        while !got.ends_with(text) {
            let chunk = self.chunk().await.unwrap().unwrap_or_else(|| panic!("ended with {got:?}"));
            got.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// The body after a head.
    pub(super) async fn body(&mut self, head: &Answer) -> std::io::Result<Vec<u8>> {
        let mut body = Vec::new();
        if let Some(length) = head.header("content-length") {
            body.resize(length.parse().unwrap(), 0);
            within("a body", self.stream.read_exact(&mut body)).await?;
        } else if head.header("transfer-encoding") == Some("chunked") {
            while let Some(chunk) = self.chunk().await? {
                body.extend(chunk);
            }
        }
        Ok(body)
    }

    pub(super) async fn answer(&mut self) -> Answer {
        let mut answer = self.head().await;
        answer.body = self.body(&answer).await.unwrap();
        answer
    }

    /// Bytes until the server closes, however long that takes.
    pub(super) async fn ends(&mut self) -> usize {
        self.stream.read_to_end(&mut Vec::new()).await.unwrap()
    }

    /// What comes until the server closes.
    pub(super) async fn rest(&mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A reset is an end too.
        let _ = within("the end", self.stream.read_to_end(&mut rest)).await;
        rest
    }
}

pub(super) fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.append(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    }
    map
}

pub(super) fn relay(status: u16, of: &[(&'static str, &str)], body: Source) -> Outgoing {
    Outgoing::Relayed(Relay {
        receipt: Some(receipt()),
        status: StatusCode::from_u16(status).unwrap(),
        headers: headers(of),
        body,
        outcome: Outcome::unasked(),
    })
}

/// An answer in one piece.
pub(super) fn answer(status: u16, of: &[(&'static str, &str)], body: &'static [u8]) -> Outgoing {
    relay(status, of, Box::pin(stream::iter([Ok(Bytes::from_static(body))])))
}

/// The simplest one.
pub(super) fn ok() -> Outgoing {
    answer(200, &[("content-type", "application/json"), ("content-length", "2")], b"{}")
}

pub(super) fn receipt() -> agentspine_gate::ReceiptId {
    agentspine_gate::ReceiptId::parse("00112233445566778899aabbccddeeff").unwrap()
}

/// An event stream in the test's hand: what goes out, and how it ended.
pub(super) struct Live {
    pub to: mpsc::UnboundedSender<Result<Bytes, ModelError>>,
    pub ended: oneshot::Receiver<End>,
}

impl Live {
    pub(super) fn new() -> (Self, Outgoing) {
        Self::with(&[("content-type", "text/event-stream")])
    }

    pub(super) fn with(of: &[(&'static str, &str)]) -> (Self, Outgoing) {
        let (to, mut from) = mpsc::unbounded_channel();
        let (tell, ended) = oneshot::channel();
        let outcome = Outcome::new(move |end| {
            let _ = tell.send(end);
        });
        let body: Source = Box::pin(stream::poll_fn(move |context| from.poll_recv(context)));
        let Outgoing::Relayed(relay) = relay(200, of, body) else { unreachable!() };
        (Self { to, ended }, Outgoing::Relayed(Relay { outcome, ..relay }))
    }

    pub(super) fn say(&self, text: &'static str) {
        self.to.send(Ok(Bytes::from_static(text.as_bytes()))).unwrap();
    }

    pub(super) fn breaks(&self) {
        self.to.send(Err(ModelError::Cut { host: "api.test".into() })).unwrap();
    }
}
