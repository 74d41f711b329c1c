//! Secret-shaped text: the vendored gitleaks rules, and our own for what they miss.
//!
//! One pass over the text finds which rules could match (each names words that its matches contain); only those are
//! compiled, once, and run. `gitleaks.toml` is used as it is published (MIT, see LICENSE.gitleaks).

use std::ops::Range;
use std::sync::OnceLock;

use aho_corasick::AhoCorasick;
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;

/// The vendored rules.
const GITLEAKS: &str = include_str!("gitleaks.toml");
/// Shortest run that is tried as base64, characters.
const BASE64_MIN: usize = 24;

#[derive(Deserialize)]
struct File {
    allowlist: Allow,
    rules: Vec<RawRule>,
}

#[derive(Deserialize)]
struct RawRule {
    id: String,
    regex: Option<String>,
    path: Option<String>,
    entropy: Option<f64>,
    #[serde(default)]
    keywords: Vec<String>,
    #[serde(default)]
    allowlists: Vec<Allow>,
    #[serde(rename = "secretGroup")]
    secret_group: Option<usize>,
}

#[derive(Deserialize, Default)]
struct Allow {
    #[serde(default)]
    regexes: Vec<String>,
    #[serde(default)]
    stopwords: Vec<String>,
    #[serde(rename = "regexTarget")]
    target: Option<String>,
    condition: Option<String>,
    #[serde(skip)]
    compiled: OnceLock<Vec<Regex>>,
}

/// What else must be true of a matched value of one of our own rules.
#[derive(Clone, Copy)]
enum Proof {
    /// The shape is enough.
    Shape,
    /// Not a placeholder.
    Value,
    /// Not a placeholder and not a plain word, unless it is quoted.
    Password,
    /// Random-looking.
    Random,
}

struct Rule {
    id: String,
    pattern: String,
    entropy: f64,
    group: Option<usize>,
    allow: Vec<Allow>,
    proof: Option<Proof>,
    compiled: OnceLock<Option<Regex>>,
}

struct RuleSet {
    all: Vec<Rule>,
    global: Allow,
    words: Option<AhoCorasick>,
    /// For each word of `words`: its rule.
    rule_of: Vec<usize>,
}

/// Own rules: label, words, what the value must be, pattern. Group 1 is the value. `\b` is ASCII and `\w` is spelled out:
/// the Unicode forms are slow.
const OWN: [(&str, &[&str], Proof, &str); 6] = [
    (
        "private key",
        &["private key"],
        Proof::Shape,
        r"(-----BEGIN[ A-Z0-9]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:(?s:.*?)-----END[ A-Z0-9]{0,40}-----|(?s:.*)))",
    ),
    (
        "credentials in a url",
        &["://"],
        Proof::Value,
        r#"(?i)[a-z][a-z0-9+.-]{1,20}://[^\s/:@"'<>]{0,128}:([^\s/@"'<>]{2,256})@"#,
    ),
    (
        "authorization header",
        &["bearer", "basic", "authorization"],
        Proof::Random,
        r#"(?i)(?-u:\b)(?:bearer|basic|authorization["']?\s*[:=]\s*["']?(?:token|apikey|digest))\s+([a-z0-9+/=._~-]{12,})"#,
    ),
    (
        "password assignment",
        &PASSWORD_WORDS,
        Proof::Value,
        concat!(
            r"(?i)(?:passw(?:or)?d|passphrase|passwort|kennwort|pwd|密码|密碼|口令)[a-z0-9_-]{0,20}",
            r#"(?:\\?["'\]]{1,2}\s*(?:=>?|:)|\s*(?:=>?|:=))\s*\\?["']?([^\s"'`,;&<>\\]{4,256})"#
        ),
    ),
    (
        "password in prose",
        &PASSWORD_WORDS,
        Proof::Password,
        concat!(
            r"(?i)(?:passw(?:or)?d|passphrase|passwort|kennwort|pwd|密码|密碼|口令)",
            r"(?:\s+(?:for|of|to|on|at|für|fuer|zum|zur|von|vom|beim|im|auf)(?:\s+[^\s:=]{1,40}){1,4}?)?",
            r"(?:\s*(?::|：|->|→|是|为|為|設為|设为)",
            r"|\s+(?:is|was|are|remains|lautet|lauten|ist|war|heißt|heisst|bleibt)(?:\s+(?:now|still|jetzt|nun|noch))?(?:\s*:)?\s)",
            r#"\s*(["'`(*„“”‚‘’«»「『]*[^\s"'`,;)*„“”‚‘’«»「」『』。，；]{4,128})"#
        ),
    ),
    (
        "value beside a secret-like key",
        &[
            "secret",
            "token",
            "api",
            "key",
            "credential",
            "auth",
            "schlüssel",
            "schluessel",
            "密钥",
            "密鑰",
            "令牌",
        ],
        Proof::Random,
        concat!(
            r"(?i)(?:secret|token|api[ _-]?key|access[ _-]?key|private[ _-]?key|client[ _-]?key|credentials?|auth|schlüssel|schluessel",
            r#"|密钥|密鑰|令牌)[a-z0-9_-]{0,24}\\?["'\]]{0,2}\s*(?:=>?|:=?|：|是|为|為|(?-u:\b)(?:is|ist|lautet)(?-u:\b))\s*"#,
            r#"\\?["'`]?([a-z0-9+/=_.~!@#$%^*-]{16,256})"#
        ),
    ),
];
const PASSWORD_WORDS: [&str; 8] =
    ["passw", "passphrase", "passwort", "kennwort", "pwd", "密码", "密碼", "口令"];

