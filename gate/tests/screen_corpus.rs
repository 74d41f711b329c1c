//! Promises over many texts: every category of secret in every carrier is found, and 200 harmless sentences are kept.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use agentspine_gate::screen::{redact, screen};

/// Sentences about passwords, tokens and production that hold no secret, one a line.
const HARMLESS: &str = include_str!("harmless.txt");

/// Token-like text that no allow-list knows; put together here so that no scanner trips over this file.
const T36: &str = "Zk3mQ9xW2vB7nT4pL8sD1fG6hJ5cR0aYuEi2";

/// Category, the secret as it is written, and what must not be left of it.
fn secrets() -> Vec<(&'static str, String, String)> {
    let t = |from: usize, to: usize| T36.get(from..to).unwrap().to_owned();
    let all = |category, text: String| (category, text.clone(), text);
    vec![
        ("PEM private key", "-----BEGIN EC PRIVATE KEY-----\\nMHcCAQEEIB7x9\\n-----END EC PRIVATE KEY-----".into(), "MHcCAQEEIB7x9".into()),
        all("AWS access key", "AKIAQ4XJ7WPN2KTVZ6HB".into()),
        ("AWS secret key", format!("aws_secret_access_key={T36}wXyZ"), T36.into()),
        all("GitHub classic", format!("ghp_{T36}")),
        all("GitHub fine-grained", format!("github_pat_{}{}", T36.repeat(2), t(0, 10))),
        all("Slack", format!("xoxb-{}-{}-{}", "482910573826", "593017264829", t(0, 24))),
        all("Anthropic", format!("sk-ant-api03-{}{}AA", T36.repeat(2), t(0, 21))),
        all("OpenAI", format!("sk-proj-{}T3BlbkFJ{}", T36.repeat(2) + &t(0, 2), T36.repeat(2) + &t(0, 2))),
        all("Google", "AIzaSyB9x2Kq7LmN4vT8wZc1D6fG3hJ5pR0sYuE".into()),
        all("Stripe", format!("sk_live_{}", t(0, 24))),
        ("Azure", format!("AccountKey={}{}==", T36.repeat(2), t(0, 14)), T36.into()),
        ("JWT", "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiI5MTgyNzM2NDUwIiwibmFtZSI6IkFubmEifQ.k9Qz7Xw2Vb4Nt6Ym8Lp1Rs3Dg5Hj0Fc_Aa-Ee".into(), "eyJzdWIiOiI5MTgy".into()),
        ("bearer header", format!("Authorization: Bearer {T36}"), T36.into()),
        ("basic header", "Authorization: Basic YW5uYTpHcjNhdGU1".into(), "YW5uYTpHcjNhdGU1".into()),
        ("credentials in a URL", "postgres://app:hunter2x@db.internal/prod".into(), "hunter2x".into()),
        ("password assignment", "password=hunter2x9".into(), "hunter2x9".into()),
        ("password in English", "the password is Gr3ate5".into(), "Gr3ate5".into()),
        ("password in German", "das Passwort lautet Gr3ate5".into(), "Gr3ate5".into()),
        ("password in Chinese", "密码是Gr3ate5".into(), "Gr3ate5".into()),
        ("entropy beside a key", format!("api_key={}", t(2, 30)), t(2, 30)),
    ]
}

/// The secret inside what people paste: prose, JSON, JSON inside JSON, code, a shell line, Markdown, YAML, a log line.
fn carried(secret: &str) -> Vec<String> {
    let json = serde_json::json!({ "note": secret, "n": 1 }).to_string();
    let nested = serde_json::json!({ "body": json }).to_string();
    vec![
        format!("Remember that {secret} was used in May."),
        json,
        nested,
        format!("let note = \"{secret}\"; // from the wiki"),
        format!("curl -H '{secret}' https://api.internal/v1"),
        format!("| name | value |\n|---|---|\n| x | `{secret}` |"),
        format!("deploy:\n  note: '{secret}'\n  on: main"),
        format!("2026-05-01T10:00:00Z WARN app: {secret} (retrying)"),
        format!("Vor 日本 {secret} nach 🙂"),
    ]
}

#[test]
fn every_category_of_secret_is_found_in_every_carrier_and_nothing_of_it_is_left() {
    let mut missed = Vec::new();
    for (category, text, value) in secrets() {
        for carrier in carried(&text) {
            let (clean, labels) = redact(&carrier);
            if labels.is_empty() || clean.contains(&value) || screen(&carrier).is_ok() {
                missed.push(format!("{category}: {carrier} -> {clean}"));
            }
        }
    }
    assert_eq!(missed, Vec::<String>::new());
}

#[test]
fn what_stands_around_a_secret_in_json_and_code_is_kept() {
    let token = format!("ghp_{T36}");
    let cases = [
        (format!(r#"{{"a":1,"token":"{token}","b":[2]}}"#), r#"{"a":1,"token":"[redacted]","b":[2]}"#),
        (format!("let t = \"{token}\"; // kept"), "let t = \"[redacted]\"; // kept"),
        (format!("export GH={token} && make"), "export GH=[redacted] && make"),
    ];
    for (text, clean) in cases {
        assert_eq!(redact(&text).0, clean);
    }
}

#[test]
fn two_hundred_harmless_sentences_pass_unchanged() {
    let sentences: Vec<&str> = HARMLESS.lines().collect();
    assert!(sentences.len() >= 200, "{}", sentences.len());
    let changed = |text: &&&str| screen(text) != Ok(()) || redact(text).0 != **text;
    assert_eq!(sentences.iter().filter(changed).collect::<Vec<_>>(), Vec::<&&str>::new());
}
