//! Black box: the real binary, a module a chapter. One test binary, because each one links everything again.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)]
// A test tells one story, however long.
#![allow(clippy::too_many_lines)]

#[allow(dead_code, reason = "shared ground: each test binary uses its part of it")]
#[path = "clients/api/mod.rs"]
mod api;

mod again;
mod bench;
mod canaries;
mod chat_compaction;
mod chat_faults;
mod chat_forks;
mod chat_http;
mod chat_intake;
mod chat_sessions;
mod cli;
mod dependencies;
mod documents;
mod first_hour;
mod memory_attacks;
mod memory_cli;
mod providers;
mod proxy_attacks;
mod proxy_crowd;
mod proxy_faults;
mod proxy_http;
mod proxy_law;
mod proxy_turns;
mod receipts;
mod rules;
mod run;
mod screen;
mod sessions;
mod support;
mod test_door;
mod watch;
mod workspace_trust;
