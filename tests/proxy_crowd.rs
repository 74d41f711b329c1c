//! Many at once behind one daemon: each request with a receipt of its own, and nothing that crosses from one directory,
//! conversation or person to another.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use agentspine_gate::Digest;
use serde_json::{Value, json};

use crate::api::{Api, Say};
use crate::proxy_law::stage::count;
use crate::support::bulk;
use crate::support::dice::Dice;
use crate::support::law::Shown;
use crate::support::proxied::{Http, Proxied};
use crate::support::{Home, law::law_behind};

/// How many requests; `AGENTSPINE_CROWD` names another number, such as 10000.
const REQUESTS: usize = 1000;
/// Kept-alive connections, each with a thread of its own.
const CONNECTIONS: usize = 16;
const WORKSPACES: usize = 4;
const CONVERSATIONS: usize = 24;

/// A request of some kind in some conversation, and where it goes.
fn any_request(dice: &mut Dice, n: usize) -> (&'static str, String, Value) {
    let conversation = dice.roll(CONVERSATIONS);
    let session = format!("618e08ae-3b03-4e3c-9982-{conversation:012}");
    let first = format!("first words of {conversation}");
    // A body may well be equal to an earlier one: that is a retry.
    let words = format!("words {}", if dice.roll(5) == 0 { dice.roll(8) } else { n });
    let (path, mut body) = match dice.roll(4) {
        0 => (
            "/v1/messages",
            json!({ "max_tokens": 8, "messages": [
                { "role": "user", "content": first }, { "role": "assistant", "content": "yes" },
                { "role": "user", "content": [{ "type": "text", "text": words }] },
            ]}),
        ),
        1 => ("/v1/messages/count_tokens", json!({ "messages": [{ "role": "user", "content": words }] })),
        2 => (
            "/v1/responses",
            json!({ "input": [
            { "role": "user", "content": first },
            { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "yes" }] },
            { "role": "user", "content": [{ "type": "input_text", "text": words }] },
        ], "stream": true }),
        ),
        _ => (
            "/v1/chat/completions",
            json!({ "messages": [
                { "role": "user", "content": first }, { "role": "assistant", "content": "yes" },
                { "role": "user", "content": words },
            ]}),
        ),
    };
    body["model"] = json!("m");
    (path, session, body)
}

#[test]
fn every_one_of_a_thousand_concurrent_requests_has_a_receipt_of_its_own() {
    // Which number is the person's wish, no setting of the program.
    #[allow(clippy::disallowed_methods)]
    let wished = std::env::var("AGENTSPINE_CROWD").ok().and_then(|number| number.parse().ok());
    let wished: usize = wished.unwrap_or(REQUESTS);
    let api = Api::start_unjudged(|_| Say::text("yes"));
    let proxied = Proxied::start(Home::new(), api.base(), "generic");
    let secrets: Vec<String> = (0..WORKSPACES)
        .map(|n| {
            let dir = proxied.home.path().join(format!("src/p{n}"));
            proxied.home.write(&format!("src/p{n}/CLAUDE.md"), &format!("The rule of project {n}.\n"));
            proxied.secret_for(&dir, &["generic", "--instruction-host", "claude"])
        })
        .collect();
    let sent = Arc::new(AtomicUsize::new(0));
    let begun = std::time::Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..CONNECTIONS {
            let (sent, secret, address) =
                (Arc::clone(&sent), secrets[thread % WORKSPACES].clone(), &proxied.address);
            scope.spawn(move || {
                let (mut http, mut dice) = (Http::connect(address, &secret), Dice(thread as u64 + 1));
                loop {
                    let n = sent.fetch_add(1, Ordering::Relaxed);
                    if n >= wished {
                        return;
                    }
                    let (path, session, body) = any_request(&mut dice, n);
                    let headers = [("x-claude-code-session-id", session.as_str())];
                    let got = http.post(path, &headers, body.to_string().as_bytes()).unwrap();
                    // A continuation of nothing that is kept is refused; none is sent here.
                    assert_eq!(got.status, 200, "{path} {}", got.text());
                }
            });
        }
    });
    let took = begun.elapsed();
    let seen = api.prompts();
    assert_eq!(seen.len(), wished);
    let requests: Vec<_> = seen.iter().map(|seen| seen.request.clone()).collect();
    let receipts = bulk::receipts(&proxied.home);
    let (pairs, unsent) = bulk::pairs(&receipts, api.base(), &requests);
    assert_eq!(unsent.iter().map(|one| one.id()).collect::<Vec<_>>(), Vec::<&str>::new());
    let ids: HashSet<&str> = pairs.iter().map(|one| one.id()).collect();
    assert_eq!(ids.len(), wished, "none twice");
    for seen in &seen {
        let rules: Vec<usize> =
            (0..WORKSPACES).filter(|n| says(seen.json(), &format!("project {n}."))).collect();
        assert!(rules.len() <= 1, "documents of {rules:?} in one request");
    }
    let per_second = f64::from(u32::try_from(wished).unwrap()) / took.as_secs_f64();
    let line = format!("{wished} requests in {took:.1?}, {per_second:.0} a second\n");
    std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).unwrap();
}

