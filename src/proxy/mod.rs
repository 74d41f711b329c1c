//! The proxy: clients of model APIs on this machine come through the gate.
//!
//! [`read`] says what a request is; pure functions.

#[cfg_attr(not(test), expect(dead_code, reason = "the server that asks it comes next"))]
pub(crate) mod read;
