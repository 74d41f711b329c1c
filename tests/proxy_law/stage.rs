//! One script, played twice: straight to the API, and through the proxy.

use serde_json::Value;

use crate::api::{Api, Call, Kind, Say, Seen};
use crate::support::Home;
use crate::support::law::{Shown, law_behind};
use crate::support::proxied::{Got, Http, Proxied};

/// Where a client's calls go.
enum Road {
    Direct(Home),
    Spine(Proxied),
}

/// What one call must have been.
pub struct Expected {
    kind: &'static str,
    /// Lines that the request says, each exactly once.
    lines: Vec<String>,
}

/// A scripted API and a road to it.
pub struct Stage {
    pub api: Api,
    road: Road,
    /// One telling line of each document and rule that the model must know now.
    pub lines: Vec<String>,
    expected: Vec<Expected>,
}

impl Stage {
    pub fn direct() -> Self {
        Self::new(Api::start(brain), Road::Direct(Home::new()))
    }

    pub fn spine(client: &str) -> Self {
        let (api, home) = (Api::start(brain), Home::new());
        let proxied = Proxied::start(home, api.base(), client);
        Self::new(api, Road::Spine(proxied))
    }

    fn new(api: Api, road: Road) -> Self {
        Self { api, road, lines: Vec::new(), expected: Vec::new() }
    }

    pub fn home(&self) -> &Home {
        match &self.road {
            Road::Direct(home) => home,
            Road::Spine(proxied) => &proxied.home,
        }
    }

    /// Writes a document of the project.
    pub fn write(&self, name: &str, text: &str) {
        self.home().write(&format!("src/project/{name}"), text);
    }

    /// What a person does beside the client; nothing on the direct road.
    pub fn agentspine(&self, args: &[&str]) -> Option<Value> {
        match &self.road {
            Road::Direct(_) => None,
            Road::Spine(proxied) => Some(serde_json::from_str(&proxied.home.ok(args)).unwrap_or_default()),
        }
    }

    /// A rule that the person confirms; its receipt's entry id.
    pub fn rule(&mut self, claim: &str) -> Option<String> {
        let proposed = self.agentspine(&["remember-propose", "--claim", claim, "--json"])?;
        let candidate = proposed["candidate"]["id"].as_str().unwrap().to_owned();
        let args = ["remember-confirm", &candidate, "--confirm-local-user", "--json"];
        let confirmed = self.agentspine(&args)?;
        self.lines.push(claim.to_owned());
        let id = confirmed["entry"]["id"].as_str().or(confirmed["id"].as_str());
        Some(id.unwrap_or_else(|| panic!("{confirmed}")).to_owned())
    }

    /// The proxy dies and is started again.
    pub fn crash(&mut self) {
        if let Road::Spine(proxied) = &mut self.road {
            proxied.crash();
            proxied.wake();
        }
    }

    /// How many calls were made.
    pub fn calls(&self) -> usize {
        self.expected.len()
    }

    /// One call, which must be answered.
    pub fn call(&mut self, kind: &'static str, path: &str, headers: &[(&str, &str)], body: &Value) -> Got {
        let got = self.try_call(kind, path, headers, body);
        assert_eq!(got.status, 200, "{kind} call {}: {}", self.expected.len(), got.text());
        got
    }

    pub fn try_call(
        &mut self,
        kind: &'static str,
        path: &str,
        headers: &[(&str, &str)],
        body: &Value,
    ) -> Got {
        let mut http = match &self.road {
            Road::Direct(_) => Http::connect(self.api.base().trim_start_matches("http://"), ""),
            Road::Spine(proxied) => proxied.connect(),
        };
        self.expected.push(Expected { kind, lines: self.lines.clone() });
        http.post(path, headers, body.to_string().as_bytes()).unwrap()
    }

