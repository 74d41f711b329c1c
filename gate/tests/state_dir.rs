//! The state directory is private, local, outside every project, and made that way.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

mod common;

use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use agentspine_gate::Detail;
use agentspine_gate::journal::Vault;
use agentspine_gate::state_dir::StateDir;

fn refused(root: &Path, project: Option<&Path>) -> String {
    let refusal = StateDir::open(root, project).unwrap_err();
    assert_eq!(refusal.detail, Detail::StateDir);
    assert!(!refusal.message.contains('/'), "{}", refusal.message);
    refusal.advice
}

#[test]
fn it_is_made_with_all_its_folders_and_only_for_its_user() {
    let temp = tempfile::tempdir().unwrap();
    let dir = StateDir::open(temp.path().join("a/b/agentspine"), Some(&temp.path().join("."))).err();
    assert!(dir.is_some(), "inside the project");
    let dir = StateDir::open(temp.path().join("a/b/agentspine"), None).unwrap();
    for path in [dir.root().to_owned(), dir.gate_dir(), dir.run_dir(), dir.log_dir()] {
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o700, "{}", path.display());
    }
    assert_eq!(dir.keyring(), dir.root().join("gate/keyring.json"));
    StateDir::open(temp.path().join("a/b/agentspine"), None).unwrap();
}

#[test]
fn it_is_refused_inside_a_project_also_by_way_of_a_link() {
    let temp = tempfile::tempdir().unwrap();
    let project = temp.path().join("project");
    std::fs::create_dir_all(project.join("deep")).unwrap();
    symlink(&project, temp.path().join("link")).unwrap();
    for root in ["project", "project/state", "project/deep/x/y", "link/state"] {
        let advice = refused(&temp.path().join(root), Some(&project));
        assert!(advice.contains("AGENTSPINE_STATE_DIR"));
    }
    assert_eq!(project.read_dir().unwrap().count(), 1, "nothing was written into the project");
    // A project in which the name merely begins alike is another directory.
    StateDir::open(temp.path().join("project-state"), Some(&project)).unwrap();
}

#[test]
fn a_loose_mode_a_link_a_file_or_another_owner_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("agentspine");
    let dir = StateDir::open(&root, None).unwrap();
    for (path, mode) in [(root.clone(), 0o777), (root.clone(), 0o750), (dir.gate_dir(), 0o701)] {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        assert!(refused(&root, None).starts_with("Run `chmod 700 "));
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o700)).unwrap();
    }
    let link = temp.path().join("link");
    symlink(&root, &link).unwrap();
    refused(&link, None);
    std::fs::write(temp.path().join("file"), "").unwrap();
    refused(&temp.path().join("file"), None);
    refused(Path::new("relative"), None);
    if chown(&root, Some(65_534), None).is_ok() {
        refused(&root, None);
    }
}

#[test]
fn a_vault_whose_directory_was_swapped_for_a_link_is_refused() {
    let home = common::Home::new();
    drop(home.vault());
    let elsewhere = home.spare("gate");
    std::fs::rename(home.dir.gate_dir(), &elsewhere).unwrap();
    symlink(&elsewhere, home.dir.gate_dir()).unwrap();
    assert_eq!(StateDir::open(home.dir.root(), None).unwrap_err().detail, Detail::StateDir);
    // SQLite itself refuses a path with a link in it.
    assert_eq!(home.refused(), Detail::JournalIo);
}

/// Runs `reader` below as another user, for whom modes count; root ignores them. `None` where that cannot be done.
fn as_nobody(root: &Path) -> Option<String> {
    let done = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(std::env::current_exe().ok()?)
        .args(["--exact", "reader", "--nocapture"])
        .env("STATE_DIR_READER", root)
        .output()
        .ok()?;
    let text = String::from_utf8(done.stdout).ok()?;
    text.split_once("<saw ")?.1.split_once('>').map(|(saw, _)| saw.to_owned())
}

#[test]
#[allow(clippy::disallowed_methods, clippy::print_stdout)]
fn reader() {
    let Some(root) = std::env::var_os("STATE_DIR_READER").map(PathBuf::from) else { return };
    let (_, seams) = common::seams();
    let saw = StateDir::open(root, None).and_then(|dir| Vault::open(&dir, &seams));
    println!("<saw {}>", saw.map_or_else(|refusal| refusal.key(), |_| "a vault".to_owned()));
}

#[test]
fn a_directory_that_may_not_be_written_refuses_and_nothing_is_written_elsewhere() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::set_permissions(temp.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let root = temp.path().join("agentspine");
    std::fs::create_dir(&root).unwrap();
    std::fs::set_permissions(&root, PermissionsExt::from_mode(0o700)).unwrap();
    if chown(&root, Some(65_534), Some(65_534)).is_err() {
        return;
    }
    let Some(saw) = as_nobody(&root) else { return };
    assert_eq!(saw, "a vault");
    for (name, mode, expected) in [
        ("gate", 0o500, "preflight-failed/state-dir"),
        ("gate/journal.sqlite", 0o400, "receipt-failed/journal-io"),
        ("gate/anchor", 0o400, "receipt-failed/journal-io"),
        ("gate/keyring.json", 0o000, "receipt-failed/key-mode"),
        ("gate", 0o000, "preflight-failed/state-dir"),
        (".", 0o000, "preflight-failed/state-dir"),
    ] {
        let path = root.join(name);
        let before = path.metadata().unwrap().permissions();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        assert_eq!(as_nobody(&root).as_deref(), Some(expected), "{name} {mode:o}");
        std::fs::set_permissions(&path, before).unwrap();
    }
    // A first start in a directory that may not be written.
    std::fs::remove_dir_all(root.join("gate")).unwrap();
    std::fs::set_permissions(&root, PermissionsExt::from_mode(0o500)).unwrap();
    assert_eq!(as_nobody(&root).as_deref(), Some("preflight-failed/state-dir"));
    assert_eq!(temp.path().read_dir().unwrap().count(), 1);
}
