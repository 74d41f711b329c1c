//! Strict JSON: exactly one document, UTF-8, no key twice in any object, nothing after it.
//!
//! serde_json keeps the last of two equal keys, so a reader and a reviewer could see different values. Its own limits
//! stay in force: 128 levels, no NaN, no numbers out of range, no lone surrogates.

use std::cell::RefCell;
use std::fmt;

use serde::Deserializer;
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Why bytes are not one strict JSON document. Holds positions and key paths, never values.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JsonError {
    #[error("not UTF-8 at byte {0}")]
    NotUtf8(usize),
    #[error("not one valid JSON document (line {line}, column {column})")]
    Syntax { line: usize, column: usize },
    #[error("{0}: this key stands twice")]
    Duplicate(String),
}

/// Parses exactly one document.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, JsonError> {
    let text = std::str::from_utf8(bytes).map_err(|e| JsonError::NotUtf8(e.valid_up_to()))?;
    let twice = RefCell::new(None);
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Strict(&twice).deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    value.map_err(|e| match twice.take() {
        Some(path) => JsonError::Duplicate(path),
        None => JsonError::Syntax { line: e.line(), column: e.column() },
    })
}

/// Builds a [`Value`]; on a duplicate, leaves the path of the key in the cell while the error unwinds.
#[derive(Clone, Copy)]
struct Strict<'a>(&'a RefCell<Option<String>>);

impl Strict<'_> {
    fn prefix(self, segment: &str) {
        if let Some(path) = self.0.borrow_mut().as_mut() {
            let dot = if path.starts_with('[') { "" } else { "." };
            *path = format!("{segment}{dot}{path}");
        }
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Value, D::Error> {
        d.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            match seq.next_element_seed(self) {
                Ok(Some(item)) => items.push(item),
                Ok(None) => return Ok(Value::Array(items)),
                Err(e) => {
                    self.prefix(&format!("[{}]", items.len()));
                    return Err(e);
                }
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            if map.contains_key(&key) {
                *self.0.borrow_mut() = Some(key);
                return Err(de::Error::custom("duplicate key"));
            }
            let value = access.next_value_seed(self).inspect_err(|_| self.prefix(&key))?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_stands_twice_is_named_by_its_path() {
        let path = |text: &str| parse(text.as_bytes()).unwrap_err().to_string();
        assert_eq!(path(r#"{"a":1,"a":2}"#), "a: this key stands twice");
        assert_eq!(path(r#"{"p":[{"x":1},{"q":{"b":1,"b":1}}]}"#), "p[1].q.b: this key stands twice");
        assert_eq!(path(r#"[[{"k":1,"\u006b":2}]]"#), "[0][0].k: this key stands twice");
    }

    #[test]
    fn only_one_complete_document_parses() {
        for bad in ["", "{", "{} {}", "{}x", "NaN", "[1e999]", "\"\\ud800\"", "{'a':1}", "[1,]", "\u{feff}{}"]
        {
            assert!(matches!(parse(bad.as_bytes()), Err(JsonError::Syntax { .. })), "{bad}");
        }
        assert_eq!(parse(b"[\xff]"), Err(JsonError::NotUtf8(1)));
        let deep = "[".repeat(100_000);
        assert!(matches!(parse(deep.as_bytes()), Err(JsonError::Syntax { .. })));
        assert_eq!(parse(b" {\"a\":[1,-2,0.5,null,true,\"x\"]} ").unwrap()["a"][2], 0.5);
    }
}
