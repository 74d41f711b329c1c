//! The chat host.

use crate::cli::chat::ChatArgs;
use crate::config::Config;
use crate::report::{Failure, Report};

/// Runs a chat, or one prompt of it.
pub(crate) fn run(args: &ChatArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    let _ = (args, config, report);
    Err(Failure::other("chat is not built yet", "Wait for it"))
}
