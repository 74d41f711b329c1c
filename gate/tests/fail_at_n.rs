//! Whatever the machine fails at: call number N to clock, randomness or files fails, for every N a turn makes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use agentspine_gate::os_fs::OsFs;
use agentspine_gate::receipt::Admitted;
use agentspine_gate::seams::{Clock, Fs, Kind, ReadError, ReadFile, Rng, Seams};
use agentspine_gate::turn::TurnRequest;
use agentspine_gate::{Detail, Field, Refusal};
use common::desk::{Desk, remember};

/// Counts down over all seams; the call that takes it to zero fails.
struct Fuse(AtomicU64);

impl Fuse {
    fn new() -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(0)))
    }

    fn set(&self, n: u64) {
        self.0.store(n, Ordering::SeqCst);
    }

    /// Whether the call that was set to fail has come.
    fn burnt(&self) -> bool {
        self.0.load(Ordering::SeqCst) == 0
    }

    fn blows(&self) -> bool {
        self.0.try_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)).is_ok_and(|n| n == 1)
    }

    fn check(&self) -> io::Result<()> {
        if self.blows() { Err(io::Error::other("out of order")) } else { Ok(()) }
    }
}

struct Failing<T: ?Sized>(Arc<Fuse>, Arc<T>);

impl Rng for Failing<dyn Rng> {
    fn fill(&self, out: &mut [u8]) -> io::Result<()> {
        self.0.check()?;
        self.1.fill(out)
    }
}

impl Fs for Failing<dyn Fs> {
    fn canonicalize(&self, path: &Path) -> io::Result<PathBuf> {
        self.0.check()?;
        self.1.canonicalize(path)
    }
    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        self.0.check()?;
        self.1.kind(path)
    }
    fn entries(&self, dir: &Path, limit: usize) -> io::Result<Vec<(OsString, Kind)>> {
        self.0.check()?;
        self.1.entries(dir, limit)
    }
    fn link_text(&self, path: &Path) -> io::Result<PathBuf> {
        self.0.check()?;
        self.1.link_text(path)
    }
    fn read(&self, root: &Path, relative: &Path, limit: u64) -> Result<ReadFile, ReadError> {
        self.0.check()?;
        self.1.read(root, relative, limit)
    }
}

/// A clock cannot fail, but it can lie: the one call gives another boot or the beginning of time.
impl Clock for Failing<dyn Clock> {
    fn wall_ms(&self) -> i64 {
        if self.0.blows() { 0 } else { self.1.wall_ms() }
    }
    fn boottime_ms(&self) -> u64 {
        if self.0.blows() { 0 } else { self.1.boottime_ms() }
    }
    fn boot_id(&self) -> String {
        if self.0.blows() { "ffffffff-ffff-ffff-ffff-ffffffffffff".to_owned() } else { self.1.boot_id() }
    }
}

fn failing(fuse: &Arc<Fuse>, whole: &Seams) -> Seams {
    Seams {
        clock: Arc::new(Failing(Arc::clone(fuse), Arc::clone(&whole.clock))),
        rng: Arc::new(Failing(Arc::clone(fuse), Arc::clone(&whole.rng))),
        fs: Arc::new(Failing(Arc::clone(fuse), Arc::new(OsFs) as Arc<dyn Fs>)),
    }
}

fn walk(desk: &mut Desk, request: &TurnRequest) -> Result<Admitted, Refusal> {
    let composed = desk.compose(request)?;
    let prepared = desk.gate.issue(&composed)?;
    desk.finish(composed, prepared, request).map(|(_, admitted)| admitted)
}

/// What a person may be told when one of the three seams fails once.
fn expected(detail: Detail) -> bool {
    use Detail::{Changed, Expired, HostConfig, JournalIo, NotRegular, Replaced, Unreadable};
    matches!(detail, Changed | Expired | HostConfig | JournalIo | NotRegular | Replaced | Unreadable)
        || detail == Detail::Mismatch(Field::Cwd)
}

#[test]
fn a_turn_in_which_any_one_call_to_the_machine_fails_is_refused_or_unharmed_and_the_next_one_works() {
    let mut desk = Desk::new();
    let fuse = Fuse::new();
    desk.write("CLAUDE.local.md", "@notes.md\n");
    desk.write("notes.md", "imported\n");
    remember(&mut desk, "Never push on Fridays.");
    desk.home.seams = failing(&fuse, &desk.home.seams);
    desk.gate = desk.open().unwrap();
    desk.turn("first");
    let (mut refused, mut calls) = (0, 0);
    for n in 1.. {
        let request = desk.request("second");
        let spans = desk.spans.clone();
        fuse.set(n);
        let went = walk(&mut desk, &request);
        let burnt = fuse.burnt();
        fuse.set(0);
        desk.spans = spans;
        match went {
            Ok(admitted) if burnt => {
                // Only times for people were wrong: everything that decides was whole.
                let record = desk.gate.vault().record(admitted.receipt()).unwrap().unwrap();
                assert!(record.consumed.is_some(), "call {n}");
            }
            Ok(_) => break,
            Err(refusal) => {
                refused += 1;
                assert!(burnt && expected(refusal.detail), "call {n}: {}", refusal.key());
                assert!(
                    !refusal.advice.is_empty() && !refusal.message.contains("CANARY"),
                    "call {n}: {refusal:?}"
                );
                let record = refusal.receipt.map(|id| desk.gate.vault().record(id).unwrap());
                let spent = record.flatten().is_some_and(|record| record.consumed.is_some());
                // Spent and then refused happens only where the anchor could not be raised; nothing was sent either way.
                assert!(!spent || refusal.detail == Detail::JournalIo, "call {n}: {}", refusal.key());
            }
        }
        calls = n;
        // The person sends again.
        if desk.gate.vault().record(agentspine_gate::ReceiptId([0; 16])).is_err() {
            desk.gate = desk.open().unwrap();
        }
        let again = desk.request("second");
        let spans = desk.spans.clone();
        assert!(walk(&mut desk, &again).is_ok(), "after call {n}");
        desk.spans = spans;
    }
    assert!(refused > 20 && calls > refused, "{refused} of {calls} calls refuse");
    assert!(desk.gate.vault().verify_chain().unwrap().ok);
}

#[test]
fn a_first_start_in_which_any_one_call_fails_is_refused_or_complete_and_the_next_one_works() {
    let fuse = Fuse::new();
    for n in 1.. {
        let mut desk = Desk::new();
        for name in ["keyring.json", "journal.sqlite", "journal.sqlite-wal", "journal.sqlite-shm", "anchor"] {
            desk.home.remove(name);
        }
        desk.home.seams = failing(&fuse, &desk.home.seams);
        fuse.set(n);
        let opened = desk.open();
        let burnt = fuse.burnt();
        fuse.set(0);
        if let Err(refusal) = &opened {
            assert_eq!(refusal.detail, Detail::JournalIo, "call {n}");
        }
        if !burnt {
            break;
        }
        desk.gate = desk.open().unwrap();
        desk.turn("hello");
    }
}
