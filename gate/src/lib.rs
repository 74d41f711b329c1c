//! The preflight gate: no model call without a consumed receipt.
//!
//! # The path of a call
//!
//! One door a step; each takes what the one before it made, so no step can be left out:
//!
//! | door | what it does |
//! |---|---|
//! | [`Gate::bind`] | who, where, which: checks the prompt, resolves the directory, draws the receipt's id |
//! | [`Gate::plan`] | reads policy, instruction files and Must-Remember fresh; says what each provider is asked |
//! | (`agentspine-recall`) | runs the providers; their [`recall::Outcome`]s come back as data |
//! | [`Gate::compose`] | decides what this call adds, splices it in: the exact body and the claims about it |
//! | [`Gate::issue`] | signs the claims and stores the prepared receipt |
//! | [`Gate::consume`] | reads everything bound again, spends the receipt once, durably, raises the anchor |
//! | [`admit`] | joins receipt and body: the one value a model client accepts |
//!
//! ```
//! use agentspine_gate::recall::{Outcome, Planned};
//! use agentspine_gate::receipt::Admitted;
//! use agentspine_gate::span::{Draft, Span};
//! use agentspine_gate::turn::TurnRequest;
//! use agentspine_gate::{Fresh, Gate, Refusal, admit};
//!
//! fn walk(
//!     gate: &mut Gate,
//!     request: &TurnRequest,
//!     draft: &Draft,
//!     spans: &[Span],
//!     ask: impl Fn(&[Planned]) -> Vec<Outcome>,
//!     keep: impl Fn(Option<&Span>),
//! ) -> Result<Admitted, Refusal> {
//!     let bound = gate.bind(request.clone())?;
//!     let plan = gate.plan(bound, &mut Fresh::default())?;
//!     let outcomes = ask(plan.queries());
//!     let composed = gate.compose(plan, &outcomes, draft, spans)?;
//!     let prepared = gate.issue(&composed)?;
//!     keep(composed.span()); // durable before the call: later calls replay it byte for byte
//!     let consumed = gate.consume(prepared, &composed, request)?;
//!     admit(consumed, composed)
//! }
//! ```
//!
//! # Map, in the order a call meets it
//!
//! * [`turn`]: what a host says of its call. [`policy`]: the local file that names required providers and limits.
//! * [`instructions`]: the documents the host itself would load. [`remember`]: rules the person confirmed.
//! * [`recall`]: queries and answers as data. [`screen`]: what is refused or made harmless in text of others.
//! * `held` (what earlier spans hold), `select` (what is cut), `brief` (the frames), [`span`] (where text stands),
//!   [`compose`] (all of that put together).
//! * [`receipt`]: claims, canonical form, keyring, typestate. [`journal`]: rows, chain, anchor. `recheck`: what changed.
//!   `group`: issue and consumption of several calls at once; `fresh`: what they read together; `kept`: claims that are
//!   asked for again; [`body`]: bytes with their digest; [`tx`]: transactions.
//! * [`failure`]: the closed table of codes. [`state_dir`] and [`private`]: files of our own. [`seams`]: time, randomness
//!   and other people's files as parameters; [`os_fs`] is the real one of the last.
//!
//! # Invariants
//!
//! * Every failure is a [`Refusal`] with what to do next; no path from one leads to [`receipt::Admitted`].
//! * A claim says what is so: `injected` and `replayed` text stands in the body whose digest the receipt binds.
//! * Nothing is repaired, rotated or made anew by itself; a receipt is spent at most once, over all processes.
//! * No prompt, instruction text, claim, recalled text or key in the journal, in an error or in debug output.
//! * Absent here: HTTP, processes, the environment, a runtime, a clock or randomness of its own. One thread owns a [`Gate`].

pub mod body;
mod brief;
pub mod compose;
pub mod failure;
mod fresh;
mod gate;
mod group;
mod held;
pub mod ids;
pub mod instructions;
pub mod journal;
mod kept;
pub mod mac;
pub mod os_fs;
mod plan;
pub mod policy;
pub mod private;
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
pub mod tx;

pub use compose::Composed;
pub use failure::{Code, Detail, Field, Refusal};
pub use fresh::Fresh;
pub use gate::{Gate, admit};
pub use group::{CallOutcome, Offer};
pub use ids::{Digest, Id, ReceiptId};
pub use plan::{LEDGER_PROVIDER, Plan};
