//! Around the proxy: clients in a terminal, one daemon a user, its port, its service.

use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::fake_model::Answer;
use crate::support::live::Live;
use crate::support::served::Served;
use crate::support::terminal::keys;
use crate::support::{Home, Run};

/// Nothing here takes this long.
const DEADLINE: Duration = Duration::from_secs(30);

/// A home with fake clients on its `PATH`. Ends the daemon that a run has left behind.
struct Stage {
    home: Home,
}

impl Stage {
    fn new() -> Self {
        let stage = Self { home: Home::new() };
        std::fs::create_dir_all(stage.bin()).unwrap();
        // Whatever a client asks for ends here.
        stage.configure("[proxy]\nanthropic = \"http://127.0.0.1:9\"\nopenai = \"http://127.0.0.1:9\"\n");
        stage
    }

    fn configure(&self, text: &str) {
        self.home.write(".config/agentspine/config.toml", text);
    }

    fn bin(&self) -> PathBuf {
        self.home.path().join("bin")
    }

    /// A client: a shell script of this name.
    fn client(&self, name: &str, script: &str) {
        let path = self.home.write(&format!("bin/{name}"), &format!("#!/bin/bash\n{script}\n"));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn path(&self) -> String {
        format!("{}:/usr/bin:/bin", self.bin().display())
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.home.command(args);
        command.env("PATH", self.path());
        command
    }

    fn run(&self, args: &[&str]) -> Run {
        Run::of(self.command(args).output().unwrap())
    }

    /// What the daemon says of itself; `None` where none holds the post.
    fn notice(&self) -> Option<Value> {
        let path = self.home.state().join("run/proxy.lock");
        let file = std::fs::File::open(path).ok()?;
        if file.try_lock_shared().is_ok() {
            return None;
        }
        serde_json::from_reader(file).ok()
    }

    fn daemon(&self) -> u32 {
        u32::try_from(self.notice().expect("a daemon serves")["pid"].as_u64().unwrap()).unwrap()
    }

    fn port(&self) -> u16 {
        let address = self.notice().expect("a daemon serves")["address"].as_str().unwrap().to_owned();
        address.rsplit(':').next().unwrap().parse().unwrap()
    }

    fn kill_daemon(&self) {
        kill_process(pid(self.daemon()), Signal::KILL).unwrap();
        until("the post to be free", || self.notice().is_none());
    }

    fn registry(&self) -> Value {
        let text = std::fs::read_to_string(self.home.state().join("proxy.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let Some(notice) = self.notice() else { return };
        let id = notice["pid"].as_u64().and_then(|id| u32::try_from(id).ok());
        id.map(|id| kill_process(pid(id), Signal::KILL));
    }
}

fn pid(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).unwrap()).unwrap()
}

/// Waits for what the system only tells when asked.
fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < DEADLINE, "waited for {what}");
        std::thread::yield_now();
    }
}

