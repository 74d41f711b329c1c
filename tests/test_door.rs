//! The doors that only tests may use are not in the program that people run.

use std::path::{Path, PathBuf};
use std::process::Command;

use agentspine_gate::journal::TEST_DOOR_MARK;

use crate::support::root;

fn tree(package: &str, edges: &str) -> String {
    let args = ["tree", "--locked", "--offline", "-p", package, "-e", edges, "--prefix", "none"];
    let output = Command::new(env!("CARGO")).args(args).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn holds_mark(program: &Path) -> bool {
    let bytes = std::fs::read(program).unwrap();
    bytes.windows(TEST_DOOR_MARK.len()).any(|window| window == TEST_DOOR_MARK.as_bytes())
}

#[test]
fn a_plain_build_does_not_switch_the_test_door_on() {
    assert!(
        tree("agentspine-gate", "normal,dev,features").contains("test-door"),
        "the control finds nothing"
    );
    let plain = tree("agentspine", "normal,build,features");
    assert!(plain.contains("agentspine-gate") && !plain.contains("test-door"), "{plain}");
}

/// The tests' own build of the binary shares the gate that has the door; the binary does not reach it, so the linker
/// leaves it out. A release build stands beside it wherever one was made.
#[test]
fn the_binary_does_not_hold_the_test_door() {
    assert!(holds_mark(&std::env::current_exe().unwrap()), "the control finds nothing");
    let built = PathBuf::from(env!("CARGO_BIN_EXE_agentspine"));
    let release =
        built.parent().and_then(Path::parent).map(|target| target.join("release/agentspine")).unwrap();
    for program in [built, release].iter().filter(|program| program.exists()) {
        assert!(!holds_mark(program), "{} holds the test door", program.display());
    }
}
