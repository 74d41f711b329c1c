//! The person's own editor, for a text of the chat.

use std::io::{self, Write as _};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use crate::report::Failure;

/// How long an editor may take to leave once its terminal is gone.
const LEAVING: Duration = Duration::from_millis(500);

/// Largest text an editor may give back, bytes.
const EDITED_BYTES_MAX: u64 = agentspine_gate::turn::PROMPT_BYTES_MAX as u64;

/// Opens the text in the person's editor and reads it back; the editor is ended where this program is told to leave
/// meanwhile. The command may carry arguments, split at white space.
pub(super) async fn edit(
    text: &str,
    editor: Option<&str>,
    told_to_leave: impl Future<Output = ()>,
) -> Result<String, Failure> {
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
    let child = Command::new(program).args(words).arg(file.path()).spawn();
    let child = child.map_err(|_| failed("did not start"))?;
    let done = ended(child, told_to_leave).await.map_err(|_| failed("cannot be waited for"))?;
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

/// Waits for the editor. One whose terminal is gone may run on for ever, so it is ended before this program leaves.
async fn ended(mut child: Child, told_to_leave: impl Future<Output = ()>) -> io::Result<ExitStatus> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let signal = |signal| pid.map(|pid| kill_process(pid, signal));
    let mut waiting = spawn_blocking(move || child.wait());
    tokio::select! {
        done = &mut waiting => return joined(done),
        () = told_to_leave => {}
    }
    // Nobody else waits for it, so its id cannot be another process's yet.
    let _ = signal(Signal::HUP);
    if let Ok(done) = timeout(LEAVING, &mut waiting).await {
        return joined(done);
    }
    let _ = signal(Signal::KILL);
    joined(waiting.await)
}

fn joined(done: <JoinHandle<io::Result<ExitStatus>> as Future>::Output) -> io::Result<ExitStatus> {
    done.map_err(io::Error::other)?
}