/// Every secret-shaped range with the label of its rule, in the order of the rules.
pub(super) fn find(text: &str) -> Vec<(&'static str, Range<usize>)> {
    let mut found = scan(text, true);
    // A secret can be split by a line break, or wrapped in base64: look behind both.
    if text.contains('\n') {
        let (joined, back) = without_breaks(text);
        let span = |r: Range<usize>| {
            back.get(r.start).copied().unwrap_or_default()..back.get(r.end).copied().unwrap_or(text.len())
        };
        found.extend(scan(&joined, false).into_iter().map(|(label, range)| (label, span(range))));
    }
    for run in base64_runs(text) {
        let decoded = text.get(run.clone()).and_then(base64).and_then(|bytes| String::from_utf8(bytes).ok());
        let hit = decoded
            .filter(|text| !text.contains(|c: char| c.is_control() && !"\n\r\t".contains(c)))
            .and_then(|text| scan(&text, true).into_iter().next());
        found.extend(hit.map(|(label, _)| (label, run)));
    }
    found
}

/// `loose` = also the rules that look at prose and assignments, not only those for tokens with a shape of their own.
fn scan(text: &str, loose: bool) -> Vec<(&'static str, Range<usize>)> {
    let rules = rules();
    let mut candidates: Vec<usize> = rules
        .words
        .iter()
        .flat_map(|words| words.find_overlapping_iter(text))
        .filter_map(|hit| rules.rule_of.get(hit.pattern().as_usize()).copied())
        .collect();
    if candidates.is_empty() {
        return Vec::new();
    }
    candidates.sort_unstable();
    candidates.dedup();
    let plain = plain_ends(text);
    let mut found = Vec::new();
    for rule in candidates.into_iter().filter_map(|n| rules.all.get(n)) {
        if !loose && (rule.id == "generic-api-key" || !matches!(rule.proof, None | Some(Proof::Shape))) {
            continue;
        }
        let text = if rule.proof.is_some() { text.as_bytes() } else { &plain };
        found.extend(rule.matches(text, &rules.global).map(|range| (rule.id.as_str(), range)));
    }
    found
}

fn rules() -> &'static RuleSet {
    static RULES: OnceLock<RuleSet> = OnceLock::new();
    RULES.get_or_init(|| {
        let file: File =
            toml::from_str(GITLEAKS).unwrap_or(File { allowlist: Allow::default(), rules: Vec::new() });
        let (mut rules, mut words, mut rule_of) = (Vec::new(), Vec::new(), Vec::new());
        let own = OWN.iter().map(|(id, words, proof, pattern)| {
            (own_rule(id, *proof, pattern), words.iter().map(ToString::to_string).collect())
        });
        // Rules bound to file names can't apply to text.
        let theirs = file.rules.into_iter().filter(|raw| raw.path.is_none()).filter_map(vendored);
        for (rule, keywords) in own.chain(theirs) {
            let keywords: Vec<String> = keywords;
            rule_of.resize(words.len() + keywords.len(), rules.len());
            words.extend(keywords);
            rules.push(rule);
        }
        let words = AhoCorasick::builder().ascii_case_insensitive(true).build(&words).ok();
        RuleSet { all: rules, global: file.allowlist, words, rule_of }
    })
}

