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
    // With "this" or "das" nearly any separator will do; without, only a colon tells an order from a question or a story.
    let pattern = concat!(
        r"(?i)^(?:(?:",
        r"(?:bitte,? )?merke? dir(?:,? bitte)?(?: dauerhaft)?(?: (?:das|dies|folgendes))?(?:,? bitte)?(?: dauerhaft)?",
        r"|(?:bitte,? )?merken sie sich(?:,? bitte)?(?: dauerhaft)?(?: (?:das|dies|folgendes))?(?:,? bitte)?",
        r"|das ist wichtig|vergiss das (?:niemals|nie|nicht)",
        r"|(?:please,? )?remember (?:this|that)(?:,? please)?(?: permanently)?",
        r"|(?:please,? )?(?:never|do not|don['\u{2019}]t) forget (?:this|that)(?:,? please)?",
        r")(?:\s*[:,\u{2013}-]\s*|\s+)|(?:",
        r"(?:bitte,? )?(?:merken|denk(?:e|t)? (?:immer )?daran|vergiss (?:niemals|nie|nicht)|zu merken)(?:,? bitte)?",
        r"|(?:please,? )?(?:always )?(?:remember|keep in mind|bear in mind|(?:never|do not|don['\u{2019}]t) forget)(?:,? please)?",
        r")\s*:\s*)(\S.*)$",
    );
    let opener = OPENER.get_or_init(|| Regex::new(pattern).ok()).as_ref()?;
    let claim = opener.captures(prompt)?.get(1)?.as_str();
    claim.chars().any(char::is_alphanumeric).then_some(claim)
}
