//! Identifiers and digests: parsed once, at the door.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// Longest identifier, in characters.
pub const ID_CHARS_MAX: usize = 256;

/// An identifier: 1 to 256 characters, first an ASCII letter or digit, the rest letters, digits and `:_.@/+~-`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Id(String);

/// Text that is not an [`Id`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not an id: 1 to 256 characters, first a letter or digit, then letters, digits and : _ . @ / + ~ -")]
pub struct IdError;

impl Id {
    /// Parses an identifier.
    pub fn new(text: impl Into<String>) -> Result<Self, IdError> {
        let text = text.into();
        let rest_ok = |b: u8| b.is_ascii_alphanumeric() || b":_.@/+~-".contains(&b);
        let first_ok = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        if first_ok && text.len() <= ID_CHARS_MAX && text.bytes().all(rest_ok) {
            Ok(Self(text))
        } else {
            Err(IdError)
        }
    }

    /// The id of a project: `project:` and the first 20 hexadecimal digits of its root's digest.
    pub(crate) fn of_project(root: Digest) -> Self {
        Self::of_digest("project", root)
    }

    /// `LABEL:` and the first 20 hexadecimal digits of a digest. The label is a constant of the caller's: letters only.
    pub fn of_digest(label: &'static str, digest: Digest) -> Self {
        let mut digits = digest.to_hex();
        digits.truncate(20);
        Self(format!("{label}:{digits}"))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Id {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(d)?).map_err(serde::de::Error::custom)
    }
}

/// Lower-case hexadecimal text of bytes.
pub fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 });
    bytes.iter().flat_map(|b| [digit(b >> 4), digit(b & 15)]).collect()
}

/// Bytes of lower-case hexadecimal text; `None` for any other text.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |b: u8| match b {
        b'0'..=b'9' => Some(b - b'0'),
        b'a'..=b'f' => Some(b - b'a' + 10),
        _ => None,
    };
    let pairs = text.as_bytes().chunks(2);
    pairs.map(|p| if let [a, b] = p { Some(digit(*a)? << 4 | digit(*b)?) } else { None }).collect()
}

macro_rules! hex_newtype {
    ($(#[$doc:meta])* $name:ident, $len:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $len]);

        impl $name {
            /// Parses lower-case hexadecimal text of exactly the right length.
            pub fn parse(text: &str) -> Option<Self> {
                unhex(text)?.try_into().ok().map(Self)
            }

            /// Lower-case hexadecimal text.
            pub fn to_hex(self) -> String {
                hex(&self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.to_hex())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.to_hex())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.serialize_str(&self.to_hex())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let text = String::deserialize(d)?;
                Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not lower-case hex of the right length"))
            }
        }
    };
}

hex_newtype!(
    /// A SHA-256 digest (or an HMAC-SHA-256 value), 32 bytes.
    Digest, 32
);
hex_newtype!(
    /// A receipt id: 128 random bits, drawn when the turn is bound.
    ReceiptId, 16
);

impl Digest {
    /// SHA-256 of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The first eight hexadecimal digits, for tables.
    pub fn short(self) -> String {
        let mut text = self.to_hex();
        text.truncate(8);
        text
    }
}

impl ReceiptId {
    /// The first four hexadecimal digits, for tables and panes.
    pub fn short(self) -> String {
        let mut text = self.to_hex();
        text.truncate(4);
        text
    }
}
