//! The command line: help, usage, exit codes, quiet pipes.

use std::io::Read as _;
use std::process::Stdio;

use crate::support::{Home, Run};

const COMMANDS: [&[&str]; 23] = [
    &["chat"],
    &["run"],
    &["env"],
    &["proxy"],
    &["service", "install"],
    &["service", "status"],
    &["service", "off"],
    &["instructions"],
    &["preflight-policy"],
    &["preflight-status"],
    &["remember-propose"],
    &["remember-confirm"],
    &["remember-list"],
    &["remember-rollback"],
    &["remember-purge"],
    &["receipts", "list"],
    &["receipts", "show"],
    &["receipts", "verify"],
    &["state", "check"],
    &["state", "reset"],
    &["sessions", "list"],
    &["doctor"],
    &["bench", "recall"],
];

#[test]
fn output_that_got_lost_is_no_success() {
    let home = Home::new();
    for args in [
        &["receipts", "verify"][..],
        &["chat", "--instruction-host", "claude", "--model", "demo", "-p", "hi"],
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let run = Run::of(home.command(args).stdout(full).output().unwrap());
        assert_eq!(run.code, 1, "{args:?}: {}", run.err);
        assert!(run.err.contains("Not all output could be written"), "{}", run.err);
    }
}

#[test]
fn every_command_explains_itself_and_touches_nothing() {
    let home = Home::new();
    for command in COMMANDS {
        let args: Vec<&str> = command.iter().copied().chain(["--help"]).collect();
        let run = home.run(&args);
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{command:?}");
        assert!(run.out.contains("Usage: agentspine"), "{command:?}: {}", run.out);
    }
    assert!(!home.state().exists());
}

#[test]
fn usage_errors_end_with_2_and_name_the_mistake() {
    let home = Home::new();
    for (args, word) in [
        (&["--no-such-flag"][..], "--no-such-flag"),
        (&["no-such-command"], "no-such-command"),
        (&["chat", "--instruction-host", "gemini"], "possible values: claude, codex"),
        (&["chat", "--user", "not an id"], "not an id"),
        (&["chat", "--resume", "s-1", "--continue"], "cannot be used with"),
        (&["remember-propose"], "--claim"),
        (&["receipts"], "verify"),
        (&["preflight-policy", "f.json", "--show"], "cannot be used with"),
        (&["remember-propose", "--claim", "a", "--source-digest", "xyz"], "64 lower-case"),
    ] {
        let run = home.run(args);
        assert_eq!(run.code, 2, "{args:?}: {}", run.err);
        assert!(run.err.contains(word), "{args:?}: {}", run.err);
        assert_eq!(run.out, "");
    }
}

#[test]
fn a_broken_configuration_names_file_and_line_and_the_next_step() {
    let home = Home::new();
    home.write(".config/agentspine/config.toml", "[ui]\ncolour = true\n");
    let run = home.run(&["sessions", "list"]);
    assert_eq!(run.code, 2, "{}", run.err);
    assert!(run.err.contains("config.toml:2: unknown field `colour`"), "{}", run.err);
    assert!(run.err.contains("\n  next: "), "{}", run.err);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let home = Home::new();
    let mut child = home.command(&["--help"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let status = child.wait().unwrap();
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((status.code(), err.as_str()), (Some(0), ""));
}

#[test]
#[cfg(target_os = "linux")]
fn no_core_files_and_no_rights_for_others_before_anything_is_opened() {
    let home = Home::new();
    let mut command = home.command(&["preflight-policy", "/dev/stdin"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // It waits for its profile once the state directory stands.
    while !home.state().join("gate").exists() {
        assert!(child.try_wait().unwrap().is_none());
        std::thread::yield_now();
    }
    let proc = std::path::PathBuf::from(format!("/proc/{}", child.id()));
    let read = |name: &str| std::fs::read_to_string(proc.join(name)).unwrap();
    let line =
        |text: String, start: &str| text.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
    let core = line(read("limits"), "Max core file size");
    let umask = line(read("status"), "Umask:");
    drop(child.stdin.take());
    child.wait().unwrap();
    assert_eq!(core.split_whitespace().skip(4).take(2).collect::<Vec<_>>(), ["0", "0"], "{core}");
    assert_eq!(umask.split_whitespace().last(), Some("0077"));
}

#[test]
fn a_project_configures_nothing() {
    let home = Home::new();
    let elsewhere = home.path().join("elsewhere");
    let env = format!(
        "AGENTSPINE_STATE_DIR={0}\nXDG_STATE_HOME={0}\nAGENTSPINE_MODEL=chat:x@http://evil\n",
        elsewhere.display()
    );
    for name in [".env", ".env.local", ".envrc"] {
        home.write(&format!("src/project/{name}"), &env);
    }
    for name in
        ["config.toml", "agentspine.toml", ".agentspine/config.toml", ".config/agentspine/config.toml"]
    {
        home.write(
            &format!("src/project/{name}"),
            "model = \"chat:x@http://evil\"\ninstruction_host = \"codex\"\n",
        );
    }
    let doctor: serde_json::Value = serde_json::from_str(&home.run(&["doctor", "--json"]).out).unwrap();
    assert_eq!(doctor["stateDirectory"], "~/.local/state/agentspine");
    let check = |name: &str| {
        doctor["checks"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap().clone()
    };
    assert_eq!(check("instructions")["code"], "instructions-failed/host-unbound");
    assert!(!check("model")["message"].as_str().unwrap().contains("evil"));
    assert!(!elsewhere.exists());
}

#[test]
fn the_doctor_says_how_a_model_is_asked_and_that_a_broken_name_is_none() {
    let home = Home::new();
    let said = |model: &str| {
        let run =
            Run::of(home.command(&["doctor", "--json"]).env("AGENTSPINE_MODEL", model).output().unwrap());
        let doctor: serde_json::Value = serde_json::from_str(&run.out).unwrap();
        let check =
            doctor["checks"].as_array().unwrap().iter().find(|one| one["name"] == "model").unwrap().clone();
        (check["state"].as_str().unwrap().to_owned(), check["message"].as_str().unwrap().to_owned())
    };
    assert_eq!(said("demo"), ("ok".to_owned(), "demo".to_owned()));
    for (model, dialect) in [
        ("openai:gpt-x", "Responses"),
        ("responses:g@http://127.0.0.1:8080", "Responses"),
        ("chat:q@http://127.0.0.1:11434", "Chat Completions"),
        ("anthropic:c", "Anthropic Messages"),
    ] {
        assert_eq!(said(model), ("ok".to_owned(), format!("{model}, asked through {dialect}")));
    }
    let (state, message) = said("responses:g");
    assert_eq!(state, "failed");
    assert!(message.contains("need their server"), "{message}");
}

#[test]
fn a_prompt_from_a_pipe_is_answered_once() {
    let home = Home::new();
    let run = home
        .run_with_stdin(&["-p", "--instruction-host", "claude", "--model", "demo"], "hello from a pipe\n");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("hello from a pipe"), "{}", run.out);
    assert_eq!(home.json(&["receipts", "list", "--json"])["receipts"].as_array().unwrap().len(), 1);
}
