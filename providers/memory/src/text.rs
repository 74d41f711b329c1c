//! The text of a new memory: limits, redaction, screen, and the digest of what is left.

use agentspine_gate::{Digest, screen};

use crate::provenance::{CWD_BYTES_MAX, EMBEDDINGS_MAX, ROUTE_BYTES_MAX};
use crate::record::{
    NewMemory, RANGE_KEY_BYTES_MAX, SUBJECT_BYTES_MAX, SUMMARY_BYTES_MAX, TAG_BYTES_MAX, TAGS_MAX,
    TITLE_BYTES_MAX,
};
use crate::relation::RELATIONS_MAX;
use crate::remember::RememberError;

/// A memory whose text passed limits, redaction and screen.
pub(crate) struct Screened {
    pub(crate) title: String,
    pub(crate) summary: String,
    pub(crate) tags: Vec<String>,
    pub(crate) subject: Option<String>,
    /// Labels of what was redacted.
    pub(crate) redacted: Vec<String>,
}

impl Screened {
    pub(crate) fn of(new: &NewMemory) -> Result<Self, RememberError> {
        limits(new)?;
        let mut redacted = Vec::new();
        let title = line("title", &new.title, TITLE_BYTES_MAX, &mut redacted)?;
        let summary = clean("summary", &new.summary, SUMMARY_BYTES_MAX, &mut redacted)?;
        let tags = new.tags.iter().map(|tag| line("tag", tag, TAG_BYTES_MAX, &mut redacted));
        let tags = tags.collect::<Result<Vec<_>, _>>()?;
        let subject = new.subject.as_deref();
        let subject =
            subject.map(|text| line("subject", text, SUBJECT_BYTES_MAX, &mut redacted)).transpose()?;
        redacted.sort_unstable();
        redacted.dedup();
        Ok(Self { title, summary, tags, subject, redacted })
    }

    /// Digest of what the memory says: tells a repeated operation from another one under its id.
    pub(crate) fn digest(&self, new: &NewMemory) -> Digest {
        let mut bytes = Vec::new();
        let fields = [new.trust.as_str(), &self.title, &self.summary];
        let fields = fields.into_iter().chain(self.tags.iter().map(String::as_str));
        fields.for_each(|field| push(&mut bytes, field));
        // No field is that long, so that what follows is no tag; without these the digest is that of the first schema.
        if let Some(subject) = &self.subject {
            bytes.extend_from_slice(&u64::MAX.to_be_bytes());
            push(&mut bytes, subject);
        }
        for relation in &new.relations {
            bytes.extend_from_slice(&(u64::MAX - 1).to_be_bytes());
            push(&mut bytes, relation.predicate.as_str());
            push(&mut bytes, &relation.object.to_text());
        }
        Digest::of(&bytes)
    }
}

fn push(bytes: &mut Vec<u8>, field: &str) {
    bytes.extend_from_slice(&(field.len() as u64).to_be_bytes());
    bytes.extend_from_slice(field.as_bytes());
}

fn limits(new: &NewMemory) -> Result<(), RememberError> {
    limit("range key", &new.origin.range_key, RANGE_KEY_BYTES_MAX)?;
    number("list of tags", new.tags.len(), TAGS_MAX, "tags")?;
    number("list of relations", new.relations.len(), RELATIONS_MAX, "relations")?;
    let provenance = &new.provenance;
    number("list of embedding models", provenance.embedding_models.len(), EMBEDDINGS_MAX, "models")?;
    limit("model route", provenance.model_route.as_deref().unwrap_or_default(), ROUTE_BYTES_MAX)?;
    let Some(session) = &provenance.session else { return Ok(()) };
    limit("working directory", &session.cwd, CWD_BYTES_MAX)?;
    // What a fork shares with its parent is the parent's to remember.
    if new.origin.from_seq <= session.seed_length && session.seed_length > 0 {
        return Err(RememberError::Seed(session.seed_length));
    }
    Ok(())
}

fn number(field: &'static str, n: usize, limit: usize, unit: &'static str) -> Result<(), RememberError> {
    if n > limit { Err(RememberError::TooLong { field, limit, unit }) } else { Ok(()) }
}

fn limit(field: &'static str, text: &str, limit: usize) -> Result<(), RememberError> {
    number(field, text.len(), limit, "bytes")
}

/// A field of one line: a list of them is kept line by line.
fn line(
    field: &'static str,
    text: &str,
    bytes_max: usize,
    redacted: &mut Vec<String>,
) -> Result<String, RememberError> {
    let clean = clean(field, text, bytes_max, redacted)?;
    Ok(clean.replace(['\n', '\r'], " "))
}

/// One field: limits before and after, redaction, then the screen over what is left.
fn clean(
    field: &'static str,
    text: &str,
    bytes_max: usize,
    redacted: &mut Vec<String>,
) -> Result<String, RememberError> {
    limit(field, text, bytes_max)?;
    let (clean, labels) = screen::redact(text.trim());
    redacted.extend(labels);
    if clean.trim().is_empty() {
        return Err(RememberError::Empty(field));
    }
    // A placeholder can be longer than what it replaces.
    limit(field, &clean, bytes_max)?;
    screen::screen(&clean)?;
    Ok(clean)
}
