//! Compaction: the words that ask a model for a summary, and those that introduce it afterwards. Build constants, so that
//! a conversation before and after is the same bytes every time.

/// Asks for the summary; the last human message of the request.
pub const REQUEST: &str = "Summarise this conversation so that it can go on from your summary alone. Write what the person \
wants, what was decided and why, what was done with which results, names, numbers, paths and identifiers as they were \
said, and what is open. Leave out text between agentspine tags and what memory tools returned: both are given anew. \
Write in the language of the conversation, as short paragraphs or a list, at most 600 words. Answer with the summary \
only, and call no tool.";

/// The human message before a summary that opens a conversation.
pub const OPENER: &str =
    "This conversation was longer; to make room, only your own summary of what was said before is kept.";
