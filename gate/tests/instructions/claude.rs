//! Claude Code's hierarchy, rules, AGENTS.md modes, exclusions, worktrees, settings.

use agentspine_gate::Digest;
use agentspine_gate::instructions::{Layer, render};

use crate::support::{Machine, mandatory, others, refused};

#[test]
fn the_whole_hierarchy_is_bound_in_the_hosts_order() {
    let machine = Machine::with(&[
        "managed/CLAUDE.md",
        "managed/managed-settings.json={\"claudeMd\":\"from settings\"}",
        "managed/.claude/rules/m.md",
        "managed/rules/not-read.md",
        "home/.claude/CLAUDE.md=user @u.md",
        "home/.claude/u.md",
        "home/.claude/AGENTS.md",
        "home/.claude/rules/b.md",
        "home/.claude/rules/a/z.md",
        "CLAUDE.md",
        "home/CLAUDE.md",
        "home/CLAUDE.local.md",
        "home/proj/CLAUDE.md=project @docs/style.md\n",
        "home/proj/docs/style.md",
        "home/proj/.claude/CLAUDE.md",
        "home/proj/.claude/rules/one.md",
        "home/proj/.claude/rules/two.md=---\npaths: [\"src/**\"]\n---\nwaits",
        "home/proj/.claude/rules/deep/three.md",
        "home/proj/.claude/rules/note.txt",
        "home/proj/.claude/rules/UPPER.MD",
        "home/proj/CLAUDE.local.md= \n\t",
        "home/proj/sub/CLAUDE.md",
        "home/proj/sub/CLAUDE.local.md",
        "home/proj/sub/claude.md",
    ]);
    let snapshot = machine.claude("home/proj/sub").unwrap();
    assert_eq!(
        mandatory(&snapshot),
        [
            "claude:managed/CLAUDE.md",
            "claude:managed/managed-settings.json#claudeMd",
            "claude:managed/.claude/rules/m.md",
            "claude:user/CLAUDE.md",
            "claude:import-1/u.md",
            "claude:user/rules/a/z.md",
            "claude:user/rules/b.md",
            "claude:ancestor-2/CLAUDE.md",
            "claude:ancestor-1/CLAUDE.md",
            "claude:ancestor-1/CLAUDE.local.md",
            "claude:project/CLAUDE.md",
            "claude:project/.claude/CLAUDE.md",
            "claude:project/.claude/rules/deep/three.md",
            "claude:project/.claude/rules/one.md",
            "claude:project/sub/CLAUDE.md",
            "claude:project/sub/CLAUDE.local.md",
        ]
    );
    assert_eq!(
        others(&snapshot),
        [
            "claude:import-1/docs/style.md | external-not-approved | outside the working directory and not approved in Claude Code",
            "claude:project/.claude/rules/two.md | lazy | waits for a file that matches its paths",
            "claude:project/CLAUDE.local.md | empty | nothing but white space is left of it",
        ]
    );
    let layers: Vec<Layer> = snapshot.documents.iter().map(|d| d.layer).collect();
    assert_eq!(layers.iter().filter(|l| **l == Layer::Managed).count(), 3);
    assert_eq!(layers.iter().filter(|l| **l == Layer::User).count(), 4);
    assert_eq!(layers.iter().filter(|l| **l == Layer::Local).count(), 2);
}

#[test]
fn a_document_carries_the_files_bytes_and_the_hosts_rendering() {
    let text = "\u{feff}---\r\nx: 1\r\n---\r\n\r\n<!-- note -->\r\n# Title\r\n";
    let machine = Machine::new();
    machine.write("home/proj/CLAUDE.md", text);
    machine.write("home/proj/.claude/CLAUDE.md", "same");
    let snapshot = machine.claude("home/proj").unwrap();
    let [first, second] = &snapshot.documents[..] else { panic!("two documents") };
    assert_eq!(first.bytes, u64::try_from(text.len()).unwrap());
    assert_eq!(first.sha256, Digest::of(text.as_bytes()));
    assert_eq!(first.text, text.trim_start_matches('\u{feff}'));
    assert_eq!(render::claude(&first.text), "# Title");
    assert_eq!(first.rendered_sha256, Some(Digest::of(b"# Title")));
    assert_eq!((second.text.as_str(), second.rendered_sha256), ("same", None));
    assert!(!format!("{first:?}").contains("Title"));
    assert_eq!(machine.claude("home/proj").unwrap(), snapshot);
}