fn is_secret(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

#[test]
fn claude_gets_address_and_header_its_own_arguments_and_the_rest_of_the_environment() {
    let stage = Stage::new();
    stage.client("claude", "printf '%s\\n' \"$@\" \"$ANTHROPIC_BASE_URL\" \"$ANTHROPIC_CUSTOM_HEADERS\" \"$OWN\" \"$(umask)\"; exit 7");
    let mut command = stage.command(&["run", "claude", "-p", "two words", "--json"]);
    let run =
        Run::of(command.env("OWN", "mine").env("ANTHROPIC_CUSTOM_HEADERS", "x-team: a").output().unwrap());
    let port = stage.port();
    let lines: Vec<&str> = run.out.lines().collect();
    let ["-p", "two words", "--json", base, "x-team: a", header, "mine", mask] = lines[..] else {
        panic!("{run:?}")
    };
    assert_eq!((run.code, base), (7, format!("http://127.0.0.1:{port}").as_str()));
    assert!(is_secret(header.strip_prefix("x-agentspine-workspace: ").unwrap()), "{header}");
    let own = Command::new("sh").args(["-c", "umask"]).output().unwrap();
    assert_eq!(mask, String::from_utf8(own.stdout).unwrap().trim());
    assert!(run.err.contains("agentspine: no call came through agentspine"), "{}", run.err);
    assert!(!run.err.contains("workspace"), "{}", run.err);
}

#[test]
fn codex_gets_its_overrides_before_the_subcommand_and_the_secret_in_a_variable_alone() {
    let stage = Stage::new();
    stage.client("codex", "printf '%s\\n' \"$AGENTSPINE_WORKSPACE\" \"$@\"");
    stage.home.write(".codex/auth.json", "{\"OPENAI_API_KEY\": null, \"tokens\": {\"access_token\": \"t\"}}");
    let run = stage.run(&["run", "codex", "exec", "fix it"]);
    assert_eq!(run.code, 0, "{run:?}");
    let lines: Vec<&str> = run.out.lines().collect();
    let (secret, args) = lines.split_first().unwrap();
    assert!(is_secret(secret), "{secret}");
    assert!(!args.iter().any(|arg| arg.contains(secret)), "{args:?}");
    assert_eq!(args[..2], ["-c", "model_provider=\"agentspine\""]);
    assert_eq!(args[args.len() - 2..], ["exec", "fix it"]);
    let base = format!("model_providers.agentspine.base_url=\"http://127.0.0.1:{}/v1\"", stage.port());
    assert!(args.contains(&base.as_str()), "{args:?}");
    assert!(args.contains(&"model_providers.agentspine.requires_openai_auth=true"), "{args:?}");
    assert_eq!(stage.registry()["workspaces"][0]["upstreams"], "chatgpt");
}

#[test]
fn any_other_command_gets_base_urls_once_it_is_said_whose_instructions_bind() {
    let stage = Stage::new();
    stage.client(
        "agent",
        "printf '%s\\n' \"$OPENAI_BASE_URL\" \"$ANTHROPIC_BASE_URL\" \"$AGENTSPINE_WORKSPACE\"",
    );
    let unbound = stage.run(&["run", "--", "agent"]);
    assert_eq!(unbound.code, 10, "{unbound:?}");
    assert!(unbound.err.contains("instructions-failed/host-unbound"), "{}", unbound.err);
    assert_eq!(stage.notice(), None);

    let run = stage.run(&["run", "--instruction-host", "codex", "--", "agent"]);
    let lines: Vec<&str> = run.out.lines().collect();
    let [openai, anthropic, secret] = lines[..] else { panic!("{run:?}") };
    let base = format!("http://127.0.0.1:{}/w/{secret}", stage.port());
    assert_eq!((openai, anthropic), (format!("{base}/v1").as_str(), base.as_str()));
    assert!(is_secret(secret), "{secret}");
}

/// A client that makes one call and says the first line of its answer.
const ASKING: &str = r#"address=${ANTHROPIC_BASE_URL#http://}
body='{"model":"m","max_tokens":8,"messages":[{"role":"user","content":"hello"}]}'
exec 3<>/dev/tcp/${address%:*}/${address#*:}
printf 'POST /v1/messages HTTP/1.1\r\nhost: %s\r\n%s\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%s' \
  "$address" "$ANTHROPIC_CUSTOM_HEADERS" ${#body} "$body" >&3
read -r status <&3; cat <&3 >/dev/null; printf '%s\n' "$status""#;

#[test]
fn calls_that_came_through_are_counted_in_one_last_line() {
    let api = Served::start([Answer::text(&["one"]), Answer::text(&["two"])]);
    let stage = Stage::new();
    stage.configure(&format!("[proxy]\nanthropic = \"{}\"\n", api.base()));
    stage.client("claude", ASKING);
    for _ in 0..2 {
        let run = stage.run(&["run", "claude"]);
        assert!(run.out.starts_with("HTTP/1.1 200"), "{run:?}");
        let last = "agentspine: 1 call, 1 receipt, 0 blocked · agentspine watch shows them";
        assert_eq!(run.err.lines().last(), Some(last), "{run:?}");
    }
    for request in api.requests() {
        assert_eq!(request.header("x-agentspine-workspace"), None);
    }
    assert_eq!(api.requests().len(), 2);

    // One that is refused: nothing of it arrives.
    stage.home.write("src/project/CLAUDE.md", &"x".repeat(64 * 1024));
    let refused = stage.run(&["run", "claude"]);
    assert!(refused.out.starts_with("HTTP/1.1 424"), "{refused:?}");
    assert!(refused.err.contains("agentspine: 1 call, 0 receipts, 1 blocked"), "{refused:?}");
    assert_eq!(api.requests().len(), 2);
    // The log says what came of each, and nothing of what was said.
    let log = std::fs::read_to_string(stage.home.state().join("log/proxy.log")).unwrap();
    assert!(log.contains("\"blocked\"") && !log.contains("hello"), "{log}");
}

#[test]
fn a_hangup_makes_the_daemon_read_its_upstreams_again() {
    let api = Served::start([Answer::text(&["one"])]);
    let stage = Stage::new();
    stage.client("claude", ASKING);
    assert!(!stage.run(&["run", "claude"]).out.starts_with("HTTP/1.1 200"));
    let daemon = stage.daemon();
    stage.configure(&format!("[proxy]\nanthropic = \"{}\"\n", api.base()));
    kill_process(pid(daemon), Signal::HUP).unwrap();
    until("the new upstream", || stage.run(&["run", "claude"]).out.starts_with("HTTP/1.1 200"));
    assert_eq!(stage.daemon(), daemon);
}

#[test]
fn the_exit_code_is_the_clients_also_where_a_signal_ended_it() {
    let stage = Stage::new();
    for (script, code) in [("exit 0", 0), ("exit 42", 42), ("kill -TERM $$", 143), ("kill -KILL $$", 137)] {
        stage.client("claude", script);
        let run = stage.run(&["run", "claude"]);
        assert_eq!(run.code, code, "{script}: {run:?}");
    }
}

#[test]
fn a_program_that_is_not_there_is_one_clear_error() {
    let stage = Stage::new();
    let run = stage.run(&["run", "claude"]);
    assert_eq!(run.code, 1);
    assert_eq!(
        run.err,
        "agentspine: There is no program claude on this PATH\n  \
         next: Install it, or name it by its path: agentspine run /path/to/claude\n"
    );
}

#[test]
fn a_signal_to_run_reaches_the_client_which_decides() {
    let stage = Stage::new();
    stage.client("claude", "trap 'echo told; exit 3' TERM; echo waiting; while :; do read -r -t 1 _; done");
    let mut live = Live::start(&mut stage.command(&["run", "claude"]));
    live.until("waiting");
    live.terminate();
    live.until("told");
    assert_eq!(live.end().code, 3);
}

#[test]
fn an_interrupt_of_the_terminal_goes_to_the_client_and_run_stays_for_its_end() {
    let stage = Stage::new();
    stage.client(
        "claude",
        "trap 'echo interrupted' INT; echo waiting; read -r line; echo \"got $line\"; exit 5",
    );
    let path = stage.path();
    let terminal = stage.home.terminal_with((100, 20), &["run", "claude"], &[("PATH", &path)]);
    terminal.wait_for("waiting");
    terminal.send(keys::CTRL_C);
    terminal.wait_for("interrupted");
    terminal.send("more\r");
    let left = terminal.left();
    assert_eq!(left.code, 5, "{}", left.text);
    assert!(left.text.contains("agentspine: "), "{}", left.text);
}

#[test]
#[cfg(target_os = "linux")]
fn a_client_that_stops_itself_stops_run_and_goes_on_with_it() {
    let stage = Stage::new();
    stage.client("claude", "echo stopping; kill -STOP $$; echo again; exit 4");
    let mut live = Live::start(&mut stage.command(&["run", "claude"]));
    live.until("stopping");
    let file = format!("/proc/{}/stat", live.id());
    until("run to stop", || std::fs::read_to_string(&file).unwrap().contains(") T "));
    live.proceed();
    live.until("again");
    assert_eq!(live.end().code, 4);
}

#[test]
fn runs_that_start_at_once_share_one_daemon_that_survives_them() {
    let stage = Stage::new();
    stage.client("claude", "echo \"$ANTHROPIC_BASE_URL\"");
    let runs: Vec<_> = (0..6)
        .map(|_| {
            let mut command = stage.command(&["run", "claude"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let runs: Vec<Run> = runs.into_iter().map(|run| Run::of(run.wait_with_output().unwrap())).collect();
    let base = format!("http://127.0.0.1:{}\n", stage.port());
    assert!(runs.iter().all(|run| (run.code, run.out.as_str()) == (0, base.as_str())), "{runs:?}");
    let daemon = stage.daemon();
    assert_eq!(stage.run(&["run", "claude"]).out, base);
    assert_eq!(stage.daemon(), daemon);
    assert_eq!(stage.registry()["workspaces"].as_array().unwrap().len(), 1);
}

#[test]
fn processes_that_bind_many_directories_at_once_lose_none() {
    let stage = Stage::new();
    let children: Vec<_> = (0..8)
        .map(|number| {
            let dir = stage.home.path().join(format!("src/p{number}"));
            std::fs::create_dir_all(&dir).unwrap();
            let mut command = stage.command(&["env", "claude", "--json"]);
            command.current_dir(dir).stdout(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut headers: Vec<String> = children
        .into_iter()
        .map(|child| {
            let out = child.wait_with_output().unwrap().stdout;
            let document: Value = serde_json::from_slice(&out).unwrap();
            document["variables"]["ANTHROPIC_CUSTOM_HEADERS"].as_str().unwrap().to_owned()
        })
        .collect();
    headers.sort();
    headers.dedup();
    assert_eq!(headers.len(), 8);
    assert_eq!(stage.registry()["workspaces"].as_array().unwrap().len(), 8);
}

#[test]
fn after_a_killed_daemon_the_next_run_starts_one_on_the_same_port() {
    let stage = Stage::new();
    stage.client("claude", "exit 0");
    assert_eq!(stage.run(&["run", "claude"]).code, 0);
    let (daemon, port) = (stage.daemon(), stage.port());
    stage.kill_daemon();
    assert_eq!(stage.run(&["run", "claude"]).code, 0);
    assert_eq!(stage.port(), port);
    assert_ne!(stage.daemon(), daemon);
}

#[test]
fn a_daemon_killed_under_a_client_is_said_and_the_code_stays_the_clients() {
    let stage = Stage::new();
    stage.client("claude", "echo waiting; read -r _; exit 6");
    let mut live = Live::start(&mut stage.command(&["run", "claude"]));
    live.until("waiting");
    stage.kill_daemon();
    live.send("go on");
    let run = live.end();
    assert_eq!(run.code, 6);
    assert!(run.err.contains("the proxy is gone"), "{}", run.err);
}

#[test]
fn a_port_that_another_program_has_taken_is_said_with_the_next_command() {
    let stage = Stage::new();
    stage.client("claude", "echo started");
    stage.run(&["run", "claude"]);
    let port = stage.port();
    stage.kill_daemon();
    let _foreign = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let run = stage.run(&["run", "claude"]);
    assert_eq!((run.code, run.out.as_str()), (1, ""), "{run:?}");
    assert!(run.err.contains(&format!("another program listens on 127.0.0.1:{port}")), "{}", run.err);
    assert!(
        run.err.contains("next: End that program")
            && run.err.contains("agentspine proxy --listen 127.0.0.1:0"),
        "{}",
        run.err
    );
    assert_eq!(stage.notice(), None);
}

#[test]
fn the_proxy_in_the_foreground_says_where_it_is_and_a_second_one_names_it() {
    let stage = Stage::new();
    let mut first = Live::start(&mut stage.command(&["proxy", "--instruction-host", "claude"]));
    let line = first.until("\n").to_owned();
    let (port, id) = (stage.port(), stage.daemon());
    let secret = stage.registry()["workspaces"][0]["secret"].as_str().unwrap().to_owned();
    for part in [
        format!("agentspine proxy on http://127.0.0.1:{port} "),
        format!("base URL http://127.0.0.1:{port}/w/{secret}/v1"),
        format!("x-agentspine-workspace: {secret}"),
    ] {
        assert!(line.contains(&part), "{line}");
    }
    let second = stage.run(&["proxy", "--instruction-host", "claude"]);
    assert_eq!(second.code, 1);
    assert!(second.err.contains(&format!("serves already on port {port}, process {id}")), "{}", second.err);
    // Another directory's client uses it as it is.
    stage.client("claude", "echo \"$ANTHROPIC_BASE_URL\"");
    assert_eq!(stage.run(&["run", "claude"]).out, format!("http://127.0.0.1:{port}\n"));
    first.terminate();
    assert_eq!(first.end().code, 0);
    assert_eq!(stage.notice(), None);
    // The same port again.
    let mut again = Live::start(&mut stage.command(&["proxy", "--instruction-host", "claude"]));
    again.until("\n");
    assert_eq!(stage.port(), port);
    again.interrupt();
    assert_eq!(again.end().code, 0);
}

#[test]
fn the_proxy_binds_nothing_unbound_and_nothing_that_others_reach() {
    let stage = Stage::new();
    let unbound = stage.run(&["proxy"]);
    assert_eq!(unbound.code, 10, "{unbound:?}");
    assert!(unbound.err.contains("--instruction-host claude"), "{}", unbound.err);
    let open = stage.run(&["proxy", "--host", "claude", "--listen", "0.0.0.0:0"]);
    assert_eq!(open.code, 1, "{open:?}");
    assert!(open.err.contains("0.0.0.0:0 is not an address of this machine alone"), "{}", open.err);
    assert_eq!(stage.notice(), None);
}

#[test]
fn upstreams_that_are_none_are_a_broken_configuration() {
    let stage = Stage::new();
    for (line, word) in [
        ("anthropic = \"http://gateway.example\"", "plain http"),
        ("openai = \"https://me:secret@gateway.example\"", "no credentials"),
        ("chatgpt = \"https://chatgpt.com/?a=b\"", "no query"),
        ("listen = \"somewhere\"", "config.toml:2"),
        ("gemini = \"https://a.example\"", "unknown field `gemini`"),
    ] {
        stage.configure(&format!("[proxy]\n{line}\n"));
        let run = stage.run(&["run", "claude"]);
        assert_eq!(run.code, 2, "{line}: {run:?}");
        assert!(run.err.contains(word), "{line}: {}", run.err);
    }
}

#[test]
fn a_daemon_that_nobody_needs_leaves_once_its_last_client_has() {
    let stage = Stage::new();
    stage.client("claude", "echo \"$ANTHROPIC_BASE_URL\"");
    // As a running client does.
    stage.run(&["doctor"]);
    let users = std::fs::File::create(stage.home.state().join("run/proxy.users")).unwrap();
    users.lock_shared().unwrap();
    let mut daemon = stage.command(&["proxy", "--daemon", "--idle", "0"]);
    let mut daemon = daemon.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    daemon.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(said, "ready\n");
    let base = format!("http://127.0.0.1:{}\n", stage.port());
    assert_eq!(stage.run(&["run", "claude"]).out, base);
    assert_eq!(stage.daemon(), daemon.id());
    drop(users);
    assert_eq!(daemon.wait().unwrap().code(), Some(0));
    assert_eq!(stage.notice(), None);
}

#[test]
#[cfg(target_os = "linux")]
fn a_daemon_has_a_session_of_its_own_and_nothing_of_the_environment_it_does_not_need() {
    let stage = Stage::new();
    stage.client("claude", "exit 0");
    let mut command = stage.command(&["run", "claude"]);
    command.env("ANTHROPIC_API_KEY", "dummy").env("XDG_DATA_HOME", "/x").env("LD_LIBRARY_PATH", "/x");
    assert_eq!(Run::of(command.output().unwrap()).code, 0);
    let process = PathBuf::from(format!("/proc/{}", stage.daemon()));
    let stat = std::fs::read_to_string(process.join("stat")).unwrap();
    let session = stat.rsplit(") ").next().unwrap().split(' ').nth(3).unwrap().to_owned();
    assert_eq!(session, stage.daemon().to_string());
    // Only root may look into a process that is not dumpable.
    let Ok(environ) = std::fs::read_to_string(process.join("environ")) else { return };
    let mut names: Vec<&str> =
        environ.split('\0').filter_map(|variable| Some(variable.split_once('=')?.0)).collect();
    names.sort_unstable();
    assert_eq!(names, ["HOME", "PATH", "XDG_DATA_HOME"]);
    assert_eq!(std::fs::read_link(process.join("cwd")).unwrap(), Path::new("/"));
}

#[test]
fn what_would_lead_calls_elsewhere_starts_no_client_and_is_said_by_doctor() {
    let stage = Stage::new();
    stage.client("claude", "exit 0");
    stage
        .home
        .write(".claude/settings.json", "{\"env\": {\"ANTHROPIC_BASE_URL\": \"https://gateway.example\"}}");
    let run = stage.run(&["run", "claude"]);
    assert_eq!((run.code, stage.run(&["env", "claude"]).code), (2, 2), "{run:?}");
    let named = "~/.claude/settings.json sets ANTHROPIC_BASE_URL in its env block, which wins";
    assert!(run.err.contains(named), "{}", run.err);
    let doctor = stage.run(&["doctor", "--host", "claude"]);
    assert!(doctor.out.contains(named), "{}", doctor.out);
    let serves = format!("serves on 127.0.0.1:{}, process {}", stage.port(), stage.daemon());
    assert!(doctor.out.contains(&serves), "{}", doctor.out);

    let mut command = stage.command(&["run", "claude"]);
    let refused = Run::of(command.env("ANTHROPIC_BASE_URL", "https://gateway.example").output().unwrap());
    assert_eq!(refused.code, 2, "{refused:?}");
    assert!(refused.err.contains("[proxy] anthropic = \"https://gateway.example\""), "{}", refused.err);
}

#[test]
fn variables_that_env_prints_are_what_a_shell_takes() {
    let stage = Stage::new();
    let script = format!(
        "eval \"$({} env claude)\"; printf '%s\\n' \"$ANTHROPIC_BASE_URL\" \"$ANTHROPIC_CUSTOM_HEADERS\"",
        env!("CARGO_BIN_EXE_agentspine")
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).env_clear().env("HOME", stage.home.path()).env("PATH", stage.path());
    shell.env("ANTHROPIC_CUSTOM_HEADERS", "x-note: it's $HOME").current_dir(stage.home.project());
    let run = Run::of(shell.output().unwrap());
    let lines: Vec<&str> = run.out.lines().collect();
    let [base, "x-note: it's $HOME", header] = lines[..] else { panic!("{run:?}") };
    assert_eq!(base, format!("http://127.0.0.1:{}", stage.port()));
    assert!(is_secret(header.strip_prefix("x-agentspine-workspace: ").unwrap()), "{header}");

    let header_of = |args: &[&str]| {
        let document: Value = serde_json::from_str(&stage.run(args).out).unwrap();
        document["variables"]["ANTHROPIC_CUSTOM_HEADERS"].clone()
    };
    let before = header_of(&["env", "claude", "--json"]);
    assert_eq!(header_of(&["env", "claude", "--json"]), before);
    assert_ne!(header_of(&["env", "claude", "--renew", "--json"]), before);

    stage.client("codex", "printf '%s\\n' \"$AGENTSPINE_WORKSPACE\" \"$@\"");
    let script = format!("eval \"$({} env codex)\"; codex exec", env!("CARGO_BIN_EXE_agentspine"));
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).env_clear().env("HOME", stage.home.path()).env("PATH", stage.path());
    let run = Run::of(shell.current_dir(stage.home.project()).output().unwrap());
    assert!(is_secret(run.out.lines().next().unwrap()), "{run:?}");
    assert!(run.out.contains("model_provider=\"agentspine\"") && run.out.ends_with("exec\n"), "{run:?}");
}

#[test]
#[cfg(target_os = "linux")]
fn the_service_is_installed_on_the_remembered_port_and_taken_away_again() {
    let stage = Stage::new();
    let asked = stage.home.path().join("asked");
    let unit = stage.home.path().join(".config/systemd/user/agentspine.service");
    let none = stage.run(&["service", "install"]);
    assert_eq!(none.code, 0, "{none:?}");
    let by_hand = "systemctl --user daemon-reload && systemctl --user enable --now agentspine.service";
    // Where no manager answers, the person is told what to do.
    if !none.out.contains("started") {
        assert!(none.out.contains(by_hand), "{}", none.out);
    }
    let port = stage.registry()["port"].as_u64().unwrap();

    stage.client("systemctl", &format!("echo \"$@\" >> {}", asked.display()));
    let installed = stage.run(&["service", "install"]);
    assert!(installed.out.contains(&format!("it listens on port {port}")), "{installed:?}");
    let text = std::fs::read_to_string(&unit).unwrap();
    assert!(text.contains(" proxy --service\n"), "{text}");

    let json = stage.run(&["service", "status", "--json"]);
    let status: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&status["installed"], &status["active"]), (&Value::Bool(true), &Value::Bool(true)));
    assert_eq!((&status["port"], &status["healthy"]), (&Value::from(port), &Value::Bool(false)));

    // As the manager would start it.
    let mut service = Live::start(&mut stage.command(&["proxy", "--service"]));
    service.until("ready");
    assert_eq!(u64::from(stage.port()), port);
    let people = stage.run(&["service", "status"]);
    assert!(people.out.contains("healthy    yes"), "{}", people.out);
    service.terminate();
    assert_eq!(service.end().code, 0);

    assert_eq!(stage.run(&["service", "off"]).code, 0);
    assert!(!unit.exists());
    let asked = std::fs::read_to_string(asked).unwrap();
    assert!(asked.contains("--user enable --now agentspine.service\n"), "{asked}");
    assert!(asked.contains("--user disable --now agentspine.service\n"), "{asked}");
}
