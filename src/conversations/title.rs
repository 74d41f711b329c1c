//! Titles: the first words of a session's first prompt, until the person gives another.

use agentspine_gate::Id;
use agentspine_gate::screen::{neutralise, redact};
use rusqlite::params;

use super::{Conversations, ConversationsError, Durability, Result};

/// Longest title a person may give, bytes.
const TITLE_BYTES_MAX: usize = 200;
/// Longest title made of a prompt, characters.
const WORDS_CHARS_MAX: usize = 48;
/// How much of a prompt is looked at, bytes: what is cut off of a secret here was after the title's end anyway.
const LOOKED_AT_BYTES_MAX: usize = 4096;

/// The first words of a prompt, without secrets, on one line; `None` where it has no words.
pub(crate) fn title_of(prompt: &str) -> Option<String> {
    let prompt = prompt.trim();
    let end = prompt.floor_char_boundary(LOOKED_AT_BYTES_MAX.min(prompt.len()));
    let text = neutralise(&redact(prompt.get(..end).unwrap_or_default()).0);
    let mut title = String::new();
    for word in text.split_whitespace() {
        let length = title.chars().count() + word.chars().count();
        if !title.is_empty() && length >= WORDS_CHARS_MAX {
            title.push('…');
            break;
        }
        if !title.is_empty() {
            title.push(' ');
        }
        title.extend(word.chars().take(WORDS_CHARS_MAX));
    }
    title.chars().any(char::is_alphanumeric).then_some(title)
}

impl Conversations {
    /// Gives a session without a title this one. For people only, so it is durable with the next append.
    pub(crate) fn title_first(&mut self, session: &Id, title: &str) -> Result<()> {
        let sql = "UPDATE session SET title = ?2 WHERE id = ?1 AND title IS NULL AND redacted_at IS NULL";
        self.write_as(Durability::Later, |tx| {
            tx.execute(sql, params![session.as_str(), title])?;
            Ok(())
        })
    }

    /// Gives a session another title.
    pub(crate) fn rename(&mut self, session: &Id, title: &str) -> Result<()> {
        if title.len() > TITLE_BYTES_MAX {
            return Err(ConversationsError::TooLarge { what: "title", limit: TITLE_BYTES_MAX });
        }
        let changed = self.write(|tx| {
            let sql = "UPDATE session SET title = ?2 WHERE id = ?1";
            Ok(tx.execute(sql, params![session.as_str(), title])?)
        })?;
        if changed == 0 { Err(ConversationsError::UnknownSession(session.clone())) } else { Ok(()) }
    }
}