#[test]
fn a_config_directory_of_its_own_replaces_the_one_at_home() {
    let machine = Machine::with(&["conf/CLAUDE.md", "conf/rules/r.md", "home/.claude/CLAUDE.md"]);
    let mut homes = machine.homes();
    homes.claude_config_dir = Some(machine.path("conf"));
    let host = agentspine_gate::turn::InstructionHost::Claude;
    let cwd = machine.path("home/proj");
    let snapshot = agentspine_gate::instructions::snapshot(&machine.fs(), host, &homes, &cwd, &[]).unwrap();
    assert_eq!(
        mandatory(&snapshot),
        ["claude:user/CLAUDE.md", "claude:user/rules/r.md", "claude:ancestor-1/.claude/CLAUDE.md"]
    );
}

#[test]
fn a_config_directory_behind_a_link_is_read_once_and_needs_no_permission() {
    let machine =
        Machine::with(&["dotfiles/claude/CLAUDE.md", "dotfiles/claude/rules/r.md", "home/proj/AGENTS.md"]);
    machine.link(machine.path("dotfiles/claude"), "home/.claude");
    let snapshot = machine.claude("home/proj").unwrap();
    assert_eq!(
        mandatory(&snapshot),
        ["claude:user/CLAUDE.md", "claude:user/rules/r.md", "claude:project/AGENTS.md"]
    );
}

