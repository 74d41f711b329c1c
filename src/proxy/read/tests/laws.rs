//! Laws over generated conversations, each written down in many ways.

use proptest::prelude::*;
use serde_json::Value;

use super::*;

/// Stands in no generated text.
const SPAN: &str = "⟦span \"1\"⟧";

#[derive(Debug, Clone)]
enum Message {
    Human(Vec<String>),
    Model(String),
    /// A tool call and its result: input text.
    Tool(String),
}

/// A way of writing: every choice comes from one seed.
struct Style(u64);

impl Style {
    /// Below `n`.
    fn pick(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn one<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        let n = u64::try_from(choices.len()).unwrap();
        choices[usize::try_from(self.pick(n)).unwrap()]
    }

    fn space(&mut self) -> &'static str {
        self.one(&["", "", "", " ", "\n\t", "\r\n  "])
    }

    fn string(&mut self, text: &str) -> String {
        let mut out = String::from("\"");
        for c in text.chars() {
            if self.pick(8) == 0 {
                let mut units = [0; 2];
                out.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04X}")));
            } else if c == '/' && self.pick(2) == 0 {
                out.push_str("\\/");
            } else {
                let plain = serde_json::to_string(&c.to_string()).unwrap();
                out.push_str(&plain[1..plain.len() - 1]);
            }
        }
        out + "\""
    }

    fn list(&mut self, elements: &[String]) -> String {
        let mut out = format!("[{}", self.space());
        for (n, element) in elements.iter().enumerate() {
            out += if n > 0 { "," } else { "" };
            out += &[self.space(), element, self.space()].concat();
        }
        out + "]"
    }

    /// Fields in any order, among fields that nobody knows.
    fn object(&mut self, fields: &[(&str, String)]) -> String {
        let mut all: Vec<(String, String)> =
            fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        if self.pick(3) == 0 {
            let odd =
                self.one(&["null", "[[{\"text\":\"no\"}],{}]", "\"}]\\\\\\\"\"", "-1.5e3", "{\"role\":{}}"]);
            all.push(("x_odd".to_owned(), odd.to_owned()));
        }
        let turn = usize::try_from(self.pick(u64::try_from(all.len().max(1)).unwrap())).unwrap();
        all.rotate_left(turn);
        let fields: Vec<String> = all
            .iter()
            .map(|(name, value)| format!("{}{}:{}{value}", self.string(name), self.space(), self.space()))
            .collect();
        let list = self.list(&fields);
        format!("{{{}}}", &list[1..list.len() - 1])
    }

    fn typed(&mut self, kind: &str, name: &str, value: String) -> String {
        let mut fields = vec![("type", self.string(kind)), (name, value)];
        if self.pick(4) == 0 {
            fields.push(("cache_control", "{\"type\":\"ephemeral\"}".to_owned()));
        }
        self.object(&fields)
    }

    /// One text as a string or as a list; several as a list.
    fn content(&mut self, kind: &str, texts: &[String]) -> String {
        match texts {
            [text] if self.pick(2) == 0 => self.string(text),
            texts => {
                let blocks: Vec<String> = texts
                    .iter()
                    .map(|text| {
                        let text = self.string(text);
                        self.typed(kind, "text", text)
                    })
                    .collect();
                self.list(&blocks)
            }
        }
    }

    fn message(&mut self, role: &str, content: String) -> String {
        let role = self.string(role);
        self.object(&[("role", role), ("content", content)])
    }
}

/// How a dialect writes a conversation.
type Write = fn(&mut Style, &[Message]) -> String;

fn body(style: &mut Style, field: &str, elements: &[String]) -> String {
    let (model, elements) = (style.string("m"), style.list(elements));
    style.space().to_owned() + &style.object(&[("model", model), (field, elements)]) + style.space()
}

