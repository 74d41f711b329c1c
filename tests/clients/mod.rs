//! Ground of this chapter: where the real clients are, and how one is run: cleared environment, own home, dummy keys,
//! loopback only.

pub mod api;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
        Some(Self { home, api, clients, road })
    }

    /// Claude Code in the project.
    pub fn claude(&self, args: &[&str]) -> Run {
        let mut command = self.client("claude", args);
        command
            .env("ANTHROPIC_BASE_URL", self.api.base())
            .env("ANTHROPIC_API_KEY", "sk-ant-dummy")
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1");
        Run::of(command.output().unwrap())
    }

    /// Codex in the project: `codex exec …`.
    pub fn codex(&self, args: &[&str]) -> Run {
        let base = format!("model_providers.scripted.base_url={:?}", format!("{}/v1", self.api.base()));
        let own = [
            "model_provider=\"scripted\"",
            "model_providers.scripted.name=\"OpenAI\"",
            &base,
            "model_providers.scripted.wire_api=\"responses\"",
            "model_providers.scripted.env_key=\"OPENAI_API_KEY\"",
        ];
        let mut all = vec!["exec"];
        for option in &own {
            all.extend(["-c", option]);
        }
        all.extend(["--sandbox", "danger-full-access"]);
        all.extend(args);
        let mut command = self.client("codex", &all);
        command.env("OPENAI_API_KEY", "sk-dummy");
        Run::of(command.output().unwrap())
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
        command
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

fn git(home: &Home, args: &[&str]) {
    let mut command = Command::new("git");
    command.args(args).env_clear().env("HOME", home.path()).env("PATH", "/usr/local/bin:/usr/bin:/bin");
    assert!(command.current_dir(home.project()).status().unwrap().success(), "git {args:?}");
}
