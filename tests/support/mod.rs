//! Shared ground: a home of its own for every test, and the real binary in a cleared environment.

pub mod bulk;
pub mod dice;
pub mod fake_model;
pub mod law;
pub mod live;
pub mod proxied;
pub mod served;
pub mod terminal;
pub mod vault;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use terminal::{Start, Terminal};

/// A person's machine: an empty home directory and a project in it.
pub struct Home {
    dir: TempDir,
    project: &'static str,
}

/// What a run of the binary left behind.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Home {
    pub fn new() -> Self {
        Self::with_project("project")
    }

    /// With a project of this name.
    pub fn with_project(project: &'static str) -> Self {
        let home = Self { dir: tempfile::tempdir().unwrap(), project };
        std::fs::create_dir_all(home.project().join(".git")).unwrap();
        home
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A repository's root; every run starts here.
    pub fn project(&self) -> PathBuf {
        self.path().join("src").join(self.project)
    }

    pub fn state(&self) -> PathBuf {
        self.path().join(".local/state/agentspine")
    }

    /// Writes a file below the home directory, its folders with it.
    pub fn write(&self, relative: &str, text: &str) -> PathBuf {
        let path = self.path().join(relative);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Every file below the state directory, by name.
    pub fn state_files(&self) -> Vec<(String, Vec<u8>)> {
        let mut found = Vec::new();
        let mut folders = vec![self.state()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    found.push((path.display().to_string(), std::fs::read(&path).unwrap()));
                }
            }
        }
        found
    }

    /// The binary with only `HOME` in its environment, started in the project.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_agentspine"));
        command
            .args(args)
            .env_clear()
            .env("HOME", self.path())
            .current_dir(self.project())
            .stdin(Stdio::null());
        command
    }

    /// The binary in a terminal with only `HOME` and `TERM` in its environment.
    pub fn terminal(&self, size: (u16, u16), args: &[&str]) -> Terminal {
        self.terminal_with(size, args, &[])
    }

    /// The same with more in its environment.
    pub fn terminal_with(&self, size: (u16, u16), args: &[&str], env: &[(&'static str, &str)]) -> Terminal {
        let own = [("HOME", self.path().to_str().unwrap()), ("TERM", "xterm-256color")];
        let env = own.iter().chain(env).map(|(name, value)| (*name, (*value).to_owned())).collect();
        let program = env!("CARGO_BIN_EXE_agentspine");
        Terminal::start(Start { program, args, cwd: &self.project(), env, size })
    }

    pub fn run(&self, args: &[&str]) -> Run {
        Run::of(self.command(args).output().unwrap())
    }

    /// Runs and expects success; its stdout.
    pub fn ok(&self, args: &[&str]) -> String {
        let run = self.run(args);
        assert_eq!(run.code, 0, "agentspine {args:?}\n{}\n{}", run.out, run.err);
        run.out
    }

    /// Runs and expects success and JSON.
    pub fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.ok(args)).unwrap()
    }

    /// `agentspine chat` on this model with Claude's instruction files, and these arguments more.
    pub fn chat(&self, model: &str, args: &[&str]) -> Command {
        let mut command = self.command(&["chat", "--instruction-host", "claude", "--model", model]);
        command.args(args);
        command
    }

    /// Asks the model once.
    pub fn ask(&self, model: &str, prompt: &str) -> Run {
        Run::of(self.chat(model, &["-p", prompt]).output().unwrap())
    }

    /// Asks once more in the project's last session.
    pub fn ask_on(&self, model: &str, prompt: &str) -> Run {
        Run::of(self.chat(model, &["--continue", "-p", prompt]).output().unwrap())
    }

    /// Runs with text on stdin.
    pub fn run_with_stdin(&self, args: &[&str], text: &str) -> Run {
        let mut command = self.command(args);
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // One that has read enough closes its end.
        let _ = child.stdin.take().unwrap().write_all(text.as_bytes());
        Run::of(child.wait_with_output().unwrap())
    }
}

impl Run {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// The repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every `.rs` file below a folder of the repository, with its path relative to the root.
pub fn sources(below: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(below)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ext| ext == "rs") {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
                found.push((name, std::fs::read_to_string(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}
