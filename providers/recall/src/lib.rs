//! Runs retrieval providers in parallel, each under its own deadline, and leaves no process behind.
//!
//! * [`run`]: all planned providers at once, one outcome each;
//! * [`Wishes`]: what the person pinned, or left out of the next turn;
//! * [`Retrieval`]: what a provider is; [`ledger`] in process, [`command`] as a child;
//! * [`child`]: our side of a child; [`supervise`]: the small process between us and the provider;
//! * [`Canceller`]: ends everything that runs.
//!
//! Invariants: a provider's output never stands in a message; a child sees `PATH` and the credentials its profile names,
//! nothing else; a child and everything it started are dead before its outcome is returned, and die with us. This is
//! the only crate that spawns providers. It knows nothing of budgets, receipts, HTTP or configuration.

mod cancel;
pub mod child;
pub mod command;
pub mod ledger;
mod run;
pub mod supervise;
mod wishes;

pub use cancel::{Cancelled, Canceller, cancellation};
pub use child::Supervisor;
pub use command::Commands;
pub use run::{Answered, Asking, Providers, Recall, Retrieval, Stop, run};
pub use wishes::{Wished, Wishes};
