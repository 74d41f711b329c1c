//! The one screen for Must-Remember, memory and provider items: secret-shaped and authority-shaped text.

/// Why text was refused. Holds a label, never the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Looks like a credential; the rule's label.
    #[error("it looks like a secret ({0})")]
    Secret(String),
    /// Grants, waives or demands a capability, approval or tool use.
    #[error("it reads like a grant or an order, not like a fact ({0})")]
    Authority(&'static str),
}

/// Checks text when it is proposed or received.
pub fn screen(text: &str) -> Result<(), Refused> {
    let _ = text;
    todo!()
}

/// Replaces secret-shaped parts by `[redacted]`; returns the labels of what was found.
pub fn redact(text: &str) -> (String, Vec<String>) {
    let _ = text;
    todo!()
}

/// Makes control, bidi, tag, zero-width and fence-like characters harmless on one line, for any render path.
pub fn neutralise(text: &str) -> String {
    let _ = text;
    todo!()
}
