//! `agentspine chat`: its flags. The chat itself lives in [`crate::chat`].

use std::path::PathBuf;

use agentspine_gate::Id;
use agentspine_gate::turn::InstructionHost;
use clap::Args;

use super::flags::{IdentityFlags, id, instruction_host};
use crate::config::Flags;

/// Chat in this directory; the default command
#[derive(Args, Debug, Clone, Default)]
#[command(after_help = "Examples:
  agentspine chat --instruction-host claude --model demo
  agentspine chat -p \"Summarise what you know about this project\"
  git diff | agentspine chat -p \"Review this\" --model anthropic:claude-sonnet-5-5
  agentspine chat --model chat:qwen3@http://127.0.0.1:11434/v1
  agentspine chat --continue")]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
pub(crate) struct ChatArgs {
    /// Ask once, print the answer and exit; text piped into stdin follows the prompt, or is the prompt
    #[arg(short = 'p', long = "print", value_name = "PROMPT", num_args = 0..=1)]
    #[expect(clippy::option_option, reason = "absent, present without text, present with text")]
    pub print: Option<Option<String>>,
    /// Print events as JSON, one a line
    #[arg(long)]
    pub json: bool,
    /// Lines only: no full screen, no animation
    #[arg(long)]
    pub plain: bool,
    /// Signs and frames in ASCII
    #[arg(long)]
    pub ascii: bool,
    /// demo, anthropic:NAME, openai:NAME, chat:NAME@BASE_URL or responses:NAME@BASE_URL
    #[arg(long, value_name = "MODEL")]
    pub model: Option<String>,
    /// Whose instruction files are mandatory
    #[arg(long, value_name = "HOST", value_parser = instruction_host())]
    pub instruction_host: Option<InstructionHost>,
    /// Resume the session with this id; without one, choose one of this project's
    #[arg(long, value_name = "SESSION", num_args = 0..=1, conflicts_with_all = ["continue_last", "session"])]
    #[expect(clippy::option_option, reason = "absent, present without id, present with id")]
    pub resume: Option<Option<String>>,
    /// Continue this project's last session
    #[arg(long = "continue", conflicts_with = "session")]
    pub continue_last: bool,
    /// Id of the new session, instead of a random one
    #[arg(long, value_name = "ID", value_parser = id)]
    pub session: Option<Id>,
    /// Work in this directory
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Project id, instead of the one of the repository
    #[arg(long, value_name = "ID", value_parser = id)]
    pub project: Option<Id>,
    /// Task id
    #[arg(long, value_name = "ID", value_parser = id)]
    pub task: Option<Id>,
    /// Group id
    #[arg(long, value_name = "ID", value_parser = id)]
    pub group: Option<Id>,
    /// Who asks.
    #[command(flatten)]
    pub identity: IdentityFlags,
}

impl ChatArgs {
    /// The layer of the flags.
    pub(super) fn flags(&self) -> Flags {
        Flags {
            instruction_host: self.instruction_host,
            model: self.model.clone(),
            ascii: self.ascii,
            ..self.identity.flags()
        }
    }
}
