//! The proxy and its clients: whether it serves, and what would lead calls past it. None of it refuses a call.

use super::{Check, State};
use crate::cli::rooms::{Rooms, working_directory};
use crate::cli::status::paused;
use crate::config::Config;
use crate::proxy::ask;
use crate::proxy::clients::background::{self, PROC, Wanted};
use crate::proxy::clients::{self, Client, Stray};
use crate::proxy::post::{self, Notice, Stand};
use crate::proxy::workspaces::Registry;
use crate::report::Failure;

/// The proxy's checks.
pub(super) fn all(rooms: &Rooms, config: &Config) -> Vec<Check> {
    let registry = match Registry::of(&rooms.dir) {
        Ok(registry) => registry,
        Err(error) => return vec![Check::of("proxy", Err(error.into()))],
    };
    let notice = match post::look(&rooms.dir.run_dir()) {
        Ok(Stand::Held(notice)) => Some(notice),
        Ok(Stand::Free | Stand::Starting) | Err(_) => None,
    };
    let base = notice.as_ref().map(Notice::base);
    let dir = working_directory(None).unwrap_or_default();
    let claude = clients::strays(Client::Claude, base.as_deref(), &dir, config);
    let running = background::find(PROC.as_ref(), &clients::codex::home(config));
    let codex = running.iter().filter_map(|process| process.stray(Wanted::Known(&registry), base.as_deref()));
    let own = std::iter::once(serving(notice, &registry, config));
    let of_claude = claude.into_iter().map(|found| stray("claude", found));
    let still = paused(&registry.all().unwrap_or_default());
    let still = still.into_iter().map(|dir| {
        let dir = config.short_path(&dir);
        let message = format!("nothing new is added to calls from {dir}: injection is paused there");
        Check::noted("pause", message, format!("agentspine proxy --resume --project {dir}"))
    });
    own.chain(still).chain(of_claude).chain(codex.map(|found| stray("codex", found))).collect()
}

fn serving(notice: Option<Notice>, registry: &Registry, config: &Config) -> Check {
    let upstreams = &config.proxy;
    let onward = format!("sends on to {} and {}", upstreams.anthropic.at(""), upstreams.openai.at(""));
    let Some(notice) = notice else {
        let port = registry.port().ok().flatten().map_or_else(String::new, |port| format!(" on port {port}"));
        return Check::of("proxy", Ok(format!("not running; agentspine run starts it{port}; {onward}")));
    };
    match ask::health(notice.address) {
        Ok(health) if health.nonce == notice.nonce && health.version == env!("CARGO_PKG_VERSION") => {
            Check::of("proxy", Ok(format!("serves on {}, process {}; {onward}", notice.address, notice.pid)))
        }
        Ok(health) if health.nonce == notice.nonce => Check::noted(
            "proxy",
            format!("serves on {}, but is of version {}", notice.address, health.version),
            format!("When its clients are done: kill {}; the next run starts this version", notice.pid),
        ),
        _ => Check::of(
            "proxy",
            Err(Failure::other(
                format!("process {} does not answer on {}", notice.pid, notice.address),
                format!("End it and start again: kill {}", notice.pid),
            )),
        ),
    }
}

fn stray(name: &'static str, found: Stray) -> Check {
    Check::noted(name, found.message, found.advice)
}

impl Check {
    /// Works, with less than the full guarantee.
    fn noted(name: &'static str, message: String, advice: String) -> Self {
        Self { name, state: State::Weaker, code: None, message, advice }
    }
}
