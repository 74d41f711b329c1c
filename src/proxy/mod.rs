//! The gate in front of other people's agents: one daemon a user, several workspaces.
//!
//! [`workspaces`]: who may ask, and as whom: each secret stands for a directory, a host and an identity.

pub(crate) mod workspaces;
