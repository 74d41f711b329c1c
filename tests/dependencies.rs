//! The walls: who may know whom, who may spawn, who may read the environment.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use cargo_metadata::{Dependency, DependencyKind, Metadata, MetadataCommand, PackageId};

use crate::support::{root, sources};

/// Allowed arrows between our crates (ARCHITECTURE in the README).
const ARROWS: [(&str, &[&str]); 6] = [
    (
        "agentspine",
        &["agentspine-gate", "agentspine-memory", "agentspine-model", "agentspine-recall", "agentspine-tui"],
    ),
    ("agentspine-gate", &[]),
    ("agentspine-memory", &["agentspine-gate"]),
    ("agentspine-model", &["agentspine-gate"]),
    ("agentspine-recall", &["agentspine-gate", "agentspine-memory"]),
    ("agentspine-tui", &[]),
];

/// What gate must not even reach through others.
const FOREIGN_TO_GATE: [&str; 8] =
    ["tokio", "hyper", "reqwest", "axum", "ratatui", "crossterm", "getrandom", "rustls"];

/// As this machine builds it: without the filter cargo would want every crate of every platform.
fn metadata() -> Metadata {
    let rustc = Command::new("rustc").arg("-vV").current_dir(root()).output().unwrap();
    let version = String::from_utf8(rustc.stdout).unwrap();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let options = ["--locked", "--offline", "--filter-platform", host].map(str::to_owned);
    MetadataCommand::new().manifest_path(root().join("Cargo.toml")).other_options(options).exec().unwrap()
}

/// Names of everything a package is built from, itself left out; development dependencies do not count.
fn closure(metadata: &Metadata, name: &str) -> BTreeSet<String> {
    let nodes: BTreeMap<&PackageId, _> =
        metadata.resolve.as_ref().unwrap().nodes.iter().map(|node| (&node.id, node)).collect();
    let start = metadata.packages.iter().find(|package| package.name.as_str() == name).unwrap();
    let (mut open, mut seen) = (vec![&start.id], BTreeSet::new());
    while let Some(id) = open.pop() {
        for dep in &nodes[id].deps {
            let built = dep.dep_kinds.iter().any(|kind| kind.kind != DependencyKind::Development);
            if built && seen.insert(&dep.pkg) {
                open.push(&dep.pkg);
            }
        }
    }
    seen.iter().map(|id| metadata[*id].name.to_string()).collect()
}

#[test]
fn our_crates_know_each_other_only_along_the_allowed_arrows() {
    let metadata = metadata();
    let allowed: BTreeMap<&str, BTreeSet<&str>> =
        ARROWS.iter().map(|(from, to)| (*from, to.iter().copied().collect())).collect();
    let members: BTreeSet<String> =
        metadata.workspace_packages().iter().map(|p| p.name.to_string()).collect();
    assert_eq!(
        members.iter().map(String::as_str).collect::<BTreeSet<_>>(),
        allowed.keys().copied().collect()
    );
    for package in metadata.workspace_packages() {
        let arrows = package.dependencies.iter().filter(|dep| members.contains(&dep.name));
        for dep in arrows {
            let from = package.name.as_str();
            // A crate whose own tests switch on one of its features names itself.
            let own_tests = dep.name == from && dep.kind == DependencyKind::Development;
            assert!(
                own_tests || allowed[from].contains(dep.name.as_str()),
                "{from} -> {} is not an allowed arrow",
                dep.name
            );
        }
    }
}

#[test]
fn gate_reaches_no_runtime_no_network_no_screen_and_no_randomness() {
    let reached = closure(&metadata(), "agentspine-gate");
    let foreign: Vec<_> = FOREIGN_TO_GATE.iter().filter(|name| reached.contains(**name)).collect();
    assert!(foreign.is_empty(), "gate reaches {foreign:?}");
}

