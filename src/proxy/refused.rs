//! Why the server itself turns a request away, before anything reads what it asks.

use hyper::StatusCode;

use super::block::Envelope;
use super::body::BODY_BYTES_MAX;
use super::guard::HEAD_BYTES_MAX;

/// What is wrong with a request. Nothing of it was sent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The head breaks the rules of RFC 9112; which one.
    Framing(&'static str),
    /// A transfer coding other than `chunked`.
    TransferCoding,
    /// A head over [`HEAD_BYTES_MAX`].
    HeadTooLarge,
    /// The head did not arrive in time.
    HeadSlow,
    /// Not HTTP/1.1.
    Version,
    /// `Host` is missing or names somebody else.
    Host,
    /// A web page asks.
    Origin,
    /// A method that nothing here has.
    Method,
    /// A target that is not ours.
    Target,
    /// An upgrade.
    Upgrade,
    /// The request came from this proxy.
    Loop,
    /// No workspace, or an unknown one.
    Workspace,
    /// A path outside the table.
    Path,
    /// An endpoint that carries a prompt and is not supported.
    Legacy,
    /// A body where none belongs.
    Body,
    /// A body over [`BODY_BYTES_MAX`].
    BodyTooLarge,
    /// The body did not arrive in time.
    BodySlow,
    /// The client went away inside the body.
    BodyCut,
    /// Not `application/json`.
    MediaType,
    /// A content coding that cannot be read here.
    Encoding,
    /// The body is not what its content coding says.
    Undecodable,
}

impl Refused {
    /// The status. Where several would do, it is the one that makes the client post once and show the message
    /// (measured, contract section 9).
    pub(crate) fn status(self, envelope: Envelope) -> StatusCode {
        match self {
            Self::Framing(_) | Self::Target | Self::Body | Self::BodyCut => StatusCode::BAD_REQUEST,
            Self::TransferCoding => StatusCode::NOT_IMPLEMENTED,
            Self::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            Self::HeadSlow | Self::BodySlow => StatusCode::REQUEST_TIMEOUT,
            Self::Version => StatusCode::HTTP_VERSION_NOT_SUPPORTED,
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::Origin => StatusCode::FORBIDDEN,
            Self::Method => StatusCode::METHOD_NOT_ALLOWED,
            Self::Upgrade => StatusCode::UPGRADE_REQUIRED,
            Self::Path | Self::Legacy => StatusCode::NOT_FOUND,
            Self::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::MediaType | Self::Encoding => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Loop | Self::Workspace | Self::Undecodable => envelope.block_status(),
        }
    }

    /// The word in `agentspine-block: proxy-refused/WORD`, in counters and in the log.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Framing(_) => "framing",
            Self::TransferCoding => "transfer-coding",
            Self::HeadTooLarge => "head-too-large",
            Self::HeadSlow => "head-slow",
            Self::Version => "version",
            Self::Host => "host",
            Self::Origin => "origin",
            Self::Method => "method",
            Self::Target => "target",
            Self::Upgrade => "upgrade",
            Self::Loop => "loop",
            Self::Workspace => "workspace",
            Self::Path => "path",
            Self::Legacy => "legacy",
            Self::Body => "body",
            Self::BodyTooLarge => "body-too-large",
            Self::BodySlow => "body-slow",
            Self::BodyCut => "body-cut",
            Self::MediaType => "media-type",
            Self::Encoding => "encoding",
            Self::Undecodable => "undecodable",
        }
    }

    /// One sentence for people.
    pub(crate) fn message(self) -> String {
        match self {
            Self::Framing(what) => format!("The request is not well-formed HTTP: {what}."),
            Self::TransferCoding => "The only transfer coding understood here is chunked.".into(),
            Self::HeadTooLarge => {
                format!("The request's headers are larger than {} KiB.", HEAD_BYTES_MAX / 1024)
            }
            Self::HeadSlow => "The request's headers did not arrive in time.".into(),
            Self::Version => "Only HTTP/1.1 is spoken here.".into(),
            Self::Host => "The request names another host than this proxy.".into(),
            Self::Origin => "Requests of web pages are not taken.".into(),
            Self::Method => "This method is not supported.".into(),
            Self::Target => "The request's target is not on this proxy.".into(),
            Self::Upgrade => "Only plain HTTP requests are taken, no WebSocket.".into(),
            Self::Loop => "The request came from this proxy itself: its upstream points back to it.".into(),
            Self::Workspace => "The request has no workspace that this proxy knows.".into(),
            Self::Path => "This path cannot be checked, so it is not passed on.".into(),
            Self::Legacy => "This older API cannot be checked, so it is not passed on.".into(),
            Self::Body => "A request of this kind carries no body.".into(),
            Self::BodyTooLarge => format!("The request is larger than {} MiB.", BODY_BYTES_MAX / 1024 / 1024),
            Self::BodySlow => "The request's body did not arrive in time.".into(),
            Self::BodyCut => "The request's body ended early.".into(),
            Self::MediaType => "The request's content type is not application/json.".into(),
            Self::Encoding => "The request's content encoding cannot be read here.".into(),
            Self::Undecodable => "The request's body is not what its content encoding says.".into(),
        }
    }

    /// The next step.
    pub(crate) fn advice(self) -> &'static str {
        match self {
            Self::Workspace => {
                "start the client with: agentspine run claude (or: codex, opencode, -- COMMAND)"
            }
            Self::Loop => "mend the upstream under [proxy] in config.toml, then: agentspine doctor",
            Self::Path | Self::Legacy => "use /v1/messages, /v1/responses or /v1/chat/completions",
            Self::Upgrade => "use HTTP POST instead",
            Self::Host | Self::Origin | Self::Target => "send it to the address that `agentspine env` prints",
            Self::BodyTooLarge => "send less at once",
            Self::Encoding | Self::Undecodable => "send it plain, or as gzip, deflate, br or zstd",
            Self::MediaType => "send content-type: application/json",
            Self::HeadSlow | Self::BodySlow | Self::BodyCut => "send it again",
            Self::Framing(_)
            | Self::TransferCoding
            | Self::HeadTooLarge
            | Self::Version
            | Self::Method
            | Self::Body => "check the client",
        }
    }
}
