//! A home of its own, a fixed clock and real randomness for each test of the vault.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

pub mod desk;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use agentspine_gate::journal::{Consumption, Limits, RowKind, Vault};
use agentspine_gate::receipt::canonical;
use agentspine_gate::seams::{Clock, Fs, Kind, ReadError, ReadFile, Rng, Seams};
use agentspine_gate::state_dir::StateDir;
use agentspine_gate::{Detail, Id, ReceiptId, Refusal};
use serde_json::{Value, json};

pub const BOOT: &str = "11111111-2222-3333-4444-555555555555";
/// 2026-11-30, in wall milliseconds.
pub const WALL_MS: i64 = 1_796_000_000_000;

pub struct TestClock {
    pub wall: AtomicI64,
    pub boottime: AtomicU64,
    pub boot: Mutex<String>,
}

impl Clock for TestClock {
    fn wall_ms(&self) -> i64 {
        self.wall.load(Ordering::SeqCst)
    }
    fn boottime_ms(&self) -> u64 {
        self.boottime.load(Ordering::SeqCst)
    }
    fn boot_id(&self) -> String {
        self.boot.lock().unwrap().clone()
    }
}

struct Urandom;

impl Rng for Urandom {
    fn fill(&self, out: &mut [u8]) -> io::Result<()> {
        io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, out)
    }
}

/// The vault reads no file through the seam.
struct NoFs;

impl Fs for NoFs {
    fn canonicalize(&self, _: &Path) -> io::Result<PathBuf> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn kind(&self, _: &Path) -> io::Result<Option<Kind>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn entries(&self, _: &Path, _: usize) -> io::Result<Vec<(std::ffi::OsString, Kind)>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn link_text(&self, _: &Path) -> io::Result<PathBuf> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn read(&self, _: &Path, _: &Path, _: u64) -> Result<ReadFile, ReadError> {
        Err(ReadError::Absent)
    }
}

pub struct Home {
    temp: tempfile::TempDir,
    pub dir: StateDir,
    pub clock: Arc<TestClock>,
    pub seams: Seams,
}

pub fn seams() -> (Arc<TestClock>, Seams) {
    let clock = Arc::new(TestClock {
        wall: AtomicI64::new(WALL_MS),
        boottime: AtomicU64::new(1_000_000),
        boot: Mutex::new(BOOT.to_owned()),
    });
    let seams = Seams { clock: clock.clone(), rng: Arc::new(Urandom), fs: Arc::new(NoFs) };
    (clock, seams)
}

impl Home {
    pub fn new() -> Self {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::open(temp.path().join("state/agentspine"), None).unwrap();
        let (clock, seams) = seams();
        Self { temp, dir, clock, seams }
    }

    pub fn open(&self) -> Result<Vault, Refusal> {
        Vault::open(&self.dir, &self.seams)
    }

    pub fn vault(&self) -> Vault {
        self.open().unwrap()
    }

    pub fn vault_with(&self, limits: Limits) -> Vault {
        Vault::open_with(&self.dir, &self.seams, limits).unwrap()
    }

    /// Wherever a test needs a second place.
    pub fn spare(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    /// The detail with which the vault refuses to open.
    pub fn refused(&self) -> Detail {
        let Err(refusal) = self.open() else { panic!("the vault opened") };
        assert!(!refusal.message.contains('/') && !refusal.advice.is_empty(), "{refusal:?}");
        refusal.detail
    }

    /// Bytes of a file in `gate/`.
    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.dir.gate_dir().join(name)).unwrap()
    }

    pub fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.dir.gate_dir().join(name), bytes).unwrap();
    }

    pub fn remove(&self, name: &str) {
        std::fs::remove_file(self.dir.gate_dir().join(name)).unwrap();
    }

    /// The journal as somebody with the sqlite shell sees it.
    pub fn raw(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.dir.journal()).unwrap()
    }
}

pub fn id(text: &str) -> Id {
    Id::new(text).unwrap()
}

pub fn receipt(n: u8) -> ReceiptId {
    ReceiptId([n; 16])
}

pub fn claims(receipt: ReceiptId, session: &str) -> Value {
    json!({
        "id": receipt, "sessionId": session, "createdAt": "2026-11-30T00:00:00Z", "expiresAt": "2026-11-30T00:01:00Z",
        "boot": BOOT, "issuedBoottimeMs": 1_000_000,
    })
}

pub fn signed_body(vault: &mut Vault, claims: &Value) -> Value {
    let signed = vault.sign(&canonical::to_bytes(claims).unwrap()).unwrap();
    json!({ "claims": claims, "kid": signed.kid, "mac": signed.mac })
}

pub fn issue(vault: &mut Vault, receipt: ReceiptId) -> u64 {
    issue_in(vault, receipt, "s")
}

pub fn issue_in(vault: &mut Vault, receipt: ReceiptId, session: &str) -> u64 {
    let body = signed_body(vault, &claims(receipt, session));
    vault.append(RowKind::Issued, Some(receipt), &body).unwrap()
}

/// Spends the receipt for a delivery of session `s`.
pub fn spend(vault: &mut Vault, receipt: ReceiptId, delivery: &str) -> Result<u64, Detail> {
    let (session, delivery, body) = (id("s"), id(delivery), json!({ "requestDigest": "00" }));
    let spent =
        Consumption { receipt, host: "agentspine", session: &session, delivery: &delivery, body: &body };
    vault.consume_by_test_door(&spent).map_err(|refusal| refusal.detail)
}
