//! What the machine gives: time, randomness, and a process that leaks less.
//!
//! [`SystemClock`] and [`OsRng`] are the gate's seams made real. [`harden`] runs before anything secret is read.

use std::io;
use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock};

use agentspine_gate::os_fs::OsFs;
use agentspine_gate::seams::{Clock, Rng, Seams};
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, setrlimit, umask};
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::report::Failure;

/// Boot time and wall time of this machine.
pub(crate) struct SystemClock;

impl Clock for SystemClock {
    fn wall_ms(&self) -> i64 {
        millis(clock_gettime(ClockId::Realtime))
    }

    fn boottime_ms(&self) -> u64 {
        u64::try_from(millis(clock_gettime(BOOT_CLOCK))).unwrap_or_default()
    }

    fn boot_id(&self) -> String {
        BOOT_ID.clone()
    }
}

/// Identity of this boot, read once: it cannot change while the process lives.
static BOOT_ID: LazyLock<String> = LazyLock::new(|| boot_id().unwrap_or_else(id_of_this_process));

/// Counts suspend and never steps.
#[cfg(target_os = "linux")]
const BOOT_CLOCK: ClockId = ClockId::Boottime;
/// The nearest other systems offer; `doctor` names it as weaker.
#[cfg(not(target_os = "linux"))]
const BOOT_CLOCK: ClockId = ClockId::Monotonic;

fn millis(at: Timespec) -> i64 {
    at.tv_sec.saturating_mul(1000).saturating_add(at.tv_nsec / 1_000_000)
}

fn boot_id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned()).filter(|id| BOOT_ID_CHARS.contains(&id.len()))
}

/// Length of a boot id.
const BOOT_ID_CHARS: RangeInclusive<usize> = 32..=36;

/// Without a boot id of the system a receipt lives no longer than its process: stricter, never looser.
fn id_of_this_process() -> String {
    let mut bytes = [0u8; 16];
    // Zeros where even this fails; then drawing a receipt id fails too, and no call is made.
    let _ = OsRng.fill(&mut bytes);
    agentspine_gate::ids::hex(&bytes)
}

/// The kernel's generator.
pub(crate) struct OsRng;

impl Rng for OsRng {
    fn fill(&self, out: &mut [u8]) -> io::Result<()> {
        getrandom::fill(out).map_err(io::Error::other)
    }
}

/// The gate's three seams over this machine.
pub(crate) fn seams() -> Seams {
    Seams { clock: Arc::new(SystemClock), rng: Arc::new(OsRng), fs: Arc::new(OsFs) }
}

/// How much a process gives up before it starts to work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hardening {
    /// Everything below.
    Full,
    /// Without what a program started from here would inherit: files of an agent in a project must have the person's own
    /// modes, and it may dump core.
    Launcher,
    /// Without the dumpable switch: a supervisor holds no secret, and must write its own `/proc/self/uid_map`,
    /// which belongs to root once a process is not dumpable.
    Supervisor,
}

/// No core files, files for this user only, no other process of this user may read this one's memory.
pub(crate) fn harden(how: Hardening) -> Result<(), Failure> {
    match how {
        Hardening::Full => private_files().and_then(|()| not_dumpable()),
        Hardening::Launcher => not_dumpable(),
        Hardening::Supervisor => private_files(),
    }
}

fn private_files() -> Result<(), Failure> {
    umask(Mode::RWXG | Mode::RWXO);
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none).map_err(|cause| hardening_failed("core files", cause))
}

#[cfg(target_os = "linux")]
fn not_dumpable() -> Result<(), Failure> {
    use rustix::process::{DumpableBehavior, set_dumpable_behavior};
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|cause| hardening_failed("memory reads by others", cause))
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "the same signature as on Linux")]
fn not_dumpable() -> Result<(), Failure> {
    Ok(())
}

fn hardening_failed(what: &str, cause: Errno) -> Failure {
    Failure::other(
        format!("the system does not let this process switch off {what}: {}", io::Error::from(cause).kind()),
        "Run agentspine where prctl and setrlimit are allowed",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boot_clock_never_goes_back_and_the_boot_id_is_hex() {
        let earlier = SystemClock.boottime_ms();
        assert!(earlier <= SystemClock.boottime_ms());
        let id = SystemClock.boot_id();
        assert!(
            BOOT_ID_CHARS.contains(&id.len()) && id.chars().all(|c| c == '-' || c.is_ascii_hexdigit()),
            "{id}"
        );
    }

    #[test]
    fn a_process_id_stands_in_where_the_system_has_no_boot_id() {
        assert_eq!(id_of_this_process().len(), 32);
        assert_ne!(id_of_this_process(), id_of_this_process());
    }

    #[test]
    fn two_draws_differ() {
        let (mut a, mut b) = ([0u8; 32], [0u8; 32]);
        OsRng.fill(&mut a).unwrap();
        OsRng.fill(&mut b).unwrap();
        assert_ne!(a, b);
    }
}
