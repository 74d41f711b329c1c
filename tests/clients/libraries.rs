//! The vendors' own libraries before a proxy that refuses: one request, and a message that a person can read.

use super::script::obliging;
use super::{Desk, Road};

#[test]
fn each_official_library_asks_once_and_raises_a_readable_message() {
    let Some(desk) = Desk::new(Road::Spine, obliging) else { return };
    desk.require(&["generic"], "exit 3\n");
    let scripts = crate::support::root().join("tests/clients");
    let (python, javascript) = (desk.library("py/bin/python"), "node".to_owned());
    let asks = [
        (&python, "ask.py", "anthropic", "424"),
        (&python, "ask.py", "openai-chat", "400"),
        (&python, "ask.py", "openai-responses", "400"),
        (&javascript, "ask.mjs", "anthropic", "424"),
        (&javascript, "ask.mjs", "openai-chat", "400"),
        (&javascript, "ask.mjs", "openai-responses", "400"),
    ];
    for (program, script, dialect, status) in asks {
        for stream in ["whole", "stream"] {
            let script = scripts.join(script);
            let run = desk.program(&[program, script.to_str().unwrap(), dialect, stream]);
            let told = format!("{} {dialect} {stream}: {run:?}", script.display());
            assert_eq!(run.code, 3, "{told}");
            assert!(run.out.starts_with(&format!("{status} ")), "{told}");
            assert_eq!(run.out.matches("agentspine blocked this call").count(), 1, "{told}");
            assert!(run.err.contains("1 call, 0 receipts, 1 blocked"), "{told}");
        }
    }
    assert_eq!(desk.api.prompts().len(), 0);
}
