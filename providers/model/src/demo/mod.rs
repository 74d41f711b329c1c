//! The demo model: embedded, deterministic, and plain about not being a real one.
//!
//! It reads only the admitted body, as a server would, so what it says it was given is what really was in the request.

mod seen;

use std::collections::VecDeque;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::event::{ModelEvent, StopReason};
use crate::summary;
use seen::Seen;

/// The tool it can call.
const SEARCH: &str = "memory_search";
/// What asks for a search, lower-case; English and German.
const TRIGGERS: [&str; 8] = [
    "search memory",
    "search my memory",
    "search the memory",
    "search your memory",
    "such im gedächtnis",
    "suche im gedächtnis",
    "such in deinem gedächtnis",
    "suche in deinem gedächtnis",
];
/// Longest echo of the question, in characters.
const ECHO_CHARS_MAX: usize = 120;
/// Longest echo of what a search found, in characters.
const FOUND_CHARS_MAX: usize = 600;
/// Most ids named of one kind.
const NAMED_MAX: usize = 12;
/// Most entries asked for in a search.
const SEARCH_LIMIT: u64 = 5;

/// The whole answer to a body of the Anthropic shape.
pub(crate) fn answer(body: &[u8]) -> VecDeque<ModelEvent> {
    let Ok(body) = serde_json::from_slice::<Value>(body) else {
        return speak("The demo model could not read the request: it is not JSON.", StopReason::EndTurn);
    };
    let request = Request::read(&body);
    if request.question == summary::REQUEST {
        return speak(&summarise(&body), StopReason::EndTurn);
    }
    match (request.results.as_slice(), wanted_search(&body, &request)) {
        ([], Some(query)) => {
            let mut events = speak("Searching the memory first.", StopReason::ToolUse);
            let input = json!({ "query": query, "limit": SEARCH_LIMIT });
            let call = ModelEvent::ToolUse { id: "demo_search".into(), name: SEARCH.into(), input };
            events.insert(events.len().saturating_sub(1), call);
            events
        }
        ([], None) => speak(&describe(&request), StopReason::EndTurn),
        (results, _) => speak(&report(results, &request), StopReason::EndTurn),
    }
}

/// What matters of a request.
#[derive(Default)]
struct Request<'a> {
    /// The newest human text.
    question: &'a str,
    /// Tool results since then.
    results: Vec<&'a str>,
    /// Injected text of the whole conversation.
    all: Seen,
    /// Injected text of the newest human message.
    newest: Seen,
}

impl<'a> Request<'a> {
    fn read(body: &'a Value) -> Self {
        let mut request = Self::default();
        let messages = body.get("messages").and_then(Value::as_array).into_iter().flatten();
        for message in messages.filter(|message| str_at(message, "role") == "user") {
            request.user_message(message.get("content").and_then(Value::as_array).map_or(&[], Vec::as_slice));
        }
        request
    }

    /// The first text block of a message is the human's, the others were injected.
    fn user_message(&mut self, blocks: &'a [Value]) {
        let of_type = |kind: &'static str| blocks.iter().filter(move |block| str_at(block, "type") == kind);
        self.results.extend(of_type("tool_result").map(|block| str_at(block, "content")));
        let mut texts = of_type("text").map(|block| str_at(block, "text"));
        let Some(question) = texts.next() else { return };
        self.question = question;
        self.results.clear();
        self.newest = Seen::default();
        for injected in texts {
            self.newest.read(injected);
            self.all.read(injected);
        }
    }
}

fn str_at<'a>(value: &'a Value, member: &str) -> &'a str {
    value.get(member).and_then(Value::as_str).unwrap_or_default()
}

