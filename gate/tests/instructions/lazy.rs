//! What the host loads later: listed, never bound, never searched for a call.

use agentspine_gate::turn::InstructionHost;

use crate::support::{Machine, mandatory, others};

#[test]
fn nested_files_and_the_hosts_notes_are_listed_as_lazy() {
    let machine = Machine::with(&[
        "home/proj/CLAUDE.md",
        "home/proj/a/CLAUDE.md",
        "home/proj/a/.claude/CLAUDE.md",
        "home/proj/a/.claude/rules/deep/r.md",
        "home/proj/a/CLAUDE.local.md",
        "home/proj/b/AGENTS.md",
        "home/proj/node_modules/x/CLAUDE.md",
        "home/proj/target/CLAUDE.md",
    ]);
    let name: String =
        machine.path("home/proj").to_str().unwrap().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    machine.write(&format!("home/.claude/projects/{name}/memory/MEMORY.md"), "notes");
    let listing = machine.listing(InstructionHost::Claude, "home/proj");
    assert_eq!(mandatory(&listing), ["claude:project/CLAUDE.md"]);
    let reason = "lazy | loads when a file in its directory is read";
    assert_eq!(
        others(&listing),
        [
            format!("claude:project/a/CLAUDE.md | {reason}"),
            format!("claude:project/a/.claude/CLAUDE.md | {reason}"),
            format!("claude:project/a/CLAUDE.local.md | {reason}"),
            format!("claude:project/a/.claude/rules/deep/r.md | {reason}"),
            format!("claude:project/b/AGENTS.md | {reason}"),
            "claude:user/memory/MEMORY.md | lazy | the host's own notes, first 25 KB".to_owned(),
        ]
    );
    let snapshot = machine.claude("home/proj").unwrap();
    assert_eq!(snapshot.documents, listing.documents);
    assert_eq!(snapshot.listed.len(), 1);
    assert!(others(&machine.listing(InstructionHost::Codex, "home/proj/a")).is_empty());
}

#[test]
fn a_search_over_its_limit_says_so_instead_of_failing() {
    let machine = Machine::with(&["home/proj/CLAUDE.md"]);
    let dir = machine.path("home/proj/many");
    std::fs::create_dir(&dir).unwrap();
    for n in 0..10_000 {
        std::fs::write(dir.join(n.to_string()), "").unwrap();
    }
    let listing = machine.listing(InstructionHost::Claude, "home/proj");
    assert_eq!(
        others(&listing),
        ["claude:project/** | lazy | more than 8192 entries below: not all are listed"]
    );
}
