//! Files that must not be read, or not as they are: every one refuses with its own detail, its id and a next command.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use agentspine_gate::instructions::{DOCUMENTS_MAX, RULE_ENTRIES_MAX};
use agentspine_gate::os_fs::OsFs;
use agentspine_gate::seams::{Fs as _, ReadError};
use agentspine_gate::turn::InstructionHost;

use crate::support::{Broken, Jail, Machine, mandatory, refused};

const LOOK: &str = "then look again: agentspine instructions --host claude";

fn fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_link_is_refused_with_the_command_that_allows_it() {
    let mut machine = Machine::with(&["home/proj/AGENTS.md=rules\n"]);
    machine.link("AGENTS.md", "home/proj/CLAUDE.md");
    let target = machine.path("home/proj/AGENTS.md");
    let (key, message, advice) = refused(machine.claude("home/proj"));
    assert_eq!(key, "instructions-failed/symlink");
    assert_eq!(message, "claude:project/CLAUDE.md is a symbolic link");
    assert_eq!(
        advice,
        format!(
            "Replace the link by a file, or allow its target: agentspine preflight-policy --set \
             'allowedSymlinkTargets=[\"{}\"]' --confirm-local-policy",
            target.display()
        )
    );

    machine.allowed = vec![machine.path("home/other.md")];
    assert!(refused(machine.claude("home/proj")).2.contains(&format!("other.md\",\"{}", target.display())));

    machine.allowed = vec![target.clone()];
    let allowed = machine.claude("home/proj").unwrap();
    assert_eq!(mandatory(&allowed), ["claude:project/CLAUDE.md"]);
    let document = &allowed.documents[0];
    assert!(document.via_link);
    assert_eq!(document.text, "rules\n");

    // The link's own text is bound too: another way to the same bytes is another identity.
    std::fs::remove_file(machine.path("home/proj/CLAUDE.md")).unwrap();
    machine.link(&target, "home/proj/CLAUDE.md");
    let again = machine.claude("home/proj").unwrap();
    assert_eq!(again.documents[0].sha256, document.sha256);
    assert_ne!(again.documents[0].identity, document.identity);
}

#[test]
fn every_kind_of_link_on_the_way_is_refused() {
    for (link, target, part) in [
        ("home/proj/CLAUDE.md", "CLAUDE.md", "CLAUDE.md is a symbolic link"),
        ("home/proj/CLAUDE.md", "nowhere", "CLAUDE.md is a symbolic link"),
        ("home/proj/CLAUDE.md", "/proc/self/fd/0", "CLAUDE.md is a symbolic link"),
        ("home/proj/CLAUDE.md", "../../secret/CLAUDE.md", "CLAUDE.md is a symbolic link"),
        ("home/proj/.claude", "../../secret", ".claude/CLAUDE.md is reached over the symbolic link .claude"),
        ("home/proj/.claude/rules", "../../../secret", ".claude/rules is a symbolic link"),
        ("home/proj/.claude/rules/more", "../../../../secret", ".claude/rules/more is a symbolic link"),
        (
            "home/proj/.claude/rules/r.md",
            "../../../../secret/CLAUDE.md",
            ".claude/rules/r.md is a symbolic link",
        ),
    ] {
        let machine = Machine::with(&["secret/CLAUDE.md=canary"]);
        machine.link(target, link);
        let (key, message, advice) = refused(machine.claude("home/proj"));
        assert_eq!(key, "instructions-failed/symlink", "{link} -> {target}");
        assert_eq!(message, format!("claude:project/{part}"));
        assert!(advice.contains("agentspine "), "{advice}");
    }
}

