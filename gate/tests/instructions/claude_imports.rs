//! Claude Code's imports: what is followed, how far, and what stays outside.

use crate::support::{Machine, mandatory, others, refused};

const NOT_APPROVED: &str =
    "external-not-approved | outside the working directory and not approved in Claude Code";

/// `~/.claude.json` that approves external imports for a directory.
fn approve(machine: &Machine, cwd: &str) {
    let cwd = machine.path(cwd);
    let text = serde_json::json!({ "projects": { cwd.to_str().unwrap(): { "hasClaudeMdExternalIncludesApproved": true } } });
    machine.write("home/.claude.json", text.to_string());
}

#[test]
fn imports_follow_their_importer_depth_first_for_four_hops() {
    let machine = Machine::with(&[
        "home/proj/CLAUDE.md=@one.md @last.md",
        "home/proj/one.md=@d/two.md",
        "home/proj/d/two.md=@three.md @../one.md",
        "home/proj/d/three.md=@four.md @four.md",
        "home/proj/d/four.md=@five.md @../CLAUDE.md",
        "home/proj/d/five.md",
        "home/proj/last.md",
    ]);
    let snapshot = machine.claude("home/proj").unwrap();
    assert_eq!(
        mandatory(&snapshot),
        [
            "claude:project/CLAUDE.md",
            "claude:import-1/one.md",
            "claude:import-2/d/two.md",
            "claude:import-3/d/three.md",
            "claude:import-4/d/four.md",
            "claude:import-1/last.md",
        ]
    );
    assert_eq!(others(&snapshot), ["claude:import-5/d/five.md | hidden | more than four imports away"]);
}

#[test]
fn only_files_that_exist_are_imports() {
    let machine = Machine::with(&[
        "home/proj/CLAUDE.md=@nobody @a.md, @docs @pic.png @noext @my\\ notes.md @a.md#part @x\0y @.hidden",
        "home/proj/a.md",
        "home/proj/docs/b.md",
        "home/proj/pic.png",
        "home/proj/noext",
        "home/proj/my notes.md",
        "home/proj/.hidden",
    ]);
    let snapshot = machine.claude("home/proj").unwrap();
    assert_eq!(
        mandatory(&snapshot),
        [
            "claude:project/CLAUDE.md",
            "claude:import-1/noext",
            "claude:import-1/my notes.md",
            "claude:import-1/a.md",
            "claude:import-1/.hidden",
        ]
    );
    assert_eq!(others(&snapshot), ["claude:import-1/pic.png | hidden | the host imports text files only"]);
}

#[test]
fn external_imports_of_a_project_need_the_hosts_approval() {
    let machine = Machine::with(&[
        "home/proj/CLAUDE.md=@../outside.md @~/notes.md\n@sub/in.md",
        "home/outside.md=@deeper.md",
        "home/deeper.md",
        "home/notes.md",
        "home/proj/sub/in.md",
    ]);
    machine.write("home/proj/.claude/rules/r.md", format!("@{}", machine.path("abs.md").display()));
    machine.write("abs.md", "absolute");
    let snapshot = machine.claude("home/proj").unwrap();
    let inside =
        ["claude:project/CLAUDE.md", "claude:import-1/sub/in.md", "claude:project/.claude/rules/r.md"];
    assert_eq!(mandatory(&snapshot), inside);
    assert_eq!(
        others(&snapshot),
        [
            format!("claude:import-1/outside.md | {NOT_APPROVED}"),
            format!("claude:import-1/notes.md | {NOT_APPROVED}"),
            format!("claude:import-1/abs.md | {NOT_APPROVED}"),
        ]
    );
    assert!(
        snapshot.listed.iter().filter(|l| l.sha256.is_none()).count() == 3,
        "unapproved files are not read"
    );

    approve(&machine, "home");
    assert_eq!(mandatory(&machine.claude("home/proj").unwrap()), inside, "another directory's approval");

    approve(&machine, "home/proj");
    assert_eq!(
        mandatory(&machine.claude("home/proj").unwrap()),
        [
            "claude:project/CLAUDE.md",
            "claude:import-1/outside.md",
            "claude:import-2/deeper.md",
            "claude:import-1/notes.md",
            "claude:import-1/sub/in.md",
            "claude:project/.claude/rules/r.md",
            "claude:import-1/abs.md",
        ]
    );
}

