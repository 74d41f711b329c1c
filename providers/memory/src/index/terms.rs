//! The text of a memory as terms, each with the fields it stands in.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::words::latin::pieces;
use crate::words::{self, Word};

/// A field of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    Title,
    Body,
    Tags,
    Subject,
    Date,
}

/// How often a term stands in each field of one memory, in one byte: title 0..=3, body 0..=7, the others yes or no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Fields(pub(crate) u8);

impl Fields {
    const TITLE_MAX: u8 = 3;
    const BODY_MAX: u8 = 7;

    fn add(&mut self, field: Field) {
        self.0 = match field {
            Field::Title if self.title() < Self::TITLE_MAX => self.0 + 1,
            Field::Body if self.body() < Self::BODY_MAX => self.0 + (1 << 2),
            Field::Title | Field::Body => self.0,
            Field::Tags => self.0 | 1 << 5,
            Field::Subject => self.0 | 1 << 6,
            Field::Date => self.0 | 1 << 7,
        };
    }

    pub(crate) fn title(self) -> u8 {
        self.0 & 0b11
    }

    pub(crate) fn body(self) -> u8 {
        (self.0 >> 2) & 0b111
    }

    pub(crate) fn has(self, field: Field) -> bool {
        match field {
            Field::Title => self.title() > 0,
            Field::Body => self.body() > 0,
            Field::Tags => self.0 >> 5 & 1 == 1,
            Field::Subject => self.0 >> 6 & 1 == 1,
            Field::Date => self.0 >> 7 == 1,
        }
    }
}

/// The text of a record.
pub(super) struct Text {
    pub(crate) title: String,
    pub(crate) summary: String,
    /// One a line.
    pub(crate) tags: String,
    pub(crate) subject: Option<String>,
    pub(crate) created_at_ms: i64,
}

impl Text {
    pub(crate) fn terms(&self) -> Terms {
        let mut terms = Terms::default();
        // A title that is the beginning of the text says nothing of its own.
        let own = self.title.trim_end_matches(['…', '.', ' ']);
        if !self.summary.starts_with(own) {
            terms.add(Field::Title, &self.title);
        }
        terms.add(Field::Body, &self.summary);
        terms.add(Field::Tags, &self.tags);
        terms.add(Field::Subject, self.subject.as_deref().unwrap_or_default());
        for term in date(self.created_at_ms) {
            terms.count(Field::Date, term);
        }
        terms
    }
}

/// Terms of one memory.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Terms {
    pub(crate) of: BTreeMap<String, Fields>,
    /// Words of title, text and tags: the memory's length for ranking.
    pub(crate) words: i64,
}

impl Terms {
    fn add(&mut self, field: Field, text: &str) {
        let words = words::indexed(text);
        if matches!(field, Field::Title | Field::Body | Field::Tags) {
            self.words += i64::try_from(words.len()).unwrap_or(0);
        }
        for Word { stems, .. } in words {
            for stem in stems {
                for (end, piece) in pieces(&stem) {
                    self.count(field, format!("{end}{piece}"));
                }
                self.count(field, stem);
            }
        }
    }

    fn count(&mut self, field: Field, term: String) {
        self.of.entry(term).or_default().add(field);
    }

    /// Its length as a slot holds it: at least 1, because 0 is a row that is not there.
    pub(crate) fn length(&self) -> u16 {
        u16::try_from(self.words.max(1)).unwrap_or(u16::MAX)
    }

    /// How many different terms it has.
    pub(crate) fn number(&self) -> u16 {
        u16::try_from(self.of.len()).unwrap_or(u16::MAX)
    }
}

/// Marks terms of the day a memory was made, in UTC.
pub(crate) const DATE: char = '@';

/// Year, month, day of the month, and the whole date as `words` writes `2026-11-30`.
fn date(at_ms: i64) -> Vec<String> {
    let Ok(at) = Timestamp::from_millisecond(at_ms) else { return Vec::new() };
    let day = TimeZone::UTC.to_datetime(at).date();
    let (year, month, number) = (day.year(), day.month(), day.day());
    vec![
        format!("{DATE}{year}"),
        format!("{DATE}m{month}"),
        format!("{DATE}d{number}"),
        format!("{DATE}{year}p{month:02}p{number:02}"),
    ]
}
