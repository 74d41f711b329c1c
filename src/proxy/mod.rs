//! The gate in front of other people's agents: one daemon a user, several workspaces.
//!
//! [`workspaces`]: who may ask, and as whom: each secret stands for a directory, a host and an identity. [`read`] says
//! what a request is, [`serve`] takes it through the gate: [`thread`] knows what it follows, [`upstream`] where it goes
//! on to, [`settle`] tells the journal how it ended.

pub(crate) mod read;
pub(crate) mod serve;
mod settle;
mod thread;
mod upstream;
pub(crate) mod workspaces;
