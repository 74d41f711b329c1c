//! One id for one repository.

use agentspine_gate::Digest;

use crate::support::Machine;

fn worktree(machine: &Machine, name: &str, at: &str, relative: bool) {
    let git = format!("home/proj/.git/worktrees/{name}");
    machine.write(&format!("{git}/commondir"), "../..\n");
    let (back, there) = if relative {
        (format!("../../../../../{at}/.git"), format!("../home/proj/.git/worktrees/{name}"))
    } else {
        let back = machine.path(at).join(".git");
        (back.to_str().unwrap().to_owned(), machine.path(&git).to_str().unwrap().to_owned())
    };
    machine.write(&format!("{git}/gitdir"), format!("{back}\n"));
    machine.write(&format!("{at}/.git"), format!("gitdir: {there}\n"));
}

#[test]
fn worktrees_and_linked_paths_share_the_id_of_the_main_checkout() {
    let machine = Machine::with(&["home/proj/sub/file"]);
    worktree(&machine, "w", "elsewhere/w", false);
    machine.link(machine.path("home/proj"), "link");
    let digest = Digest::of(machine.path("home/proj").as_os_str().as_encoded_bytes()).to_hex();
    let expected = format!("project:{}", &digest[..20]);
    for cwd in ["home/proj", "home/proj/sub", "elsewhere/w", "link", "link/sub"] {
        assert_eq!(machine.project_id(cwd).as_str(), expected, "{cwd}");
    }
}

#[test]
fn relative_worktree_pointers_are_understood() {
    let machine = Machine::new();
    worktree(&machine, "w", "w", true);
    // `w/.git` says `../home/...`; the way back leads from home/proj/.git/worktrees/w to the root.
    assert_eq!(machine.project_id("w"), machine.project_id("home/proj"));
}

#[test]
fn a_directory_that_only_claims_to_be_a_worktree_is_a_project_of_its_own() {
    let machine = Machine::new();
    worktree(&machine, "w", "elsewhere/w", false);
    let there = machine.path("home/proj/.git/worktrees/w");
    machine.write("download/.git", format!("gitdir: {}\n", there.display()));
    machine.link(machine.path("home/proj/.git"), "linked/.git");
    for own in ["download", "linked"] {
        let digest = Digest::of(machine.path(own).as_os_str().as_encoded_bytes()).to_hex();
        assert_eq!(machine.project_id(own).as_str(), format!("project:{}", &digest[..20]));
    }
}

#[test]
fn without_a_repository_the_directory_itself_is_the_project() {
    let machine = Machine::with(&["plain/a/file", "broken/.git=nonsense", "module/.git=gitdir: ../none"]);
    for own in ["plain", "plain/a", "broken", "module"] {
        let digest = Digest::of(machine.path(own).as_os_str().as_encoded_bytes()).to_hex();
        assert_eq!(machine.project_id(own).as_str(), format!("project:{}", &digest[..20]));
    }
}
