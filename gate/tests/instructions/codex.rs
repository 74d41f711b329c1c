//! Codex's hierarchy, its configuration, its budget.

use agentspine_gate::Digest;

use crate::support::{Machine, mandatory, others, refused};

#[test]
fn the_whole_chain_is_bound_in_the_hosts_order() {
    let machine = Machine::with(&[
        "home/.codex/AGENTS.md",
        "home/AGENTS.md",
        "home/proj/AGENTS.md",
        "home/proj/CLAUDE.md",
        "home/proj/a/AGENTS.override.md",
        "home/proj/a/AGENTS.md",
        "home/proj/a/b/AGENTS.override.md= \n",
        "home/proj/a/b/AGENTS.md",
        "home/proj/a/b/c/AGENTS.md/is-a-directory",
        "home/proj/a/b/c/d/AGENTS.md",
        "home/proj/a/b/c/d/below/AGENTS.md",
    ]);
    let snapshot = machine.codex("home/proj/a/b/c/d").unwrap();
    assert_eq!(
        mandatory(&snapshot),
        [
            "codex:user/AGENTS.md",
            "codex:project/AGENTS.md",
            "codex:project/a/AGENTS.override.md",
            "codex:project/a/b/c/d/AGENTS.md",
        ]
    );
    assert_eq!(
        others(&snapshot),
        [
            "codex:project/a/AGENTS.md | hidden | AGENTS.override.md stands before it",
            "codex:project/a/b/AGENTS.override.md | empty | nothing but white space",
            "codex:project/a/b/AGENTS.md | hidden | AGENTS.override.md stands before it",
        ]
    );
}

#[test]
fn a_blank_global_override_gives_way_but_a_filled_one_hides() {
    let machine = Machine::with(&["home/.codex/AGENTS.override.md=\n", "home/.codex/AGENTS.md"]);
    assert_eq!(mandatory(&machine.codex("home/proj").unwrap()), ["codex:user/AGENTS.md"]);
    machine.write("home/.codex/AGENTS.override.md", "mine");
    let snapshot = machine.codex("home/proj").unwrap();
    assert_eq!(mandatory(&snapshot), ["codex:user/AGENTS.override.md"]);
    assert_eq!(others(&snapshot), ["codex:user/AGENTS.md | hidden | AGENTS.override.md is loaded instead"]);
}

#[test]
fn the_root_is_the_nearest_marker_of_the_persons_configuration() {
    let machine = Machine::with(&["home/AGENTS.md", "home/proj/AGENTS.md", "home/proj/sub/AGENTS.md"]);
    machine.write("home/.hg", "");
    let config = |text: &str| machine.write("home/.codex/config.toml", text);
    let (sub, all) = ("home/proj/sub", "home/proj/sub");

    assert_eq!(
        mandatory(&machine.codex(sub).unwrap()),
        ["codex:project/AGENTS.md", "codex:project/sub/AGENTS.md"]
    );
    config("project_root_markers = [\".hg\"]");
    assert_eq!(
        mandatory(&machine.codex(all).unwrap()),
        ["codex:project/AGENTS.md", "codex:project/proj/AGENTS.md", "codex:project/proj/sub/AGENTS.md"]
    );
    for none in ["project_root_markers = []", "project_root_markers = [\"nowhere\"]"] {
        config(none);
        assert_eq!(mandatory(&machine.codex(sub).unwrap()), ["codex:project/AGENTS.md"]);
    }
    // A project's own configuration has no say, even a trusted one's.
    let proj = machine.path("home/proj");
    config(&format!("[projects.\"{}\"]\ntrust_level = \"trusted\"", proj.display()));
    machine.write("home/proj/.codex/config.toml", "project_root_markers = []");
    assert_eq!(
        mandatory(&machine.codex(sub).unwrap()),
        ["codex:project/AGENTS.md", "codex:project/sub/AGENTS.md"]
    );
}

#[test]
fn fallback_names_come_from_the_person_or_a_trusted_project() {
    let machine = Machine::with(&["home/proj/TEAM.md", "home/proj/sub/RULES.md", "home/proj/sub/TEAM.md"]);
    let both = "project_doc_fallback_filenames = [\"RULES.md\", \"TEAM.md\", \"RULES.md\", \"\"]";
    machine.write("home/proj/.codex/config.toml", both);
    assert!(machine.codex("home/proj/sub").unwrap().documents.is_empty());

    let trust = |level: &str| {
        let text =
            format!("[projects.\"{}\"]\ntrust_level = \"{level}\"", machine.path("home/proj").display());
        machine.write("home/.codex/config.toml", text);
    };
    trust("trusted");
    let snapshot = machine.codex("home/proj/sub").unwrap();
    assert_eq!(mandatory(&snapshot), ["codex:project/TEAM.md", "codex:project/sub/RULES.md"]);
    assert_eq!(others(&snapshot), ["codex:project/sub/TEAM.md | hidden | RULES.md stands before it"]);

    machine.write("home/proj/AGENTS.md", "agents");
    trust("untrusted");
    let snapshot = machine.codex("home/proj/sub").unwrap();
    assert!(snapshot.documents.is_empty());
    assert_eq!(others(&snapshot), ["codex:project/AGENTS.md | hidden | the project is untrusted in Codex"]);
}

