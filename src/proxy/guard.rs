//! The raw head of each request, judged before the HTTP library sees it.
//!
//! The library takes the first of two contradicting framings and hides the other one; a proxy must not (RFC 9112, 6.3).
//! [`Guarded`] holds a head back until it is whole, judges it, and lets exactly the body through that the head announced.
//! In place of a head that breaks the rules the library is shown an empty request, whose answer is the refusal. The
//! client sees one refusal in the order of its requests, and nothing after it is read.

mod head;

use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf, Take};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep};

use super::refused::Refused;
use head::{Framing, judge};

/// Largest head, bytes.
pub(crate) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Longest time from a head's first byte to its last, and from a connection's start to its first head.
const HEAD_WAIT: Duration = Duration::from_secs(10);
/// How long a connection may rest between two requests.
const REST: Duration = Duration::from_mins(5);
/// How long what a client still sends after an early answer is read and dropped, so that it gets to read the answer.
const LINGER: Duration = Duration::from_secs(2);
/// Bytes read at a time while a head is awaited or the rest of a body is dropped.
const READ_BYTES: usize = 4096;
/// What the library sees in place of a head that is refused.
const REFUSED_HEAD: &[u8] = b"GET / HTTP/1.1\r\nconnection: close\r\n\r\n";

/// What guard and service tell each other about a connection.
#[derive(Default)]
pub(super) struct Word {
    refused: OnceLock<Refused>,
    /// Requests whose answer is not out yet; a second one may have been sent before the first answer.
    answering: AtomicUsize,
    last: AtomicBool,
}

impl Word {
    /// What is known of the request whose head was given on last. To be asked before another one is read.
    pub(super) fn of_request(&self) -> Judged {
        Judged { refused: self.refused.get().copied(), last: self.last.load(Ordering::Acquire) }
    }

    /// An answer is out: after the last one the connection rests.
    pub(super) fn answered(&self) {
        self.answering.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What the guard found in one request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Judged {
    /// Why it is refused.
    pub refused: Option<Refused>,
    /// Whether the connection ends with it.
    pub last: bool,
}

enum State {
    /// A head is awaited or incomplete.
    Head,
    /// A judged head on its way to the library.
    Giving(Vec<u8>, usize, Framing),
    /// That many bytes of a body are still to come.
    Body(u64),
    /// A chunked body: the library finds its end, and the connection ends with it.
    Chunked,
    /// Nothing more is read, and the answer is still to be written: an end would look as if the client had left.
    Refused,
    /// Over.
    End,
}

/// A client's connection.
pub(super) struct Guarded {
    stream: Take<TcpStream>,
    state: State,
    /// Read and not yet given on: the part of a head, or what came with it.
    held: Vec<u8>,
    timer: Pin<Box<Sleep>>,
    timed: Timed,
    word: Arc<Word>,
}

/// What the timer measures.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Timed {
    Nothing,
    Rest,
    Head,
}

impl Guarded {
    /// Guards a connection that was just accepted.
    pub(super) fn new(stream: TcpStream, word: Arc<Word>) -> Self {
        Self {
            stream: stream.take(u64::MAX),
            state: State::Head,
            held: Vec::new(),
            timer: Box::pin(sleep(HEAD_WAIT)),
            timed: Timed::Head,
            word,
        }
    }

    /// Reads until a head is whole and judged, or the connection is over.
    fn poll_head(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while matches!(self.state, State::Head) {
            match head::end(&self.held) {
                end if end.unwrap_or(self.held.len()) > HEAD_BYTES_MAX => self.refuse(Refused::HeadTooLarge),
                Some(end) => self.take_head(end),
                None if self.poll_deadline(context).is_ready() => {}
                None => ready!(self.poll_more(context))?,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// One read into `held`.
    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut room = [0u8; READ_BYTES];
        let mut read = ReadBuf::new(&mut room);
        self.stream.set_limit(u64::MAX);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut read))?;
        if read.filled().is_empty() {
            self.state = State::End;
        }
        self.held.extend_from_slice(read.filled());
        head::skip_empty_lines(&mut self.held);
        Poll::Ready(Ok(()))
    }

