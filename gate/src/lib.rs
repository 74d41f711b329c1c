//! The preflight gate: no model call without a consumed receipt.
#![allow(clippy::todo)]

pub mod failure;
pub mod ids;
pub mod instructions;
pub mod journal;
pub mod mac;
pub mod policy;
mod private;
pub mod recall;
pub mod receipt;
pub mod remember;
pub mod screen;
pub mod seams;
pub mod span;
pub mod state_dir;
pub mod turn;

pub use failure::{Code, Detail, Field, Refusal};
pub use ids::{Digest, Id, ReceiptId};
