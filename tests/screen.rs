//! The full screen as a person meets it: the real binary in a real terminal.

use std::time::Duration;

use rustix::process::Signal;

use crate::support::fake_model::{Answer, End};
use crate::support::served::Served;
use crate::support::terminal::{Terminal, find, keys};
use crate::support::{Home, Run};

const SIZE: (u16, u16) = (80, 24);
const DEMO: [&str; 4] = ["--instruction-host", "claude", "--model", "demo"];

#[test]
fn look() {
    let home = Home::new();
    let terminal = home.terminal(SIZE, &[]);
    terminal.wait_for("Whose");
    println!("{}", terminal.text());
    terminal.send(keys::ENTER);
    terminal.wait_for("Ask anything");
    println!("{}", terminal.text());
    terminal.submit("hello there");
    terminal.wait_for("ready");
    println!("{}", terminal.text());
    println!("{}", String::from_utf8_lossy(&terminal.raw()).escape_debug());
    terminal.send(keys::F3);
    terminal.wait_for("verify");
    println!("{}", terminal.text());
    terminal.send(keys::CTRL_C);
    terminal.send(keys::CTRL_C);
    terminal.send(keys::CTRL_C);
    let left = terminal.left();
    println!("{} {:?} {}", left.code, left.signal, left.is_restored());
    panic!();
}
