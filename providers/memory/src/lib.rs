//! The memory ledger: many explicit memories, recalled by relevance, in one SQLite file.
//!
//! * [`record`], [`provenance`], [`relation`], [`name`]: what a memory is, its scope, where it comes from, what it relates
//!   to, how it is named outside, and the limit of each;
//! * [`Ledger`]: open; [`remember`], [`cursor`]: remember, and ingest ranges of sessions; [`entry`], [`status`]: read;
//! * [`operation`]: the id that makes repeated delivery harmless, and the states; [`projection`]: an optional copy outside;
//!   `dispatch`, `cleanup`, `settle`: one memory's way there and back; [`retry`]: open work, claims, dead letters;
//!   [`reconcile`]: everything that is due;
//! * [`forget`], [`erase`], [`retention`]: the tombstone, the bytes, the metadata that is left;
//! * [`search`]: full-text recall over the whole scope, with the reason for every entry;
//! * `words`: how text becomes index terms (folding, identifiers, stems, CJK bigrams);
//! * `index`: what the full-text index holds of a record;
//! * [`tools`]: the six memory tools, one door for chat, command line and MCP;
//! * [`import`] and [`export`]: taking memories in and along;
//! * [`authorize`]: who may do what, granted by local configuration alone;
//! * `schema`: migrations.
//!
//! Invariants: the scope is a range of row numbers, so a query cannot see a row of another scope; the full-text index
//! changes in the transaction that changes the record; text is redacted and screened before anything is hashed or
//! stored; query text never reaches the FTS5 query parser. Only an applied record is ever returned, and from its tombstone
//! on none. No call of a projection is made inside a transaction, and none is believed before its key was read back. One
//! operation makes one record, however often and by whom it is delivered. The ledger holds no rules: those are
//! Must-Remember entries of the gate. This crate knows nothing of processes, network, clocks or configuration.
//!
//! ```no_run
//! use agentspine_gate::Id;
//! use agentspine_memory::{Ledger, MemoryScope};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let ledger = Ledger::open("/home/me/.local/state/agentspine/memory.sqlite".as_ref())?;
//! let scope = MemoryScope {
//!     tenant_id: Id::new("local-tenant")?,
//!     user_id: Id::new("local-user")?,
//!     project_id: None,
//!     group_id: None,
//! };
//! let recalled = ledger.recall(&scope, "When does a receipt expire?", 5)?;
//! # Ok(())
//! # }
//! ```

pub mod authorize;
mod cleanup;
pub mod cursor;
mod dispatch;
pub mod entry;
pub mod erase;
pub mod export;
pub mod forget;
pub mod import;
mod index;
pub mod ledger;
pub mod measure;
pub mod name;
pub mod operation;
pub mod projection;
pub mod provenance;
pub mod reconcile;
pub mod record;
pub mod relation;
pub mod remember;
pub mod retention;
pub mod retry;
mod rows;
mod schema;
pub mod search;
mod settle;
pub mod status;
mod text;
pub mod tools;
mod words;

pub use authorize::{Actor, Authorization, Capability, Grants, NotGranted, Preset};
pub use cursor::SessionCursor;
pub use entry::Entry;
pub use forget::{Cleanup, Forgotten};
pub use ledger::{Interrupter, Ledger, OpenError, Projecting, StoreError};
pub use name::Name;
pub use operation::State;
pub use projection::{Fault, Key, Outcome, Projected, Projection, Triple};
pub use provenance::{Provenance, SessionSource, Source};
pub use reconcile::Reconciled;
pub use record::{Kind, KindError, MemoryScope, NewMemory, Origin, Trust};
pub use relation::{Predicate, Related, Relation};
pub use remember::{RememberError, Remembered, Settled};
pub use search::{LeftOut, Recall, Recalled, SearchResult, Why};
pub use status::{IndexState, Status};
pub use tools::{ToolAnswer, Tools};