#[test]
fn a_fallback_name_cannot_leave_its_directory() {
    let machine = Machine::with(&["home/secret.md"]);
    machine.write("home/.codex/config.toml", "project_doc_fallback_filenames = [\"../secret.md\"]");
    let (key, message, _) = refused(machine.codex("home/proj"));
    assert_eq!(key, "instructions-failed/out-of-scope");
    assert_eq!(message, "codex:project/../secret.md: outside its directory");
}

#[test]
fn what_the_hosts_budget_cuts_is_bound_whole() {
    let machine = Machine::with(&[
        "home/.codex/AGENTS.md=global does not count",
        "home/.codex/config.toml=project_doc_max_bytes = 10",
        "home/proj/AGENTS.md=12345678",
        "home/proj/a/AGENTS.md=   \n   \n   \n",
        "home/proj/a/b/AGENTS.md=1234",
        "home/proj/a/b/c/AGENTS.md=1",
    ]);
    let snapshot = machine.codex("home/proj/a/b/c").unwrap();
    let texts: Vec<(&str, bool)> =
        snapshot.documents.iter().map(|d| (d.text.as_str(), d.cut_by_host)).collect();
    assert_eq!(texts, [("global does not count", false), ("12345678", false), ("1234", true), ("1", true)]);
    assert_eq!(
        others(&snapshot),
        [
            "codex:project/a/AGENTS.md | empty | nothing but white space",
            "codex:project/a/b/AGENTS.md | cut-by-host | the host cuts it after 2 bytes: project_doc_max_bytes = 10",
            "codex:project/a/b/c/AGENTS.md | cut-by-host | the host drops it: project_doc_max_bytes = 10 is used up",
        ]
    );

    machine.write("home/.codex/config.toml", "project_doc_max_bytes = 0");
    let snapshot = machine.codex("home/proj").unwrap();
    assert_eq!(mandatory(&snapshot), ["codex:user/AGENTS.md"]);
    assert_eq!(others(&snapshot), ["codex:project/AGENTS.md | hidden | project_doc_max_bytes = 0"]);
}

#[test]
fn text_is_left_as_it_is_and_invalid_bytes_are_replaced_as_the_host_does() {
    let machine = Machine::new();
    machine.write("home/.codex/AGENTS.md", "\u{feff}---\nx: 1\n---\n<!-- c -->\n@x.md\n");
    machine.write("home/x.md", "never imported");
    machine.write("home/proj/AGENTS.md", b"a\xff\xfeb");
    let snapshot = machine.codex("home/proj").unwrap();
    let [global, project] = &snapshot.documents[..] else { panic!("two documents") };
    assert_eq!(global.text, "\u{feff}---\nx: 1\n---\n<!-- c -->\n@x.md\n");
    assert_eq!(global.rendered_sha256, None);
    assert_eq!(project.text, "a\u{fffd}\u{fffd}b");
    assert_eq!(project.sha256, Digest::of(b"a\xff\xfeb"));
    assert_eq!(project.rendered_sha256, Some(Digest::of("a\u{fffd}\u{fffd}b".as_bytes())));
}

#[test]
fn broken_configuration_of_the_host_refuses_without_quoting_it() {
    for (text, reason) in [
        ("a = 1\nkey = canary\n", "not valid TOML (line 2)"),
        ("project_doc_max_bytes = -1", "project_doc_max_bytes is not a number of bytes"),
        ("project_root_markers = \".git\"", "project_root_markers is not a list of names"),
        ("project_doc_fallback_filenames = [1]", "project_doc_fallback_filenames is not a list of names"),
    ] {
        let machine = Machine::new();
        machine.write("home/.codex/config.toml", text);
        let (key, message, advice) = refused(machine.codex("home/proj"));
        assert_eq!(key, "instructions-failed/host-config");
        assert_eq!(message, format!("~/.codex/config.toml of codex: {reason}"));
        assert_eq!(
            advice,
            "Repair ~/.codex/config.toml, then look again: agentspine instructions --host codex"
        );
    }
}
