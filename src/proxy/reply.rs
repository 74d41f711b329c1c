//! An answer on its way to the client: bytes as they come, no faster than the client reads, and no false end.

use std::fmt;
use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::{Body, Bytes, Frame, SizeHint};
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use hyper::{HeaderMap, StatusCode};
use tokio::time::{Instant, Sleep, sleep};

use super::behind::Source;
use super::block::Envelope;

/// After how long a silence of the upstream the client gets a sign of life. Claude Code gives up after 300 s.
const SILENCE: Duration = Duration::from_secs(25);
/// Bytes of an event's end that are remembered.
const TAIL_BYTES: usize = 4;

/// How an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// Completely.
    Whole,
    /// The upstream broke off.
    Cut,
    /// The client left, or this process ended.
    Interrupted,
}

impl How {
    /// Its name in counters and in the log.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Cut => "cut",
            Self::Interrupted => "interrupted",
        }
    }
}

/// How an answer ended, and what of it went out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct End {
    /// How.
    pub how: How,
    /// Bytes of the upstream's body handed to the client's connection.
    pub bytes: u64,
}

/// Told exactly once how an answer ended; dropped untold, it was interrupted.
pub(crate) struct Outcome(Option<Box<dyn FnOnce(End) + Send>>);

impl Outcome {
    /// Calls `report` once.
    pub(crate) fn new(report: impl FnOnce(End) + Send + 'static) -> Self {
        Self(Some(Box::new(report)))
    }

    /// Nobody asks.
    pub(crate) fn unasked() -> Self {
        Self(None)
    }

    /// Reports; what comes later is not heard.
    pub(crate) fn tell(&mut self, end: End) {
        if let Some(report) = self.0.take() {
            report(end);
        }
    }
}

impl Drop for Outcome {
    fn drop(&mut self) {
        self.tell(End { how: How::Interrupted, bytes: 0 });
    }
}

/// The body of every answer.
pub(super) struct ReplyBody {
    content: Content,
    bytes: u64,
    outcome: Outcome,
}

enum Content {
    Whole(Bytes),
    Streamed(Streamed),
    /// Everything was given, or nothing may be given.
    Done,
}

struct Streamed {
    source: Source,
    /// Bytes still to come, where the upstream said so.
    left: Option<u64>,
    /// Broken: the client is told once what came before is out.
    broken: bool,
    pulse: Option<Pulse>,
}

/// Makes the client's connection end without the end of the answer.
#[derive(Debug)]
pub(super) struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the upstream broke off")
    }
}

impl std::error::Error for Broken {}

impl ReplyBody {
    /// A body of our own.
    pub(super) fn whole(bytes: impl Into<Bytes>, outcome: Outcome) -> Self {
        Self { content: Content::Whole(bytes.into()), bytes: 0, outcome }
    }

    /// An upstream's body, whose head is this.
    pub(super) fn streamed(
        source: Source,
        status: StatusCode,
        headers: &HeaderMap,
        envelope: Envelope,
        outcome: Outcome,
    ) -> Self {
        let left = length(status, headers);
        let pulse = is_plain_events(headers).then(|| Pulse::new(envelope)).filter(|_| left.is_none());
        Self {
            content: Content::Streamed(Streamed { source, left, broken: false, pulse }),
            bytes: 0,
            outcome,
        }
    }

    /// The answer to a HEAD request: its head says everything.
    pub(super) fn none(mut outcome: Outcome) -> Self {
        outcome.tell(End { how: How::Whole, bytes: 0 });
        Self { content: Content::Done, bytes: 0, outcome }
    }

    fn end(&mut self, how: How) {
        self.outcome.tell(End { how, bytes: self.bytes });
    }

    fn poll_stream(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let Content::Streamed(streamed) = &mut self.content else { return Poll::Ready(None) };
        if streamed.broken {
            self.content = Content::Done;
            return Poll::Ready(Some(Err(Broken)));
        }
        match streamed.source.as_mut().poll_next(context) {
            Poll::Ready(Some(Ok(bytes))) => {
                let count = u64::try_from(bytes.len()).unwrap_or_default();
                self.bytes = self.bytes.saturating_add(count);
                streamed.saw(&bytes, count);
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Poll::Ready(None) if streamed.left.unwrap_or_default() == 0 => {
                self.content = Content::Done;
                self.end(How::Whole);
                Poll::Ready(None)
            }
            Poll::Ready(Some(Err(_)) | None) => {
                streamed.broken = true;
                self.end(How::Cut);
                // Once around: what is already handed over gets written before the connection breaks.
                context.waker().wake_by_ref();
                Poll::Pending
            }
            Poll::Pending => streamed.pulse.as_mut().map_or(Poll::Pending, |pulse| pulse.poll(context)),
        }
    }
}

impl Streamed {
    fn saw(&mut self, bytes: &[u8], count: u64) {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(count);
        }
        if let Some(pulse) = &mut self.pulse {
            pulse.saw(bytes);
        }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let body = self.get_mut();
        match &mut body.content {
            Content::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                body.bytes = u64::try_from(bytes.len()).unwrap_or_default();
                body.content = Content::Done;
                body.end(How::Whole);
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Content::Streamed(_) => body.poll_stream(context),
            Content::Done => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.content, Content::Done)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.content {
            Content::Whole(bytes) => SizeHint::with_exact(u64::try_from(bytes.len()).unwrap_or_default()),
            Content::Streamed(Streamed { left: Some(left), .. }) => SizeHint::with_exact(*left),
            Content::Streamed(_) => SizeHint::default(),
            Content::Done => SizeHint::with_exact(0),
        }
    }
}

impl Drop for ReplyBody {
    fn drop(&mut self) {
        // A body of known length is dropped after its last byte without being asked for its end.
        let whole = matches!(&self.content, Content::Streamed(Streamed { left: Some(0), .. }));
        self.end(if whole { How::Whole } else { How::Interrupted });
    }
}

fn length(status: StatusCode, headers: &HeaderMap) -> Option<u64> {
    if matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        return Some(0);
    }
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn is_plain_events(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.to_ascii_lowercase().starts_with("text/event-stream") && !headers.contains_key(CONTENT_ENCODING)
}

/// Signs of life between two events, never inside one.
struct Pulse {
    sign: &'static [u8],
    timer: Pin<Box<Sleep>>,
    waiting: bool,
    tail: Vec<u8>,
}

impl Pulse {
    fn new(envelope: Envelope) -> Self {
        let sign: &[u8] = match envelope {
            Envelope::Anthropic => b"event: ping\ndata: {\"type\": \"ping\"}\n\n",
            Envelope::OpenAi => b": agentspine\n\n",
        };
        Self { sign, timer: Box::pin(sleep(SILENCE)), waiting: false, tail: Vec::new() }
    }

    fn saw(&mut self, bytes: &[u8]) {
        self.waiting = false;
        self.tail.extend_from_slice(bytes.get(bytes.len().saturating_sub(TAIL_BYTES)..).unwrap_or_default());
        self.tail.drain(..self.tail.len().saturating_sub(TAIL_BYTES));
    }

    /// Whether the last event is complete: it ends with an empty line.
    fn is_between(&self) -> bool {
        self.tail.is_empty()
            || [&b"\n\n"[..], b"\r\n\r\n", b"\r\r"].iter().any(|end| self.tail.ends_with(end))
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        if !self.is_between() {
            return Poll::Pending;
        }
        if !self.waiting {
            self.waiting = true;
            self.timer.as_mut().reset(Instant::now() + SILENCE);
        }
        if self.timer.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.waiting = false;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(self.sign)))))
    }
}
