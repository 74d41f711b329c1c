//! Claude Code's notes on a project: `MEMORY.md`, an index or notes in free form, and a file a topic beside it, with or
//! without a head that names it.

use super::markdown::{self, Block};
use super::{Draft, Item, Place, Reach, SourceFile, What, fitting, rule};
use crate::record::{Kind, Trust};
use crate::tools::claim;

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
        Some(head) if !is_index(&file.name) && !head.is_bare() => topic(&head, file, all, &place(1)),
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
fn topic(head: &Head<'_>, file: &SourceFile, all: &[SourceFile], at: &Place) -> Vec<Item> {
    let body = head.body.trim();
    let mut summary = match (head.description, body) {
        (text, "") | ("", text) => text.to_owned(),
        (description, body) if body.contains(description) => body.to_owned(),
        (description, body) => format!("{description}\n\n{body}"),
    };
    // What the index says of it stays with it.
    for hook in all.iter().filter(|index| is_index(&index.name)).flat_map(|index| hooks(index, &file.name)) {
        if !summary.contains(hook) && !head.name.contains(hook) {
            summary = format!("{summary}\n\n{hook}");
        }
    }
    let title = [head.name, head.description, stem(&file.name)].into_iter().find(|text| !text.is_empty());
    let title = title.unwrap_or_default().to_owned();
    if summary.is_empty() {
        return vec![left(at, "it has a head and no text")];
    }
    let kind = imperative(body).unwrap_or("rule");
    if head.sort == "feedback"
        && let what @ What::Rule(_) = rule(kind, &claim(&title, &summary), Reach::Here)
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
    // A rule without the headings above it would reach further than it was meant.
    let headings = block.headings.join(" / ");
    if let Some(kind) = imperative(&block.text)
        && let what @ What::Rule(_) = rule(kind, &claim(&headings, &block.text), Reach::Here)
    {
        return vec![Item { at, what, ignored: Vec::new() }];
    }
    let title = if headings.is_empty() { stem(&file.name).to_owned() } else { headings };
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

/// The file that a line of the index stands for, where that file is taken as one note, the line's words with it.
fn pointer(text: &str, from: &SourceFile, all: &[SourceFile]) -> Option<String> {
    let (target, _) = link(text)?;
    let path = beside(&from.name, target);
    let file = all.iter().find(|file| is_index(&from.name) && file.name == path && !is_index(&file.name))?;
    Head::of(&file.text).filter(|head| !head.is_bare()).map(|_| path)
}

/// What an index says of a file beside it.
fn hooks<'a>(index: &'a SourceFile, name: &str) -> Vec<&'a str> {
    let links = index.text.lines().filter_map(|line| link(line.trim_start_matches(['-', '*', '+', ' '])));
    let here = links.filter(|(target, _)| beside(&index.name, target) == name);
    here.map(|(_, hook)| hook).filter(|hook| !hook.is_empty()).collect()
}

/// Target and description of a line that begins with a link.
fn link(text: &str) -> Option<(&str, &str)> {
    let (_, rest) = text.strip_prefix('[')?.split_once("](")?;
    let (target, hook) = rest.split_once(')')?;
    Some((target, hook.trim_start_matches(['-', '–', '—', ':', ' ']).trim()))
}

/// A target as a name below the imported folder.
fn beside(from: &str, target: &str) -> String {
    let named = target.strip_prefix("./").unwrap_or(target);
    from.rsplit_once('/').map_or_else(|| named.to_owned(), |(folder, _)| format!("{folder}/{named}"))
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
