//! Short memories of one project in several languages, prompts they answer, and prompts that have nothing to do with them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use agentspine_gate::Id;
use serde::Deserialize;

use super::{Clock, Latency, MeasureError, lines, number, scope};
use crate::ledger::{Ledger, StoreError};
use crate::provenance::Provenance;
use crate::record::{Kind, NewMemory, Origin, Trust};
use crate::remember::RememberError;

/// Memories one prompt recalls at most.
pub const RECALLED: usize = 5;
/// All memories stand in this scope.
const SCOPE: &str = "rules";

/// Which questions are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Split {
    /// What settings are chosen by.
    Tune,
    /// What nobody looks at while choosing.
    Kept,
}

#[derive(Deserialize)]
struct Memory {
    id: String,
    kind: String,
    title: String,
    summary: String,
    #[serde(default)]
    tags: Vec<String>,
}

#[derive(Deserialize)]
struct Query {
    lang: String,
    #[serde(rename = "query")]
    text: String,
    #[serde(default)]
    expect: Vec<String>,
    #[serde(default)]
    paraphrase: bool,
    related: bool,
    split: Split,
}

/// Memories and prompts.
pub struct Set {
    memories: Vec<Memory>,
    queries: Vec<Query>,
}

/// Shares between 0 and 1 over the related prompts of one group.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Hits {
    /// Prompts.
    pub queries: usize,
    /// Share with an answer in the first place.
    pub hit_1: f64,
    /// Share with an answer in the first three places.
    pub hit_3: f64,
    /// Share that recall anything.
    pub answered: f64,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Over all related prompts.
    pub all: Hits,
    /// By language of the prompt.
    pub by_language: BTreeMap<String, Hits>,
    /// Prompts that share no content word with their answer.
    pub paraphrases: Hits,
    /// Unrelated prompts.
    pub unrelated: usize,
    /// Share of those that recall nothing.
    pub silent: f64,
    /// Of one prompt.
    pub latency: Latency,
}

/// One prompt's outcome.
struct Outcome<'a> {
    query: &'a Query,
    first: bool,
    third: bool,
    any: bool,
}

impl Set {
    /// Reads `memories.jsonl` and `queries.jsonl`; `None` where one of them is absent.
    pub fn read(folder: &Path) -> Result<Option<Self>, MeasureError> {
        let Some(memories) = lines(folder, "memories.jsonl")? else { return Ok(None) };
        let Some(queries) = lines(folder, "queries.jsonl")? else { return Ok(None) };
        Ok(Some(Self { memories, queries }))
    }

    /// Memories of the set.
    pub fn memories(&self) -> usize {
        self.memories.len()
    }

    /// Asks the prompts of one part; `recall` gives ids of memories, best first, and none where it stays silent.
    pub fn measure(
        &self,
        split: Split,
        clock: Clock<'_>,
        mut recall: impl FnMut(&str) -> Result<Vec<String>, MeasureError>,
    ) -> Result<Measured, MeasureError> {
        let (mut outcomes, mut times) = (Vec::new(), Vec::new());
        for query in self.queries.iter().filter(|query| query.split == split) {
            let begun = clock();
            let recalled = recall(&query.text)?;
            times.push(clock().saturating_sub(begun));
            let within = |k: usize| recalled.iter().take(k).any(|id| query.expect.contains(id));
            outcomes.push(Outcome { query, first: within(1), third: within(3), any: !recalled.is_empty() });
        }
        Ok(Measured::of(&outcomes, Latency::of(times)))
    }

    /// Remembers every memory in a new ledger and asks it. The ids are those of memories the screen refused.
    pub fn measure_ledger(
        &self,
        ledger: &mut Ledger,
        split: Split,
        clock: Clock<'_>,
    ) -> Result<(Measured, Vec<String>), MeasureError> {
        let (ids, refused) = self.fill(ledger)?;
        let scope = scope(SCOPE)?;
        let measured = self.measure(split, clock, |text| {
            let recalled = ledger.recall(&scope, text, RECALLED)?;
            let id = |memory: &Id| ids.get(memory).cloned().unwrap_or_default();
            Ok(recalled.iter().map(|recalled| id(&recalled.entry.memory_id)).collect())
        })?;
        Ok((measured, refused))
    }

    fn fill(&self, ledger: &mut Ledger) -> Result<(HashMap<Id, String>, Vec<String>), MeasureError> {
        let (mut ids, mut refused) = (HashMap::new(), Vec::new());
        let scope = scope(SCOPE)?;
        for (seq, memory) in (0..).zip(&self.memories) {
            match ledger.remember(&memory.memory(seq)?, &scope) {
                Ok(remembered) => drop(ids.insert(remembered.memory_id, memory.id.clone())),
                Err(RememberError::Refused(_)) => refused.push(memory.id.clone()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok((ids, refused))
    }
}

impl Memory {
    fn memory(&self, seq: u64) -> Result<NewMemory, MeasureError> {
        let id = |text: &str| Id::new(text).map_err(|_| StoreError::Corrupt);
        Ok(NewMemory {
            // A rule of the set stands for a person's decision: the ledger holds no rules.
            kind: Kind::parse(&self.kind).unwrap_or(Kind::Decision),
            title: self.title.clone(),
            summary: self.summary.clone(),
            tags: self.tags.clone(),
            trust: Trust::Explicit,
            origin: Origin {
                source: id("measure")?,
                from_seq: seq,
                through_seq: seq,
                range_key: self.id.clone(),
                extractor: id("measure/v1")?,
            },
            subject: None,
            provenance: Provenance::default(),
            relations: Vec::new(),
            created_at_ms: 0,
        })
    }
}

impl Measured {
    fn of(outcomes: &[Outcome<'_>], latency: Latency) -> Self {
        let related = || outcomes.iter().filter(|outcome| outcome.query.related);
        let languages: HashSet<&str> = related().map(|outcome| outcome.query.lang.as_str()).collect();
        let of_language =
            |language: &str| Hits::of(related().filter(|outcome| outcome.query.lang == language));
        let unrelated: Vec<_> = outcomes.iter().filter(|outcome| !outcome.query.related).collect();
        let silent = unrelated.iter().filter(|outcome| !outcome.any).count();
        Self {
            all: Hits::of(related()),
            by_language: languages.into_iter().map(|name| (name.to_owned(), of_language(name))).collect(),
            paraphrases: Hits::of(related().filter(|outcome| outcome.query.paraphrase)),
            unrelated: unrelated.len(),
            silent: number(silent) / number(unrelated.len().max(1)),
            latency,
        }
    }
}

impl Hits {
    fn of<'a>(outcomes: impl Iterator<Item = &'a Outcome<'a>> + Clone) -> Self {
        let share = |of: fn(&Outcome<'_>) -> bool| {
            let all = outcomes.clone().count();
            number(outcomes.clone().filter(|outcome| of(outcome)).count()) / number(all.max(1))
        };
        Self {
            queries: outcomes.clone().count(),
            hit_1: share(|outcome| outcome.first),
            hit_3: share(|outcome| outcome.third),
            answered: share(|outcome| outcome.any),
        }
    }
}
