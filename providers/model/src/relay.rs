//! The first door as a proxy uses it: [`ModelClient::relay`] posts an admitted body under the client's own headers and
//! gives the answer back byte for byte, whatever it is.
//!
//! Nothing of an answer is judged here: an error status, a redirect, a compressed body and an unknown event are answers.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use agentspine_gate::ReceiptId;
use agentspine_gate::receipt::Admitted;
use bytes::Bytes;
use futures_util::Stream;
use reqwest::header::{CONTENT_LENGTH, HOST, HeaderMap, TRANSFER_ENCODING};
use reqwest::{Response, StatusCode, Url};
use tokio::time::{Instant, Sleep, sleep};

use crate::call::{ModelClient, host_of, host_of_url};
use crate::error::ModelError;

/// An answer on its way through.
#[derive(Debug)]
pub struct Relayed {
    /// The receipt that was consumed for this call.
    pub receipt: ReceiptId,
    /// As the upstream sent it, redirects too.
    pub status: StatusCode,
    /// As the upstream sent them, those of its connection too: taking these out is the proxy's part.
    pub headers: HeaderMap,
    /// Still being received.
    pub body: RelayBody,
}

impl ModelClient {
    /// Posts exactly the admitted bytes, once, to [`Admitted::endpoint`] under exactly these headers, and returns after
    /// the response head. `host` and framing headers are the connection's own and replaced; `accept: */*` stands where
    /// the client named none. Never retries, follows no redirect, decompresses nothing. Dropping the future or the
    /// [`RelayBody`] closes the connection.
    ///
    /// It is the same door as [`Self::call`]: the same proof, by value, one receipt and at most one request.
    /// ```
    /// use agentspine_gate::receipt::Admitted;
    /// use agentspine_model::{HeaderMap, ModelClient};
    /// async fn admitted(client: &ModelClient, headers: HeaderMap, body: Admitted) {
    ///     let _ = client.relay(headers, body).await;
    /// }
    /// ```
    /// A body without its proof does not fit through:
    /// ```compile_fail,E0308
    /// use agentspine_model::{HeaderMap, ModelClient};
    /// async fn bare(client: &ModelClient, headers: HeaderMap, body: Vec<u8>) {
    ///     let _ = client.relay(headers, body).await;
    /// }
    /// ```
    pub async fn relay(&self, headers: HeaderMap, admitted: Admitted) -> Result<Relayed, ModelError> {
        let url = endpoint(admitted.endpoint())?;
        let host = host_of_url(&url);
        let receipt = admitted.receipt();
        let request = self.http.post(url).headers(forwarded(headers)).body(admitted.into_body());
        let response = self.send(request, &host).await?;
        let (status, headers, body) = self.parts(response, host);
        Ok(Relayed { receipt, status, headers, body })
    }

    pub(crate) fn parts(&self, mut response: Response, host: String) -> (StatusCode, HeaderMap, RelayBody) {
        let headers = std::mem::take(response.headers_mut());
        (response.status(), headers, RelayBody::new(response, host, self.config.idle))
    }
}

/// Only http and https; credentials in it would become a header that nobody asked for.
fn endpoint(text: &str) -> Result<Url, ModelError> {
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url = url.filter(|url| url.username().is_empty() && url.password().is_none());
    url.ok_or_else(|| ModelError::Connect {
        host: host_of(text),
        why: "the address cannot be used".to_owned(),
    })
}

/// Headers without those that belong to one connection's framing.
pub(crate) fn forwarded(mut headers: HeaderMap) -> HeaderMap {
    for name in [HOST, CONTENT_LENGTH, TRANSFER_ENCODING] {
        headers.remove(name);
    }
    headers
}

/// The raw bytes of an answer as they come, still compressed where the upstream compressed them.
///
/// An answer that breaks or falls silent ends with an error, never as if it were complete. Nothing is read ahead: who
/// does not poll makes the upstream wait.
pub struct RelayBody {
    /// `None` after the end: a connection in fault is closed at once.
    source: Option<Source>,
    host: String,
    idle: Duration,
    silence: Silence,
}

type Source = Pin<Box<dyn Stream<Item = reqwest::Result<Bytes>> + Send>>;

/// Whether the upstream is being waited for. The time in which nobody polls is the reader's, not the upstream's.
struct Silence {
    timer: Pin<Box<Sleep>>,
    waiting: bool,
}

impl RelayBody {
    fn new(response: Response, host: String, idle: Duration) -> Self {
        let silence = Silence { timer: Box::pin(sleep(idle)), waiting: false };
        Self { source: Some(Box::pin(response.bytes_stream())), host, idle, silence }
    }

    fn fail(&mut self, error: ModelError) -> Poll<Option<Result<Bytes, ModelError>>> {
        self.source = None;
        Poll::Ready(Some(Err(error)))
    }
}

impl Silence {
    /// Whether nothing came for too long.
    fn is_over(&mut self, idle: Duration, context: &mut Context<'_>) -> bool {
        if !self.waiting {
            self.waiting = true;
            let until = Instant::now().checked_add(idle);
            if let Some(until) = until {
                self.timer.as_mut().reset(until);
            }
        }
        self.timer.as_mut().poll(context).is_ready()
    }
}

impl Stream for RelayBody {
    type Item = Result<Bytes, ModelError>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let body = self.get_mut();
        let Some(source) = body.source.as_mut() else { return Poll::Ready(None) };
        match source.as_mut().poll_next(context) {
            Poll::Ready(Some(Ok(bytes))) => {
                body.silence.waiting = false;
                Poll::Ready(Some(Ok(bytes)))
            }
            Poll::Ready(Some(Err(_))) => {
                let host = body.host.clone();
                body.fail(ModelError::Cut { host })
            }
            Poll::Ready(None) => {
                body.source = None;
                Poll::Ready(None)
            }
            Poll::Pending if body.silence.is_over(body.idle, context) => {
                let (host, after) = (body.host.clone(), body.idle);
                body.fail(ModelError::Idle { host, after })
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl std::fmt::Debug for RelayBody {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RelayBody").field("host", &self.host).finish_non_exhaustive()
    }
}
