//! The documents say what the program does.

use agentspine_gate::Detail;

use crate::support::{Home, root};

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
    let (readme, help) = (read("README.md"), Home::new().ok(&["--help"]));
    let commands = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let rows = commands.lines().filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names: Vec<&str> = rows.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 13, "{names:?}");
    for name in names.into_iter().filter(|name| *name != "help") {
        assert!(readme.contains(&format!("`{name}")), "{name}");
    }
}

#[test]
fn the_readme_names_every_key_of_the_configuration() {
    let readme = read("README.md");
    let home = Home::new();
    for table in ["", "[compaction]\n", "[identity]\n", "[http]\n", "[ui]\n"] {
        home.write(".config/agentspine/config.toml", &format!("{table}no_such_key = 1\n"));
        let told = home.run(&["sessions", "list"]).err;
        let keys: Vec<&str> = told.lines().next().unwrap().split('`').skip(3).step_by(2).collect();
        assert!(!keys.is_empty(), "{told}");
        for key in keys {
            let line = |line: &str| {
                let line = line.trim_start_matches(['#', ' ']);
                line.starts_with(&format!("{key} = ")) || line.starts_with(&format!("[{key}]"))
            };
            assert!(readme.lines().any(line), "{key}");
        }
    }
}
