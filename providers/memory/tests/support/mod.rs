//! Ledgers in their own directories, and memories that differ where a test says so.
#![allow(dead_code, unreachable_pub)]

pub mod shelf;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use agentspine_gate::Id;
use agentspine_memory::{
    Kind, Ledger, MemoryScope, NewMemory, Origin, Provenance, Recalled, Remembered, Trust,
};

pub struct House {
    pub dir: tempfile::TempDir,
    pub ledger: Ledger,
}

impl House {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ledger = Ledger::open(&dir.path().join("memory.sqlite")).unwrap();
        Self { dir, ledger }
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("memory.sqlite")
    }

    pub fn remember(&mut self, title: &str, summary: &str) -> Remembered {
        self.ledger.remember(&memory(title, summary), &scope()).unwrap()
    }

    /// Titles of what is recalled, best first.
    pub fn recall(&self, prompt: &str) -> Vec<String> {
        self.recalled(prompt).into_iter().map(|recalled| recalled.entry.title).collect()
    }

    pub fn recalled(&self, prompt: &str) -> Vec<Recalled> {
        self.ledger.recall(&scope(), prompt, 5).unwrap()
    }
}

pub fn id(text: &str) -> Id {
    Id::new(text).unwrap()
}

pub fn scope() -> MemoryScope {
    MemoryScope { tenant_id: id("t"), user_id: id("u"), project_id: Some(id("project:p")), group_id: None }
}

/// A memory of an operation of its own.
pub fn memory(title: &str, summary: &str) -> NewMemory {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let seq = NEXT.fetch_add(1, Ordering::Relaxed);
    NewMemory {
        kind: Kind::Decision,
        title: title.to_owned(),
        summary: summary.to_owned(),
        tags: Vec::new(),
        subject: None,
        trust: Trust::Explicit,
        origin: Origin {
            source: id("session:1"),
            from_seq: seq,
            through_seq: seq,
            range_key: String::new(),
            extractor: id("memory-tool/v1"),
        },
        created_at_ms: 1_700_000_000_000,
        provenance: Provenance::default(),
        relations: Vec::new(),
    }
}

/// Whether any file of the directory holds these bytes.
pub fn on_disk(dir: &Path, text: &str) -> bool {
    let files =
        std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path()).filter(|path| path.is_file());
    let files = files.map(|path| std::fs::read(path).unwrap());
    files.into_iter().any(|bytes| bytes.windows(text.len()).any(|window| window == text.as_bytes()))
}
