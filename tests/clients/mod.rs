//! Ground of this chapter: where the real clients are, and how one is run: cleared environment, own home, dummy keys,
//! loopback only.

#[allow(dead_code, reason = "the chapters of the proxy use their part of it")]
pub mod api;
mod blocked;
mod claude;
mod codex;
mod law;
mod libraries;
mod mcp;
mod screen;
mod script;
mod turns;

use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};

use crate::support::terminal::{Start, Terminal};
use crate::support::{Home, Run};
use api::{Api, Call, Say};

/// Names the folder that `tests/clients/get.sh` made.
pub const WHERE: &str = "AGENTSPINE_REAL_CLIENTS";
/// Nobody's.
const ANTHROPIC_KEY: &str = "sk-ant-dummy-dummy-dummy-dummy";

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
    static SAID: Once = Once::new();
    let Some(folder) = variable(WHERE) else {
        SAID.call_once(|| {
            // Past the test harness, which would keep it to itself.
            let message = "\nskipped: no real clients here; `tests/clients/run.sh` fetches and runs them\n";
            std::io::stderr().write_all(message.as_bytes()).unwrap();
        });
        return None;
    };
    let folder = PathBuf::from(folder);
    assert!(folder.join("bin/claude").exists(), "{WHERE} names {}, which holds no clients", folder.display());
    Some(folder)
}

