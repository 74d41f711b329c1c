//! The gate in front of other people's agents: an HTTP server on the loopback that nothing passes unread.
//!
//! The map, in the order a request meets it: [`listen`] accepts, [`guard`] reads the raw head, [`door`] is the way of one
//! request: [`peer`] (who may speak at all), [`route`] (a closed table), [`body`] (size, type, compression), [`headers`]
//! (what may pass), then what stands [`behind`] it, and [`reply`] streams the answer back. [`refused`] and [`block`] word
//! what is not passed on, [`own`] answers for the proxy itself, [`counters`] count, [`line`] is what the log says of it. Behind it stands
//! [`serve`], the path of a call: [`workspaces`] says whose it is, [`read`] what it is, [`follow`] what call it is in its conversation, [`thread`] what it follows, [`fork`] what it was copied from,
//! [`upstream`] where it goes on to, [`settle`] tells the receipts' journal how it ended.
//!
//! Around it: [`daemon`] is the serving process, [`post`] sees to it that there is one a user, [`log`] keeps its lines,
//! [`ask`] puts two questions to it, [`clients`] says what each client is told so that it finds it.
//!
//! Invariants:
//! - No request reaches an upstream but through [`behind::Behind`], and nothing that carries a prompt without its receipt.
//! - A refusal is decided before the response head, never inside a stream. There are no CORS headers.
//! - Nothing here keeps, logs or prints a body, a credential, a query or a workspace's secret.

pub(crate) mod ask;
pub(crate) mod behind;
mod block;
mod body;
pub(crate) mod clients;
pub(crate) mod counters;
pub(crate) mod daemon;
mod door;
mod follow;
mod fork;
mod guard;
mod headers;
pub(crate) mod line;
pub(crate) mod listen;
mod log;
mod own;
mod peer;
pub(crate) mod post;
pub(crate) mod read;
mod refused;
pub(crate) mod reply;
pub(crate) mod route;
pub(crate) mod serve;
mod settle;
#[cfg(test)]
mod tests;
mod thread;
mod upstream;
pub(crate) mod workspaces;