fn own_rule(id: &str, proof: Proof, pattern: &str) -> Rule {
    Rule {
        id: id.to_owned(),
        pattern: pattern.to_owned(),
        entropy: 0.0,
        group: Some(1),
        allow: Vec::new(),
        proof: Some(proof),
        compiled: OnceLock::new(),
    }
}

fn vendored(raw: RawRule) -> Option<(Rule, Vec<String>)> {
    let rule = Rule {
        id: raw.id,
        pattern: raw.regex?,
        entropy: raw.entropy.unwrap_or_default(),
        group: raw.secret_group,
        // An allowance that also asks for a file name never applies here.
        allow: raw.allowlists.into_iter().filter(|allow| allow.condition.as_deref() != Some("AND")).collect(),
        proof: None,
        compiled: OnceLock::new(),
    };
    Some((rule, raw.keywords))
}

impl Rule {
    /// Vendored patterns get ASCII classes only: the Unicode tables would make them a hundred times slower to compile.
    fn regex(&self) -> Option<&Regex> {
        let unicode = self.proof.is_some();
        self.compiled.get_or_init(|| RegexBuilder::new(&self.pattern).unicode(unicode).build().ok()).as_ref()
    }

    fn matches<'a>(&'a self, text: &'a [u8], global: &'a Allow) -> impl Iterator<Item = Range<usize>> + 'a {
        let hits = self.regex().into_iter().flat_map(|regex| regex.captures_iter(text));
        hits.filter_map(move |hit| {
            let whole = hit.get(0)?;
            // gitleaks: the named group, else the first group that matched, else everything.
            let secret = match self.group {
                Some(group) => hit.get(group)?,
                None => hit.iter().skip(1).flatten().find(|group| !group.is_empty()).unwrap_or(whole),
            };
            let value = secret.as_bytes();
            let held = match self.proof {
                Some(proof) => proof.holds(value),
                None => {
                    entropy(value) >= self.entropy
                        && !self
                            .allow
                            .iter()
                            .chain([global])
                            .any(|allow| allow.covers(value, whole.as_bytes(), text))
                }
            };
            held.then(|| secret.range())
        })
    }
}

impl Allow {
    fn covers(&self, secret: &[u8], matched: &[u8], line: &[u8]) -> bool {
        let target = match self.target.as_deref() {
            Some("match") => matched,
            Some("line") => line,
            _ => secret,
        };
        let compile =
            || self.regexes.iter().filter_map(|r| RegexBuilder::new(r).unicode(false).build().ok()).collect();
        let lower = String::from_utf8_lossy(secret).to_ascii_lowercase();
        self.stopwords.iter().any(|word| lower.contains(word.as_str()))
            || self.compiled.get_or_init(compile).iter().any(|regex| regex.is_match(target))
    }
}

impl Proof {
    fn holds(self, value: &[u8]) -> bool {
        match self {
            Self::Shape => true,
            Self::Value => !is_placeholder(value),
            Self::Password => {
                let text = String::from_utf8_lossy(value);
                let bare = text.trim_start_matches(|c: char| "\"'`(*„“”‚‘’«»「『".contains(c));
                let quoted = bare.len() < text.len();
                let bare = bare.trim_end_matches(['.', '?', '!', ':', ']']);
                bare.chars().count() >= 4 && !is_placeholder(bare.as_bytes()) && (quoted || !is_prose(bare))
            }
            Self::Random => !is_placeholder(value) && is_random(value),
        }
    }
}

/// A plain word, or what people say about passwords: letters and inner hyphens, at most the first one a capital.
fn is_prose(text: &str) -> bool {
    let word =
        |(n, c): (usize, char)| c == '-' || c == '/' || c.is_alphabetic() && (n == 0 || !c.is_uppercase());
    let said =
        ["hashed", "salted", "encrypted", "gehasht", "verschlüsselt"].iter().any(|end| text.ends_with(end));
    let digits = text.chars().filter(char::is_ascii_digit).count();
    said || text.chars().enumerate().all(word) || digits < 6 && !text.chars().any(char::is_alphabetic)
}

