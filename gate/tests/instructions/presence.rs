//! Which documents a host shows whole in its own slot.

use agentspine_gate::instructions::{Snapshot, present};

use super::support::Machine;

const OPENING: &str = "<system-reminder>\nShown below.";

/// Claude's slot with these sections, each `NAME=TEXT` below the machine's root.
fn shown(machine: &Machine, sections: &[(&str, &str)]) -> String {
    let section = |(path, text): &(&str, &str)| {
        format!("\n\nContents of {} (a label):\n\n{text}", machine.path(path).display())
    };
    let sections: String = sections.iter().map(section).collect();
    format!("{OPENING}{sections}\n</system-reminder>")
}

fn ids(snapshot: &Snapshot, slot: &str) -> Vec<String> {
    present(snapshot, &[slot.to_owned()]).into_iter().collect()
}

const USER: &str = "home/.claude/CLAUDE.md";
const PROJECT: &str = "home/proj/CLAUDE.md";
const LOCAL: &str = "home/proj/CLAUDE.local.md";

fn three() -> (Machine, Snapshot) {
    let machine = Machine::with(&[
        "home/.claude/CLAUDE.md=mine\n",
        "home/proj/CLAUDE.md=---\na: 1\n---\nours\n\n<!-- gone -->\n\nmore \n",
        "home/proj/CLAUDE.local.md=here\n",
    ]);
    let snapshot = machine.claude("home/proj").unwrap();
    (machine, snapshot)
}

#[test]
fn a_document_is_present_where_its_rendering_stands_whole_under_its_own_path() {
    let (machine, snapshot) = three();
    let all = ["claude:project/CLAUDE.local.md", "claude:project/CLAUDE.md", "claude:user/CLAUDE.md"];
    let whole = "ours\n\nmore";
    let slot = shown(&machine, &[(USER, "mine"), (PROJECT, whole), (LOCAL, "here")]);
    assert_eq!(ids(&snapshot, &slot), all);
    // Order is the host's affair, and so is what else it shows.
    let slot = shown(&machine, &[(LOCAL, "here"), ("home/MEMORY.md", "x"), (PROJECT, whole), (USER, "mine")]);
    assert_eq!(ids(&snapshot, &slot), all);
    // Without a closing mark, and as the first thing in the slot.
    let bare = format!("Contents of {} (a label):\n\nmine", machine.path(USER).display());
    assert_eq!(ids(&snapshot, &bare), ["claude:user/CLAUDE.md"]);
}

#[test]
fn a_document_that_is_cut_changed_or_elsewhere_is_not_present() {
    let (machine, snapshot) = three();
    for sections in [
        [(USER, "min"), (USER, "mine")],
        [(USER, "mine and more"), (LOCAL, "her")],
        [(USER, "mine\n\nand more"), ("home/other.md", "here")],
        [(PROJECT, "mine"), (USER, "here")],
        [(USER, "mine"), (USER, "mine")],
    ] {
        assert_eq!(ids(&snapshot, &shown(&machine, &sections)), [""; 0], "{sections:?}");
    }
    let inline = format!("{OPENING} Contents of {} (a label):\n\nmine", machine.path(USER).display());
    assert_eq!(ids(&snapshot, &inline), [""; 0]);
    let no_blank = shown(&machine, &[(USER, "mine")]).replace("label):\n\n", "label):\n");
    assert_eq!(ids(&snapshot, &no_blank), [""; 0]);
    for other in ["", "mine", "Contents of ", "Contents of  (", "\n\nContents of x (y):\n\n"] {
        assert_eq!(ids(&snapshot, other), [""; 0], "{other:?}");
    }
}

#[test]
fn a_document_that_quotes_another_ones_header_does_not_make_it_present() {
    let machine = Machine::new();
    let quoted = format!("quote\n\nContents of {} (a label):\n\nmine", machine.path(USER).display());
    machine.write(USER, "mine\n");
    machine.write(PROJECT, &quoted);
    let snapshot = machine.claude("home/proj").unwrap();
    // The host dropped the user's file: only its quotation stands there.
    let slot = shown(&machine, &[(PROJECT, &quoted)]);
    assert_eq!(ids(&snapshot, &slot), ["claude:project/CLAUDE.md"]);
    let slot = shown(&machine, &[(PROJECT, &quoted), (USER, "mine")]);
    assert_eq!(ids(&snapshot, &slot), ["claude:project/CLAUDE.md", "claude:user/CLAUDE.md"]);
    // An older state of the quoting file: whose text follows its header is not to be told, so nothing counts twice.
    let older = quoted.replace("quote", "older");
    let slot = shown(&machine, &[(PROJECT, &older), (USER, "mine")]);
    assert_eq!(ids(&snapshot, &slot), [""; 0]);
}

