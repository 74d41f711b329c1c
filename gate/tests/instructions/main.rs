//! The instruction snapshot through its public door, on real directories.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod claude;
mod claude_imports;
mod codex;
mod lazy;
mod presence;
mod project;
mod safe_read;
mod support;
