//! `receipts --follow`: one line a call, first those of before, then each as it is spent, refused, or gets an outcome.

use std::io;

use agentspine_gate::Id;
use agentspine_tui::watch::{CallRow, CallState};
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::{SCHEMA, summary};
use crate::cli::rooms::place;
use crate::cli::table;
use crate::config::Config;
use crate::receipts::live::{Live, News, POLL, Seen};
use crate::receipts::written;
use crate::report::{Exit, Failure, Output, Report, is_read};

/// Calls of before, where nothing is said.
const FIRST: u32 = 20;

/// Follows until an interrupt (exit 130), or until nobody reads any more (exit 0).
pub(super) fn run(
    config: &Config,
    limit: Option<u32>,
    session: Option<Id>,
    report: &mut Report,
) -> Result<(), Failure> {
    let live = Live::new(place(config), limit.unwrap_or(FIRST), session);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| no_start(&error))?;
    runtime.block_on(async {
        let interrupts = signal(SignalKind::interrupt()).map_err(|error| no_start(&error))?;
        follow(live, interrupts, report).await
    })
}

fn no_start(error: &io::Error) -> Failure {
    Failure::other(format!("Following did not start: {error}"), "Check the process limits: ulimit -a")
}

async fn follow(mut live: Live, mut interrupts: Signal, report: &mut Report) -> Result<(), Failure> {
    let mut said = false;
    while !report.is_closed() && is_read() {
        match live.poll()? {
            None => {}
            Some(News::Waiting) if said => {}
            Some(News::Waiting) => {
                said = true;
                report.note("nothing was sent from here yet; waiting for the first call (Ctrl+C ends)");
            }
            Some(News::Opened(seen)) => {
                heading(report);
                print(&seen, report);
            }
            Some(News::Calls(seen)) => print(&seen, report),
        }
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            _ = interrupts.recv() => return Err(Failure::Told(Exit::Interrupted)),
        }
    }
    Ok(())
}

fn heading(report: &mut Report) {
    if report.output() == Output::People {
        report.line(line(
            ["written", "id", "host", "call", "model", "state", "files rules recall", "took"],
            "",
        ));
    }
}

fn print(seen: &[Seen], report: &mut Report) {
    // A prepared receipt is no call yet, and an expired one never was.
    let calls =
        seen.iter().filter(|seen| !matches!(seen.row.state, CallState::Prepared | CallState::Expired));
    for seen in calls {
        match report.output() {
            Output::Json => report.event(&object(seen)),
            Output::People => report.line(people(seen)),
        }
    }
}

fn object(seen: &Seen) -> Value {
    let Some(record) = &seen.record else {
        let row = &seen.row;
        return json!({"schema": SCHEMA, "verified": false, "id": row.id, "problem": row.reason});
    };
    let mut object = json!({"schema": SCHEMA, "verified": true, "sort": seen.row.sort});
    if let (Value::Object(all), Value::Object(summary)) = (&mut object, summary(record)) {
        all.extend(summary);
    }
    object
}

fn people(seen: &Seen) -> String {
    let row = &seen.row;
    let at = seen.record.as_ref().map(|record| table::when(written(record))).unwrap_or_default();
    let took = row.took_ms.map(|ms| format!("{ms} ms")).unwrap_or_default();
    line([&at, &row.short, &row.host, &what(row), &row.model, &state(row), &numbers(row), &took], &row.reason)
}

fn what(row: &CallRow) -> String {
    match &row.sort {
        Some(sort) => format!("{} {sort}", row.kind),
        None => row.kind.clone(),
    }
}

fn state(row: &CallRow) -> String {
    match row.status {
        Some(status) => format!("{} {status}", row.state.word()),
        None => row.state.word().to_owned(),
    }
}

fn numbers(row: &CallRow) -> String {
    let failed = if row.failed > 0 { format!(", {} failed", row.failed) } else { String::new() };
    format!("{:>5} {:>5} {:>6}{failed}", row.files, row.rules, row.recalled)
}

/// Widths that most values fit: a stream cannot wait for its widest cell.
fn line([at, id, host, call, model, state, numbers, took]: [&str; 8], reason: &str) -> String {
    let line = format!(
        "{at:<20}  {id:<8}  {host:<10}  {call:<18}  {model:<20}  {state:<15}  {numbers:<18}  {took:>8}  {reason}"
    );
    line.trim_end().to_owned()
}
