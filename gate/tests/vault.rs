//! The vault keeps its promises: once only, over threads and processes; nothing lost, nothing doubled.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use agentspine_gate::Detail;
use common::{Home, issue, receipt, spend};

#[test]
fn a_receipt_is_issued_and_consumed_and_the_chain_holds() {
    let home = Home::new();
    let mut vault = home.vault();
    assert_eq!(issue(&mut vault, receipt(1)), 1);
    assert_eq!(spend(&mut vault, receipt(1), "d1"), Ok(2));
    assert_eq!(spend(&mut vault, receipt(1), "d2"), Err(Detail::Consumed));
    assert_eq!(issue(&mut vault, receipt(2)), 4);
    assert_eq!(spend(&mut vault, receipt(2), "d1"), Err(Detail::Replay));
    drop(vault);
    let report = home.vault().verify_chain().unwrap();
    assert_eq!((report.rows, report.consumed, report.ok, report.problem), (4, 1, true, None));
}
