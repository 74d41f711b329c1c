//! Receipts in a home's journal without a chat: issued and spent through the vault's public doors.

use std::io::{self, Read as _};
use std::sync::Arc;

use agentspine_gate::journal::{Consumption, RowKind, Vault};
use agentspine_gate::os_fs::OsFs;
use agentspine_gate::receipt::canonical;
use agentspine_gate::seams::{Clock, Rng, Seams};
use agentspine_gate::state_dir::StateDir;
use agentspine_gate::{Id, ReceiptId};
use serde_json::{Value, json};

use super::Home;

struct FixedClock;

impl Clock for FixedClock {
    /// 2026-11-30.
    fn wall_ms(&self) -> i64 {
        1_796_000_000_000
    }

    fn boottime_ms(&self) -> u64 {
        1_000_000
    }

    fn boot_id(&self) -> String {
        "11111111-2222-3333-4444-555555555555".to_owned()
    }
}

struct Urandom;

impl Rng for Urandom {
    fn fill(&self, out: &mut [u8]) -> io::Result<()> {
        std::fs::File::open("/dev/urandom")?.read_exact(out)
    }
}

/// The home's vault.
pub fn open(home: &Home) -> Vault {
    let seams = Seams { clock: Arc::new(FixedClock), rng: Arc::new(Urandom), fs: Arc::new(OsFs) };
    Vault::open(&StateDir::open(home.state(), None).unwrap(), &seams).unwrap()
}

/// The id of the n-th receipt.
pub fn receipt(n: u8) -> ReceiptId {
    ReceiptId([n; 16])
}

/// Issues a receipt of a turn in session `s-N` that injects one rule.
pub fn issue(vault: &mut Vault, n: u8, rule: &str) {
    let claims = json!({
        "id": receipt(n), "sessionId": format!("s-{n}"), "kind": "turn", "host": "agentspine", "model": "demo",
        "instructionHost": "claude", "boot": "11111111-2222-3333-4444-555555555555", "issuedBoottimeMs": 1_000_000,
        "documents": [{"id": "claude:project/CLAUDE.md", "bytes": 6, "state": "injected"}],
        "mustRemember": [{"id": rule, "version": 1, "state": "injected"}], "providers": [],
    });
    let signed = vault.sign(&canonical::to_bytes(&claims).unwrap()).unwrap();
    let body = json!({"claims": claims, "kid": signed.kid, "mac": signed.mac});
    vault.append(RowKind::Issued, Some(receipt(n)), &body).unwrap();
}

/// Spends it.
pub fn spend(vault: &mut Vault, n: u8) {
    let (session, delivery) = (Id::new(format!("s-{n}")).unwrap(), Id::new("d-1").unwrap());
    let body: Value = json!({});
    let (receipt, host) = (receipt(n), "agentspine");
    vault
        .consume_by_test_door(&Consumption {
            receipt,
            host,
            session: &session,
            delivery: &delivery,
            body: &body,
        })
        .unwrap();
}

/// Issues, spends and records the outcome.
pub fn answered(home: &Home, n: u8, rule: &str) {
    let mut vault = open(home);
    issue(&mut vault, n, rule);
    spend(&mut vault, n);
    vault.append(RowKind::Outcome, Some(receipt(n)), &json!({"outcome": "answered"})).unwrap();
}
