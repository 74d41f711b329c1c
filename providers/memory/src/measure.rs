//! How good recall is, and how fast: figures over a folder of memories and questions.
//!
//! * [`dialogue`]: turns of conversations, questions with the turns that answer them (the format of LoCoMo's copy in
//!   `records.jsonl` and `queries.jsonl`);
//! * [`rules`]: short memories of a project in several languages, prompts that they answer, and prompts that have nothing
//!   to do with them (`memories.jsonl` and `queries.jsonl`);
//! * [`scale`]: made-up memories by number, and sessions that ask at once.
//!
//! A set is read once and asked through a function, so that anything that ranks can be measured beside the ledger.
//! Reads no clock: the caller hands one in.

pub mod dialogue;
pub mod rules;
pub mod scale;

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;
use std::time::Duration;

use agentspine_gate::Id;
use serde::de::DeserializeOwned;

use crate::ledger::{OpenError, StoreError};
use crate::record::MemoryScope;
use crate::remember::RememberError;

/// Time since some fixed moment.
pub type Clock<'a> = &'a (dyn Fn() -> Duration + Sync);

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// A file of the set cannot be read.
    #[error("{file} cannot be read: {kind}")]
    Unreadable {
        /// Its name.
        file: &'static str,
        /// What the system said.
        kind: io::ErrorKind,
    },
    /// A line is not what the format says.
    #[error("{file}, line {line}: not a record of this format")]
    Malformed {
        /// Its name.
        file: &'static str,
        /// From 1.
        line: usize,
    },
    /// The scratch ledger cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A memory of the set is over a limit of the ledger.
    #[error(transparent)]
    Remember(#[from] RememberError),
    /// The scratch ledger failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Shares between 0 and 1 over a number of questions.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Figures {
    /// Questions.
    pub queries: usize,
    /// Mean share of the answers that are among the first five, and ten.
    pub recall_5: f64,
    /// See [`Figures::recall_5`].
    pub recall_10: f64,
    /// Share of questions with an answer among the first five, and ten.
    pub hit_5: f64,
    /// See [`Figures::hit_5`].
    pub hit_10: f64,
    /// Mean of one over the place of the first answer.
    pub mrr: f64,
}

impl Figures {
    /// Of questions with the places of their answers, from 0, and how many answers there are.
    fn of<'a>(answers: impl IntoIterator<Item = &'a Found>) -> Self {
        let mut sum = Self::default();
        for found in answers {
            let within = |k: usize| number(found.places.iter().filter(|place| **place < k).count());
            let first = found.places.first().map_or(0.0, |place| 1.0 / (number(*place) + 1.0));
            sum.queries += 1;
            sum.recall_5 += within(5) / number(found.wanted);
            sum.recall_10 += within(10) / number(found.wanted);
            sum.hit_5 += within(5).min(1.0);
            sum.hit_10 += within(10).min(1.0);
            sum.mrr += first;
        }
        let mean = |value: f64| value / number(sum.queries.max(1));
        Self {
            queries: sum.queries,
            recall_5: mean(sum.recall_5),
            recall_10: mean(sum.recall_10),
            hit_5: mean(sum.hit_5),
            hit_10: mean(sum.hit_10),
            mrr: mean(sum.mrr),
        }
    }
}

/// Where the answers to one question were found.
struct Found {
    /// Ascending, from 0.
    places: Vec<usize>,
    /// How many answers the question has.
    wanted: usize,
}

impl Found {
    fn of(ranked: &[String], wanted: &[String]) -> Self {
        let places =
            (0..).zip(ranked).filter(|(_, id)| wanted.contains(id)).map(|(place, _)| place).collect();
        Self { places, wanted: wanted.len().max(1) }
    }
}

/// How long questions took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Latency {
    /// Half of them were faster.
    pub p50: Duration,
    /// Nineteen of twenty were faster.
    pub p95: Duration,
    /// The slowest.
    pub max: Duration,
}

impl Latency {
    /// Of single times.
    pub fn of(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at =
            |part: usize| times.get(times.len() * part / 100).or(times.last()).copied().unwrap_or_default();
        Self { p50: at(50), p95: at(95), max: times.last().copied().unwrap_or_default() }
    }
}

/// Every line of a file of the set; `None` where the file is absent.
fn lines<T: DeserializeOwned>(folder: &Path, file: &'static str) -> Result<Option<Vec<T>>, MeasureError> {
    let unreadable = |error: io::Error| MeasureError::Unreadable { file, kind: error.kind() };
    let opened = match File::open(folder.join(file)) {
        Ok(opened) => opened,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let mut records = Vec::new();
    for (line, text) in (1..).zip(BufReader::new(opened).lines()) {
        let text = text.map_err(unreadable)?;
        if !text.trim().is_empty() {
            let record = serde_json::from_str(&text).map_err(|_| MeasureError::Malformed { file, line })?;
            records.push(record);
        }
    }
    Ok(Some(records))
}

/// The scope of a name of the set.
fn scope(name: &str) -> Result<MemoryScope, MeasureError> {
    let id = |text: &str| Id::new(text).map_err(|_| StoreError::Corrupt);
    let project_id = Some(id(&format!("measure:{name}"))?);
    Ok(MemoryScope { tenant_id: id("measure")?, user_id: id("measure")?, project_id, group_id: None })
}

/// Counts stay far below 2^53, where this is exact.
#[allow(clippy::cast_precision_loss)]
fn number(n: usize) -> f64 {
    n as f64
}
