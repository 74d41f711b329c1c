//! Taking memories along: JSON lines on stdout or into a file of one's own.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use agentspine_memory::export::ExportError;
use clap::Args;
use serde_json::json;

use super::{Door, show};
use crate::report::{Failure, Report};

#[derive(Args)]
pub(super) struct ExportArgs {
    /// A new file [default: stdout]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

/// Writes every memory of this project.
pub(super) fn run(args: &ExportArgs, door: &mut Door, report: &mut Report) -> Result<(), Failure> {
    let Some(file) = &args.file else {
        export(door, |line| {
            report.event(line);
            Ok(())
        })?;
        report.note("an export is out of reach of forgetting: delete it yourself");
        return Ok(());
    };
    let unwritten = |error: std::io::Error| {
        Failure::usage(
            format!("the export cannot be written: {}", error.kind()),
            "Name a new file in a folder of yours",
        )
    };
    let mut out =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(file).map_err(unwritten)?;
    let exported = export(door, |line| writeln!(out, "{}", line.text()).map_err(unwritten))?;
    out.sync_all().map_err(unwritten)?;
    if !show::as_json(&json!({ "exported": exported }), report) {
        report.line(format!("{exported} memories exported"));
        report.note("an export is out of reach of forgetting: delete it yourself");
    }
    Ok(())
}

fn export(
    door: &mut Door,
    mut write: impl FnMut(&agentspine_memory::export::Line) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let (mut written, (ledger, scope, grants)) = (Ok(()), door.parts());
    let done = ledger.export(scope, grants, |line| {
        if written.is_ok() {
            written = write(line);
        }
    });
    written?;
    done.map_err(|error| match error {
        ExportError::NotGranted(error) => Failure::usage(error.to_string(), error.advice()),
        ExportError::Store(error) => Failure::other(error.to_string(), "Run: agentspine doctor"),
    })
}
