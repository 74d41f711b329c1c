//! Receipts: claims, canonical form, signature, keyring; the typestate that admits a call.

use crate::ids::ReceiptId;

pub mod keyring;

/// A request whose receipt was consumed and whose body is the one that receipt binds. Stand-in until the gate admits.
pub struct Admitted {
    endpoint: String,
    model: String,
    body: Vec<u8>,
    receipt: ReceiptId,
}

impl Admitted {
    /// Where the body goes: the absolute URL bound by the receipt, or `demo:`.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The model name bound by the receipt.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The consumed receipt.
    pub fn receipt(&self) -> ReceiptId {
        self.receipt
    }

    /// The exact bytes to send; the proof is spent with it.
    pub fn into_body(self) -> Vec<u8> {
        self.body
    }

    /// A request no gate admitted, for tests of what stands behind the gate.
    #[cfg(feature = "test-door")]
    pub fn for_tests(endpoint: &str, body: Vec<u8>) -> Self {
        Self { endpoint: endpoint.to_owned(), model: "test".to_owned(), body, receipt: ReceiptId([0; 16]) }
    }
}
