//! The same words once more: a turn that failed can be sent again.

use crate::support::Home;

/// A port of this machine at which nobody listens.
fn nobody() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    format!("chat:m@http://{address}/v1")
}

#[test]
fn a_prompt_whose_call_failed_can_be_typed_again_and_resumed_as_often_as_the_person_likes() {
    let home = Home::new();
    home.write("src/project/CLAUDE.md", "Use tabs.\n");
    let model = nobody();
    let chat = ["chat", "--plain", "--instruction-host", "claude", "--model", &model];
    let twice = home.run_with_stdin(&chat, "hello\nhello\n");
    assert_eq!(twice.code, 20, "{}\n{}", twice.out, twice.err);
    assert!(
        !twice.err.contains("preflight-failed") && !twice.err.contains("receipt-failed"),
        "{}",
        twice.err
    );
    let again = home.run_with_stdin(&[&chat[..], &["--continue"]].concat(), "hello\n");
    assert_eq!(again.code, 20, "{}\n{}", again.out, again.err);
    assert!(home.ok(&["receipts", "verify"]).starts_with("3 consumed receipts"));
}
