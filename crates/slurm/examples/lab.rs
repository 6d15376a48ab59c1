//! A Slurm of this machine's packages for measurements. Says in one line where its configuration is
//! (`there PATH`) or why there can be none (`none REASON`), and is there until its input ends.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a program for measurements"
)]

#[path = "../tests/live/lab.rs"]
#[allow(dead_code, reason = "tests need accounts as well")]
mod lab;

use std::io::{Read, Write};

fn main() {
    let mut out = std::io::stdout();
    if let Some(why) = lab::missing() {
        writeln!(out, "none {why}").unwrap();
        return;
    }
    let lab = lab::Lab::start();
    writeln!(out, "there {}", lab.path("slurm.conf").display()).unwrap();
    out.flush().unwrap();
    let _ = std::io::stdin().lock().read(&mut [0]);
}
