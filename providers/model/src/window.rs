//! How many tokens a model reads, as its vendor publishes it.

/// Beginnings of model names and their windows, tokens. The first that fits counts.
///
/// Sources: docs.anthropic.com (models overview), platform.openai.com (models), ai.google.dev (Gemini models),
/// api-docs.deepseek.com. The smaller figure where a family has two.
const KNOWN: [(&str, u64); 12] = [
    ("claude-", 200_000),
    ("gpt-5", 272_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("chatgpt-4o", 128_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4", 200_000),
    ("codex-mini", 200_000),
    ("gemini-", 1_048_576),
    ("deepseek-", 64_000),
    ("mistral-large", 128_000),
];

/// The model's context window in tokens; `None` for a model this build does not know. A local server may have been
/// started with a smaller one than its model could read.
pub fn context_tokens(model: &str) -> Option<u64> {
    // Gateways put the vendor before the name.
    let name = model.rsplit('/').next().unwrap_or(model);
    KNOWN.iter().find(|(begins, _)| name.starts_with(begins)).map(|(_, tokens)| *tokens)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vendors_models_are_known_with_and_without_a_gateways_prefix_and_others_are_not() {
        assert_eq!(context_tokens("claude-sonnet-5-5"), Some(200_000));
        assert_eq!(context_tokens("anthropic/claude-sonnet-5-5"), Some(200_000));
        assert_eq!(context_tokens("qwen3:8b"), None);
    }
}
