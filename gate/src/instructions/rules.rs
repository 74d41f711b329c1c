//! Claude's rule files: which of them wait for a matching path, and how their trees are walked.

use std::path::{Path, PathBuf};

use saphyr::{LoadableYamlNode as _, Yaml};

use super::render::split_frontmatter;
use super::walk::{Spot, Walk};
use crate::failure::{Detail, Refusal};
use crate::seams::{Kind, is_absent};

/// Most entries looked at in all rule trees of a snapshot.
pub const RULE_ENTRIES_MAX: usize = 4096;
/// Deepest rule tree, in directories.
pub const RULE_DEPTH_MAX: usize = 32;

/// Whether a rule's frontmatter makes it wait for a file that matches its `paths`.
///
/// Forms: a list, a flow list, a scalar, a comma-separated string. Nothing, or nothing but `**`, is unconditional, and
/// so is frontmatter that is not YAML: the rule is then bound rather than lost.
pub(super) fn is_conditional(text: &str) -> bool {
    let Some(front) = split_frontmatter(text).0 else { return false };
    let documents = Yaml::load_from_str(front).unwrap_or_default();
    let paths = documents.first().and_then(|document| document.as_mapping_get("paths"));
    let Some(paths) = paths else { return false };
    let globs: Vec<&str> = match paths.as_vec() {
        Some(list) => list.iter().filter_map(Yaml::as_str).collect(),
        None => paths.as_str().into_iter().flat_map(|text| text.split(',')).collect(),
    };
    globs.iter().map(|glob| glob.trim()).any(|glob| !glob.is_empty() && glob != "**")
}

/// The rule files below a spot, sorted by bytes in each directory, depth first. (The host takes the directory's raw
/// order, which no program can promise.) A link that the host would follow is followed only where it is allowed.
pub(super) fn tree(walk: &Walk<'_>, top: &Spot, entries_left: &mut usize) -> Result<Vec<Spot>, Refusal> {
    let mut found = Vec::new();
    descend(walk, top, entries_left, 0, &mut found)?;
    Ok(found)
}

fn descend(
    walk: &Walk<'_>,
    top: &Spot,
    entries_left: &mut usize,
    depth: usize,
    found: &mut Vec<Spot>,
) -> Result<(), Refusal> {
    let Some((place, Kind::Dir)) = walk.locate(top)? else { return Ok(()) };
    let too_many = || {
        let limits =
            format!("more than {RULE_ENTRIES_MAX} entries, or deeper than {RULE_DEPTH_MAX} directories");
        let advice = walk.look("Move what is no rule elsewhere");
        Refusal::new(Detail::TooMany, format!("{} holds too much: {limits}", top.id), advice)
    };
    if depth == RULE_DEPTH_MAX {
        return Err(too_many());
    }
    let entries = match walk.fs.entries(&place.path(), *entries_left) {
        Ok(entries) => entries,
        Err(error) if is_absent(&error) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => return Err(too_many()),
        Err(error) => return Err(walk.refuse_read(top, &error.into())),
    };
    *entries_left = entries_left.saturating_sub(entries.len());
    for (name, kind) in entries {
        let is_rule = Path::new(&name).extension().is_some_and(|extension| extension == "md");
        let entry = below(top, &PathBuf::from(name));
        match kind {
            Kind::Dir => descend(walk, &entry, entries_left, depth + 1, found)?,
            Kind::Link if leads_to_directory(walk, &entry.path()) => {
                descend(walk, &entry, entries_left, depth + 1, found)?;
            }
            Kind::File | Kind::Link | Kind::Other if is_rule => found.push(entry),
            Kind::File | Kind::Link | Kind::Other => {}
        }
    }
    Ok(())
}

fn leads_to_directory(walk: &Walk<'_>, link: &Path) -> bool {
    let target = walk.fs.canonicalize(link);
    target.is_ok_and(|target| matches!(walk.fs.kind(&target), Ok(Some(Kind::Dir))))
}

/// The spot of an entry below a directory's spot.
pub(super) fn below(top: &Spot, name: &Path) -> Spot {
    let id = format!("{}/{}", top.id, super::id::shown(name));
    Spot { id, layer: top.layer, root: top.root.clone(), relative: top.relative.join(name) }
}

#[cfg(test)]
mod tests {
    use super::is_conditional;

    #[test]
    fn only_paths_that_name_something_make_a_rule_wait() {
        for (front, expected) in [
            ("paths:\n  - \"src/**\"\n  - docs/*.md", true),
            ("paths: [\"src/**\"]", true),
            ("paths: src/**", true),
            ("paths: \"src/**, docs/**\"", true),
            ("paths: []", false),
            ("paths: \"**\"", false),
            ("paths: [\"**\"]", false),
            ("paths:", false),
            ("paths: \"\"", false),
            ("globs: src/**", false),
            ("title: x", false),
            ("paths: [unclosed", false),
            ("paths: **/*.ts", false),
            ("- paths", false),
        ] {
            assert_eq!(is_conditional(&format!("---\n{front}\n---\ntext\n")), expected, "{front}");
            let crlf = front.replace('\n', "\r\n");
            assert_eq!(is_conditional(&format!("\u{feff}---\r\n{crlf}\r\n---\r\n")), expected, "{front}");
        }
        assert!(!is_conditional("paths: src/**\n"));
    }
}