fn claude(style: &mut Style, messages: &[Message]) -> String {
    let mut out = Vec::new();
    for (n, message) in messages.iter().enumerate() {
        match message {
            Message::Human(texts) if style.pick(2) == 0 => {
                let reminder = "<system-reminder>\ncomes and goes".to_owned();
                let texts: Vec<String> = std::iter::once(reminder).chain(texts.iter().cloned()).collect();
                let content = style.content("text", &texts);
                out.push(style.message("user", content));
            }
            Message::Human(texts) => {
                let content = style.content("text", texts);
                out.push(style.message("user", content));
            }
            Message::Model(text) => {
                let text = style.string(text);
                let mut blocks = vec![style.typed("text", "text", text)];
                if style.pick(2) == 0 {
                    let thought = style.string("hm");
                    blocks.insert(0, style.typed("thinking", "thinking", thought));
                }
                let content = style.list(&blocks);
                out.push(style.message("assistant", content));
            }
            Message::Tool(input) => {
                let (kind, id, text) =
                    (style.string("tool_use"), style.string(&format!("t{n}")), style.string(input));
                let input =
                    style.space().to_owned() + "{" + style.space() + "\"b\":[1, 2.50],\"a\" :" + &text + "}";
                let call = style.object(&[("type", kind), ("id", id), ("input", input)]);
                let content = style.list(&[call]);
                out.push(style.message("assistant", content));
                let id = style.string(&format!("t{n}"));
                let result = style.typed("tool_result", "tool_use_id", id);
                let content = style.list(&[result]);
                out.push(style.message("user", content));
            }
        }
        if style.pick(3) == 0 {
            let content = style.content("text", &["the client's".to_owned()]);
            out.push(style.message("system", content));
        }
    }
    body(style, "messages", &out)
}

fn responses(style: &mut Style, messages: &[Message]) -> String {
    let mut out = Vec::new();
    for (n, message) in messages.iter().enumerate() {
        match message {
            Message::Human(texts) => {
                let content = style.content("input_text", texts);
                out.push(style.message("user", content));
            }
            Message::Model(text) => {
                if style.pick(2) == 0 {
                    out.push(style.typed("reasoning", "summary", "[]".to_owned()));
                }
                let content = style.content("output_text", std::slice::from_ref(text));
                out.push(style.message("assistant", content));
            }
            Message::Tool(input) => {
                let (kind, id) = (style.string("function_call"), style.string(&format!("c{n}")));
                let input = style.string(input);
                out.push(style.object(&[("type", kind), ("call_id", id.clone()), ("arguments", input)]));
                out.push(style.typed("function_call_output", "call_id", id));
            }
        }
        if style.pick(3) == 0 {
            let content = style.content("input_text", &["the client's".to_owned()]);
            out.push(style.message("developer", content));
        }
    }
    body(style, "input", &out)
}

fn chat(style: &mut Style, messages: &[Message]) -> String {
    let mut out = Vec::new();
    for (n, message) in messages.iter().enumerate() {
        match message {
            Message::Human(texts) => {
                let content = style.content("text", texts);
                out.push(style.message("user", content));
            }
            Message::Model(text) => {
                let content = style.content("text", std::slice::from_ref(text));
                out.push(style.message("assistant", content));
            }
            Message::Tool(input) => {
                let (id, input) = (style.string(&format!("c{n}")), style.string(input));
                let function = style.object(&[("name", "\"f\"".to_owned()), ("arguments", input)]);
                let call = style.object(&[("id", id.clone()), ("function", function)]);
                let (calls, content) = (style.list(&[call]), style.one(&["null", "\"\""]).to_owned());
                let role = style.string("assistant");
                out.push(style.object(&[("role", role), ("content", content), ("tool_calls", calls)]));
                let role = style.string("tool");
                out.push(style.object(&[
                    ("role", role),
                    ("tool_call_id", id),
                    ("content", "\"r\"".to_owned()),
                ]));
            }
        }
    }
    body(style, "messages", &out)
}

const DIALECTS: [(Host, PromptPath, Write); 4] = [
    (Host::Claude, PromptPath::Messages, claude),
    (Host::Codex, PromptPath::Responses, responses),
    (Host::Generic, PromptPath::Responses, responses),
    (Host::Generic, PromptPath::ChatCompletions, chat),
];

/// Begins with a letter that no client's own text begins with.
fn words() -> impl Strategy<Value = String> {
    "w[a-z/\"\\\\\n\t é日🙂\u{1}{}\\[\\],:]{0,12}"
}

fn conversation() -> impl Strategy<Value = Vec<Message>> {
    let human = || prop::collection::vec(words(), 1..3).prop_map(Message::Human);
    let answer = prop_oneof![words().prop_map(Message::Model), words().prop_map(Message::Tool)];
    let round = (prop::collection::vec(answer, 1..4), human());
    (human(), prop::collection::vec(round, 0..4), prop::option::of(words())).prop_map(
        |(first, rounds, tool)| {
            let rounds = rounds.into_iter().flat_map(|(answers, human)| answers.into_iter().chain([human]));
            std::iter::once(first).chain(rounds).chain(tool.map(Message::Tool)).collect()
        },
    )
}

