//! Wording in a chat that proposes a rule: "Merk dir das: …", "remember this: …".

use std::sync::OnceLock;

use regex::Regex;

/// Longest prompt that is looked at, bytes.
const PROMPT_BYTES_MAX: usize = 64 * 1024;

/// The claim of a one-line prompt that begins with such an opener. The caller proposes it only after the turn's receipt
/// was consumed; nothing becomes active by it.
pub fn capture(prompt: &str) -> Option<&str> {
    static OPENER: OnceLock<Option<Regex>> = OnceLock::new();
    let prompt = prompt.trim();
    if prompt.len() > PROMPT_BYTES_MAX || prompt.contains(['\n', '\r']) {
        return None;
    }
    let pattern = concat!(
        r"(?i)^(?:(?:bitte,? )?merke? dir(?:,? bitte)?(?: dauerhaft)?(?: (?:das|dies|folgendes))?|das ist wichtig",
        r"|vergiss das (?:niemals|nie)|(?:please,? )?remember (?:this|that)(?: permanently)?|never forget (?:this|that))",
        r"(?:\s*[:,\u{2013}-]\s*|\s+)(\S.*)$",
    );
    let opener = OPENER.get_or_init(|| Regex::new(pattern).ok()).as_ref()?;
    let claim = opener.captures(prompt)?.get(1)?.as_str();
    claim.chars().any(char::is_alphanumeric).then_some(claim)
}
