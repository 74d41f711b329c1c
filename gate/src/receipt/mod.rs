//! Receipts: claims, canonical form, signature, keyring; the typestate that admits a call.
//!
//! `Receipt<Prepared>` -> `consume(self)` -> `Receipt<Consumed>` -> `admit(Receipt<Consumed>, Composed)` -> `Admitted`.
//! One constructor each, private fields, no Clone, Copy, Default or Deserialize: what arrives at the model client proves
//! that the path was walked.
//!
//! A prepared receipt does not admit:
//! ```compile_fail,E0308
//! use agentspine_gate::{Composed, receipt::{Prepared, Receipt}, admit};
//! fn skip(receipt: Receipt<Prepared>, composed: Composed) { let _ = admit(receipt, composed); }
//! ```
//! A consumed one does:
//! ```
//! use agentspine_gate::{Composed, receipt::{Consumed, Receipt}, admit};
//! fn walk(receipt: Receipt<Consumed>, composed: Composed) { let _ = admit(receipt, composed); }
//! ```
//! It cannot be used twice:
//! ```compile_fail,E0382
//! use agentspine_gate::{Composed, receipt::{Consumed, Receipt}, admit};
//! fn twice(receipt: Receipt<Consumed>, a: Composed, b: Composed) { let _ = admit(receipt, a); let _ = admit(receipt, b); }
//! ```
//! It cannot be copied for a second use:
//! ```compile_fail,E0599
//! use agentspine_gate::receipt::{Consumed, Receipt};
//! fn copy(receipt: &Receipt<Consumed>) -> Receipt<Consumed> { Clone::clone(receipt) ; receipt.clone_receipt() }
//! ```
//! It cannot be forged:
//! ```compile_fail,E0451
//! use agentspine_gate::{Digest, ReceiptId, receipt::Admitted};
//! let _ = Admitted { endpoint: String::new(), model: String::new(), body: Vec::new(), receipt: ReceiptId([0; 16]) };
//! ```
//! and not be read from outside:
//! ```compile_fail,E0277
//! let _: agentspine_gate::receipt::Admitted = serde_json::from_str("{}").unwrap();
//! ```

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::Bytes;

use crate::body::Body;
use crate::failure::{Detail, Refusal};
use crate::ids::ReceiptId;
use crate::journal::{Signed, SpentRow};
use claims::Claims;

pub mod canonical;
pub mod claims;
pub mod keyring;
mod sorted;

/// Milliseconds of boot time a receipt is valid.
pub const VALIDITY_MS: u64 = 60_000;

/// State of a receipt that is signed and stored, but not spent.
pub enum Prepared {}
/// State of a receipt that was spent, durably, once.
pub enum Consumed {}

/// A receipt of one exact call.
pub struct Receipt<State> {
    claims: Arc<Claims>,
    bytes: Vec<u8>,
    signed: Signed,
    state: PhantomData<State>,
}

impl<State> Receipt<State> {
    /// Its id.
    pub fn id(&self) -> ReceiptId {
        self.claims.id
    }

    /// What it binds.
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    pub(crate) fn shared_claims(&self) -> Arc<Claims> {
        Arc::clone(&self.claims)
    }
}

impl Receipt<Prepared> {
    pub(crate) fn new(claims: Claims, bytes: Vec<u8>, signed: Signed) -> Self {
        Self { claims: Arc::new(claims), bytes, signed, state: PhantomData }
    }

    pub(crate) fn signed(&self) -> (&Signed, &[u8]) {
        (&self.signed, &self.bytes)
    }

    /// Given the proof that this very receipt's consumed row and the anchor are durable.
    pub(crate) fn spent(self, row: &SpentRow) -> Result<Receipt<Consumed>, Refusal> {
        if row.receipt() == self.claims.id {
            Ok(Receipt { claims: self.claims, bytes: self.bytes, signed: self.signed, state: PhantomData })
        } else {
            let message = "Another receipt was spent than this one.";
            Err(Refusal::new(Detail::JournalIo, message, "Run: agentspine doctor --json"))
        }
    }
}

/// The one value a model client accepts: the exact body, proven to be the one a consumed receipt binds.
pub struct Admitted {
    endpoint: String,
    model: String,
    body: Body,
    receipt: ReceiptId,
}

impl Admitted {
    pub(crate) fn new(claims: &Claims, body: Body) -> Self {
        Self { endpoint: claims.endpoint.clone(), model: claims.model.clone(), body, receipt: claims.id }
    }

    /// Where the body goes.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// Model name as sent.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The receipt that was spent for it.
    pub fn receipt(&self) -> ReceiptId {
        self.receipt
    }

    /// The exact bytes to send; the proof is used up.
    pub fn into_body(self) -> Bytes {
        self.body.into_bytes()
    }

    /// An admitted request without a receipt, for tests of model clients.
    #[cfg(feature = "test-door")]
    pub fn for_tests(endpoint: &str, body: Vec<u8>) -> Self {
        Self {
            endpoint: endpoint.to_owned(),
            model: "test".to_owned(),
            body: body.into(),
            receipt: ReceiptId([0; 16]),
        }
    }
}
