//! What never leaves as it is: known secrets, and characters that move, hide or reorder text on a terminal.

use std::fmt::Write as _;

use crate::config::Secret;

/// Shortest secret that is looked for, bytes: a shorter one would shred ordinary text.
const SECRET_BYTES_MIN: usize = 8;

/// Replaces every known secret by `[redacted]`.
pub(super) fn conceal(text: &str, secrets: &[Secret]) -> String {
    let long = secrets.iter().map(Secret::expose).filter(|secret| secret.len() >= SECRET_BYTES_MIN);
    long.fold(text.to_owned(), |text, secret| text.replace(secret, "[redacted]"))
}

/// Writes control, bidi, zero-width and tag characters as `<U+XXXX>`; line ends and tabs stay.
pub(super) fn visible(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if is_deceptive(c) {
            // Writing to a String cannot fail.
            let _ = write!(out, "<U+{:04X}>", u32::from(c));
        } else {
            out.push(c);
        }
        out
    })
}

fn is_deceptive(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{200B}'
        | '\u{200E}'..='\u{200F}'
        | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}'
        | '\u{061C}'
        | '\u{FEFF}'
        | '\u{FFF9}'..='\u{FFFB}'
        | '\u{E0000}'..='\u{E007F}' => true,
        _ => c.is_control(),
    }
}