#[test]
fn an_allowed_directory_link_opens_what_is_below_it_and_nothing_else() {
    let mut machine = Machine::with(&["home/proj/shared/a.md", "home/proj/shared/deep/b.md"]);
    machine.link("../shared", "home/proj/.claude/rules");
    machine.allowed = vec![machine.path("home/proj/shared")];
    let snapshot = machine.claude("home/proj").unwrap();
    assert_eq!(
        mandatory(&snapshot),
        ["claude:project/.claude/rules/a.md", "claude:project/.claude/rules/deep/b.md"]
    );
    machine.link("/etc/hostname", "home/proj/shared/c.md");
    assert_eq!(
        refused(machine.claude("home/proj")).1,
        "claude:project/.claude/rules/c.md is a symbolic link"
    );
}

#[test]
fn a_working_directory_behind_a_link_is_resolved_first() {
    let machine = Machine::with(&["home/proj/CLAUDE.md"]);
    machine.link("home/proj", "door");
    assert_eq!(machine.claude("door").unwrap(), machine.claude("home/proj").unwrap());
}

#[test]
fn what_is_no_regular_file_is_refused_without_waiting_for_it() {
    let machine = Machine::new();
    fifo(&machine.path("home/proj/CLAUDE.md"));
    let (key, message, advice) = refused(machine.claude("home/proj"));
    assert_eq!(key, "instructions-failed/not-regular");
    assert_eq!(message, "claude:project/CLAUDE.md: not a regular file");
    assert_eq!(advice, format!("Remove or rename it (~/proj/CLAUDE.md), {LOOK}"));

    let machine = Machine::new();
    let _socket = UnixListener::bind(machine.path("home/proj/AGENTS.md")).unwrap();
    assert_eq!(refused(machine.codex("home/proj")).0, "instructions-failed/not-regular");

    let machine = Machine::with(&["home/proj/.claude/rules/ok.md"]);
    fifo(&machine.path("home/proj/.claude/rules/pipe"));
    assert_eq!(mandatory(&machine.claude("home/proj").unwrap()).len(), 1);
    fifo(&machine.path("home/proj/.claude/rules/pipe.md"));
    assert_eq!(refused(machine.claude("home/proj")).0, "instructions-failed/not-regular");
}

#[test]
fn a_directory_with_a_documents_name_is_no_document() {
    let machine = Machine::with(&["home/proj/CLAUDE.md/x", "home/proj/.claude/rules/d.md/r.md"]);
    assert_eq!(mandatory(&machine.claude("home/proj").unwrap()), ["claude:project/.claude/rules/d.md/r.md"]);
}

#[test]
fn the_handle_is_judged_not_the_name() {
    for (root, name) in [("/dev", "null"), ("/dev", "zero"), ("/proc/self", "status"), ("/sys/kernel", "mm")]
    {
        let outcome = OsFs.read(Path::new(root), Path::new(name), 100);
        assert!(
            matches!(outcome, Err(ReadError::NotRegular | ReadError::Link)),
            "{root}/{name}: {outcome:?}"
        );
    }
    let machine = Machine::with(&["d/file", "d/e/file"]);
    machine.link("file", "d/link");
    machine.link("e", "d/dir");
    machine.link("d", "door");
    fifo(&machine.path("d/fifo"));
    let read = |root: &str, name: &str| OsFs.read(&machine.path(root), Path::new(name), 100);
    assert!(matches!(read("d", "link"), Err(ReadError::Link)));
    assert!(matches!(read("d", "dir/file"), Err(ReadError::Link)));
    assert!(matches!(read("door", "file"), Err(ReadError::Link)));
    assert!(matches!(read("d", "fifo"), Err(ReadError::NotRegular)));
    assert!(matches!(read("d", "e"), Err(ReadError::NotRegular)));
    assert!(matches!(read("d", "none"), Err(ReadError::Absent)));
    assert!(matches!(read("d", "file/x"), Err(ReadError::Absent)));
    for outside in ["../d/file", "/etc/hostname", "", ".", "e/../file"] {
        assert!(matches!(read("d", outside), Err(ReadError::OutOfScope)), "{outside}");
    }
    assert_eq!(read("d", "e/file").unwrap().bytes, b"text of d/e/file\n");
}

