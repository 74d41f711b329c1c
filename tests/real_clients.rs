//! The real Claude Code and Codex, and the vendors' own libraries, before a scripted API: what they really send.
//!
//! `tests/clients/run.sh` fetches the clients and runs this chapter; without them every test here says that it skipped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]
// A test tells one story, however long.
#![allow(clippy::too_many_lines)]

mod clients;
#[allow(dead_code, reason = "shared ground: each test binary uses its part of it")]
mod support;
