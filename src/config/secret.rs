//! A value that is wiped when dropped and never printed.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

/// A credential. Its text leaves only through [`Secret::expose`].
#[derive(Clone)]
pub(crate) struct Secret(Arc<Zeroizing<String>>);

impl Secret {
    /// Takes the text.
    pub(crate) fn new(text: String) -> Self {
        Self(Arc::new(Zeroizing::new(text)))
    }

    /// The text, for the one header or child that needs it.
    pub(crate) fn expose(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
