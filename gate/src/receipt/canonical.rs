//! The one encoding of a JSON value: RFC 8785.
//!
//! Invariant: two different values never have the same canonical bytes. RFC 8785 writes numbers as IEEE doubles, so an
//! integer beyond 2^53 - 1 is refused instead of rounded onto its neighbour.

use serde::Serialize;
use serde_json::Value;

use super::sorted;

/// Longest canonical text, bytes.
pub const CANONICAL_BYTES_MAX: usize = 1024 * 1024;
/// Largest integer whose double names no other integer, 2^53 - 1.
pub(super) const INTEGER_MAX: u64 = (1 << 53) - 1;

/// Why a value has no canonical form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CanonicalError {
    /// More bytes than [`CANONICAL_BYTES_MAX`].
    #[error("longer than {CANONICAL_BYTES_MAX} bytes")]
    TooLong,
    /// Not JSON that can be written.
    #[error("not a JSON value")]
    NotJson,
    /// An integer that a double cannot tell from its neighbour.
    #[error("an integer beyond 2^53 - 1")]
    Integer,
}

/// The RFC 8785 bytes of a value.
pub fn to_bytes<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, CanonicalError> {
    match sorted::to_vec(value) {
        Some(bytes) => bounded(bytes),
        None => by_library(&serde_json::to_value(value).map_err(|_| CanonicalError::NotJson)?),
    }
}

/// [`to_bytes`] of what is a value already, without copying it.
pub(crate) fn of_value(value: &Value) -> Result<Vec<u8>, CanonicalError> {
    sorted::to_vec(value).map_or_else(|| by_library(value), bounded)
}

fn by_library(value: &Value) -> Result<Vec<u8>, CanonicalError> {
    if !exact(value) {
        return Err(CanonicalError::Integer);
    }
    bounded(serde_json_canonicalizer::to_vec(value).map_err(|_| CanonicalError::NotJson)?)
}

fn bounded(bytes: Vec<u8>) -> Result<Vec<u8>, CanonicalError> {
    if bytes.len() > CANONICAL_BYTES_MAX { Err(CanonicalError::TooLong) } else { Ok(bytes) }
}

/// Whether every integer in the value survives as a double. Depth is bounded by the parser's limit of 128.
fn exact(value: &Value) -> bool {
    match value {
        Value::Number(n) => {
            n.as_u64().is_none_or(|n| n <= INTEGER_MAX)
                && n.as_i64().is_none_or(|n| n.unsigned_abs() <= INTEGER_MAX)
        }
        Value::Array(items) => items.iter().all(exact),
        Value::Object(map) => map.values().all(exact),
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}