#[test]
fn the_limit_is_exact_and_a_huge_sparse_file_costs_nothing() {
    let machine = Machine::with(&["d/file=12345"]);
    let read = |limit| OsFs.read(&machine.path("d"), Path::new("file"), limit);
    assert_eq!(read(5).unwrap().bytes, b"12345");
    assert!(matches!(read(4), Err(ReadError::TooLarge { limit: 4 })));

    let sparse = std::fs::File::create(machine.path("home/proj/CLAUDE.md")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let (key, message, _) = refused(machine.claude("home/proj"));
    assert_eq!(key, "instructions-failed/too-many");
    assert_eq!(
        message,
        "claude:project/CLAUDE.md is larger than the 8388608 bytes that are left of 8388608 for all documents"
    );
}

#[test]
fn the_limits_of_a_snapshot_hold() {
    let machine = Machine::new();
    for n in 0..=DOCUMENTS_MAX {
        machine.write(&format!("home/proj/.claude/rules/{n:04}.md"), "x");
    }
    let (key, message, _) = refused(machine.claude("home/proj"));
    assert_eq!(key, "instructions-failed/too-many");
    assert_eq!(message, "claude:project/.claude/rules/0256.md is one document more than 256");

    let machine = Machine::new();
    for n in 0..=RULE_ENTRIES_MAX {
        machine.write(&format!("home/proj/.claude/rules/{n:04}.txt"), "x");
    }
    let (key, message, _) = refused(machine.claude("home/proj"));
    assert_eq!(key, "instructions-failed/too-many");
    assert_eq!(
        message,
        "claude:project/.claude/rules holds too much: more than 4096 entries, or deeper than 32 directories"
    );

    let machine = Machine::new();
    machine.write(&format!("home/proj/.claude/rules/{}r.md", "d/".repeat(32)), "x");
    assert_eq!(refused(machine.claude("home/proj")).0, "instructions-failed/too-many");
}

#[test]
fn a_thousand_nested_directories_are_walked_and_more_are_refused() {
    let machine = Machine::with(&["home/proj/CLAUDE.md", "home/proj/AGENTS.md"]);
    let deep = format!("home/proj{}", "/d".repeat(1000));
    machine.write(&format!("{deep}/CLAUDE.md"), "deepest");
    machine.write(&format!("{deep}/AGENTS.md"), "deepest");
    assert_eq!(machine.claude(&deep).unwrap().documents.len(), 2);
    assert_eq!(machine.codex(&deep).unwrap().documents.len(), 2);
    let deeper = format!("{deep}{}", "/d".repeat(24));
    std::fs::create_dir_all(machine.path(&deeper)).unwrap();
    let (key, message, _) = refused(machine.claude(&deeper));
    assert_eq!(key, "instructions-failed/too-many");
    assert!(message.ends_with("directories lead here, more than 1024"), "{message}");
}

#[test]
fn names_are_shown_escaped_and_stay_different() {
    let machine = Machine::new();
    for name in ["a\nb.md", "a\x1b[31m.md", "a\u{202e}.md", "e\u{301}.md", "\u{e9}.md", "a\\nb.md"] {
        machine.write(&format!("home/proj/.claude/rules/{name}"), "x");
    }
    let snapshot = machine.claude("home/proj").unwrap();
    assert_eq!(
        mandatory(&snapshot),
        [
            "claude:project/.claude/rules/a\\u{a}b.md",
            "claude:project/.claude/rules/a\\u{1b}[31m.md",
            "claude:project/.claude/rules/a\\\\nb.md",
            "claude:project/.claude/rules/a\\u{202e}.md",
            "claude:project/.claude/rules/e\u{301}.md",
            "claude:project/.claude/rules/\u{e9}.md",
        ]
    );
}

#[test]
fn a_name_that_is_not_text_is_shown_byte_by_byte() {
    use std::os::unix::ffi::OsStrExt as _;
    let machine = Machine::with(&["home/proj/.claude/rules/a.md"]);
    let name = std::ffi::OsStr::from_bytes(b"\xff.md");
    std::fs::write(machine.path("home/proj/.claude/rules").join(name), "x").unwrap();
    let snapshot = machine.claude("home/proj").unwrap();
    assert_eq!(mandatory(&snapshot)[1], "claude:project/.claude/rules/\\xff.md");
}

#[test]
fn hard_links_are_allowed() {
    let machine = Machine::with(&["home/real.md=shared"]);
    std::fs::hard_link(machine.path("home/real.md"), machine.path("home/proj/CLAUDE.md")).unwrap();
    assert_eq!(mandatory(&machine.claude("home/proj").unwrap()), ["claude:project/CLAUDE.md"]);
}

#[test]
fn text_that_is_not_utf8_is_refused_with_its_offset() {
    let machine = Machine::new();
    machine.write("home/proj/CLAUDE.md", b"\xef\xbb\xbfab\xffcanary");
    let (key, message, advice) = refused(machine.claude("home/proj"));
    assert_eq!(key, "instructions-failed/non-utf8");
    assert_eq!(message, "claude:project/CLAUDE.md is not UTF-8 at byte 5");
    assert_eq!(advice, format!("Save it as UTF-8, {LOOK}"));
}

#[test]
fn what_cannot_be_looked_at_or_read_is_never_taken_for_absent() {
    let machine = Machine::with(&["home/proj/CLAUDE.md", "home/proj/.claude/rules/r.md", "home/CLAUDE.md"]);
    for (path, id) in [
        ("home/CLAUDE.md", "claude:ancestor-1/CLAUDE.md"),
        ("home/proj/CLAUDE.md", "claude:project/CLAUDE.md"),
        ("home/proj/CLAUDE.local.md", "claude:project/CLAUDE.local.md"),
        ("home/proj/.claude/rules", "claude:project/.claude/rules"),
    ] {
        let broken =
            Broken { path: machine.path(path), kind: Some(io::ErrorKind::PermissionDenied), read: None };
        let fs = Jail { root: machine.root.clone(), inner: broken };
        let (key, message, advice) = refused(machine.snapshot_on(&fs, InstructionHost::Claude, "home/proj"));
        assert_eq!(key, "instructions-failed/unreadable");
        assert_eq!(message, format!("{id}: cannot be read: permission denied"));
        assert!(advice.ends_with(LOOK), "{advice}");
    }
}

#[test]
fn each_fault_of_a_read_has_its_own_detail() {
    let machine = Machine::with(&["home/proj/AGENTS.md"]);
    let cases: [(&(dyn Fn() -> ReadError + Send + Sync), &str); 8] = [
        (&|| ReadError::Absent, "changed"),
        (&|| ReadError::Link, "symlink"),
        (&|| ReadError::NotRegular, "not-regular"),
        (&|| ReadError::TooLarge { limit: 1 }, "too-many"),
        (&|| ReadError::Replaced, "replaced"),
        (&|| ReadError::Changed, "changed"),
        (&|| ReadError::OutOfScope, "out-of-scope"),
        (&|| ReadError::Io(io::ErrorKind::PermissionDenied.into()), "unreadable"),
    ];
    for host in [InstructionHost::Claude, InstructionHost::Codex] {
        for (read, detail) in cases {
            let broken = Broken { path: machine.path("home/proj/AGENTS.md"), kind: None, read: Some(read) };
            let fs = Jail { root: machine.root.clone(), inner: broken };
            let (key, message, advice) = refused(machine.snapshot_on(&fs, host, "home/proj"));
            assert_eq!(key, format!("instructions-failed/{detail}"));
            assert!(message.starts_with(&format!("{}:project/AGENTS.md", host.as_str())), "{message}");
            assert!(advice.contains("agentspine "), "{advice}");
            assert!(!message.contains(machine.root.to_str().unwrap()), "{message}");
        }
    }
}

#[test]
fn a_file_without_permission_is_refused() {
    let machine = Machine::with(&["home/proj/CLAUDE.md"]);
    let path = machine.path("home/proj/CLAUDE.md");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o0)).unwrap();
    // Root reads everything: there the fault cannot be made.
    if std::fs::File::open(&path).is_err() {
        assert_eq!(refused(machine.claude("home/proj")).0, "instructions-failed/unreadable");
    }
}