fn ask(host: Host, path: PromptPath, body: &str) -> Asked {
    let headers = headers(&[("x-claude-code-session-id", "s"), ("thread-id", "t")]);
    read(host, path, &headers, body.as_bytes()).unwrap_or_else(|error| panic!("{error}: {body}"))
}

fn humans(messages: &[Message]) -> usize {
    messages.iter().filter(|message| matches!(message, Message::Human(_))).count()
}

/// The filled body without the bytes that `slots` put in, each found where it must be.
fn emptied(asked: &Asked, filled: &str) -> String {
    let quoted = serde_json::to_string(SPAN).unwrap();
    let span = &quoted[1..quoted.len() - 1];
    let (mut out, mut rest, mut done) = (String::new(), filled, 0);
    for slot in &asked.draft.slots {
        let wrap = slot.wrap.map(|wrap| (wrap.at, wrap.open.to_owned()));
        for (at, put) in wrap.into_iter().chain([(slot.at, format!("{}{span}{}", slot.before, slot.after))]) {
            let (kept, after) = rest.split_at(at - done);
            out += kept;
            rest = after.strip_prefix(put.as_str()).expect("the bytes stand where the slot says");
            done = at;
        }
    }
    out + rest
}

/// How many strings of a value are or end with the span.
fn spans(value: &Value) -> usize {
    match value {
        Value::String(text) => usize::from(text.ends_with(SPAN)),
        Value::Array(list) => list.iter().map(spans).sum(),
        Value::Object(map) => map.values().map(spans).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn filling_every_slot_adds_one_span_a_human_message_and_changes_no_other_byte(
        messages in conversation(), seed: u64,
    ) {
        for (host, path, write) in DIALECTS {
            let body = write(&mut Style(seed), &messages);
            let asked = ask(host, path, &body);
            prop_assert_eq!(asked.draft.slots.len(), humans(&messages));
            let full = filled(&asked, SPAN);
            prop_assert_eq!(emptied(&asked, &full), body.as_str());
            let value: Value = serde_json::from_str(&full).unwrap();
            prop_assert_eq!(spans(&value), asked.draft.slots.len());
            prop_assert_eq!(filled_none(&asked), body);
        }
    }

    #[test]
    fn two_ways_to_write_one_conversation_are_one_conversation(
        messages in conversation(), one: u64, two: u64,
    ) {
        for (host, path, write) in DIALECTS {
            let [one, two] = [one, two].map(|seed| ask(host, path, &write(&mut Style(seed), &messages)));
            prop_assert_eq!(told(&one), told(&two));
            prop_assert_eq!(places(&one), places(&two));
        }
    }

    #[test]
    fn every_later_request_has_the_slots_of_the_earlier_ones(
        messages in conversation(), one: u64, two: u64, cut in 1_usize..8,
    ) {
        for (host, path, write) in DIALECTS {
            let earlier = ask(host, path, &write(&mut Style(one), &messages[..cut.min(messages.len())]));
            let later = ask(host, path, &write(&mut Style(two), &messages));
            prop_assert_eq!(&earlier.conversation, &later.conversation);
            let (earlier, later) = (places(&earlier), places(&later));
            prop_assert_eq!(&later[..earlier.len()], &earlier[..]);
        }
    }

    #[test]
    fn the_newest_words_are_the_prompt_and_tool_results_have_none(messages in conversation(), seed: u64) {
        for (host, path, write) in DIALECTS {
            let asked = ask(host, path, &write(&mut Style(seed), &messages));
            let (turn, prompt) = match messages.last() {
                Some(Message::Human(texts)) => (true, texts.join("\n")),
                _ => (false, String::new()),
            };
            prop_assert_eq!(asked.prompt, prompt);
            prop_assert_eq!(asked.sort.kind() == agentspine_gate::turn::CallKind::Turn, turn);
        }
    }

    #[test]
    fn no_bytes_whatever_break_the_reader(body: Vec<u8>, text in "[\\[\\]{}\":,a-z0-9 \\\\]{0,60}") {
        for (host, path, _) in DIALECTS {
            for body in [body.as_slice(), text.as_bytes()] {
                let _ = read(host, path, &headers(&[]), body).map(|asked| asked.sort);
            }
        }
    }
}

fn filled_none(asked: &Asked) -> String {
    String::from_utf8(asked.draft.splice(&[]).unwrap()).unwrap()
}

fn places(asked: &Asked) -> Vec<agentspine_gate::span::Place> {
    asked.draft.slots.iter().map(|slot| slot.place).collect()
}