#[test]
fn only_model_has_an_http_client() {
    let metadata = metadata();
    let clients = ["reqwest", "ureq", "isahc", "curl"];
    // The proxy takes the server's half of these alone.
    let halves = ["hyper", "hyper-util"];
    for package in metadata.workspace_packages() {
        let built = package.dependencies.iter().filter(|dep| dep.kind != DependencyKind::Development);
        let is_client = |dep: &&Dependency| {
            let asks = dep.features.iter().any(|feature| feature.contains("client") || feature == "full");
            clients.contains(&dep.name.as_str()) || halves.contains(&dep.name.as_str()) && asks
        };
        let has = built.filter(is_client).count();
        assert!(
            has == 0 || package.name.as_str() == "agentspine-model",
            "{} has an HTTP client",
            package.name
        );
    }
}

/// Every line of code outside tests that holds one of the words, as `file:line`.
fn uses(below: &[&str], words: &[&str], allowed: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for (name, text) in below.iter().flat_map(|folder| sources(folder)) {
        if is_test(&name) || allowed.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        // Unit tests stand at the end of a file.
        let code = text.lines().take_while(|line| *line != "mod tests {");
        for (number, line) in code.enumerate() {
            let line = line.split("//").next().unwrap_or_default();
            if words.iter().any(|word| line.contains(word)) {
                found.push(format!("{name}:{}", number + 1));
            }
        }
    }
    found
}

fn is_test(name: &str) -> bool {
    name.ends_with("/tests.rs")
        || name.contains("/tests/")
        || name.contains("/benches/")
        || name.contains("/examples/")
}

const CODE: [&str; 4] = ["src", "gate/src", "providers", "tui/src"];

#[test]
fn only_recall_spawns_processes() {
    let words = ["process::Command", "Command::new", "tokio::process", "posix_spawn", "fork("];
    // The editor, `api_key_command` and `run` start what the person named; `run` also our own daemon, and `service`
    // speaks to the system's service manager.
    let allowed =
        ["providers/recall/", "src/cli/run", "src/cli/service", "src/chat/editor.rs", "src/compose.rs"];
    assert_eq!(uses(&CODE, &words, &allowed), Vec::<String>::new());
}

#[test]
fn only_the_configuration_reads_the_environment() {
    let words = ["env::var", "env::vars", "env::home_dir", "env::temp_dir", "env::set_var", "option_env!"];
    assert_eq!(uses(&CODE, &words, &["src/config.rs"]), Vec::<String>::new());
}

#[test]
fn gate_has_no_clock_no_randomness_no_network_and_no_process_of_its_own() {
    let words = [
        "SystemTime::now",
        "Instant::now",
        "Timestamp::now",
        "Zoned::now",
        "clock_gettime",
        "getrandom",
        "std::net",
        "std::process",
        "std::env",
        "async fn",
        "tokio",
    ];
    assert_eq!(uses(&["gate/src"], &words, &[]), Vec::<String>::new());
}

#[test]
fn only_the_report_and_the_screen_write_to_the_terminal() {
    let words = ["println!", "eprintln!", "print!(", "io::stdout()", "io::stderr()"];
    // `mcp` speaks a protocol on stdout.
    let allowed = ["src/report.rs", "src/chat/", "src/cli/mcp.rs", "providers/recall/", "tui/src/"];
    assert_eq!(uses(&CODE, &words, &allowed), Vec::<String>::new());
}

#[test]
fn no_file_outgrows_its_room() {
    let long: Vec<_> = CODE
        .iter()
        .flat_map(|folder| sources(folder))
        .filter(|(name, text)| !is_test(name) && text.lines().count() > 500)
        .map(|(name, _)| name)
        .collect();
    assert_eq!(long, Vec::<String>::new());
}

#[test]
fn the_top_level_has_no_further_folders() {
    let known = ["gate", "providers", "screenshots", "src", "target", "tests", "tui"];
    let mut folders: Vec<String> = std::fs::read_dir(root())
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().into_string().unwrap())
        .filter(|name| !name.starts_with('.') && !known.contains(&name.as_str()))
        .collect();
    folders.sort();
    assert_eq!(folders, Vec::<String>::new());
}