/// Letters and digits mixed, or capitals inside, with enough variety.
fn is_random(value: &[u8]) -> bool {
    let digits = value.iter().filter(|b| b.is_ascii_digit()).count();
    let letters = value.iter().filter(|b| b.is_ascii_alphabetic()).count();
    let mixed = value.iter().skip(1).any(u8::is_ascii_uppercase) && value.iter().any(u8::is_ascii_lowercase);
    letters > 0
        && (digits >= 2 || mixed && !value.contains(&b'-') && !value.contains(&b'_'))
        && entropy(value) >= 3.0
}

/// Values that stand for a secret without being one.
fn is_placeholder(value: &[u8]) -> bool {
    const WORDS: [&str; 22] = [
        "null",
        "none",
        "nil",
        "true",
        "false",
        "undefined",
        "required",
        "optional",
        "string",
        "str",
        "text",
        "redacted",
        "placeholder",
        "changeme",
        "password",
        "passwort",
        "secret",
        "token",
        "hidden",
        "unset",
        "empty",
        "example",
    ];
    let text = String::from_utf8_lossy(value).to_ascii_lowercase();
    let bare = text.trim_matches(|c: char| !c.is_alphanumeric());
    let first = value.first().copied().unwrap_or_default();
    let one_sign = value.iter().all(|b| *b == first);
    let variable = matches!(first, b'$' | b'<' | b'{' | b'%' | b'[' | b'(')
        || ["()", "${", "{{", "env.", "environ", "getenv", "xxxx"].iter().any(|sign| text.contains(sign));
    bare.is_empty() || one_sign || variable || WORDS.contains(&bare) || bare.starts_with("your")
}

/// Shannon entropy in bits a byte.
fn entropy(value: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    for b in value {
        if let Some(count) = counts.get_mut(usize::from(*b)) {
            *count += 1;
        }
    }
    let total = u32::try_from(value.len()).map_or(f64::INFINITY, f64::from);
    let part = |n: &u32| f64::from(*n) / total;
    -counts.iter().filter(|n| **n > 0).map(part).map(|p| p * p.log2()).sum::<f64>()
}

/// The vendored patterns end a token at white space or a quote. In prose it also ends at punctuation before a blank and at
/// any character outside ASCII, in JSON inside JSON at the backslashes before a quote: such bytes become blanks, so that
/// ranges stay the same.
fn plain_ends(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    let (mut ended, mut escaped) = (true, false);
    for b in bytes.iter_mut().rev() {
        let (was_backslash, is_quote) = (*b == b'\\', b"\"'`".contains(b));
        let ends = ended && b".,:;!?)]}>*".contains(b) || escaped && was_backslash;
        if !b.is_ascii() || ends {
            *b = b' ';
        }
        ended = b.is_ascii_whitespace();
        escaped = is_quote || was_backslash;
    }
    bytes
}

/// The text without line breaks, and for each of its bytes where it came from.
fn without_breaks(text: &str) -> (String, Vec<usize>) {
    let kept = text.char_indices().filter(|(_, c)| *c != '\n');
    let mut out = (String::with_capacity(text.len()), Vec::with_capacity(text.len()));
    for (at, c) in kept {
        out.0.push(c);
        out.1.resize(out.0.len(), at);
    }
    out
}

fn base64_runs(text: &str) -> impl Iterator<Item = Range<usize>> {
    let inside = |b: &u8| b.is_ascii_alphanumeric() || b"+/-_=".contains(b);
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while at < bytes.len() {
            let start = at + bytes.get(at..)?.iter().position(inside)?;
            at = start + bytes.get(start..)?.iter().take_while(|b| inside(b)).count();
            if at - start >= BASE64_MIN {
                return Some(start..at);
            }
        }
        None
    })
}

/// Standard or URL-safe base64 (RFC 4648), padding optional.
fn base64(text: &str) -> Option<Vec<u8>> {
    let (mut out, mut bits, mut held) = (Vec::with_capacity(text.len() * 3 / 4), 0u32, 0u32);
    for b in text.trim_end_matches('=').bytes() {
        let six = match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(six)) & 0xffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held & 0xff).to_le_bytes()[0]);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vendored_and_own_pattern_compiles() {
        let rules = rules();
        assert!(rules.all.len() >= 222, "{}", rules.all.len());
        assert!(rules.words.is_some());
        let broken: Vec<&str> =
            rules.all.iter().filter(|r| r.regex().is_none()).map(|r| r.id.as_str()).collect();
        assert_eq!(broken, Vec::<&str>::new());
    }
}
