//! A credential: never printed, wiped on drop.

use std::fmt;

use reqwest::header::{HeaderValue, InvalidHeaderValue};
use zeroize::Zeroizing;

/// An API key. Its bytes are wiped on drop and appear in no `Debug`, `Display` or serialised form.
#[derive(Clone)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// A key without surrounding white space; `None` where nothing is left.
    pub fn new(text: String) -> Option<Self> {
        let text = Zeroizing::new(text);
        let trimmed = text.trim();
        (!trimmed.is_empty()).then(|| Self(Zeroizing::new(trimmed.to_owned())))
    }

    /// `prefix` + key as a header value that no HTTP layer prints.
    pub(crate) fn header(&self, prefix: &str) -> Result<HeaderValue, InvalidHeaderValue> {
        let text = Zeroizing::new(format!("{prefix}{}", self.0.as_str()));
        let mut value = HeaderValue::from_str(&text)?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// `text` with every occurrence of the key replaced: some servers echo it in their error.
    pub(crate) fn redact(&self, text: &str) -> String {
        text.replace(self.0.as_str(), "***")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}
