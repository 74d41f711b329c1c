//! A PID namespace for the provider's tree, and a network namespace where it is to have no network.
//!
//! When the first process of a PID namespace ends, the kernel kills all others in it, whatever they did to hide: new
//! sessions, double forks, a SIGKILL sent to their supervisor.

use super::order::Order;

/// On which side of the namespace this process continues.
pub(super) enum Entered {
    /// This process runs the provider, in a namespace or, where there is none, without.
    Here,
    /// Another process ran it inside; this one's exit status.
    Outside(i32),
    /// The order needs a namespace, and the system gives none.
    Impossible,
}

#[cfg(target_os = "linux")]
pub(super) fn enter(order: &Order) -> Entered {
    match () {
        () if order.inside => Entered::Here,
        () if !order.plain && linux::unshare(order.offline) => {
            linux::inside(order).map_or(Entered::Impossible, Entered::Outside)
        }
        () if order.offline => Entered::Impossible,
        () => Entered::Here,
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn enter(order: &Order) -> Entered {
    if order.offline { Entered::Impossible } else { Entered::Here }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::io;
    use std::process::Command;

    use nix::sched::{CloneFlags, unshare as leave};

    use crate::supervise::order::Order;

    /// Gives this process's future children namespaces of their own: as root directly, else through a user namespace.
    pub(super) fn unshare(offline: bool) -> bool {
        let net = if offline { CloneFlags::CLONE_NEWNET } else { CloneFlags::empty() };
        let wanted = CloneFlags::CLONE_NEWPID | net;
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        if leave(wanted).is_ok() {
            return true;
        }
        // Both in one call: either all of them are there or nothing has changed.
        leave(CloneFlags::CLONE_NEWUSER | wanted).is_ok() && map_ids(uid, gid).is_ok()
    }

    /// The provider keeps its own user and group number; without a map it would be nobody.
    fn map_ids(uid: u32, gid: u32) -> io::Result<()> {
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("{uid} {uid} 1"))?;
        fs::write("/proc/self/gid_map", format!("{gid} {gid} 1"))
    }

    /// Runs the same order in a child of this process, the first process of the namespace, and waits for it: it is
    /// gone only when all others of its namespace are.
    pub(super) fn inside(order: &Order) -> Option<i32> {
        let order = Order { inside: true, ..order.clone() };
        // Our own program, also when its file was replaced meanwhile.
        let status =
            Command::new("/proc/self/exe").args(&order.prefix).args(order.to_argv()).status().ok()?;
        Some(status.code().unwrap_or(1))
    }
}