#[test]
fn the_mode_decides_about_agents_md() {
    let mode = |value: &str| {
        format!(
            "{{\"pluginConfigs\":{{\"cc-plugin-agents-md@builtin\":{{\"options\":{{\"instructionFiles\":\"{value}\"}}}}}}}}"
        )
    };
    let files = ["managed/CLAUDE.md", "home/AGENTS.md", "home/proj/AGENTS.md", "home/proj/.claude/AGENTS.md"];
    let agents =
        ["claude:ancestor-1/AGENTS.md", "claude:project/AGENTS.md", "claude:project/.claude/AGENTS.md"];
    let machine = Machine::with(&files);
    let with_managed = |rest: &[&'static str]| [&["claude:managed/CLAUDE.md"], rest].concat();

    // By default a fallback; user, managed, blank files and rules do not count against it.
    machine.write("home/.claude/CLAUDE.md", "user");
    machine.write("home/proj/.claude/rules/r.md", "rule");
    machine.write("home/CLAUDE.md", "\n");
    let expected = [&["claude:user/CLAUDE.md"][..], &agents, &["claude:project/.claude/rules/r.md"]].concat();
    assert_eq!(mandatory(&machine.claude("home/proj").unwrap()), with_managed(&expected));

    // One CLAUDE.local.md above is enough to switch it off.
    machine.write("home/CLAUDE.local.md", "local");
    let snapshot = machine.claude("home/proj").unwrap();
    assert!(!mandatory(&snapshot).iter().any(|id| id.contains("AGENTS")));
    assert!(
        others(&snapshot)
            .contains(&"claude:project/AGENTS.md | hidden | a CLAUDE.md is loaded instead".to_owned())
    );

    machine.write("home/.claude/settings.json", mode("claude-md-and-agents-md"));
    machine.write("home/proj/CLAUDE.md", "@AGENTS.md");
    assert_eq!(
        mandatory(&machine.claude("home/proj").unwrap()),
        [
            "claude:managed/CLAUDE.md",
            "claude:user/CLAUDE.md",
            "claude:ancestor-1/AGENTS.md",
            "claude:ancestor-1/CLAUDE.local.md",
            "claude:project/CLAUDE.md",
            "claude:import-1/AGENTS.md",
            "claude:project/.claude/AGENTS.md",
            "claude:project/.claude/rules/r.md",
        ]
    );
    std::fs::remove_file(machine.path("home/CLAUDE.local.md")).unwrap();
    std::fs::remove_file(machine.path("home/proj/CLAUDE.md")).unwrap();

    machine.write("home/.claude/settings.json", mode("claude-md"));
    let expected = ["claude:user/CLAUDE.md", "claude:project/.claude/rules/r.md"];
    assert_eq!(mandatory(&machine.claude("home/proj").unwrap()), with_managed(&expected));

    machine.write("home/.claude/settings.json", mode("managed-only"));
    let snapshot = machine.claude("home/proj").unwrap();
    assert_eq!(mandatory(&snapshot), with_managed(&[]));
    assert!(others(&snapshot).contains(
        &"claude:project/.claude/rules/r.md | hidden | the host's setting is managed-only".to_owned()
    ));

    // A project cannot choose; managed settings win over the person's.
    machine.write("home/proj/.claude/settings.json", mode("claude-md-or-agents-md"));
    assert_eq!(mandatory(&machine.claude("home/proj").unwrap()), with_managed(&[]));
    machine.write("managed/managed-settings.d/10.json", mode("claude-md"));
    let expected = ["claude:user/CLAUDE.md", "claude:project/.claude/rules/r.md"];
    assert_eq!(mandatory(&machine.claude("home/proj").unwrap()), with_managed(&expected));
}

#[test]
fn what_the_host_does_not_load_refuses_nothing() {
    let machine = Machine::with(&["home/proj/CLAUDE.md"]);
    machine.link("nowhere", "home/proj/AGENTS.md");
    machine.link("nowhere", "home/AGENTS.md");
    assert_eq!(mandatory(&machine.claude("home/proj").unwrap()), ["claude:project/CLAUDE.md"]);

    machine.link("nowhere", "home/proj/.claude/rules/r.md");
    let text = "{\"pluginConfigs\":{\"cc-plugin-agents-md@builtin\":{\"options\":{\"instructionFiles\":\"managed-only\"}}}}";
    machine.write("managed/managed-settings.json", text);
    assert!(machine.claude("home/proj").unwrap().documents.is_empty());
}

#[test]
fn excludes_of_every_layer_hide_everything_but_managed_files() {
    let machine = Machine::with(&[
        "managed/CLAUDE.md",
        "home/.claude/CLAUDE.md",
        "home/CLAUDE.md",
        "home/proj/CLAUDE.md=@a.md @b.md",
        "home/proj/a.md",
        "home/proj/b.md",
        "home/proj/.claude/rules/x/r.md",
    ]);
    let exclude = |glob: &str| format!("{{\"claudeMdExcludes\":[{}]}}", serde_json::json!(glob));
    machine.write("home/.claude/settings.json", exclude("**/.claude/CLAUDE.md"));
    machine.write("home/proj/.claude/settings.json", exclude("**/rules/**"));
    machine
        .write("home/proj/.claude/settings.local.json", exclude(machine.path("home/*.md").to_str().unwrap()));
    machine.write(
        "managed/managed-settings.json",
        serde_json::json!({ "claudeMdExcludes": ["**/a.md", "**/managed/**", "[", 7] }).to_string(),
    );
    let snapshot = machine.claude("home/proj").unwrap();
    assert_eq!(
        mandatory(&snapshot),
        ["claude:managed/CLAUDE.md", "claude:project/CLAUDE.md", "claude:import-1/b.md"]
    );
    let reason = "hidden | claudeMdExcludes names it";
    assert_eq!(
        others(&snapshot),
        [
            format!("claude:user/CLAUDE.md | {reason}"),
            format!("claude:ancestor-1/CLAUDE.md | {reason}"),
            format!("claude:import-1/a.md | {reason}"),
            format!("claude:project/.claude/rules/x/r.md | {reason}"),
        ]
    );
}

#[test]
fn a_worktree_inside_its_own_main_checkout_does_not_load_the_checked_in_files_twice() {
    let machine = Machine::with(&[
        "home/CLAUDE.md",
        "home/proj/CLAUDE.md",
        "home/proj/.claude/CLAUDE.md",
        "home/proj/.claude/rules/r.md",
        "home/proj/CLAUDE.local.md",
        "home/proj/trees/w/CLAUDE.md",
    ]);
    let git = machine.path("home/proj/.git/worktrees/w");
    machine.write("home/proj/.git/worktrees/w/commondir", "../..\n");
    machine.write(
        "home/proj/.git/worktrees/w/gitdir",
        machine.path("home/proj/trees/w/.git\n").to_str().unwrap(),
    );
    machine.write("home/proj/trees/w/.git", format!("gitdir: {}\n", git.display()));
    let snapshot = machine.claude("home/proj/trees/w").unwrap();
    assert_eq!(
        mandatory(&snapshot),
        ["claude:ancestor-3/CLAUDE.md", "claude:ancestor-2/CLAUDE.local.md", "claude:project/CLAUDE.md"]
    );
    assert_eq!(
        others(&snapshot),
        [
            "claude:ancestor-2/CLAUDE.md | hidden | this worktree has its own copy",
            "claude:ancestor-2/.claude/CLAUDE.md | hidden | this worktree has its own copy",
            "claude:ancestor-2/.claude/rules/r.md | hidden | this worktree has its own copy",
        ]
    );
}

#[test]
fn broken_settings_of_the_host_refuse_and_name_the_file() {
    for (path, text, shown) in [
        (
            "home/.claude/settings.json",
            "{",
            "~/.claude/settings.json of claude: not valid JSON (line 1, column 1)",
        ),
        (
            "home/proj/.claude/settings.json",
            "[1,]",
            ".claude/settings.json of claude: not valid JSON (line 1, column 4)",
        ),
        (
            "managed/managed-settings.json",
            "canary",
            "managed-settings.json of claude: not valid JSON (line 1, column 1)",
        ),
    ] {
        let machine = Machine::with(&["home/proj/CLAUDE.md"]);
        machine.write(path, text);
        let (key, message, advice) = refused(machine.claude("home/proj"));
        assert_eq!((key.as_str(), message.as_str()), ("instructions-failed/host-config", shown));
        assert!(advice.ends_with("agentspine instructions --host claude"), "{advice}");
    }
}

#[test]
fn an_unknown_mode_refuses_instead_of_guessing() {
    let machine = Machine::new();
    let text =
        "{\"pluginConfigs\":{\"cc-plugin-agents-md@builtin\":{\"options\":{\"instructionFiles\":\"new\"}}}}";
    machine.write("home/.claude/settings.json", text);
    let (key, message, _) = refused(machine.claude("home/proj"));
    assert_eq!(key, "instructions-failed/host-config");
    assert_eq!(message, "~/.claude/settings.json of claude: instructionFiles has an unknown value");
}

#[test]
fn settings_that_change_nothing_here_are_no_fault() {
    let machine = Machine::with(&["home/proj/CLAUDE.md"]);
    machine.write("home/.claude/settings.json", "\u{feff}{\"hooks\":{},\"claudeMdExcludes\":\"x\"}");
    machine.write("home/proj/.claude/settings.json", "\n");
    let target = machine.write("dotfiles/settings.json", "{}");
    machine.link(target, "home/proj/.claude/settings.local.json");
    assert_eq!(mandatory(&machine.claude("home/proj").unwrap()), ["claude:project/CLAUDE.md"]);
}

#[test]
fn a_file_too_large_for_the_host_is_bound_whole_and_said_to_be_cut() {
    let machine = Machine::new();
    machine.write("home/proj/CLAUDE.md", vec![b'x'; 4 * 1024 * 1024 + 1]);
    let snapshot = machine.claude("home/proj").unwrap();
    assert!(snapshot.documents[0].cut_by_host);
    assert_eq!(
        others(&snapshot),
        ["claude:project/CLAUDE.md | cut-by-host | the host skips files over 4194304 bytes"]
    );
}

#[test]
fn a_file_without_rendered_text_is_listed_as_empty() {
    let machine = Machine::with(&["home/proj/CLAUDE.md=---\nx: 1\n---\n<!-- only a note -->\n"]);
    let snapshot = machine.claude("home/proj").unwrap();
    assert_eq!(
        others(&snapshot),
        ["claude:project/CLAUDE.md | empty | nothing but white space is left of it"]
    );
    assert!(snapshot.documents.is_empty());
}