    /// Ready once the state has changed: the head is refused for being slow, or the rest was long enough.
    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.word.answering.load(Ordering::Acquire) > 0 {
            // The client waits for us, not we for it.
            self.timed = Timed::Nothing;
            return Poll::Pending;
        }
        let (due, wait) = match (self.held.is_empty(), self.timed) {
            (true, Timed::Nothing) => (Timed::Rest, REST),
            (false, Timed::Nothing | Timed::Rest) => (Timed::Head, HEAD_WAIT),
            _ => (self.timed, Duration::ZERO),
        };
        if due != self.timed {
            self.timed = due;
            self.timer.as_mut().reset(Instant::now() + wait);
        }
        ready!(self.timer.as_mut().poll(context));
        if self.held.is_empty() {
            self.state = State::End;
        } else {
            self.refuse(Refused::HeadSlow);
        }
        Poll::Ready(())
    }

    fn take_head(&mut self, end: usize) {
        let rest = self.held.split_off(end);
        let head = std::mem::replace(&mut self.held, rest);
        match judge(&head) {
            Ok(framing) => {
                self.word.answering.fetch_add(1, Ordering::AcqRel);
                self.timed = Timed::Nothing;
                if framing == Framing::Chunked {
                    self.word.last.store(true, Ordering::Release);
                }
                self.state = State::Giving(head, 0, framing);
            }
            Err(refused) => self.refuse(refused),
        }
    }

    fn refuse(&mut self, refused: Refused) {
        // The first one stands: nothing is read after it.
        let _ = self.word.refused.set(refused);
        self.word.answering.fetch_add(1, Ordering::AcqRel);
        self.word.last.store(true, Ordering::Release);
        self.held.clear();
        self.state = State::Giving(REFUSED_HEAD.to_vec(), 0, Framing::Refused);
    }

    /// At most `limit` bytes of a body; how many.
    fn poll_body(
        &mut self,
        context: &mut Context<'_>,
        limit: u64,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<u64>> {
        let before = into.filled().len();
        if self.held.is_empty() {
            self.stream.set_limit(limit);
            ready!(Pin::new(&mut self.stream).poll_read(context, into))?;
        } else {
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let count = limit.min(self.held.len()).min(into.remaining());
            into.put_slice(self.held.get(..count).unwrap_or_default());
            self.held.drain(..count);
        }
        Poll::Ready(Ok(u64::try_from(into.filled().len() - before).unwrap_or_default()))
    }

    /// Whether the client may still be sending what nobody will read.
    fn is_unfinished(&self) -> bool {
        matches!(self.state, State::Body(1..) | State::Chunked | State::Refused)
    }
}

impl AsyncRead for Guarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let guard = &mut *self;
        loop {
            match &mut guard.state {
                State::Head => ready!(guard.poll_head(context))?,
                State::Giving(head, at, framing) => {
                    let rest = head.get(*at..).unwrap_or_default();
                    let count = rest.len().min(into.remaining());
                    into.put_slice(rest.get(..count).unwrap_or_default());
                    *at += count;
                    if *at == head.len() {
                        guard.state = framing.after();
                    }
                    return Poll::Ready(Ok(()));
                }
                State::Body(0) => guard.state = State::Head,
                State::Body(left) => {
                    let left = *left;
                    let count = ready!(guard.poll_body(context, left, into))?;
                    guard.state = State::Body(left.saturating_sub(count));
                    return Poll::Ready(Ok(()));
                }
                State::Chunked => {
                    return guard.poll_body(context, u64::MAX, into).map_ok(drop);
                }
                // The answer closes the connection; nothing has to wake this up.
                State::Refused => return Poll::Pending,
                State::End => return Poll::Ready(Ok(())),
            }
        }
    }
}

impl Framing {
    fn after(self) -> State {
        match self {
            Self::Length(length) => State::Body(length),
            Self::Chunked => State::Chunked,
            Self::Refused => State::Refused,
        }
    }
}

impl AsyncWrite for Guarded {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.stream.get_mut()).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(self.stream.get_mut()).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.get_ref().is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream.get_mut()).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(self.stream.get_mut()).poll_shutdown(context)
    }
}

/// Reads and drops what the client still sends, for [`LINGER`] at most. Closing while something arrives would reset the
/// connection and take the answer away from a client that writes everything before it reads.
pub(super) async fn linger(mut guard: Guarded) {
    if !guard.is_unfinished() {
        return;
    }
    let stream = guard.stream.get_mut();
    let drop_all = async {
        let mut room = [0u8; READ_BYTES];
        while matches!(stream.read(&mut room).await, Ok(1..)) {}
    };
    // Out of time: the client had its chance.
    let _ = tokio::time::timeout(LINGER, drop_all).await;
}