    /// The law over everything that was called through the proxy; each request with its receipt.
    pub fn judge(&self) -> Vec<(Seen, Shown)> {
        assert_eq!(self.api.broken(), Vec::<String>::new());
        let seen = self.api.prompts();
        let requests: Vec<_> = seen.iter().map(|seen| seen.request.clone()).collect();
        let receipts = law_behind(self.home(), self.api.base(), &requests);
        let kinds: Vec<&str> = receipts.iter().map(|receipt| receipt.text("kind")).collect();
        let wanted: Vec<&str> = self.expected.iter().map(|expected| expected.kind).collect();
        assert_eq!(kinds, wanted);
        parents(&receipts);
        for (n, (seen, expected)) in seen.iter().zip(&self.expected).enumerate() {
            if expected.kind != "side" {
                let said = |line: &String| (line.clone(), count(&seen.json(), line));
                let counts: Vec<_> = expected.lines.iter().map(said).collect();
                let wanted: Vec<_> = expected.lines.iter().map(|line| (line.clone(), 1)).collect();
                assert_eq!(counts, wanted, "call {n}, {}", expected.kind);
            }
        }
        seen.into_iter().zip(receipts).collect()
    }
}

/// A continuation's parent is the newest turn or subagent's call of its conversation; nothing else has one.
fn parents(receipts: &[Shown]) {
    for (n, receipt) in receipts.iter().enumerate() {
        let speaks = |one: &&Shown| matches!(one.text("kind"), "turn" | "subagent");
        let same = |one: &&Shown| one.text("sessionId") == receipt.text("sessionId");
        let turn = receipts[..n].iter().rev().filter(speaks).find(same).map_or("", Shown::id);
        let wanted = if receipt.text("kind") == "continuation" { turn } else { "" };
        assert_eq!(receipt.text("parent"), wanted, "call {n}");
    }
}

/// Each request reads at least as much from the cache as without us, and what it cannot read is at most what the
/// client sends anew and the newest text of ours, which no request before could have written.
pub fn no_cache_is_lost(direct: &Stage, spine: &Stage) {
    let (without, with) = (direct.api.prompts(), spine.api.prompts());
    assert_eq!(without.len(), with.len(), "as many requests");
    for (n, (without, with)) in without.iter().zip(&with).enumerate() {
        assert!(
            with.cache.read >= without.cache.read,
            "call {n}: {:?} became {:?}",
            without.cache,
            with.cache
        );
        let fresh = |seen: &Seen| seen.cache.written + seen.cache.fresh;
        let spans: Vec<usize> = spans(&with.json()).into_iter().rev().take(2).collect();
        let ours: usize = spans.iter().sum::<usize>() + spans.len() * SPAN_FRAME;
        assert!(
            fresh(with) <= fresh(without) + ours,
            "call {n}: {:?} became {:?}",
            without.cache,
            with.cache
        );
        assert_eq!(with.cache.marks, without.cache.marks, "cache marks");
    }
}

/// Bytes of canonical JSON around a span, at most.
const SPAN_FRAME: usize = 64;

/// Size of each injected text as JSON, in order.
fn spans(body: &Value) -> Vec<usize> {
    let mut found = Vec::new();
    strings(body, &mut |text| {
        if let Some(at) = text.find("<agentspine-") {
            found.push(Value::from(&text[at..]).to_string().len());
        }
    });
    found
}

/// How often a body says this, over all its texts.
pub fn count(body: &Value, text: &str) -> usize {
    let mut found = 0;
    strings(body, &mut |whole| found += whole.matches(text).count());
    found
}

fn strings(value: &Value, tell: &mut dyn FnMut(&str)) {
    match value {
        Value::String(text) => tell(text),
        Value::Array(items) => items.iter().for_each(|item| strings(item, tell)),
        Value::Object(members) => members.values().for_each(|member| strings(member, tell)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Calls a tool where the person asks for it, else says something.
fn brain(call: &Call) -> Say {
    let newest = call.newest();
    if call.is_compaction() {
        return Say::text("<summary>They spoke.</summary>");
    }
    if call.answers_a_tool() && !newest.contains("once more") {
        return Say::text("The tool has answered.");
    }
    if newest.contains("ask an agent") {
        return Say::Tool("Agent", serde_json::json!({ "prompt": "Use the shell, please." }));
    }
    if newest.contains("shell") || newest.contains("once more") {
        let name = if call.kind == Kind::Responses { "exec_command" } else { "Bash" };
        return Say::Tool(name, serde_json::json!({ "command": "echo hi" }));
    }
    Say::text("Understood, and noted.")
}
