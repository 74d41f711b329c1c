#![allow(warnings, clippy::all)]
use std::time::Instant;
use agentspine_memory::measure::*;
use agentspine_memory::Ledger;
fn main() {
    let start = Instant::now();
    let clock = move || start.elapsed();
    let dir = tempfile::tempdir().unwrap();
    let set = dialogue::Set::read("/work/shared/data/locomo".as_ref()).unwrap().unwrap();
    for (name, n) in [("with", dialogue::Neighbours::With), ("without", dialogue::Neighbours::Without)] {
        let t = Instant::now();
        let mut ledger = Ledger::open(&dir.path().join(name)).unwrap();
        let (m, refused) = set.measure_ledger(&mut ledger, n, &clock).unwrap();
        println!("{name}: R5 {:.3} R10 {:.3} h5 {:.3} h10 {:.3} mrr {:.3} p50 {:?} p95 {:?} refused {refused} size {} KB {:?}", m.all.recall_5, m.all.recall_10, m.all.hit_5, m.all.hit_10, m.all.mrr, m.latency.p50, m.latency.p95, std::fs::metadata(dir.path().join(name)).unwrap().len()/1024, t.elapsed());
        for (c, f) in &m.by_category { print!(" c{c} {:.3}/{:.3}", f.recall_5, f.recall_10); }
        println!();
    }
}
