//! The preflight gate: no model call without a consumed receipt.
//!
//! The path of a call, one door each: [`Gate::bind`] (who, where, which) → [`Gate::plan`] (instruction snapshot,
//! Must-Remember, policy, queries) → providers run elsewhere → [`Gate::compose`] (briefing, exact body) →
//! [`Gate::issue`] (signed, stored) → [`Gate::consume`] (everything read again, spent once, durably) → [`admit`].
//!
//! Map: `turn` binding · `policy` · `instructions` (discover, open, digest) · `remember` · `recall` (data only) ·
//! `screen` · `brief` and `span` (what is injected, where) · `held` and `select` (what is already there, what is cut) ·
//! `receipt` (claims, canonical form, keyring, typestate) · `journal` (rows, chain, anchor) · `failure` (the code table)
//! · `state_dir` · `seams` (time, randomness, files as parameters).
//!
//! Invariants: this crate knows nothing of HTTP, processes, the environment, a runtime or a clock of its own. Every
//! failure is a [`Refusal`]; no path from a failure leads to [`receipt::Admitted`].

mod brief;
pub mod compose;
pub mod failure;
mod gate;
mod held;
pub mod ids;
pub mod instructions;
pub mod journal;
pub mod mac;
pub mod os_fs;
mod plan;
pub mod policy;
mod private;
pub mod recall;
pub mod receipt;
mod recheck;
pub mod remember;
pub mod screen;
pub mod seams;
mod select;
pub mod span;
pub mod state_dir;
mod strict_json;
pub mod turn;

pub use compose::Composed;
pub use failure::{Code, Detail, Field, Refusal};
pub use gate::{CallOutcome, Gate, admit};
pub use ids::{Digest, Id, ReceiptId};
pub use plan::{LEDGER_PROVIDER, Plan};
