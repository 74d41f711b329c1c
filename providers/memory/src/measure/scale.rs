//! Made-up memories by number, and sessions that ask at once.

use std::path::Path;
use std::time::Duration;

use agentspine_gate::Id;

use super::{Clock, Latency, MeasureError, scope};
use crate::ledger::{Ledger, StoreError};
use crate::provenance::Provenance;
use crate::record::{Kind, NewMemory, Origin, Trust};

/// Memories of the scopes that are measured, all in one file; the larger ones are what the smaller ones must not feel.
pub const SIZES: [u32; 4] = [100, 1_000, 10_000, 100_000];
/// Sessions that ask at once.
pub const SESSIONS: [usize; 2] = [1, 4];
/// Questions of one session.
const QUESTIONS: u32 = 200;
/// Words of one memory, and of one question.
const MEMORY_WORDS: u32 = 24;
const QUESTION_WORDS: u32 = 9;
/// Different words there are; some are frequent and most are rare, as in a language.
const VOCABULARY: u32 = 30_000;

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measured {
    /// Memories in the scope.
    pub memories: u32,
    /// Sessions that asked at once.
    pub sessions: usize,
    /// Of one question.
    pub latency: Latency,
}

/// Fills a scope with `memories` made-up ones.
pub fn fill(ledger: &mut Ledger, memories: u32) -> Result<(), MeasureError> {
    let scope = scope(&memories.to_string())?;
    let mut dice = Dice(u64::from(memories) | 1);
    for n in 0..memories {
        ledger.remember(&memory(&mut dice, n)?, &scope)?;
    }
    Ok(())
}

/// Asks the scope of `memories` made-up ones from `sessions` threads, each with a ledger of its own.
pub fn measure(
    path: &Path,
    memories: u32,
    sessions: usize,
    clock: Clock<'_>,
) -> Result<Measured, MeasureError> {
    let asked = std::thread::scope(|threads| {
        let seeds = (1..).take(sessions);
        let running: Vec<_> =
            seeds.map(|seed| threads.spawn(move || session(path, memories, seed, clock))).collect();
        running
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Err(StoreError::Corrupt.into())))
            .collect::<Result<Vec<_>, _>>()
    });
    Ok(Measured { memories, sessions, latency: Latency::of(asked?.into_iter().flatten().collect()) })
}

/// How long it takes to open the ledger and to ask it once, as a process does that answers one prompt.
pub fn first_question(
    path: &Path,
    memories: u32,
    clock: Clock<'_>,
) -> Result<(Duration, Duration), MeasureError> {
    let begun = clock();
    let ledger = Ledger::open(path)?;
    let opened = clock();
    ledger.recall(&scope(&memories.to_string())?, &text(&mut Dice(99), QUESTION_WORDS), 5)?;
    Ok((opened.saturating_sub(begun), clock().saturating_sub(opened)))
}

fn session(path: &Path, memories: u32, seed: u64, clock: Clock<'_>) -> Result<Vec<Duration>, MeasureError> {
    let ledger = Ledger::open(path)?;
    let scope = scope(&memories.to_string())?;
    let mut dice = Dice(seed);
    let mut times = Vec::new();
    for _ in 0..QUESTIONS {
        let question = text(&mut dice, QUESTION_WORDS);
        let begun = clock();
        ledger.recall(&scope, &question, 5)?;
        times.push(clock().saturating_sub(begun));
    }
    Ok(times)
}

fn memory(dice: &mut Dice, n: u32) -> Result<NewMemory, MeasureError> {
    let id = |text: &str| Id::new(text).map_err(|_| StoreError::Corrupt);
    Ok(NewMemory {
        kind: Kind::Decision,
        title: text(dice, 4),
        summary: text(dice, MEMORY_WORDS),
        tags: Vec::new(),
        trust: Trust::Derived,
        origin: Origin {
            source: id(&format!("session:{}", n / 40))?,
            from_seq: u64::from(n),
            through_seq: u64::from(n),
            range_key: String::new(),
            extractor: id("measure/v1")?,
        },
        subject: None,
        provenance: Provenance::default(),
        relations: Vec::new(),
        created_at_ms: i64::from(n),
    })
}

/// Words by Zipf's law: the k-th is about k times as rare as the first.
fn text(dice: &mut Dice, words: u32) -> String {
    let words: Vec<String> = (0..words).map(|_| word(dice.zipf())).collect();
    words.join(" ")
}

/// Frequent words are short and rare ones long, up to eight letters, as in a language.
fn word(mut number: u32) -> String {
    const SYLLABLES: [&str; 16] =
        ["ba", "ke", "lo", "mi", "tu", "se", "ga", "pi", "do", "we", "fa", "ru", "ho", "vi", "ze", "ja"];
    let mut word = String::new();
    loop {
        let at = usize::try_from(number % 16).unwrap_or(0);
        word.push_str(SYLLABLES.get(at).copied().unwrap_or_default());
        number /= 16;
        if number == 0 {
            return word;
        }
    }
}

/// Numbers that look like chance and are the same in every run (xorshift64*).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn zipf(&mut self) -> u32 {
        let share = f64::from(u32::try_from(self.next() >> 32).unwrap_or(0)) / f64::from(u32::MAX);
        let rank = f64::from(VOCABULARY).powf(share);
        // Between 1 and the vocabulary.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let rank = rank as u32;
        rank
    }
}