#[expect(clippy::disallowed_methods, reason = "how whoever runs this chapter tells it where the clients are")]
fn variable(name: &str) -> Option<std::ffi::OsString> {
    std::env::var_os(name)
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

    /// A provider that every turn of these hosts requires: this shell script.
    pub fn require(&self, hosts: &[&str], script: &str) {
        let provider = self.home.write("bin/provider", &format!("#!/bin/sh\n{script}"));
        std::fs::set_permissions(&provider, std::fs::Permissions::from_mode(0o755)).unwrap();
        let provider = json!({
            "schema": "agentspine.retrieval-provider/v1", "id": "team-notes", "adapter": "mnemo-command/v1",
            "required": true, "failClosed": true, "timeoutMs": 10_000, "command": provider, "args": [],
            "credentialEnv": [],
        });
        let profile = json!({
            "id": "local", "agentId": "host-agent:default", "host": hosts, "profileId": "default",
            "tenantId": "local-tenant", "enabled": true, "providers": [provider],
            "deadlines": { "requiredMs": 10_000, "optionalMs": 10_000 },
        });
        let file = self.home.write("profile.json", &profile.to_string());
        self.home.ok(&["preflight-policy", file.to_str().unwrap(), "--confirm-local-policy"]);
    }

    /// Makes it so that something is injected: a rule in the first call, another note in each turn. The rule's text.
    pub fn inject(&self, host: &str) -> &'static str {
        let rule = "The harbour is named Ravenna.";
        let proposed = self.home.json(&["remember-propose", "--claim", rule]);
        let candidate = proposed["candidate"]["id"].as_str().unwrap();
        self.home.ok(&["remember-confirm", candidate, "--confirm-local-user"]);
        let count = self.home.write("count", "0\n");
        let item = json!({
            "id": "note:COUNT", "revision": "1", "claim": "Note number COUNT. of the team.", "source": "team-notes",
            "scope": { "agentId": "host-agent:default", "userId": "local-user", "tenantId": "local-tenant" },
            "validity": "current", "confidence": 0.9, "whyLoaded": "is next",
        });
        let result = json!({
            "schema": "agentspine.retrieval-result/v1", "providerId": "team-notes", "queryDigest": "DIGEST",
            "status": "ok", "rejected": 0, "items": [item],
        });
        let answer = result.to_string().replace("DIGEST", "%s").replace("COUNT", "%s");
        let script = format!(
            "IFS= read -r query\ndigest=${{query#*'\"queryDigest\":\"'}}\ndigest=${{digest%%'\"'*}}\n\
             read -r n < {count}\nn=$((n + 1))\necho $n > {count}\nprintf '{answer}' \"$digest\" \"$n\" \"$n\"\n",
            count = count.display()
        );
        self.require(&[host], &script);
        rule
    }

    /// Kills the proxy as a crash would; the next run starts a new one. Nothing to do on the direct road.
    pub fn crash_the_proxy(&self) {
        let Some(pid) = self.proxy() else { return assert_eq!(self.road, Road::Direct, "a proxy serves") };
        kill_process(pid, Signal::KILL).unwrap();
        while test_kill_process(pid).is_ok() && !is_zombie(pid) {
            std::thread::yield_now();
        }
    }

    /// The process that serves this home, and no other that has got its number since.
    fn proxy(&self) -> Option<Pid> {
        let notice = std::fs::read(self.home.state().join("run/proxy.lock")).ok()?;
        let notice: Value = serde_json::from_slice(&notice).ok()?;
        let pid = Pid::from_raw(i32::try_from(notice["pid"].as_i64()?).ok()?)?;
        let environment = std::fs::read_to_string(format!("/proc/{}/environ", pid.as_raw_nonzero())).ok()?;
        let home = format!("HOME={}", self.home.path().display());
        environment.split('\0').any(|variable| variable == home).then_some(pid)
    }

    /// Claude Code in the project.
    pub fn claude(&self, args: &[&str]) -> Run {
        Run::of(self.claude_command(args).output().unwrap())
    }

    /// The same, not yet started.
    pub fn claude_command(&self, args: &[&str]) -> Command {
        self.client("claude", args)
    }

    /// The same in a terminal, on its first start past everything that it asks a new person.
    pub fn claude_screen(&self) -> Terminal {
        let (key, project) = (&ANTHROPIC_KEY[ANTHROPIC_KEY.len() - 20..], self.home.project());
        let known = json!({
            "hasCompletedOnboarding": true, "customApiKeyResponses": { "approved": [key], "rejected": [] },
            "projects": { project.to_str().unwrap(): { "hasTrustDialogAccepted": true } },
        });
        self.home.write(".claude.json", &known.to_string());
        let program = env!("CARGO_BIN_EXE_agentspine");
        // Its title is nonessential traffic.
        let env = self.environment().into_iter().filter(|(name, _)| !name.contains("NONESSENTIAL")).collect();
        Terminal::start(Start { program, args: &["run", "claude"], cwd: &project, env, size: (100, 40) })
    }

    /// Codex in the project: `codex … exec …`.
    pub fn codex(&self, args: &[&str]) -> Run {
        self.codex_of(&["model_providers.scripted.env_key=\"OPENAI_API_KEY\""], args)
    }

    /// Codex with a ChatGPT account of nobody's.
    pub fn codex_with_account(&self, args: &[&str]) -> Run {
        // {"alg":"none"} and an account's claims, valid until 2100; signed by nobody.
        let claims = "eyJlbWFpbCI6Im5vYm9keUBleGFtcGxlLm9yZyIsImV4cCI6NDEwMjQ0NDgwMCwiaHR0cHM6Ly9hcGkub3BlbmFpLmNvbS9hdXRoIjp7ImNo\
                      YXRncHRfcGxhbl90eXBlIjoicHJvIiwiY2hhdGdwdF91c2VyX2lkIjoibm9ib2R5IiwiY2hhdGdwdF9hY2NvdW50X2lkIjoibm9ib2R5In19";
        let token = format!("eyJhbGciOiJub25lIn0.{claims}.bm9ib2R5");
        let login = json!({
            "auth_mode": "chatgpt", "OPENAI_API_KEY": null, "last_refresh": "2099-01-01T00:00:00Z",
            "tokens": { "id_token": token, "access_token": token, "refresh_token": "nobody", "account_id": "nobody" },
        });
        self.home.write(".codex/auth.json", &login.to_string());
        // What it asks of the account beside the model; without an answer it waits long.
        let aside = format!("chatgpt_base_url = \"{}/aside\"\n", self.api.base());
        self.home.write(".codex/config.toml", &aside);
        self.codex_of(&["model_providers.scripted.requires_openai_auth=true"], args)
    }

    fn codex_of(&self, credential: &[&str], args: &[&str]) -> Run {
        let base = format!("model_providers.scripted.base_url=\"{}/v1\"", self.api.base());
        let provider = [
            "model_provider=\"scripted\"",
            "model_providers.scripted.name=\"OpenAI\"",
            "model_providers.scripted.wire_api=\"responses\"",
            &base,
        ];
        // Through the proxy, `agentspine run` says all this.
        let direct = provider.iter().chain(credential).filter(|_| self.road == Road::Direct);
        let mut all: Vec<&str> = direct.flat_map(|option| ["-c", option]).collect();
        all.extend(["exec", "--sandbox", "danger-full-access"]);
        all.extend(args);
        Run::of(self.client("codex", &all).output().unwrap())
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
        command.args(args).env_clear().envs(self.environment());
        command.current_dir(self.home.project()).stdin(Stdio::null());
    }

    /// All that a client finds in its environment.
    fn environment(&self) -> Vec<(&'static str, String)> {
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.clients.join("bin").display());
        let mut all = vec![
            ("HOME", self.home.path().to_str().unwrap().to_owned()),
            ("PATH", path),
            ("TERM", "xterm-256color".to_owned()),
            ("SHELL", "/bin/bash".to_owned()),
            ("ANTHROPIC_API_KEY", ANTHROPIC_KEY.to_owned()),
            ("OPENAI_API_KEY", "sk-dummy".to_owned()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
            ("DISABLE_AUTOUPDATER", "1".to_owned()),
        ];
        if self.road == Road::Direct {
            all.push(("ANTHROPIC_BASE_URL", self.api.base().to_owned()));
        }
        all
    }

    /// What the API received, for a look while a test is written: `AGENTSPINE_REAL_CLIENTS_DUMP` names a folder.
    pub fn dump(&self, name: &str) {
        let Some(folder) = variable("AGENTSPINE_REAL_CLIENTS_DUMP") else { return };
        let folder = Path::new(&folder).join(name);
        std::fs::create_dir_all(&folder).unwrap();
        for (n, seen) in self.api.seen().iter().enumerate() {
            let request = &seen.request;
            let mut head = format!("{} {} -> {}\n", request.method, request.path, seen.status);
            for (name, value) in &request.headers {
                writeln!(head, "{name}: {value}").unwrap();
            }
            writeln!(head, "\n{:?}", seen.cache).unwrap();
            std::fs::write(folder.join(format!("{n:02}.head")), head).unwrap();
            std::fs::write(folder.join(format!("{n:02}.json")), &request.body).unwrap();
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
