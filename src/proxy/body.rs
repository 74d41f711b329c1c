//! A request's body: typed, bounded, read in time, decoded.

use std::future::poll_fn;
use std::io::{self, Read};
use std::pin::Pin;
use std::time::Duration;

use hyper::HeaderMap;
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use ruzstd::decoding::StreamingDecoder;
use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::errors::ReadFrameHeaderError::SkipFrame;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::refused::Refused;

/// Largest body, as sent and as decoded: the limit of Anthropic's API.
pub(crate) const BODY_BYTES_MAX: usize = 32 * 1024 * 1024;
/// Longest silence inside a body.
const BODY_IDLE: Duration = Duration::from_secs(30);
/// Longest time for a whole body.
const BODY_WALL: Duration = Duration::from_mins(5);
/// Room made before the first byte; more only as bytes come.
const ROOM_BYTES: usize = 1024 * 1024;
/// Largest zstd window (RFC 9659).
const ZSTD_WINDOW_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// Input of the brotli decoder at a time, bytes.
const BROTLI_INPUT_BYTES: usize = 4096;

/// Bytes that the bodies of all requests take at a time; the next one waits unread.
const HELD_BYTES_MAX: usize = 256 * 1024 * 1024;
/// What is counted in, bytes.
const UNIT_BYTES: usize = 64 * 1024;

/// Room for bodies.
pub(super) struct Room(Semaphore);

impl Room {
    /// All of it free.
    pub(super) fn new() -> Self {
        Self(Semaphore::new(HELD_BYTES_MAX / UNIT_BYTES))
    }

    /// Waits until there is room for that many bytes.
    async fn take(&self, bytes: usize) -> Option<SemaphorePermit<'_>> {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        // It is never closed.
        self.0.acquire_many(units).await.ok()
    }
}

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Plain,
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

/// Reads the whole body. What its head says is judged before a byte of it is read.
pub(super) async fn read<'a>(
    room: &'a Room,
    headers: &HeaderMap,
    body: Incoming,
) -> Result<(Bytes, Option<SemaphorePermit<'a>>), Refused> {
    if !is_json(headers) {
        return Err(Refused::MediaType);
    }
    let coding = coding(headers)?;
    let said = length(headers);
    if said.is_some_and(|said| said > BODY_BYTES_MAX) {
        return Err(Refused::BodyTooLarge);
    }
    // What it will be is only known of one that is plain and says its length.
    let size = said.filter(|_| coding == Coding::Plain).unwrap_or(BODY_BYTES_MAX);
    let room = room.take(size).await;
    let raw = timeout(BODY_WALL, collect(body, said)).await.map_err(|_| Refused::BodySlow)??;
    if coding == Coding::Plain {
        return Ok((raw, room));
    }
    // A bomb takes a while to reach its limit; other requests go on meanwhile.
    let decoded = tokio::task::spawn_blocking(move || decode(coding, &raw)).await;
    Ok((decoded.map_err(|_| Refused::Undecodable)??.into(), room))
}

/// Whether a head announces a body.
pub(super) fn is_announced(body: &Incoming) -> bool {
    !body.is_end_stream()
}

fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).into_iter();
    let (Some(one), None) = (types.next(), types.next()) else { return false };
    let kind = one.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

fn coding(headers: &HeaderMap) -> Result<Coding, Refused> {
    let mut codings = headers.get_all(CONTENT_ENCODING).into_iter();
    let (first, None) = (codings.next(), codings.next()) else { return Err(Refused::Encoding) };
    let Some(value) = first else { return Ok(Coding::Plain) };
    match value.to_str().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
        "identity" => Ok(Coding::Plain),
        "gzip" | "x-gzip" => Ok(Coding::Gzip),
        "deflate" => Ok(Coding::Deflate),
        "br" => Ok(Coding::Brotli),
        "zstd" => Ok(Coding::Zstd),
        _ => Err(Refused::Encoding),
    }
}

fn length(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

async fn collect(mut body: Incoming, said: Option<usize>) -> Result<Bytes, Refused> {
    let mut whole: Vec<u8> = Vec::with_capacity(said.unwrap_or_default().min(ROOM_BYTES));
    loop {
        let next = timeout(BODY_IDLE, poll_fn(|context| Pin::new(&mut body).poll_frame(context))).await;
        let Some(frame) = next.map_err(|_| Refused::BodySlow)? else { return Ok(whole.into()) };
        // Trailers are not passed on.
        let Ok(bytes) = frame.map_err(|_| Refused::BodyCut)?.into_data() else { continue };
        if whole.len() + bytes.len() > BODY_BYTES_MAX {
            return Err(Refused::BodyTooLarge);
        }
        whole.extend_from_slice(&bytes);
    }
}

fn decode(coding: Coding, raw: &[u8]) -> Result<Vec<u8>, Refused> {
    match coding {
        Coding::Plain => Ok(raw.to_vec()),
        Coding::Gzip => all(flate2::read::MultiGzDecoder::new(raw), Vec::new()),
        // The zlib format (RFC 9110, 8.4.1.2).
        Coding::Deflate => all(flate2::read::ZlibDecoder::new(raw), Vec::new()),
        Coding::Brotli => all(brotli_decompressor::Decompressor::new(raw, BROTLI_INPUT_BYTES), Vec::new()),
        Coding::Zstd => zstd(raw),
    }
}

/// Everything a decoder gives, after what is there already, up to the limit.
fn all(decoder: impl Read, mut plain: Vec<u8>) -> Result<Vec<u8>, Refused> {
    let room = BODY_BYTES_MAX - plain.len();
    let limit = u64::try_from(room).unwrap_or_default() + 1;
    let read: io::Result<usize> = decoder.take(limit).read_to_end(&mut plain);
    match read {
        Ok(count) if count > room => Err(Refused::BodyTooLarge),
        Ok(_) => Ok(plain),
        Err(_) => Err(Refused::Undecodable),
    }
}

/// Frame after frame (RFC 8878); those that hold no content are skipped.
fn zstd(mut raw: &[u8]) -> Result<Vec<u8>, Refused> {
    let mut plain = Vec::new();
    loop {
        let opened = StreamingDecoder::new_with_max_window_size(&mut raw, ZSTD_WINDOW_BYTES_MAX);
        match opened {
            Ok(decoder) => plain = all(decoder, plain)?,
            Err(FrameDecoderError::ReadFrameHeaderError(SkipFrame { length, .. })) => {
                let length = usize::try_from(length).map_err(|_| Refused::Undecodable)?;
                raw = raw.get(length..).ok_or(Refused::Undecodable)?;
            }
            Err(_) => return Err(Refused::Undecodable),
        }
        if raw.is_empty() {
            return Ok(plain);
        }
    }
}
