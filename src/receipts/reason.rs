//! What a refusal's code means, for people who read it in the journal, where only the code stands.

/// One sentence, and the next thing to do, for `code/detail`; `None` for what is no refusal of the table.
pub(super) fn meaning(key: &str) -> Option<(&'static str, &'static str)> {
    let (_, detail) = key.split_once('/')?;
    // `exit(3)`, `mismatch(cwd)`: what stands in brackets is shown beside.
    let word = detail.split('(').next().unwrap_or(detail);
    Some(match word {
        "unreadable" | "not-regular" => ("An instruction file could not be read.", FILES),
        "symlink" => ("An instruction file is a link that the local policy does not allow.", FILES),
        "replaced" | "changed" => {
            ("Instruction files changed while the call was prepared.", "Send it again.")
        }
        "out-of-scope" => ("An instruction file left the directory it belongs to.", FILES),
        "non-utf8" => ("An instruction file is not UTF-8 text.", FILES),
        "too-many" => ("There are more instruction files than the limits allow.", FILES),
        "host-unbound" => ("Nobody said whose instruction files are mandatory.", HOST),
        "host-config" => ("The host's own configuration cannot be read.", "agentspine doctor"),
        "missing" | "not-executable" => ("A required provider's command cannot be run.", POLICY),
        "not-invoked" => ("A required provider gave no result for this turn.", POLICY),
        "digest" => ("A required provider's command is not the one the policy names.", POLICY),
        "credential-missing" => ("A required provider's credential is not set.", POLICY),
        "timeout" => ("A required provider did not answer before its deadline.", POLICY),
        "cancelled" => ("The turn was cancelled while a required provider ran.", "Send it again."),
        "exit" | "signal" => ("A required provider ended with an error.", POLICY),
        "oversize" | "malformed" | "echo" | "scope" => {
            ("A required provider's answer is not a valid result for this turn.", POLICY)
        }
        "instructions" => ("The instruction files are over their hard limit.", FILES),
        "must-remember" => ("The Must-Remember rules are over their budget.", "agentspine remember-list"),
        "brief" | "request" => {
            ("The request would be over its limit.", "Send less, or compact the conversation.")
        }
        "replay" | "consumed" => ("This delivery was spent before.", "Send it again: it gets a new receipt."),
        "expired" => ("The receipt was older than 60 s, or of another boot.", "Send it again."),
        "mac" => ("A signature does not verify.", CHECK),
        "mismatch" => ("What the receipt binds changed before it was spent.", "Send it again."),
        "journal-busy" => ("The journal stayed locked by another process.", "Send it again."),
        "journal-missing" | "journal-rolled-back" | "journal-io" => {
            ("The journal cannot be used as it is.", CHECK)
        }
        "key-missing" | "key-mode" | "key-owner" | "key-length" => {
            ("The keyring cannot be used as it is.", CHECK)
        }
        "policy-invalid" | "policy-unmatched" => ("The local policy does not let this turn pass.", POLICY),
        "remember-corrupt" => ("The Must-Remember store does not verify.", CHECK),
        "prompt" => ("The prompt is empty or too large.", "Send another one."),
        "conversation-unknown" => (
            "This gate did not see the turn that the call continues.",
            "Send a new prompt in that conversation.",
        ),
        "state-dir" => ("The state directory cannot be used.", CHECK),
        _ => return None,
    })
}

const FILES: &str = "agentspine instructions";
const HOST: &str = "agentspine doctor --host claude, or --host codex";
const POLICY: &str = "agentspine preflight-policy --show";
const CHECK: &str = "agentspine state check";

#[cfg(test)]
mod tests {
    use agentspine_gate::Detail;

    use super::meaning;

    #[test]
    fn every_refusal_of_the_table_has_a_sentence_and_a_next_step() {
        for (code, word) in Detail::table() {
            assert!(meaning(&format!("{}/{word}", code.as_str())).is_some(), "{word}");
        }
        assert!(meaning("provider-failed/exit(3)").is_some() && meaning("cancelled").is_none());
    }
}