#[test]
fn an_ancestors_import_is_external_below_it() {
    let machine =
        Machine::with(&["home/proj/CLAUDE.md=@x.md @sub/y.md", "home/proj/x.md", "home/proj/sub/y.md"]);
    let snapshot = machine.claude("home/proj/sub").unwrap();
    assert_eq!(mandatory(&snapshot), ["claude:project/CLAUDE.md", "claude:import-1/sub/y.md"]);
    assert_eq!(others(&snapshot), [format!("claude:import-1/x.md | {NOT_APPROVED}")]);
}

#[test]
fn user_imports_are_always_allowed_and_names_stay_unique() {
    let machine = Machine::with(&[
        "home/.claude/CLAUDE.md=@~/a.md @~/other/a.md @x.md",
        "home/a.md",
        "home/other/a.md",
        "home/.claude/x.md",
        "home/proj/CLAUDE.md=@x.md",
        "home/proj/x.md",
    ]);
    let snapshot = machine.claude("home/proj").unwrap();
    assert_eq!(
        mandatory(&snapshot),
        [
            "claude:user/CLAUDE.md",
            "claude:import-1/a.md",
            "claude:import-1/a.md~2",
            "claude:import-1/x.md",
            "claude:project/CLAUDE.md",
            "claude:import-1/x.md~2",
        ]
    );
}

#[test]
fn the_hosts_own_state_is_read_only_where_an_external_import_asks() {
    let machine =
        Machine::with(&["home/proj/CLAUDE.md=@a.md", "home/proj/a.md", "home/b.md", "home/.claude.json={"]);
    assert!(machine.claude("home/proj").is_ok());
    machine.write("home/proj/a.md", "@../b.md");
    let (key, message, _) = refused(machine.claude("home/proj"));
    assert_eq!(key, "instructions-failed/host-config");
    assert_eq!(message, "~/.claude.json of claude: not valid JSON (line 1, column 1)");
}

#[test]
fn a_linked_import_is_refused_until_its_target_is_allowed() {
    let mut machine = Machine::with(&["home/proj/CLAUDE.md=@docs/a.md", "home/proj/real.md"]);
    machine.link("../real.md", "home/proj/docs/a.md");
    let (key, message, _) = refused(machine.claude("home/proj"));
    assert_eq!(
        (key.as_str(), message.as_str()),
        ("instructions-failed/symlink", "claude:import-1/docs/a.md is a symbolic link")
    );
    machine.allowed = vec![machine.path("home/proj/real.md")];
    let snapshot = machine.claude("home/proj").unwrap();
    assert_eq!(mandatory(&snapshot), ["claude:project/CLAUDE.md", "claude:import-1/docs/a.md"]);
    assert!(snapshot.documents[1].via_link);
}

#[test]
fn a_link_outside_that_leads_back_inside_is_judged_as_a_link() {
    let mut machine = Machine::with(&["home/proj/CLAUDE.md=@door.md", "home/proj/sub/real.md"]);
    machine.link("sub/real.md", "home/proj/door.md");
    assert_eq!(refused(machine.claude("home/proj/sub")).0, "instructions-failed/symlink");
    machine.allowed = vec![machine.path("home/proj/sub/real.md")];
    let snapshot = machine.claude("home/proj/sub").unwrap();
    assert_eq!(mandatory(&snapshot), ["claude:project/CLAUDE.md", "claude:import-1/door.md"]);
}

#[test]
fn more_imports_than_the_limit_refuse() {
    let machine = Machine::new();
    let words: Vec<String> =
        (0..=agentspine_gate::instructions::IMPORTS_MAX).map(|n| format!("@w{n}")).collect();
    machine.write("home/proj/CLAUDE.md", words.join(" "));
    let (key, message, _) = refused(machine.claude("home/proj"));
    assert_eq!(key, "instructions-failed/too-many");
    assert_eq!(message, "claude:project/CLAUDE.md imports more than 4096 files");
}
