//! Everything a process started: found in `/proc`, killed until nothing is left.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Pause between two rounds; a process needs a moment to die.
const ROUND: Duration = Duration::from_millis(2);

/// A process as `/proc/PID/stat` shows it.
struct Seen {
    pid: i32,
    parent: i32,
    dead: bool,
}

/// Kills all descendants of `root`, not `root` itself, again and again until none is alive or the time is over.
///
/// Complete as long as `root` lives and is a child subreaper: then an orphan's new parent is `root`.
pub(crate) fn kill_tree(root: i32, within: Duration) {
    let end = Instant::now() + within;
    loop {
        let alive = descendants(root);
        if alive.is_empty() || Instant::now() > end {
            return;
        }
        // Stopped first: a process that forks faster than we look cannot do so while it is stopped.
        for signal in [Signal::STOP, Signal::KILL] {
            alive.iter().filter_map(|pid| Pid::from_raw(*pid)).for_each(|pid| {
                let _ = kill_process(pid, signal);
            });
        }
        std::thread::sleep(ROUND);
    }
}

/// Living descendants of a process, zombies left out but looked through.
fn descendants(root: i32) -> Vec<i32> {
    let all: Vec<Seen> =
        fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|e| seen(&e)).collect();
    let mut family = vec![root];
    let mut alive = Vec::new();
    let mut at = 0;
    while let Some(parent) = family.get(at).copied() {
        at += 1;
        for child in all.iter().filter(|one| one.parent == parent && one.pid != root) {
            family.push(child.pid);
            alive.extend((!child.dead).then_some(child.pid));
        }
    }
    alive
}

fn seen(entry: &fs::DirEntry) -> Option<Seen> {
    let pid = entry.file_name().to_str()?.parse().ok()?;
    let stat = fs::read(entry.path().join("stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name in parentheses is the process's own and may hold anything, parentheses too.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    Some(Seen { pid, parent, dead: matches!(state, "Z" | "X" | "x") })
}
