//! Promises of the one voice.

use std::sync::{Arc, Mutex};

use agentspine_gate::{Code, Detail, ReceiptId};

use super::*;

#[derive(Clone, Default)]
struct Page(Arc<Mutex<Vec<u8>>>);

impl Page {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A pipe whose reader has gone.
struct Gone;

impl Write for Gone {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn report(output: Output) -> (Report, Page, Page) {
    let (out, err) = (Page::default(), Page::default());
    (Report::to(output, Box::new(out.clone()), Box::new(err.clone())), out, err)
}

fn refusal() -> Failure {
    let mut refusal = Refusal::new(
        Detail::Exit(3),
        "provider mnemo:main exited with 3",
        "agentspine preflight-policy --show",
    );
    refusal.receipt = Some(ReceiptId([0xab; 16]));
    Failure::from(refusal)
}

#[test]
fn a_refusal_is_two_lines_for_people_and_one_object_for_scripts() {
    let (report, out, err) = report(Output::Json);
    assert_eq!(report.finish(Err(refusal())), ExitCode::from(11));
    let id = "ab".repeat(16);
    let lines = format!(
        "agentspine: provider-failed/exit(3): provider mnemo:main exited with 3 [receipt {id}]\n  \
         next: agentspine preflight-policy --show\n"
    );
    assert_eq!(err.text(), lines);
    let told: serde_json::Value = serde_json::from_str(&out.text()).unwrap();
    let expected = json!({"error": {
        "code": "provider-failed", "detail": "exit(3)", "message": "provider mnemo:main exited with 3",
        "advice": "agentspine preflight-policy --show", "receiptId": id, "exit": 11,
    }});
    assert_eq!(told, expected);
}

#[test]
fn every_ending_has_its_own_number() {
    let named = [Exit::Other, Exit::Usage, Exit::Model, Exit::CutStream, Exit::Interrupted];
    let mut numbers: Vec<u8> =
        named.into_iter().chain(Code::ALL.map(Exit::Refused)).map(Exit::number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [1, 2, 10, 11, 12, 13, 14, 20, 21, 130]);
}

#[test]
fn a_known_secret_never_leaves() {
    let key = "sk-ant-canary-0123456789";
    let (mut report, out, err) = report(Output::Json);
    report.conceal([Secret::new(key.to_owned())]);
    report.line(format!("line {key}"));
    report.json(&json!({ "value": key }));
    report.note(key);
    report.tell(&Failure::other(key, key));
    assert_eq!((out.text() + &err.text()).matches(key).count(), 0);
    assert!(out.text().contains("line [redacted]"));
}

#[test]
fn a_key_quoted_in_a_message_is_replaced_while_ids_and_digests_stay() {
    let (mut report, _, err) = report(Output::People);
    let body = "Zk3vQ9xW1rT5yB7nM2cL8dF4gH6jK0pS".repeat(3);
    let key = format!("sk-ant-api03-{}AA", &body[..93]);
    let id = "0123456789abcdef".repeat(4);
    report.tell(&Failure::other(
        format!("server said: bad key {key} for receipt {id}"),
        format!("agentspine receipts show {id}"),
    ));
    assert!(!err.text().contains(&key), "{}", err.text());
    assert_eq!(err.text().matches(&id).count(), 2, "{}", err.text());
}

#[test]
fn text_cannot_steer_the_terminal() {
    let (mut report, out, _) = report(Output::People);
    report.line("a\u{1b}]0;owned\u{7}b\tc\u{202e}d\u{e0041}");
    assert_eq!(out.text(), "a<U+001B>]0;owned<U+0007>b\tc<U+202E>d<U+E0041>\n");
}

#[test]
fn a_closed_pipe_ends_output_quietly_and_successfully() {
    let err = Page::default();
    let mut report = Report::to(Output::People, Box::new(Gone), Box::new(err.clone()));
    report.line("one");
    report.line("two");
    assert!(report.is_closed());
    assert_eq!(report.finish(Ok(())), ExitCode::SUCCESS);
    assert_eq!(err.text(), "");
}
