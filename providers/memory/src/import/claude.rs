//! Claude Code's notes on a project: `MEMORY.md`, an index or notes in free form, and a file a topic beside it, with or
//! without a head that names it.

use super::markdown::{self, Block};
use super::{Draft, Item, Place, Reach, SourceFile, What, fitting, rule};
use crate::record::{Kind, Trust};

/// What the file that is read first is called.
const INDEX: &str = "MEMORY.md";

/// Everything the notes hold, in the order of the files.
pub fn claude(files: &[SourceFile]) -> Vec<Item> {
    files.iter().flat_map(|file| notes(file, files)).collect()
}

fn notes(file: &SourceFile, all: &[SourceFile]) -> Vec<Item> {
    let place = |line| Place { file: file.name.clone(), line };
    let text = file.text.strip_prefix('\u{feff}').unwrap_or(&file.text);
    match Head::of(text) {
        Some(head) if !is_index(&file.name) && !head.is_bare() => topic(&head, file, &place(1)),
        head => {
            let (body, first) = head.map_or((text, 1), |head| (head.body, head.body_line));
            let items = markdown::blocks(body, first);
            items.into_iter().flat_map(|block| item(block, file, all, &place)).collect()
        }
    }
}

fn is_index(name: &str) -> bool {
    name.rsplit('/').next() == Some(INDEX)
}

/// The head of a topic's file, and what follows it.
struct Head<'a> {
    name: &'a str,
    description: &'a str,
    sort: &'a str,
    body: &'a str,
    body_line: usize,
}

impl<'a> Head<'a> {
    fn of(text: &'a str) -> Option<Self> {
        let mut head = Self { name: "", description: "", sort: "", body: "", body_line: 1 };
        let mut lines = text.split_inclusive('\n');
        let mut read = lines.next().filter(|line| line.trim_end() == "---")?.len();
        for (line, number) in lines.zip(2..) {
            read += line.len();
            if line.trim_end() == "---" {
                head.body = text.get(read..).unwrap_or_default();
                head.body_line = number + 1;
                return Some(head);
            }
            let (key, value) = line.split_once(':').unwrap_or_default();
            let value = value.trim().trim_matches(['"', '\'']);
            match key.trim() {
                "name" | "title" => head.name = value,
                "description" => head.description = value,
                "type" => head.sort = value,
                _ => {}
            }
        }
        None
    }

    fn is_bare(&self) -> bool {
        self.name.is_empty() && self.description.is_empty() && self.sort.is_empty()
    }
}

/// A topic's file with a head is one note.
fn topic(head: &Head<'_>, file: &SourceFile, at: &Place) -> Vec<Item> {
    let body = head.body.trim();
    let summary = match (head.description, body) {
        (text, "") | ("", text) => text.to_owned(),
        (description, body) if body.contains(description) => body.to_owned(),
        (description, body) => format!("{description}\n\n{body}"),
    };
    if summary.is_empty() {
        return vec![left(at, "it has a head and no text")];
    }
    let title = [head.name, head.description, stem(&file.name)].into_iter().find(|text| !text.is_empty());
    let title = title.unwrap_or_default().to_owned();
    if head.sort == "feedback"
        && let what @ What::Rule(_) = rule(imperative(body).unwrap_or("rule"), &summary, Reach::Here)
    {
        return vec![Item { at: at.clone(), what, ignored: Vec::new() }];
    }
    let kind = match head.sort {
        "user" | "feedback" => Kind::Preference,
        _ => Kind::Decision,
    };
    let tags = if head.sort.is_empty() { Vec::new() } else { vec![super::cut(head.sort, 40)] };
    fitting(at, draft(kind, title, summary, tags, file))
}

/// An item of notes in free form.
fn item(block: Block, file: &SourceFile, all: &[SourceFile], place: &impl Fn(usize) -> Place) -> Vec<Item> {
    let at = place(block.line);
    if let Some(target) = pointer(&block.text, file, all) {
        return vec![Item { at, what: What::Pointer(target), ignored: Vec::new() }];
    }
    if let Some(kind) = imperative(&block.text)
        && let what @ What::Rule(_) = rule(kind, &block.text, Reach::Here)
    {
        return vec![Item { at, what, ignored: Vec::new() }];
    }
    let title =
        if block.headings.is_empty() { stem(&file.name).to_owned() } else { block.headings.join(" / ") };
    fitting(&at, draft(Kind::Decision, title, block.text, Vec::new(), file))
}

/// The notes are a model's own.
fn draft(kind: Kind, title: String, summary: String, tags: Vec<String>, file: &SourceFile) -> Draft {
    Draft {
        kind,
        title,
        summary,
        tags,
        subject: None,
        trust: Trust::Derived,
        created_at_ms: file.changed_at_ms,
        origin: None,
    }
}

fn left(at: &Place, why: &str) -> Item {
    Item { at: at.clone(), what: What::Left(why.to_owned()), ignored: Vec::new() }
}

/// The file a line of the index stands for, where it is taken itself. A line that says more than a name and a short
/// description is more than a pointer only where its file is missing.
fn pointer(text: &str, from: &SourceFile, all: &[SourceFile]) -> Option<String> {
    let (_, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (target, _) = rest.split_once(')')?;
    let folder = from.name.rsplit_once('/').map_or("", |(folder, _)| folder);
    let named = target.strip_prefix("./").unwrap_or(target);
    let path = if folder.is_empty() { named.to_owned() } else { format!("{folder}/{named}") };
    all.iter().any(|file| file.name == path).then_some(path)
}

fn stem(name: &str) -> &str {
    let base = name.rsplit('/').next().unwrap_or(name);
    base.strip_suffix(".md").unwrap_or(base)
}

/// What an item demands of every turn, in English and German: `rule`, `taboo`, or nothing.
fn imperative(text: &str) -> Option<&'static str> {
    const TABOOS: [&str; 10] =
        ["never", "don't", "do not", "must not", "avoid", "nie", "niemals", "kein", "keine", "vermeide"];
    const RULES: [&str; 7] = ["always", "must", "make sure", "ensure", "immer", "stets", "unbedingt"];
    let start: String = text.chars().take(40).collect::<String>().to_lowercase();
    let start = start.trim_start_matches(|c: char| !c.is_alphanumeric());
    let begins = |word: &&str| {
        let rest = start.strip_prefix(*word);
        rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
    };
    if TABOOS.iter().any(&begins) {
        return Some("taboo");
    }
    RULES.iter().any(begins).then_some("rule")
}
