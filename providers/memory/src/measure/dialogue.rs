//! Turns of conversations: one turn is one memory in its conversation's scope.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use agentspine_gate::Id;
use jiff::Timestamp;
use serde::Deserialize;

use super::{Clock, Figures, Found, Latency, MeasureError, lines, scope};
use crate::ledger::{Ledger, StoreError};
use crate::provenance::Provenance;
use crate::record::{Kind, NewMemory, Origin, TITLE_BYTES_MAX, Trust};
use crate::remember::RememberError;

/// How many are asked for.
pub const RANKED: usize = 10;
/// Questions of this category have no answer in the conversation and are left out.
const ADVERSARIAL: u8 = 5;

/// Whether turns know what was said before and after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Neighbours {
    /// As a session's own memories.
    With,
    /// As memories that were each remembered alone.
    Without,
}

#[derive(Deserialize)]
struct Turn {
    scope: String,
    id: String,
    text: String,
    /// RFC 3339.
    ts: String,
    speaker: String,
    session: u64,
    #[serde(rename = "turn")]
    seq: u64,
    caption: Option<String>,
}

#[derive(Deserialize)]
struct Query {
    scope: String,
    #[serde(rename = "query")]
    text: String,
    gold: Vec<String>,
    category: u8,
}

/// Conversations and questions about them.
pub struct Set {
    turns: Vec<Turn>,
    queries: Vec<Query>,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Over all questions.
    pub all: Figures,
    /// By category: 1 multi-hop, 2 temporal, 3 open domain, 4 single-hop.
    pub by_category: BTreeMap<u8, Figures>,
    /// Of one question.
    pub latency: Latency,
}

impl Set {
    /// Reads `records.jsonl` and `queries.jsonl`; `None` where one of them is absent.
    pub fn read(folder: &Path) -> Result<Option<Self>, MeasureError> {
        let Some(turns) = lines(folder, "records.jsonl")? else { return Ok(None) };
        let Some(queries) = lines(folder, "queries.jsonl")? else { return Ok(None) };
        Ok(Some(Self { turns, queries }))
    }

    /// Turns of the set.
    pub fn turns(&self) -> usize {
        self.turns.len()
    }

    /// Asks every question; `rank` is given the scope's name and the question, and gives ids of turns, best first.
    pub fn measure(
        &self,
        clock: Clock<'_>,
        mut rank: impl FnMut(&str, &str) -> Result<Vec<String>, MeasureError>,
    ) -> Result<Measured, MeasureError> {
        let mut by_category: BTreeMap<u8, Vec<Found>> = BTreeMap::new();
        let mut times = Vec::new();
        for query in self.queries.iter().filter(|query| query.category != ADVERSARIAL) {
            let begun = clock();
            let ranked = rank(&query.scope, &query.text)?;
            times.push(clock().saturating_sub(begun));
            by_category.entry(query.category).or_default().push(Found::of(&ranked, &query.gold));
        }
        Ok(Measured {
            all: Figures::of(by_category.values().flatten()),
            by_category: by_category
                .iter()
                .map(|(category, found)| (*category, Figures::of(found)))
                .collect(),
            latency: Latency::of(times),
        })
    }

    /// Remembers every turn in a new ledger and asks it. The number is that of turns the screen refused.
    pub fn measure_ledger(
        &self,
        ledger: &mut Ledger,
        neighbours: Neighbours,
        clock: Clock<'_>,
    ) -> Result<(Measured, usize), MeasureError> {
        let (ids, refused) = self.fill(ledger, neighbours)?;
        let measured = self.measure(clock, |name, text| {
            let ranked = ledger.ranked(&scope(name)?, text, RANKED)?;
            let id = |memory: &Id| ids.get(memory).cloned().unwrap_or_default();
            Ok(ranked.iter().map(|recalled| id(&recalled.entry.memory_id)).collect())
        })?;
        Ok((measured, refused))
    }

    fn fill(
        &self,
        ledger: &mut Ledger,
        neighbours: Neighbours,
    ) -> Result<(HashMap<Id, String>, usize), MeasureError> {
        let (mut ids, mut refused) = (HashMap::new(), 0);
        for turn in &self.turns {
            match ledger.remember(&turn.memory(neighbours)?, &scope(&turn.scope)?) {
                Ok(remembered) => drop(ids.insert(remembered.memory_id, turn.id.clone())),
                Err(RememberError::Refused(_)) => refused += 1,
                Err(error) => return Err(error.into()),
            }
        }
        Ok((ids, refused))
    }
}

impl Turn {
    fn memory(&self, neighbours: Neighbours) -> Result<NewMemory, MeasureError> {
        let id = |text: String| Id::new(text).map_err(|_| StoreError::Corrupt);
        let title = self.text.get(..self.text.floor_char_boundary(TITLE_BYTES_MAX)).unwrap_or_default();
        let caption = self.caption.as_ref().map(|caption| format!("\n{caption}")).unwrap_or_default();
        Ok(NewMemory {
            kind: Kind::WorkUnit,
            title: title.to_owned(),
            summary: format!("{}{caption}", self.text),
            tags: Vec::new(),
            trust: match neighbours {
                Neighbours::With => Trust::Derived,
                Neighbours::Without => Trust::Explicit,
            },
            origin: Origin {
                source: id(format!("session:{}:{}", self.scope, self.session))?,
                from_seq: self.seq,
                through_seq: self.seq,
                range_key: self.id.clone(),
                extractor: id("measure/v1".to_owned())?,
            },
            subject: Some(self.speaker.clone()),
            // A turn without a readable time has none.
            provenance: Provenance::default(),
            relations: Vec::new(),
            created_at_ms: self.ts.parse().map_or(0, Timestamp::as_millisecond),
        })
    }
}

impl Measured {
    /// The slowest twentieth began here.
    pub fn p95(&self) -> Duration {
        self.latency.p95
    }
}
