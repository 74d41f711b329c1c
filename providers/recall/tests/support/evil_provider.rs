//! A provider that misbehaves on demand: `evil-provider MODE MARKER [DIGEST]`.
//!
//! The marker stands in the command line of everything it starts, so a test can find survivors in `/proc`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::zombie_processes,
    clippy::disallowed_methods
)]

use std::io::{Read as _, Write as _};
use std::process::{Command, Stdio, exit};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [mode, marker, rest @ ..] = args.as_slice() else { exit(64) };
    let run = Run { marker: marker.clone(), digest: rest.first().cloned() };
    run.mode(mode);
}

struct Run {
    marker: String,
    digest: Option<String>,
}

impl Run {
    fn mode(&self, mode: &str) {
        match mode {
            "ok" => say(&Self::answer()),
            "empty" => say(&result(&Self::digest(), "")),
            "padded" => say(&format!("{}{}", " ".repeat(1_000_000), Self::answer())),
            "unread" => say(&result(self.digest.as_ref().unwrap(), "")),
            "close-stdin" => {
                close(0);
                say(&result(self.digest.as_ref().unwrap(), ""));
            }
            "environment" => say(&Self::environment()),
            "directory" => say(&Self::directory()),
            "fork-64" => (0..64).for_each(|_| self.start("hang")),
            _ => self.lingering(mode),
        }
        if mode == "fork-64" {
            hang();
        }
    }

    /// Modes that leave something running.
    fn lingering(&self, mode: &str) {
        match mode {
            "hang" => hang(),
            "ignore-term" => {
                let flag = std::sync::Arc::default();
                signal_hook::flag::register(signal_hook::consts::SIGTERM, flag).unwrap();
                hang();
            }
            "forks-and-answers" => {
                (0..64).for_each(|_| self.start("hang"));
                say(&Self::answer());
            }
            "setsid" => {
                let _ = rustix::process::setsid();
                hang();
            }
            "setsid-and-answers" => {
                self.start("setsid");
                say(&Self::answer());
            }
            "double-fork" => self.start("setsid-child"),
            "setsid-child" => {
                let _ = rustix::process::setsid();
                self.start("setsid");
            }
            "double-fork-and-hangs" => {
                self.start("double-fork");
                hang();
            }
            "double-fork-and-answers" => {
                Command::new(std::env::current_exe().unwrap())
                    .args(["double-fork", &self.marker])
                    .status()
                    .unwrap();
                say(&Self::answer());
            }
            "kills-supervisor-and-answers" => {
                use nix::sys::signal::{Signal, kill};
                let _ = kill(nix::unistd::getppid(), Signal::SIGKILL);
                let _ = kill(nix::unistd::getppid(), Signal::SIGSTOP);
                say(&Self::answer());
            }
            "kills-group-and-answers" => {
                use nix::sys::signal::{Signal, kill};
                self.start("hang");
                let answer = Self::answer();
                say(&answer);
                let _ = kill(nix::unistd::Pid::from_raw(0), Signal::SIGKILL);
            }
            "stops-supervisor" => {
                use nix::sys::signal::{Signal, kill};
                let _ = kill(nix::unistd::getppid(), Signal::SIGSTOP);
                hang();
            }
            "closes-stdout" => {
                say(&Self::answer());
                close(1);
                hang();
            }
            "drip" => loop {
                say(" ");
                std::thread::sleep(std::time::Duration::from_millis(20));
            },
            _ => Self::loud(mode),
        }
    }

    /// Modes that print too much or exit badly.
    fn loud(mode: &str) {
        match mode {
            "flood-stdout" => flood(&mut std::io::stdout()),
            "flood-stderr" => flood(&mut std::io::stderr()),
            "flood-stderr-and-answers" => {
                std::io::stderr().write_all("x".repeat(65_537).as_bytes()).unwrap();
                say(&Self::answer());
            }
            "one-too-many" => say(&" ".repeat(1024 * 1024 + 1)),
            "exit-1" => {
                say(&Self::answer());
                exit(1);
            }
            "exit-3" => {
                say(&Self::answer());
                exit(3);
            }
            "segv" | "kill-9" | "term" => {
                use nix::sys::signal::{Signal, raise};
                say(&Self::answer());
                let signal = match mode {
                    "segv" => Signal::SIGSEGV,
                    "term" => Signal::SIGTERM,
                    _ => Signal::SIGKILL,
                };
                // Rust's own handler takes the first SIGSEGV and steps aside for the second.
                (0..2).for_each(|_| raise(signal).unwrap());
            }
            _ => Self::garbled(mode),
        }
    }