#[test]
fn an_edit_that_keeps_size_and_time_is_seen() {
    let machine = Machine::with(&["home/proj/CLAUDE.md=first"]);
    let path = machine.path("home/proj/CLAUDE.md");
    let before = machine.claude("home/proj").unwrap();
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    std::fs::write(&path, "other").unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    let after = machine.claude("home/proj").unwrap();
    assert_ne!(before.documents[0].sha256, after.documents[0].sha256);
    // The same bytes in another file are another identity.
    std::fs::rename(machine.write("home/proj/new", "other"), &path).unwrap();
    let replaced = machine.claude("home/proj").unwrap();
    assert_eq!(replaced.documents[0].sha256, after.documents[0].sha256);
    assert_ne!(replaced.documents[0].identity, after.documents[0].identity);
}

/// Swaps two paths for as long as snapshots are taken; whatever is read must come from the project.
fn race(machine: &Machine, rounds: usize, swap: impl Fn() + Sync) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                swap();
            }
        });
        for _ in 0..rounds {
            if let Ok(snapshot) = machine.claude("home/proj") {
                assert!(
                    snapshot.documents.iter().all(|d| !d.text.contains("canary")),
                    "foreign bytes were read"
                );
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_racing_swap_of_file_and_link_never_lets_foreign_bytes_in() {
    let machine = Machine::with(&["secret.md=canary", "home/proj/CLAUDE.md=own"]);
    let (file, link) =
        (machine.path("home/proj/CLAUDE.md"), machine.link("../../secret.md", "home/proj/link"));
    let own = machine.path("home/proj/own");
    race(&machine, 1000, || {
        let _ = std::fs::rename(&file, &own).and_then(|()| std::fs::rename(&link, &file));
        let _ = std::fs::rename(&file, &link).and_then(|()| std::fs::rename(&own, &file));
    });
}

#[test]
fn a_racing_swap_of_directories_never_lets_foreign_bytes_in() {
    let machine = Machine::with(&["secret/CLAUDE.md=canary", "home/proj/.claude/CLAUDE.md=own"]);
    let (dir, link) = (machine.path("home/proj/.claude"), machine.link("../../secret", "home/proj/link"));
    let own = machine.path("home/proj/own");
    race(&machine, 1000, || {
        let _ = std::fs::rename(&dir, &own).and_then(|()| std::fs::rename(&link, &dir));
        let _ = std::fs::rename(&dir, &link).and_then(|()| std::fs::rename(&own, &dir));
    });
}

#[test]
fn a_file_that_grows_while_it_is_read_is_whole_or_refused() {
    // Versions of 16 bytes: a write that crosses a page becomes visible in two parts, and between them nothing tells
    // the half from a whole.
    let machine = Machine::with(&["home/proj/CLAUDE.md=0123456789abcdef"]);
    let path = machine.path("home/proj/CLAUDE.md");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use std::io::Write as _;
            let mut file = std::fs::File::options().append(true).open(&path).unwrap();
            for _ in 0..20_000 {
                if done.load(Ordering::Relaxed) {
                    return;
                }
                file.write_all(b"0123456789abcdef").unwrap();
            }
        });
        for _ in 0..100 {
            match machine.claude("home/proj") {
                Ok(snapshot) => {
                    let length = snapshot.documents[0].text.len();
                    assert_eq!(length % 16, 0, "a torn write was taken for a version");
                }
                Err(refusal) => assert_eq!(refusal.key(), "instructions-failed/changed"),
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}
