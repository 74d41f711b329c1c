//! What the person's own programs do for the chat: the editor, the clipboard, the shell behind a suspended chat.

use std::io::{Write as _, stdout};
use std::process::Command;

use crate::report::Failure;

/// Largest text an editor may give back, bytes.
const EDITED_BYTES_MAX: u64 = agentspine_gate::turn::PROMPT_BYTES_MAX as u64;

/// Opens the text in the person's editor and reads it back. The command may carry arguments, split at white space.
pub(super) fn edit(text: &str, editor: Option<&str>) -> Result<String, Failure> {
    let failed = |what: &str| {
        Failure::other(format!("The editor {what}."), "Set VISUAL or EDITOR to a program that waits.")
    };
    let command = editor.unwrap_or("vi");
    let mut words = command.split_whitespace();
    let program = words.next().ok_or_else(|| failed("is not set"))?;
    let mut file = tempfile::Builder::new()
        .prefix("agentspine-")
        .suffix(".md")
        .tempfile()
        .map_err(|_| failed("got no file"))?;
    file.write_all(text.as_bytes()).map_err(|_| failed("got no file"))?;
    let done =
        Command::new(program).args(words).arg(file.path()).status().map_err(|_| failed("did not start"))?;
    if !done.success() {
        return Err(failed("ended with an error; the draft is as it was"));
    }
    let size = std::fs::metadata(file.path()).map_err(|_| failed("took the file away"))?.len();
    if size > EDITED_BYTES_MAX {
        return Err(failed("gave back more than a prompt may hold"));
    }
    let edited = std::fs::read_to_string(file.path()).map_err(|_| failed("gave back no UTF-8 text"))?;
    Ok(edited.trim_end_matches('\n').to_owned())
}

/// Puts text on the clipboard through the terminal (OSC 52), which also works over SSH.
pub(super) fn copy(text: &str) {
    let command = crossterm::clipboard::CopyToClipboard::to_clipboard_from(text);
    // A terminal without the sequence ignores it.
    let _ = crossterm::execute!(stdout(), command);
}

/// Stops this process as Ctrl+Z does; returns when the shell continues it.
pub(super) fn suspend() {
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TSTP);
}