    /// Modes that print something that is no valid result.
    fn garbled(mode: &str) {
        let answer = Self::answer();
        let with = |claim: &str| answer.replace("evil-claim", claim);
        let text = match mode {
            "nothing" => String::new(),
            "partial" => answer.get(..answer.len() / 2).unwrap().to_owned(),
            "twice" => format!("{answer}{answer}"),
            "garbage" => format!("{answer} evil-claim"),
            "html" => "<html>evil-claim</html>".to_owned(),
            "deep" => format!("{}{}", "[".repeat(10_000), "]".repeat(10_000)),
            "nan" => answer.replace("0.9", "NaN"),
            "infinite" => answer.replace("0.9", "1e999"),
            "negative" => answer.replace("0.9", "-0.1"),
            "duplicate-key" => answer.replacen('{', "{\"status\":\"ok\",", 1),
            "lone-surrogate" => with("evil-claim \\ud800"),
            "long-claim" => with(&"evil-claim ".repeat(500)),
            "wrong-echo" => answer.replace(&Self::digest_of(&answer), &"0".repeat(64)),
            "other-tenant" => answer.replace("\"tenantId\":\"t\"", "\"tenantId\":\"evil-claim\""),
            "nul" => with("evil-claim \\u0000"),
            "escape" => with("evil-claim \\u001b]52;c;AAAA\\u0007"),
            "invalid-utf8" => {
                std::io::stdout().write_all(b"{\"schema\":\"\xff\xfe\"}").unwrap();
                String::new()
            }
            _ => exit(64),
        };
        say(&text);
    }

    fn digest() -> String {
        let mut query = String::new();
        std::io::stdin().read_to_string(&mut query).unwrap();
        Self::digest_of(&query)
    }

    fn digest_of(json: &str) -> String {
        json.split_once("\"queryDigest\":\"").unwrap().1.chars().take(64).collect()
    }

    fn answer() -> String {
        item(&Self::digest(), "evil-claim")
    }

    /// An answer whose claim lists the names in our environment.
    fn environment() -> String {
        let names: Vec<String> = std::env::vars_os().map(|(name, _)| name.into_string().unwrap()).collect();
        item(&Self::digest(), &format!("names: {}", names.join(" ")))
    }

    /// An answer whose claim says what the working directory is like.
    fn directory() -> String {
        use std::os::unix::fs::PermissionsExt as _;
        let here = std::env::current_dir().unwrap();
        let mode = here.metadata().unwrap().permissions().mode() & 0o777;
        let entries = here.read_dir().unwrap().count();
        item(&Self::digest(), &format!("mode {mode:o}, {entries} entries"))
    }

    fn start(&self, mode: &str) {
        Command::new(std::env::current_exe().unwrap())
            .args([mode, &self.marker])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
    }
}

fn item(digest: &str, claim: &str) -> String {
    let scope = r#"{"agentId":"a","userId":"u","tenantId":"t"}"#;
    let item = format!(
        r#"{{"id":"memory:1","revision":"7","claim":"{claim}","source":"mnemo","scope":{scope},"validity":"current","confidence":0.9,"whyLoaded":"project match"}}"#
    );
    result(digest, &item)
}

fn result(digest: &str, items: &str) -> String {
    format!(
        r#"{{"schema":"agentspine.retrieval-result/v1","providerId":"evil","queryDigest":"{digest}","status":"ok","rejected":0,"items":[{items}]}}"#
    )
}

fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn flood(to: &mut impl std::io::Write) {
    while to.write_all(&[b'x'; 8192]).is_ok() {}
    hang();
}

fn hang() -> ! {
    loop {
        std::thread::park();
    }
}

/// Closes a standard stream for good.
fn close(stream: i32) {
    nix::unistd::close(stream).unwrap();
}