fn says(body: Value, text: &str) -> bool {
    count(&body, text) > 0
}

/// One turn of the same words.
fn turn(session_words: &str) -> Value {
    json!({ "model": "m", "max_tokens": 8, "messages": [{ "role": "user", "content": session_words }] })
}

fn ask(proxied: &Proxied, secret: &str, path: &str, body: &Value) {
    let headers = [("x-claude-code-session-id", "618e08ae-3b03-4e3c-9982-6622e0570ed5")];
    let got =
        Http::connect(&proxied.address, secret).post(path, &headers, body.to_string().as_bytes()).unwrap();
    assert_eq!(got.status, 200, "{}", got.text());
}

#[test]
fn the_same_session_and_the_same_words_in_two_directories_share_nothing() {
    let api = Api::start_unjudged(|_| Say::text("yes"));
    let proxied = Proxied::start(Home::new(), api.base(), "claude");
    for client in ["claude", "generic"] {
        let secrets = ["one", "two"].map(|name| {
            proxied.home.write(&format!("src/{name}/CLAUDE.md"), &format!("The rule of {name}.\n"));
            let dir = proxied.home.path().join("src").join(name);
            let args = [client, "--instruction-host", "claude"];
            proxied.secret_for(&dir, &args)
        });
        let before = api.prompts().len();
        let first = turn("the very same words");
        let mut second = first.clone();
        second["messages"].as_array_mut().unwrap().extend([
            json!({ "role": "assistant", "content": "yes" }),
            json!({ "role": "user", "content": "and more of the same" }),
        ]);
        for body in [&first, &second, &first] {
            for secret in &secrets {
                ask(&proxied, secret, "/v1/messages", body);
            }
        }
        let seen = api.prompts();
        for (n, seen) in seen[before..].iter().enumerate() {
            let told = ["one", "two"].map(|name| count(&seen.json(), &format!("The rule of {name}.")));
            let own = if n % 2 == 0 { [1, 0] } else { [0, 1] };
            assert_eq!(told, own, "{client}, request {n}");
        }
    }
    let requests: Vec<_> = api.prompts().into_iter().map(|seen| seen.request).collect();
    let receipts = law_behind(&proxied.home, api.base(), &requests);
    for group in receipts.chunks(6) {
        let of = |n: usize| -> HashSet<&str> {
            group.iter().skip(n).step_by(2).map(|one| one.text("sessionId")).collect()
        };
        assert_eq!((of(0).len(), of(1).len()), (1, 1));
        assert!(of(0).is_disjoint(&of(1)));
        let retry = |n: usize| group[n].text("retryOf");
        assert_eq!((retry(4), retry(5)), (group[0].id(), group[1].id()));
    }
}

#[test]
fn users_and_tenants_in_one_directory_share_no_conversation() {
    let api = Api::start_unjudged(|_| Say::text("yes"));
    let proxied = Proxied::start(Home::new(), api.base(), "claude");
    proxied.home.write("src/project/CLAUDE.md", "A rule for all.\n");
    let secrets: Vec<String> =
        [&["claude"][..], &["claude", "--user", "other"], &["claude", "--tenant", "other"]]
            .iter()
            .map(|args| proxied.secret_for(&proxied.home.project(), args))
            .collect();
    let unlike: HashSet<&String> = secrets.iter().collect();
    assert_eq!(unlike.len(), 3, "a secret for each");
    let first = turn("the very same words");
    let mut second = first.clone();
    second["messages"].as_array_mut().unwrap().extend([
        json!({ "role": "assistant", "content": "yes" }),
        json!({ "role": "user", "content": "and more of the same" }),
    ]);
    for body in [&first, &second] {
        for secret in &secrets {
            ask(&proxied, secret, "/v1/messages", body);
        }
    }
    let requests: Vec<_> = api.prompts().into_iter().map(|seen| seen.request).collect();
    let receipts = law_behind(&proxied.home, api.base(), &requests);
    let who = |receipt: &Shown| (receipt.text("userId").to_owned(), receipt.text("tenantId").to_owned());
    let sessions: HashSet<&str> = receipts.iter().map(|one| one.text("sessionId")).collect();
    assert_eq!(sessions.len(), 3, "a conversation for each");
    for n in 0..3 {
        assert_eq!(who(&receipts[n]), who(&receipts[n + 3]));
        assert_eq!(receipts[n].text("retryOf"), "");
        assert_eq!(receipts[n + 3].claims()["replayedSpans"], json!([receipts[n].id()]));
    }
    let digests: HashSet<String> = requests.iter().map(|one| Digest::of(&one.body).to_hex()).collect();
    assert_eq!(digests.len(), 6, "another mark for each conversation");
}
