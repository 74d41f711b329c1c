//! The chat host: conversation log, turn loop, tool loop, compaction, and three faces of one engine.
//!
//! [`engine`] runs turns and says what happens ([`told`]); [`screen`] shows it full screen, [`print`] as text, lines or JSON.
//! [`pick`] chooses the model. [`compact`] makes room, [`intake`] lets memory have the summaries, [`fork`] goes on in a copy. No call is made anywhere but in [`engine`], and there only through [`crate::turn::walk`].

pub(crate) mod cancel;
mod compact;
mod editor;
mod engine;
mod fork;
mod frames;
mod hear;
mod history;
pub(crate) mod intake;
pub(crate) mod log;
mod own_words;
mod perform;
mod pick;
mod print;
mod receipts;
mod rules;
mod screen;
mod show;
mod step;
mod switch;
mod told;
mod tools;

use std::io::Read as _;

use agentspine_gate::instructions;
use agentspine_gate::seams::Fs as _;
use agentspine_gate::turn::Scope;
use agentspine_gate::{Id, os_fs::OsFs};

use crate::cli::chat::ChatArgs;
use crate::compose;
use crate::config::Config;
use crate::report::{Failure, Report, is_interactive};
use engine::Binding;

/// Longest prompt read from a pipe, bytes; one more is read to notice.
const PIPE_BYTES_MAX: u64 = agentspine_gate::turn::PROMPT_BYTES_MAX as u64;

/// Runs a chat, or one prompt of it.
pub(crate) fn run(args: &ChatArgs, config: &Config, report: &mut Report) -> Result<(), Failure> {
    for warning in &config.memory.warnings {
        report.note(warning);
    }
    let binding = bind(args, config)?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().map_err(
            |error| {
                Failure::other(
                    format!("The runtime did not start: {error}"),
                    "Check the process limits: ulimit -a",
                )
            },
        )?;
    let opening = compose::opening(config, &binding.cwd);
    let prompt = one_prompt(args)?;
    let done = runtime.block_on(async {
        match prompt {
            Some(prompt) => print::one(args, config, opening, binding, prompt, report).await,
            None if args.plain || args.json || !is_interactive() || config.ui.is_dumb() => {
                print::lines(args, config, opening, binding, report).await
            }
            None => screen::run(args, config, opening, binding).await,
        }
    });
    // A read of stdin that nobody waits for any more must not hold the process.
    runtime.shutdown_background();
    done
}

/// The prompt of `-p`, with what a pipe brings; `None` for a conversation.
fn one_prompt(args: &ChatArgs) -> Result<Option<String>, Failure> {
    let Some(typed) = &args.print else { return Ok(None) };
    let piped = if std::io::IsTerminal::is_terminal(&std::io::stdin()) { String::new() } else { pipe()? };
    match (typed.as_deref().unwrap_or_default(), piped.trim_end()) {
        ("", "") => {
            Err(Failure::usage("-p needs a prompt", "Try: agentspine chat -p \"What did we decide?\""))
        }
        ("", piped) => Ok(Some(piped.to_owned())),
        (typed, "") => Ok(Some(typed.to_owned())),
        (typed, piped) => Ok(Some(format!("{typed}\n\n{piped}"))),
    }
}

fn pipe() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(PIPE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| {
        Failure::other(format!("stdin cannot be read: {error}"), "Give the prompt after -p")
    })?;
    if bytes.len() as u64 > PIPE_BYTES_MAX {
        return Err(Failure::usage(
            format!("stdin holds more than {PIPE_BYTES_MAX} bytes"),
            "Send a part of it",
        ));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::usage(
            format!("stdin is not UTF-8 text (byte {at})"),
            "Send text, for example: git diff | agentspine -p \"Review\"",
        )
    })
}

fn bind(args: &ChatArgs, config: &Config) -> Result<Binding, Failure> {
    let cwd = match &args.cwd {
        Some(dir) => dir.clone(),
        None => std::env::current_dir().map_err(|error| {
            Failure::other(format!("The working directory is gone: {error}"), "cd into an existing directory")
        })?,
    };
    let cwd = OsFs.canonicalize(&cwd).map_err(|error| {
        Failure::usage(
            format!("{} cannot be used: {error}", config.short_path(&cwd)),
            "Name an existing directory: --cwd DIR",
        )
    })?;
    let project_id = args.project.clone().unwrap_or_else(|| instructions::project_id(&OsFs, &cwd));
    let session_id = match &args.session {
        Some(id) => id.clone(),
        None => new_session_id()?,
    };
    let scope = Scope { session_id, project_id, task_id: args.task.clone(), group_id: args.group.clone() };
    Ok(Binding {
        identity: config.identity.clone(),
        instruction_host: config.instruction_host,
        homes: config.homes.clone(),
        scope,
        cwd,
        root: None,
    })
}

pub(crate) fn new_session_id() -> Result<Id, Failure> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| {
        Failure::other(format!("No randomness from the system: {error}"), "Run: agentspine doctor")
    })?;
    Id::new(format!("s-{}", agentspine_gate::ids::hex(&bytes)))
        .map_err(|error| Failure::other(error.to_string(), ""))
}
