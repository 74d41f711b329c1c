//! Model clients behind one door: nothing that carries a prompt leaves this process but an [`Admitted`] body.
//!
//! The map, in the order a call meets it:
//! - [`spec`]: `--model` text becomes a [`Target`]; [`secret`]: the key.
//! - [`conversation`] and [`draft`]: what was said becomes exact bytes with slots for spans. The gate takes it from there.
//! - [`call`]: [`ModelClient::call`] posts the admitted bytes; [`reply`] turns each dialect's stream into [`event`]s.
//! - [`relay`]: [`ModelClient::relay`], the same door for a proxy: the client's headers, the answer untouched.
//! - [`error`]: why there is no whole answer. [`demo`]: the embedded stand-in. [`probe`]: questions without a prompt,
//!   to whom [`upstream`] names.
//! - [`summary`]: the words that ask for a summary and that introduce one; [`context_tokens`]: how much a model reads.
//!
//! Invariants:
//! - Only `call` and `relay` send a body, and they take the gate's proof by value: one receipt, at most one request.
//! - No retry, no redirect, no environment, no total timeout. Silence, sizes and the wait for the head have limits.
//! - Nothing here decides what is injected, reads instruction files or knows a receipt's content.
//!
//! [`Admitted`]: agentspine_gate::receipt::Admitted

pub mod call;
pub mod conversation;
mod decode;
pub mod demo;
pub mod draft;
pub mod error;
pub mod event;
pub mod http;
pub mod probe;
pub mod relay;
pub mod reply;
pub mod secret;
pub mod spec;
pub mod summary;
pub mod upstream;
mod window;

pub use call::ModelClient;
pub use conversation::{AssistantBlock, Conversation, Message, ToolResult, ToolSpec};
pub use draft::draft;
pub use error::{ModelError, Sent};
pub use event::{Answer, ModelEvent, StopReason, Usage};
pub use http::{HttpConfig, HttpError};
pub use probe::{Found, LocalServer, Passed, Promptless};
pub use relay::{RelayBody, Relayed};
pub use reply::Reply;
pub use reqwest::header::HeaderMap;
pub use reqwest::{StatusCode, Url};
pub use secret::Secret;
pub use spec::{DEMO_ENDPOINT, DEMO_MODEL, Dialect, ModelSpec, PlainHttp, SpecError, Target};
pub use upstream::{ListQuery, ListQueryError, Upstream};
pub use window::context_tokens;