#[test]
fn a_linked_document_is_present_under_either_of_its_paths() {
    let mut machine = Machine::with(&["home/shared/rules.md=one\n"]);
    machine.link(machine.path("home/shared/rules.md"), PROJECT);
    machine.allowed.push(machine.path("home/shared/rules.md"));
    let snapshot = machine.claude("home/proj").unwrap();
    for path in [PROJECT, "home/shared/rules.md"] {
        assert_eq!(ids(&snapshot, &shown(&machine, &[(path, "one")])), ["claude:project/CLAUDE.md"]);
    }
}

#[test]
fn managed_text_of_the_settings_is_shown_without_a_path() {
    let machine = Machine::with(&[r#"managed/managed-settings.json={"claudeMd":"from above"}"#]);
    let snapshot = machine.claude("home/proj").unwrap();
    let slot =
        format!("{OPENING}\n\nContents of <managed-settings> (a label):\n\nfrom above\n</system-reminder>");
    assert_eq!(ids(&snapshot, &slot), ["claude:managed/managed-settings.json#claudeMd"]);
}

fn agents_md(text: &str) -> String {
    format!("# AGENTS.md instructions for /p\n\n<INSTRUCTIONS>\n{text}\n</INSTRUCTIONS>")
}

fn chain() -> Snapshot {
    Machine::with(&[
        "home/.codex/AGENTS.md=global\n",
        "home/proj/AGENTS.md=root\n",
        "home/proj/a/AGENTS.md=mid\n\n\nmid\n",
        "home/proj/a/b/AGENTS.override.md=leaf\n",
    ])
    .codex("home/proj/a/b")
    .unwrap()
}

const GLOBAL: &str = "codex:user/AGENTS.md";
const ROOT: &str = "codex:project/AGENTS.md";
const MID: &str = "codex:project/a/AGENTS.md";
const LEAF: &str = "codex:project/a/b/AGENTS.override.md";

#[test]
fn codex_documents_are_present_as_far_as_its_chain_stands_whole() {
    let snapshot = chain();
    let head = "global\n\n--- project-doc ---\n\nroot\n";
    for (text, present) in [
        (format!("{head}\n\nmid\n\n\nmid\n\n\nleaf\n"), vec![MID, LEAF, ROOT, GLOBAL]),
        (format!("{head}\n\nmid\n\n\nmid\n\n\nlea"), vec![MID, ROOT, GLOBAL]),
        (format!("{head}\n\nmid\n\n\nmid\n"), vec![MID, ROOT, GLOBAL]),
        (format!("{head}\n\nmid\n"), vec![ROOT, GLOBAL]),
        (format!("{head}\n\nother\n\n\nleaf\n"), vec![ROOT, GLOBAL]),
        ("global\n\n--- project-doc ---\n\nroot".to_owned(), vec![GLOBAL]),
        ("global\n\nroot\n".to_owned(), vec![]),
        ("root\n\n\nmid\n\n\nmid\n".to_owned(), vec![]),
        ("global".to_owned(), vec![GLOBAL]),
        ("globa".to_owned(), vec![]),
        (String::new(), vec![]),
    ] {
        let mut present = present;
        present.sort_unstable();
        assert_eq!(ids(&snapshot, &agents_md(&text)), present, "{text:?}");
    }
}

#[test]
fn codex_shows_documents_in_its_own_frame_only() {
    let snapshot = chain();
    let whole = agents_md("global");
    assert_eq!(ids(&snapshot, &whole.replace(" for /p", "")), [GLOBAL]);
    for other in [
        whole.replace("# AGENTS.md instructions", "# Instructions"),
        whole.replace("</INSTRUCTIONS>", ""),
        whole.replace("\n\n<INSTRUCTIONS>\n", "\n\nmore\n\n<INSTRUCTIONS>\n"),
        "global".to_owned(),
        String::new(),
    ] {
        assert_eq!(ids(&snapshot, &other), [""; 0], "{other:?}");
    }
}

#[test]
fn what_a_host_showed_last_of_a_document_is_what_counts() {
    let (machine, snapshot) = three();
    let old = shown(&machine, &[(USER, "mine"), (PROJECT, "ours"), (LOCAL, "here")]);
    let again = |text| {
        let path = machine.path(PROJECT);
        format!(
            "<system-reminder>\nRead again.\n\nContents of {} (a label):\n\n{text}\n</system-reminder>",
            path.display()
        )
    };
    let others = ["claude:project/CLAUDE.local.md", "claude:user/CLAUDE.md"];
    let all = ["claude:project/CLAUDE.local.md", "claude:project/CLAUDE.md", "claude:user/CLAUDE.md"];
    let found = |slots: &[&String]| -> Vec<String> {
        let slots: Vec<String> = slots.iter().map(|slot| (*slot).clone()).collect();
        present(&snapshot, &slots).into_iter().collect()
    };
    assert_eq!(found(&[&old]), others);
    assert_eq!(found(&[&old, &again("ours\n\nmore")]), all);
    // What came between is what the model read last, whatever stood there before.
    assert_eq!(found(&[&old, &again("ours\n\nmore"), &again("other")]), others);
}
