//! The supervisor: the small process between us and a provider, which leaves nothing alive.
//!
//! We run it as our own binary, re-executed. It starts the provider, collects its output, and when the provider exits,
//! the deadline passes, a limit is broken, SIGTERM comes or we are gone, it kills the whole tree *and only then* says
//! what happened. It is plain std: no runtime is started in it.
//!
//! * [`Order`]: its command line; [`Fate`]: its report;
//! * `provider`: one provider from start to fate;
//! * `tree`: everything a process started, found in `/proc` and killed;
//! * `namespace`: where the system allows it, the tree lives in a PID namespace and the kernel does the killing.
//!
//! Wire. Stdin: length of the query (4 bytes, big-endian), the query, then nothing: its end means "stop". Stdout: one
//! line with the [`Fate`], then for `exit 0` the provider's output. The provider itself has pipes of its own and cannot
//! write there.

mod fate;
mod namespace;
mod order;
mod provider;
mod tree;

use std::ffi::OsString;
use std::io::Write as _;

pub use fate::Fate;
pub use order::{Order, OrderError};
pub(crate) use tree::kill_tree;

/// Largest query a provider is given, bytes.
pub const STDIN_BYTES_MAX: usize = 1024 * 1024;
/// Largest output of a provider, bytes.
pub const STDOUT_BYTES_MAX: usize = 1024 * 1024;
/// Largest error output of a provider, bytes. It is read and thrown away.
pub const STDERR_BYTES_MAX: usize = 64 * 1024;
/// Longest fate line, bytes.
pub const FATE_BYTES_MAX: usize = 64;

/// Exit status of a supervisor that could not read its command line.
const EXIT_USAGE: i32 = 2;

/// The supervisor's whole life; `argv` is what follows the name of the subcommand. Returns the exit status, 0 whenever
/// a fate was reported.
pub fn supervise(argv: impl Iterator<Item = OsString>) -> i32 {
    let Ok(order) = Order::parse(argv) else { return EXIT_USAGE };
    // Not a failure: whoever leads a session already cannot lead another.
    let _ = rustix::process::setsid();
    let (fate, output) = match namespace::enter(&order) {
        namespace::Entered::Outside(inner) => return inner,
        namespace::Entered::Impossible => (Fate::NoNetworkNamespace, Vec::new()),
        namespace::Entered::Here => provider::run(&order),
    };
    let mut out = std::io::stdout().lock();
    // Nobody left to tell is no failure.
    let _ = out
        .write_all(format!("{fate}\n").as_bytes())
        .and_then(|()| out.write_all(&output))
        .and_then(|()| out.flush());
    0
}
