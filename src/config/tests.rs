//! Promises of the configuration.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::*;

fn home_with(config: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join(".config/agentspine");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("config.toml"), config).unwrap();
    home
}

fn load(home: &Path, flags: &Flags, extra: &[(&str, &str)]) -> Result<Config, Failure> {
    let mut pairs = vec![("HOME", home.to_str().unwrap())];
    pairs.extend_from_slice(extra);
    Config::load(flags, Environment::of(&pairs))
}

fn message(failure: Failure) -> String {
    match failure {
        Failure::Said { message, .. } => message,
        Failure::Refused(refusal) => refusal.message,
        Failure::Told(_) => String::new(),
    }
}

#[test]
fn an_empty_home_gives_the_defaults_of_the_contract() {
    let home = tempfile::tempdir().unwrap();
    let config = load(home.path(), &Flags::default(), &[]).unwrap();
    let ids = [
        &config.identity.agent_id,
        &config.identity.user_id,
        &config.identity.tenant_id,
        &config.identity.profile_id,
    ];
    assert_eq!(ids.map(Id::as_str), ["host-agent:default", "local-user", "local-tenant", "default"]);
    assert_eq!(config.identity.persona_id, None);
    assert_eq!(config.instruction_host, None);
    assert_eq!(config.state_dir, home.path().join(".local/state/agentspine"));
    assert_eq!(config.file, home.path().join(".config/agentspine/config.toml"));
}

#[test]
fn flags_win_over_environment_over_file_over_defaults() {
    let home = home_with("model = \"demo\"\ninstruction_host = \"codex\"\n[identity]\nuser = \"person:a\"\n");
    let from_file = load(home.path(), &Flags::default(), &[]).unwrap();
    assert_eq!(from_file.model.as_deref(), Some("demo"));
    assert_eq!(from_file.identity.user_id.as_str(), "person:a");
    let env = [("AGENTSPINE_MODEL", "chat:x")];
    assert_eq!(load(home.path(), &Flags::default(), &env).unwrap().model.as_deref(), Some("chat:x"));
    let flags = Flags {
        model: Some("openai:y".into()),
        user: Some(Id::new("person:b").unwrap()),
        instruction_host: Some(InstructionHost::Claude),
        ..Flags::default()
    };
    let from_flags = load(home.path(), &flags, &env).unwrap();
    assert_eq!(from_flags.model.as_deref(), Some("openai:y"));
    assert_eq!(from_flags.identity.user_id.as_str(), "person:b");
    assert_eq!(from_flags.instruction_host, Some(InstructionHost::Claude));
}

#[test]
fn identity_and_instruction_host_are_never_taken_from_the_environment() {
    let home = tempfile::tempdir().unwrap();
    let names = [
        "AGENTSPINE_USER_ID",
        "AGENTSPINE_TENANT_ID",
        "AGENTSPINE_PROFILE_ID",
        "AGENTSPINE_AGENT_ID",
        "AGENTSPINE_HOST",
    ];
    let extra = names.map(|name| (name, "intruder"));
    let config = load(home.path(), &Flags::default(), &extra).unwrap();
    assert_eq!(config.identity, load(home.path(), &Flags::default(), &[]).unwrap().identity);
    let env = [("AGENTSPINE_INSTRUCTION_HOST", "claude"), ("CODEX_HOME", "/c"), ("CLAUDE_CONFIG_DIR", "/d")];
    let bound = load(home.path(), &Flags::default(), &env).unwrap();
    assert_eq!(bound.instruction_host, None);
    assert_eq!(bound.homes.codex_home.as_deref(), Some(Path::new("/c")));
}

#[test]
fn an_unknown_key_is_named_with_file_and_line() {
    let home = home_with("model = \"demo\"\n\n[identity]\nuser = \"a\"\nusr = \"b\"\n");
    let said = message(load(home.path(), &Flags::default(), &[]).err().unwrap());
    let file = home.path().join(".config/agentspine/config.toml");
    assert!(said.starts_with(&format!("{}:5: unknown field `usr`", file.display())), "{said}");
}

#[test]
fn wrong_values_broken_toml_and_bad_ids_name_their_line() {
    for (text, line) in [
        ("instruction_host = \"gemini\"\n", 1),
        ("\n[ui]\nascii = \"yes\"\n", 3),
        ("[identity]\nuser = \"not an id\"\n", 2),
        ("model = \n", 1),
        ("model = \"a\"\nmodel = \"b\"\n", 2),
    ] {
        let said = message(file::parse(Path::new("c.toml"), text).unwrap_err());
        assert!(said.starts_with(&format!("c.toml:{line}: ")), "{said}");
    }
}

#[test]
fn a_file_others_may_write_is_refused() {
    let home = home_with("model = \"demo\"\n");
    let file = home.path().join(".config/agentspine/config.toml");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    let said = message(load(home.path(), &Flags::default(), &[]).err().unwrap());
    assert!(said.contains("can be written by others"), "{said}");
}

#[test]
fn a_fifo_in_place_of_the_file_is_refused_without_hanging() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join(".config/agentspine");
    std::fs::create_dir_all(&dir).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, dir.join("config.toml"), rustix::fs::FileType::Fifo, mode, 0)
        .unwrap();
    let said = message(load(home.path(), &Flags::default(), &[]).err().unwrap());
    assert!(said.ends_with("is not a regular file"), "{said}");
}

#[test]
fn the_state_directory_follows_its_variable_then_xdg_then_home() {
    let home = tempfile::tempdir().unwrap();
    let dir =
        |extra: &[(&str, &str)]| load(home.path(), &Flags::default(), extra).map(|config| config.state_dir);
    assert_eq!(dir(&[("AGENTSPINE_STATE_DIR", "/s"), ("XDG_STATE_HOME", "/x")]).unwrap(), Path::new("/s"));
    assert_eq!(dir(&[("XDG_STATE_HOME", "/x")]).unwrap(), Path::new("/x/agentspine"));
    assert_eq!(dir(&[("XDG_STATE_HOME", "x")]).unwrap(), home.path().join(".local/state/agentspine"));
    let refused = dir(&[("AGENTSPINE_STATE_DIR", "here")]).err().unwrap();
    assert_eq!(refused.exit().number(), 14);
}

#[test]
fn a_key_is_taken_from_the_environment_and_never_shown() {
    let home = tempfile::tempdir().unwrap();
    let config =
        load(home.path(), &Flags::default(), &[("ANTHROPIC_API_KEY", "canary-key"), ("OPENAI_API_KEY", "")])
            .unwrap();
    assert_eq!(config.keys.anthropic.as_ref().map(Secret::expose), Some("canary-key"));
    assert!(config.keys.openai.is_none());
    assert!(!format!("{:?}", config.keys).contains("canary"));
}

#[test]
fn paths_are_short_below_home_only() {
    let home = tempfile::tempdir().unwrap();
    let config = load(home.path(), &Flags::default(), &[]).unwrap();
    assert_eq!(config.short_path(&home.path().join("a/b")), "~/a/b");
    assert_eq!(config.short_path(home.path()), "~");
    assert_eq!(config.short_path(Path::new("/etc/x")), "/etc/x");
}
