//! The documents say what the program does.

use agentspine_gate::Detail;

use crate::support::root;

fn read(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap()
}

#[test]
fn every_code_and_detail_of_a_refusal_stands_in_the_readme() {
    let readme = read("README.md");
    for (code, detail) in Detail::table() {
        let row = readme
            .lines()
            .find(|line| line.starts_with(&format!("| `{}`", code.as_str())))
            .unwrap_or_default();
        let words: Vec<&str> = row.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).collect();
        assert!(words.contains(&detail), "{}/{detail} is missing in the README", code.as_str());
        assert!(row.contains(&format!("| {} |", code.exit_code())), "exit code of {}", code.as_str());
    }
}

#[test]
fn every_link_of_the_documents_leads_somewhere() {
    for name in ["README.md", "SECURITY.md", "CHANGELOG.md"] {
        for target in read(name).split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let file = target.split('#').next().unwrap();
            let outside = file.is_empty() || file.contains("://") || file.starts_with("screenshots/");
            assert!(outside || root().join(file).exists(), "{name} links to {target}");
        }
    }
}

#[test]
fn the_readme_names_every_command() {
    let readme = read("README.md");
    for command in [
        "chat",
        "instructions",
        "preflight-policy",
        "preflight-status",
        "remember-propose",
        "remember-confirm",
        "remember-list",
        "remember-rollback",
        "remember-purge",
        "receipts",
        "state",
        "sessions",
        "doctor",
    ] {
        assert!(readme.contains(&format!("`{command}")), "{command}");
    }
}
