//! What stands behind the server: whose request this is, the path of a call, the upstreams.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use agentspine_gate::{ReceiptId, Refusal};
use agentspine_model::ModelError;
use futures_util::Stream;
use hyper::body::Bytes;
use hyper::{HeaderMap, StatusCode};

use super::reply::Outcome;
use super::route::{PassPath, PromptPath};

/// The house as the server sees it.
pub(crate) trait Behind: Send + Sync + 'static {
    /// What a secret stands for.
    type Workspace: Send + Sync + 'static;

    /// Whose secret this is. Takes the same time whatever it finds.
    fn find(&self, secret: &str) -> Option<Arc<Self::Workspace>>;

    /// A request that carries a prompt. Dropping the future cancels it.
    fn serve(
        &self,
        workspace: Arc<Self::Workspace>,
        request: Inbound,
    ) -> impl Future<Output = Outgoing> + Send;

    /// A request of the closed list that cannot carry one.
    fn pass(
        &self,
        workspace: Arc<Self::Workspace>,
        request: Passing,
    ) -> impl Future<Output = Outgoing> + Send;
}

/// A request that carries a prompt, as its client meant it.
#[derive(Debug)]
pub(crate) struct Inbound {
    /// Which endpoint.
    pub path: PromptPath,
    /// What stood after `?`, untouched.
    pub query: Option<String>,
    /// What may be sent on: nothing of this connection, nothing of ours. Describes the decoded body.
    pub headers: HeaderMap,
    /// Decoded.
    pub body: Bytes,
}

/// A request without a prompt and without a body.
#[derive(Debug)]
pub(crate) struct Passing {
    /// Which question.
    pub path: PassPath,
    /// What stood after `?`, untouched.
    pub query: Option<String>,
    /// What may be sent on.
    pub headers: HeaderMap,
}

/// What came of a request.
pub(crate) enum Outgoing {
    /// The upstream answers, whatever its status.
    Relayed(Relay),
    /// The gate refused; nothing was sent.
    Blocked(Refusal),
    /// The body is not a request of its dialect; nothing was sent. One sentence without its content.
    Unreadable(String),
    /// No answer from the upstream.
    UpstreamFailed {
        /// The receipt that was consumed for the call; `None` where the request needs none.
        receipt: Option<ReceiptId>,
        /// Why.
        error: ModelError,
    },
}

/// The raw bytes of an answer. An error or a dropped stream makes the client's answer incomplete.
pub(crate) type Source = Pin<Box<dyn Stream<Item = Result<Bytes, ModelError>> + Send>>;

/// An upstream's answer on its way through.
pub(crate) struct Relay {
    /// The receipt consumed for it; `None` where the request needs none.
    pub receipt: Option<ReceiptId>,
    /// The upstream's.
    pub status: StatusCode,
    /// The upstream's, those of its connection too.
    pub headers: HeaderMap,
    /// Pulled as fast as the client reads.
    pub body: Source,
    /// Told once how it ended.
    pub outcome: Outcome,
}