/// The search the question asks for, if the tool is there.
fn wanted_search(body: &Value, request: &Request<'_>) -> Option<String> {
    let tools = body.get("tools")?.as_array()?;
    tools.iter().find(|tool| str_at(tool, "name") == SEARCH)?;
    let question = request.question.to_lowercase();
    let (_, rest) = TRIGGERS.iter().find_map(|trigger| question.split_once(trigger))?;
    let rest = rest.trim().trim_start_matches("for ").trim_start_matches("nach ");
    let query = rest.trim_matches(|c: char| c.is_whitespace() || c.is_ascii_punctuation());
    Some(if query.is_empty() { question.trim() } else { query }.to_owned())
}

/// What the person wrote, a line each, and what an earlier summary held.
fn summarise(body: &Value) -> String {
    let messages = body.get("messages").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let mut lines: Vec<String> = Vec::new();
    let mut opened = false;
    for message in messages {
        let blocks = message.get("content").and_then(Value::as_array).into_iter().flatten();
        let text =
            blocks.filter(|block| str_at(block, "type") == "text").map(|block| str_at(block, "text")).next();
        match (str_at(message, "role"), text) {
            ("user", Some(summary::OPENER)) => opened = true,
            ("user", Some(text)) if text != summary::REQUEST => {
                lines.push(format!("- You wrote: “{}”", cut(text, ECHO_CHARS_MAX)));
            }
            ("assistant", Some(text)) if opened => {
                lines.extend(text.lines().filter(|line| line.starts_with("- ")).map(str::to_owned));
                opened = false;
            }
            _ => {}
        }
    }
    let newest = lines.len().saturating_sub(NAMED_MAX);
    let kept = lines.get(newest..).unwrap_or_default().join("\n");
    format!("{kept}\n\nWritten by the demo model: it repeats what you wrote and judges nothing.")
}

fn describe(request: &Request<'_>) -> String {
    let mut out = String::from(
        "This is the **demo model** built into agentspine: no language model, no network. \
         It repeats what was in the request.\n\n",
    );
    let _ = writeln!(out, "You wrote: “{}”\n", cut(request.question, ECHO_CHARS_MAX));
    out.push_str("The request gave me:\n");
    let all = &request.all;
    line(&mut out, &all.documents, "instruction document", "instruction documents");
    line(&mut out, &all.rules, "rule to remember", "rules to remember");
    line(
        &mut out,
        &request.newest.items,
        "note recalled for this message",
        "notes recalled for this message",
    );
    let earlier = all.items.len().saturating_sub(request.newest.items.len());
    if earlier > 0 {
        let _ = writeln!(out, "- {earlier} recalled earlier in this conversation");
    }
    out.push_str("\nFor real answers choose a model with `--model`.");
    out
}

fn line(out: &mut String, ids: &[String], one: &str, many: &str) {
    let _ = write!(out, "- {} {}", ids.len(), if ids.len() == 1 { one } else { many });
    if !ids.is_empty() {
        let named: Vec<String> = ids.iter().take(NAMED_MAX).map(|id| format!("`{id}`")).collect();
        let _ = write!(out, ": {}", named.join(", "));
    }
    if let Some(more) = ids.len().checked_sub(NAMED_MAX).filter(|more| *more > 0) {
        let _ = write!(out, " and {more} more");
    }
    out.push('\n');
}

fn report(results: &[&str], request: &Request<'_>) -> String {
    let found = results.join("\n");
    format!(
        "This is the **demo model**: it cannot judge what was found, only show it.\n\n\
         You wrote: “{}”\n\nThe search returned:\n\n```\n{}\n```",
        cut(request.question, ECHO_CHARS_MAX),
        cut(&found.replace("```", "'''"), FOUND_CHARS_MAX)
    )
}

/// At most `limit` characters.
fn cut(text: &str, limit: usize) -> String {
    match text.char_indices().nth(limit) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default().trim_end()),
        None => text.trim().to_owned(),
    }
}

/// One event a word, so that streaming can be seen.
fn speak(text: &str, stop: StopReason) -> VecDeque<ModelEvent> {
    let words = text.split_inclusive(' ').map(|word| ModelEvent::Text(word.to_owned()));
    words.chain([ModelEvent::Stop(stop)]).collect()
}
