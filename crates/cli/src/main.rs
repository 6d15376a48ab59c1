//! Entry point: parses, runs, and prints an error once.

use clap::Parser as _;
use quorate_cli::args::Cli;
use quorate_cli::{refusal, terminal, verbs};

fn main() {
    let code = match verbs::run(Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            let (text, code) = refusal::render(&error);
            terminal::write_stderr(&format!("{text}\n"));
            code
        }
    };
    std::process::exit(code);
}
