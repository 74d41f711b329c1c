//! Ground of this chapter: where the real clients are, and how one is run: cleared environment, own home, dummy keys,
//! loopback only.

pub mod api;
mod blocked;
mod claude;
mod codex;
mod law;
mod libraries;
mod script;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};

use crate::support::{Home, Run};
use api::{Api, Call, Say};

/// Names the folder that `tests/clients/get.sh` made.
pub const WHERE: &str = "AGENTSPINE_REAL_CLIENTS";

/// The person's road to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Road {
    /// The client talks to the API itself.
    Direct,
    /// `agentspine run`.
    Spine,
}

/// A person's machine with the real clients on it, and the API that they talk to.
pub struct Desk {
    pub home: Home,
    pub api: Api,
    clients: PathBuf,
    road: Road,
}

/// The clients' folder; without one, says so on the terminal, and the test is over.
pub fn clients() -> Option<PathBuf> {
    let Some(folder) = std::env::var_os(WHERE) else {
        // Past the test harness, which would keep it to itself.
        let message = "skipped: no real clients here; `tests/clients/run.sh` fetches and runs them\n";
        std::io::Write::write_all(&mut std::io::stderr(), message.as_bytes()).unwrap();
        return None;
    };
    let folder = PathBuf::from(folder);
    assert!(folder.join("bin/claude").exists(), "{WHERE} names {}, which holds no clients", folder.display());
    Some(folder)
}

impl Desk {
    pub fn new(road: Road, brain: impl Fn(&Call) -> Say + Send + Sync + 'static) -> Option<Self> {
        let clients = clients()?;
        let (home, api) = (Home::new(), Api::start(brain));
        git(&home, &["init", "--quiet", "--initial-branch=main"]);
        if road == Road::Spine {
            let base = api.base();
            let upstreams =
                format!("[proxy]\nanthropic = \"{base}\"\nopenai = \"{base}\"\nchatgpt = \"{base}\"\n");
            home.write(".config/agentspine/config.toml", &upstreams);
        }
        Some(Self { home, api, clients, road })
    }

    /// Makes every turn of this host depend on a provider that fails, and says so.
    pub fn require_what_fails(&self, host: &str) {
        let provider = self.home.write("bin/provider", "#!/bin/sh\nexit 3\n");
        std::fs::set_permissions(&provider, std::fs::Permissions::from_mode(0o755)).unwrap();
        let provider = json!({
            "schema": "agentspine.retrieval-provider/v1", "id": "team-notes", "adapter": "mnemo-command/v1",
            "required": true, "failClosed": true, "timeoutMs": 10_000, "command": provider, "args": [],
            "credentialEnv": [],
        });
        let profile = json!({
            "id": "local", "agentId": "host-agent:default", "host": host, "profileId": "default",
            "tenantId": "local-tenant", "enabled": true, "providers": [provider],
        });
        let file = self.home.write("profile.json", &profile.to_string());
        self.home.ok(&["preflight-policy", file.to_str().unwrap(), "--confirm-local-policy"]);
    }

    /// Kills the proxy as a crash would; the next run starts a new one. Nothing to do on the direct road.
    pub fn crash_the_proxy(&self) {
        let Some(pid) = self.proxy() else { return assert_eq!(self.road, Road::Direct, "a proxy serves") };
        kill_process(pid, Signal::KILL).unwrap();
        while test_kill_process(pid).is_ok() && !is_zombie(pid) {
            std::thread::yield_now();
        }
    }

    fn proxy(&self) -> Option<Pid> {
        let notice = std::fs::read(self.home.state().join("run/proxy.lock")).ok()?;
        let notice: Value = serde_json::from_slice(&notice).ok()?;
        Pid::from_raw(i32::try_from(notice["pid"].as_i64()?).ok()?)
    }

    /// Claude Code in the project.
    pub fn claude(&self, args: &[&str]) -> Run {
        let mut command = self.client("claude", args);
        if self.road == Road::Direct {
            command.env("ANTHROPIC_BASE_URL", self.api.base());
        }
        command
            .env("ANTHROPIC_API_KEY", "sk-ant-dummy")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1");
        Run::of(command.output().unwrap())
    }

    /// Codex in the project: `codex … exec …`.
    pub fn codex(&self, args: &[&str]) -> Run {
        let base = format!("model_providers.scripted.base_url=\"{}/v1\"", self.api.base());
        let own = [
            "model_provider=\"scripted\"",
            "model_providers.scripted.name=\"OpenAI\"",
            &base,
            "model_providers.scripted.wire_api=\"responses\"",
            "model_providers.scripted.env_key=\"OPENAI_API_KEY\"",
        ];
        let own = own.iter().filter(|_| self.road == Road::Direct).flat_map(|option| ["-c", option]);
        let all: Vec<&str> =
            own.chain(["exec", "--sandbox", "danger-full-access"]).chain(args.iter().copied()).collect();
        let mut command = self.client("codex", &all);
        command.env("OPENAI_API_KEY", "sk-dummy");
        Run::of(command.output().unwrap())
    }

    /// Any other program behind `agentspine run`, with Claude's instruction files.
    pub fn program(&self, words: &[&str]) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentspine"));
        command.args(["run", "--instruction-host", "claude", "--"]);
        self.settle(&mut command, words);
        command.env(WHERE, &self.clients);
        Run::of(command.output().unwrap())
    }

    /// A file of the clients' folder.
    pub fn library(&self, name: &str) -> String {
        self.clients.join(name).to_str().unwrap().to_owned()
    }

    fn client(&self, name: &str, args: &[&str]) -> Command {
        let mut command = match self.road {
            Road::Direct => Command::new(self.clients.join("bin").join(name)),
            Road::Spine => {
                let mut command = Command::new(env!("CARGO_BIN_EXE_agentspine"));
                command.args(["run", name]);
                command
            }
        };
        self.settle(&mut command, args);
        command
    }

    fn settle(&self, command: &mut Command, args: &[&str]) {
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.clients.join("bin").display());
        command
            .args(args)
            .env_clear()
            .env("HOME", self.home.path())
            .env("PATH", path)
            .env("TERM", "dumb")
            .env("SHELL", "/bin/bash")
            .current_dir(self.home.project())
            .stdin(Stdio::null());
    }

    /// Bodies that the API received, for a look while a test is written: `AGENTSPINE_REAL_CLIENTS_DUMP` names a folder.
    pub fn dump(&self, name: &str) {
        let Some(folder) = std::env::var_os("AGENTSPINE_REAL_CLIENTS_DUMP") else { return };
        let folder = Path::new(&folder).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        for (n, seen) in self.api.seen().iter().enumerate() {
            let head: String =
                seen.request.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
            let head = format!(
                "{} {} -> {}\n{head}\n{:?}\n",
                seen.request.method, seen.request.path, seen.status, seen.cache
            );
            std::fs::write(folder.join(format!("{n:02}.head")), head).unwrap();
            std::fs::write(folder.join(format!("{n:02}.json")), &seen.request.body).unwrap();
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // Gone already where it left by itself.
        self.proxy().map(|pid| kill_process(pid, Signal::KILL));
    }
}

/// Ended, and only not yet waited for by whoever inherited it.
fn is_zombie(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    stat.rsplit(") ").next().is_none_or(|rest| rest.starts_with(['Z', 'X']) || rest.is_empty())
}

fn git(home: &Home, args: &[&str]) {
    let mut command = Command::new("git");
    command.args(args).env_clear().env("HOME", home.path()).env("PATH", "/usr/local/bin:/usr/bin:/bin");
    assert!(command.current_dir(home.project()).status().unwrap().success(), "git {args:?}");
}
