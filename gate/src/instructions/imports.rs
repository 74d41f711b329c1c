//! Where a Markdown text imports another file (`@path`), by the rules measured on Claude Code.

use std::collections::HashSet;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Tag, TagEnd};

use super::render::markdown;

/// How many files away from its document an import is still loaded.
pub(super) const HOPS_MAX: usize = 4;
/// Most different imports of one document.
pub const IMPORTS_MAX: usize = 4096;

/// Names that are never text: the host loads text files only.
const BINARY_EXTENSIONS: [&str; 31] = [
    "7z", "avi", "avif", "bmp", "bz2", "class", "dll", "docx", "exe", "gif", "gz", "heic", "ico", "jar",
    "jpeg", "jpg", "mov", "mp3", "mp4", "pdf", "png", "pptx", "so", "tar", "tiff", "wasm", "wav", "webp",
    "xlsx", "xz", "zip",
];

/// The imported paths of a text, in order, each once, as written.
///
/// An `@` counts where it starts a text or follows white space: not in code, HTML, link targets, or after a backslash.
/// The path runs to the next white space (`\ ` is a blank in it); a `#fragment` is cut off.
pub(super) fn imports(text: &str) -> Vec<String> {
    let mut seen = HashSet::new();
    let mut found = Vec::new();
    if !text.contains('@') {
        return found;
    }
    for run in text_runs(text) {
        let Some(run_text) = text.get(run.range.clone()) else { continue };
        for (at, _) in run_text.match_indices('@') {
            let before = run_text.get(..at).and_then(|head| head.chars().next_back());
            let starts = before.map_or(run.starts, char::is_whitespace);
            let path = run_text.get(at + 1..).map(path_of).filter(|path| starts && !path.is_empty());
            found.extend(path.filter(|path| seen.insert(path.clone())));
        }
    }
    found
}

/// A stretch of plain text. `starts` = an `@` at its beginning counts.
struct Run {
    range: Range<usize>,
    starts: bool,
}

/// Plain text outside code and HTML; the parser's pieces are joined where they touch in the source.
fn text_runs(text: &str) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    let (mut in_code, mut joins) = (false, false);
    for (event, range) in markdown(text).into_offset_iter() {
        match event {
            Event::Start(Tag::CodeBlock(_)) => in_code = true,
            Event::End(TagEnd::CodeBlock) => in_code = false,
            Event::Text(_) if !in_code => {
                let escaped = text.get(..range.start).is_some_and(|head| head.ends_with('\\'));
                match runs.last_mut().filter(|last| joins && last.range.end == range.start) {
                    Some(last) => last.range.end = range.end,
                    None => runs.push(Run { range, starts: !escaped }),
                }
                joins = true;
                continue;
            }
            _ => {}
        }
        joins = false;
    }
    runs
}

fn path_of(text: &str) -> String {
    let mut path = String::new();
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' if rest.next_if_eq(&' ').is_some() => path.push(' '),
            '\\' | '#' => break,
            // `@@name` is no import; neither is a name that begins with another mark of address.
            '@' if path.is_empty() => break,
            c if c.is_whitespace() => break,
            c => path.push(c),
        }
    }
    path
}

/// The absolute path an import means: relative to the importing file, `~/` below home, `..` resolved by text as the
/// host does.
pub(super) fn resolve(import: &str, importer_dir: &Path, home: &Path) -> PathBuf {
    let joined = match import.strip_prefix("~/") {
        Some(rest) => home.join(rest.trim_start_matches('/')),
        None => importer_dir.join(import),
    };
    let mut path = PathBuf::new();
    for component in joined.components() {
        match component {
            Component::ParentDir => {
                path.pop();
            }
            Component::CurDir => {}
            other => path.push(other),
        }
    }
    path
}

/// Whether the name says that the file is no text.
pub(super) fn is_binary_name(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str()).map(str::to_ascii_lowercase);
    extension.is_some_and(|extension| BINARY_EXTENSIONS.binary_search(&extension.as_str()).is_ok())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{BINARY_EXTENSIONS, imports, resolve};

    #[test]
    fn an_import_is_recognised_exactly_where_the_client_does() {
        for (text, expected) in [
            ("@a.md", &["a.md"][..]),
            ("see @a.md now", &["a.md"]),
            ("line\n@a.md\n@b.md", &["a.md", "b.md"]),
            ("# @a.md", &["a.md"]),
            ("- @a.md\n- [ ] @b.md", &["a.md", "b.md"]),
            ("> @a.md", &["a.md"]),
            ("| x | y |\n|---|---|\n| @a.md | @b.md |", &["a.md", "b.md"]),
            ("**@a.md** and **see @b.md here**", &["a.md", "b.md"]),
            ("@my_long_name.md", &["my_long_name.md"]),
            ("@a[1].md", &["a[1].md"]),
            ("@my\\ file.md rest", &["my file.md"]),
            ("@a.md#part", &["a.md"]),
            ("@~/a.md @/b.md @./c @../d", &["~/a.md", "/b.md", "./c", "../d"]),
            ("@~/a.md @~/b.md", &["~/a.md", "~/b.md"]),
            ("@a.md, @b.md.", &["a.md,", "b.md."]),
            ("@a.md @a.md", &["a.md"]),
            ("(@a.md)", &[]),
            ("\"@a.md\"", &[]),
            ("me@a.md", &[]),
            ("-@a.md", &[]),
            ("\\@a.md", &[]),
            ("see \\@a.md", &[]),
            ("@@a.md", &[]),
            ("`@a.md` and ``see @b.md``", &[]),
            ("```\n@a.md\n```\n~~~\n@b.md\n~~~", &[]),
            ("    @a.md", &[]),
            ("<!-- @a.md -->\n\nx <!-- @b.md --> y", &[]),
            ("[x](@a.md) ![y](@b.png) [z][r]\n\n[r]: @c.md", &[]),
            ("@", &[]),
            ("@ a.md", &[]),
            ("", &[]),
        ] {
            assert_eq!(imports(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_path_is_resolved_by_its_text() {
        let (dir, home) = (Path::new("/p/docs"), Path::new("/home/u"));
        for (import, expected) in [
            ("a.md", "/p/docs/a.md"),
            ("./a.md", "/p/docs/a.md"),
            ("../a.md", "/p/a.md"),
            ("../../../../a.md", "/a.md"),
            ("~/a.md", "/home/u/a.md"),
            ("~//etc/x", "/home/u/etc/x"),
            ("~user", "/p/docs/~user"),
            ("/x/y", "/x/y"),
        ] {
            assert_eq!(resolve(import, dir, home), Path::new(expected), "{import}");
        }
    }

    #[test]
    fn the_extension_table_is_sorted() {
        assert!(BINARY_EXTENSIONS.is_sorted());
    }
}
