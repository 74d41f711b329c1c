//! Recall over 1,000 generated memories: `cargo bench -p agentspine-memory`.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use agentspine_gate::Id;
use agentspine_memory::{Kind, Ledger, MemoryScope, NewMemory, Origin, Provenance, Trust};

const SUBJECTS: [&str; 10] =
    ["receipt", "journal", "anchor", "keyring", "proxy", "composer", "ledger", "policy", "briefing", "span"];
const VERBS: [&str; 10] = [
    "expires",
    "rotates",
    "starts",
    "stays",
    "moves",
    "wird geprüft",
    "bleibt",
    "closes",
    "opens",
    "retries",
];
const PLACES: [&str; 10] = [
    "after 60 seconds",
    "in parse_config",
    "on port 8080",
    "in HttpClient",
    "auf dem Server",
    "beim Neustart",
    "in staging",
    "for every tenant",
    "under load",
    "after compaction",
];

fn main() {
    divan::main();
}

fn scope() -> MemoryScope {
    let id = |text: &str| Id::new(text).unwrap();
    MemoryScope { tenant_id: id("t"), user_id: id("u"), project_id: Some(id("project:p")), group_id: None }
}

fn filled(dir: &std::path::Path) -> Ledger {
    let mut ledger = Ledger::open(&dir.join("memory.sqlite")).unwrap();
    for n in 0..1000usize {
        let pick = |words: [&'static str; 10], by: usize| words[n / by % 10];
        let memory = NewMemory {
            kind: Kind::Decision,
            title: format!("{} {n}", pick(SUBJECTS, 1)),
            summary: format!("The {} {} {}.", pick(SUBJECTS, 1), pick(VERBS, 10), pick(PLACES, 100)),
            tags: vec![],
            subject: None,
            trust: Trust::Explicit,
            origin: Origin {
                source: Id::new("bench").unwrap(),
                from_seq: n as u64,
                through_seq: n as u64,
                range_key: String::new(),
                extractor: Id::new("bench/v1").unwrap(),
            },
            created_at_ms: 0,
            provenance: Provenance::default(),
            relations: Vec::new(),
        };
        ledger.remember(&memory, &scope()).unwrap();
    }
    ledger
}

#[divan::bench(args = ["when does the receipt expire?", "was passiert beim Neustart mit dem Journal in parse_config?"])]
fn recall(bencher: divan::Bencher<'_, '_>, prompt: &str) {
    let dir = tempfile::tempdir().unwrap();
    let ledger = filled(dir.path());
    bencher.bench_local(|| ledger.recall(&scope(), prompt, 5).unwrap());
}
