//! The listener: loopback only, bounded, ended with grace.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustix::process::{Resource, getrlimit, setrlimit};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{interval, sleep};

use super::behind::Behind;
use super::body::Room;
use super::counters::{Counters, UPKEEP};
use super::door::{Door, fresh};
use super::guard::{Guarded, HEAD_BYTES_MAX, Word, linger};
use super::line::Log;
use super::peer::Names;
use super::reply::ReplyBody;

/// Most connections at a time; more wait in the system's queue.
pub(crate) const CONNECTIONS_MAX: usize = 1100;
/// How long answers that have begun may go on after the first signal to end.
pub(crate) const DRAIN: Duration = Duration::from_mins(5);
/// Pause after an error of `accept`: the system is short of something.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Buffers of the HTTP library a connection: a whole head fits, a slow reader's answer stays at its upstream.
const BUFFER_BYTES: usize = HEAD_BYTES_MAX + 8 * 1024;
/// Most header lines of a request.
const HEADERS_MAX: usize = 200;

/// What the server is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Go on.
    Not,
    /// Take nothing new, finish what has begun.
    Drain,
    /// End at once.
    Now,
}

/// Why there is no listener.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ListenError {
    /// Other machines could reach it.
    #[error("{0} is not an address of this machine alone; only 127.0.0.1 and [::1] are listened on")]
    NotLoopback(SocketAddr),
    /// Another program has the port.
    #[error("another program listens on {0}")]
    Taken(SocketAddr),
    /// The system refuses.
    #[error("cannot listen on {address}: {kind}")]
    Refused {
        /// Where.
        address: SocketAddr,
        /// Why.
        kind: io::ErrorKind,
    },
}

/// The HTTP server, bound and not yet serving.
pub(crate) struct Server<B> {
    listener: TcpListener,
    address: SocketAddr,
    door: Arc<Door<B>>,
}

impl<B: Behind> Server<B> {
    /// Binds `address`, port 0 for a free one.
    pub(crate) async fn bind(
        address: SocketAddr,
        behind: Arc<B>,
        counters: Arc<Counters>,
        log: Log,
    ) -> Result<Self, ListenError> {
        if !address.ip().is_loopback() {
            return Err(ListenError::NotLoopback(address));
        }
        let listener = TcpListener::bind(address).await.map_err(|error| wrong(address, &error))?;
        let address = listener.local_addr().map_err(|error| wrong(address, &error))?;
        let (names, nonce, room) = (Names::of(address), fresh(), Room::new());
        let door = Arc::new(Door { behind, names, counters, log, nonce, room });
        Ok(Self { listener, address, door })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// What `/healthz` says of this daemon.
    pub(crate) fn nonce(&self) -> &str {
        &self.door.nonce
    }

    /// Serves until told to stop.
    pub(crate) async fn run(self, mut stop: watch::Receiver<Stop>) {
        raise_open_files();
        let Self { listener, door, .. } = self;
        let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let mut open = JoinSet::new();
        let mut upkeep = interval(UPKEEP);
        loop {
            tokio::select! {
                biased;
                () = told(&mut stop, Stop::Drain) => break,
                Some(_) = open.join_next(), if !open.is_empty() => {}
                _ = upkeep.tick() => door.counters.upkeep(),
                (stream, slot) = accept(&listener, &slots) => {
                    open.spawn(connection(door.clone(), stream, slot, stop.clone()));
                }
            }
            door.counters.connections(u32::try_from(open.len()).unwrap_or(u32::MAX));
        }
        drop(listener);
        drain(open, stop).await;
    }
}

fn wrong(address: SocketAddr, error: &io::Error) -> ListenError {
    match error.kind() {
        io::ErrorKind::AddrInUse => ListenError::Taken(address),
        kind => ListenError::Refused { address, kind },
    }
}

/// Each connection takes two descriptors, its own and its upstream's; the usual soft limit is 1024.
fn raise_open_files() {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Not raised: connections beyond the limit wait.
    let _ = setrlimit(Resource::Nofile, limit);
}

/// Returns once this much of an end is wanted. A sender that is gone wants an end too.
async fn told(stop: &mut watch::Receiver<Stop>, what: Stop) {
    // An error says that nobody is left to tell: the same as being told.
    let _ = stop.wait_for(|now| *now == Stop::Now || (what == Stop::Drain && *now == Stop::Drain)).await;
}

async fn accept(listener: &TcpListener, slots: &Arc<Semaphore>) -> (TcpStream, Option<OwnedSemaphorePermit>) {
    // It is never closed.
    let slot = slots.clone().acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, slot),
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
    }
}

type Answering = Pin<Box<dyn Future<Output = Result<Response<ReplyBody>, Infallible>> + Send>>;

async fn connection<B: Behind>(
    door: Arc<Door<B>>,
    stream: TcpStream,
    _slot: Option<OwnedSemaphorePermit>,
    mut stop: watch::Receiver<Stop>,
) {
    // Without it small events would wait for the client's acknowledgement.
    let _ = stream.set_nodelay(true);
    let word = Arc::new(Word::default());
    let guard = Guarded::new(stream, word.clone());
    let service = service_fn(move |request: Request<Incoming>| -> Answering {
        let (door, word, judged) = (door.clone(), word.clone(), word.of_request());
        Box::pin(async move { Ok(door.answer(word, judged, request).await) })
    });
    let mut http = http1::Builder::new();
    // The guard times heads, and rests, itself.
    http.header_read_timeout(None).max_buf_size(BUFFER_BYTES).max_headers(HEADERS_MAX);
    let mut connection = http.serve_connection(TokioIo::new(guard), service);
    let mut draining = false;
    let ended = loop {
        tokio::select! {
            ended = poll_fn(|context| connection.poll_without_shutdown(context)) => break ended,
            () = told(&mut stop, Stop::Drain), if !draining => {
                draining = true;
                Pin::new(&mut connection).graceful_shutdown();
            }
        }
    };
    // An answer that broke off must not look finished: the connection is just dropped.
    if ended.is_ok() {
        let mut guard = connection.into_parts().io.into_inner();
        if guard.shutdown().await.is_ok() {
            linger(guard).await;
        }
    }
}

/// Waits for what has begun, up to [`DRAIN`]; then connections are cut.
async fn drain(mut open: JoinSet<()>, mut stop: watch::Receiver<Stop>) {
    let all = async { while open.join_next().await.is_some() {} };
    tokio::select! {
        () = all => return,
        () = told(&mut stop, Stop::Now) => {}
        () = sleep(DRAIN) => {}
    }
    open.shutdown().await;
}
