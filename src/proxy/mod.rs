//! The gate in front of other people's agents: one daemon a user, several workspaces.
//!
//! [`workspaces`]: who may ask, and as whom: each secret stands for a directory, a host and an identity. [`settings`]:
//! where requests go. [`post`]: one daemon a user. [`daemon`]: the serving process. [`ask`]: two questions to it.
//! [`clients`]: what each client is told so that it finds it.

pub(crate) mod ask;
pub(crate) mod clients;
pub(crate) mod daemon;
pub(crate) mod post;
pub(crate) mod settings;
mod stub;
pub(crate) mod workspaces;
