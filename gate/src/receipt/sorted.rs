//! The short way to RFC 8785 bytes: a value whose keys come in their order already is written once, by `serde_json`.
//!
//! `serde_json` writes strings, booleans and null as RFC 8785 does (sections 3.2.2.1 and 3.2.2.2) and no white space. What
//! is left to hold is watched while it writes: keys that ascend, integers that a double holds exactly. Where anything
//! else comes (another order, an unusual key, a fraction), nothing is written: the library takes the long way.

use std::io;

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter};

use super::canonical::INTEGER_MAX;

/// The canonical bytes; `None` where the value does not come in canonical order.
pub(super) fn to_vec<T: Serialize + ?Sized>(value: &T) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(4096);
    value.serialize(&mut Serializer::with_formatter(&mut bytes, Watch::default())).ok()?;
    Some(bytes)
}

/// Writes as [`CompactFormatter`] does, or fails.
#[derive(Default)]
struct Watch {
    /// The last key of each open object.
    last: Vec<Vec<u8>>,
    /// The key that is being written.
    key: Option<Vec<u8>>,
}

fn not_this_way() -> io::Error {
    io::ErrorKind::Unsupported.into()
}

fn exact(whole: bool) -> io::Result<()> {
    if whole { Ok(()) } else { Err(not_this_way()) }
}

impl Formatter for Watch {
    fn write_i64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: i64) -> io::Result<()> {
        exact(value.unsigned_abs() <= INTEGER_MAX)?;
        CompactFormatter.write_i64(writer, value)
    }

    fn write_u64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: u64) -> io::Result<()> {
        exact(value <= INTEGER_MAX)?;
        CompactFormatter.write_u64(writer, value)
    }

    fn write_i128<W: ?Sized + io::Write>(&mut self, _: &mut W, _: i128) -> io::Result<()> {
        Err(not_this_way())
    }

    fn write_u128<W: ?Sized + io::Write>(&mut self, _: &mut W, _: u128) -> io::Result<()> {
        Err(not_this_way())
    }

    fn write_f32<W: ?Sized + io::Write>(&mut self, _: &mut W, _: f32) -> io::Result<()> {
        Err(not_this_way())
    }

    fn write_f64<W: ?Sized + io::Write>(&mut self, _: &mut W, _: f64) -> io::Result<()> {
        Err(not_this_way())
    }

    fn write_number_str<W: ?Sized + io::Write>(&mut self, _: &mut W, _: &str) -> io::Result<()> {
        Err(not_this_way())
    }

    fn write_raw_fragment<W: ?Sized + io::Write>(&mut self, _: &mut W, _: &str) -> io::Result<()> {
        Err(not_this_way())
    }

    fn write_string_fragment<W: ?Sized + io::Write>(&mut self, writer: &mut W, text: &str) -> io::Result<()> {
        if let Some(key) = &mut self.key {
            // RFC 8785 orders keys by UTF-16 units; of ASCII that is the order of bytes.
            exact(text.is_ascii())?;
            key.extend_from_slice(text.as_bytes());
        }
        CompactFormatter.write_string_fragment(writer, text)
    }

    fn write_char_escape<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        exact(self.key.is_none())?;
        CompactFormatter.write_char_escape(writer, escape)
    }

    fn begin_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.last.push(Vec::new());
        CompactFormatter.begin_object(writer)
    }

    fn end_object<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.last.pop();
        CompactFormatter.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.key = Some(Vec::new());
        CompactFormatter.begin_object_key(writer, first)
    }

    fn end_object_key<W: ?Sized + io::Write>(&mut self, writer: &mut W) -> io::Result<()> {
        let key = self.key.take().ok_or_else(not_this_way)?;
        let last = self.last.last_mut().ok_or_else(not_this_way)?;
        exact(*last < key)?;
        *last = key;
        CompactFormatter.end_object_key(writer)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::receipt::claims::Claims;

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (0u64..1 << 53).prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            "\\PC*".prop_map(Value::from),
            "[\\x00-\\x7f\u{80}-\u{a0}\u{2028}\u{ffff}\u{10000}]*".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 32, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("[a-zA-Z_\u{e9}\u{10000}\u{ffff}\"]{0,3}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn whatever_goes_the_short_way_has_the_bytes_of_the_long_one(value in values()) {
            if let Some(bytes) = to_vec(&value) {
                prop_assert_eq!(bytes, serde_json_canonicalizer::to_vec(&value).unwrap());
            }
        }
    }

    #[test]
    fn what_is_not_in_canonical_order_takes_the_long_way() {
        let nested = serde_json::from_str::<Value>(r#"{"a":{"c":1,"b":2}}"#).unwrap();
        for value in [nested, json!({ "é": 1 }), json!(1.5), json!(1u64 << 53), json!({ "\n": 1 })] {
            assert_eq!(to_vec(&value), None, "{value}");
        }
        let ready = json!({ "a": [1, -2, "é\u{1}\u{7f}\"\\/\n"], "b": { "B": null, "a": true } });
        assert_eq!(to_vec(&ready), serde_json_canonicalizer::to_vec(&ready).ok());
    }

    /// Every field is there: one that stood at another place than its name has would send all claims the long way.
    #[test]
    fn claims_go_the_short_way() {
        let text = r#"{
            "schema": "s", "contract": "c", "id": "I", "kid": "k", "journalId": "j", "agentId": "a", "personaId": "p",
            "userId": "u", "tenantId": "t", "host": "h", "instructionHost": "claude", "profileId": "p", "sessionId": "s",
            "projectId": "p", "taskId": "t", "groupId": "g", "cwdDigest": "D", "kind": "turn", "parent": "I",
            "retryOf": "I", "paused": true, "deliveryId": "d", "promptDigest": "D", "endpoint": "e", "model": "m",
            "clientBodyDigest": "D", "requestDigest": "D",
            "documents": [{
                "id": "d", "scope": "project", "bytes": 1, "sha256": "D", "renderedSha256": "D",
                "identity": "D", "state": "replayed", "span": "I", "changedSinceParent": true, "note": "cut-by-host"
            }],
            "withdrawn": ["w"],
            "instructionBudget": {
                "mode": "standard", "standardBytes": 1, "hardLimitBytes": 1, "usedBytes": 1, "overflowBytes": 0
            },
            "policyRevision": 1, "policyProfileDigest": "D", "rememberRevision": 1,
            "mustRemember": [{ "id": "r", "version": 1, "checksum": "D", "state": "injected" }],
            "providers": [{
                "id": "p", "queryDigest": "D", "status": "loaded", "reason": null, "latencyMs": 1,
                "injected": [{ "id": "i", "revision": "1" }], "replayed": [], "leftOut": ["x"], "rejected": 0
            }],
            "replayedSpans": ["I"], "briefingDigest": "D", "createdAt": "", "expiresAt": "", "boot": "b",
            "issuedBoottimeMs": 1
        }"#;
        let text =
            text.replace("\"D\"", &format!("\"{:064}\"", 0)).replace("\"I\"", &format!("\"{:032}\"", 0));
        let claims: Claims = serde_json::from_str(&text).unwrap();
        assert_eq!(to_vec(&claims), serde_json_canonicalizer::to_vec(&claims).ok());
    }
}
