//! Receipts: claims, canonical form, signature, keyring; the typestate that admits a call.

pub mod canonical;
pub mod keyring;
