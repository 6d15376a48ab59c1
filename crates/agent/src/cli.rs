//! The command line: which verb does what. Verbs live beside what they drive; this module only
//! names them.

use crate::broker::Launching;
use crate::broker::plain::Plain;
use crate::{broker, install, query, version};
use clap::{Parser, Subcommand};
use quorate_contract::exit;
use std::sync::Arc;

/// The broker of a Quorate cluster in this pod, and the verbs to talk to it
#[derive(Debug, Parser)]
#[command(name = "quorate-agent", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

/// What can be asked of the agent.
#[derive(Debug, Subcommand)]
enum Verb {
    Install(install::Args),
    Broker(broker::life::Args),
    Ready(query::ready::Args),
    #[command(subcommand)]
    Overlay(query::overlay::Verb),
    Version(version::Args),
}

impl Cli {
    /// Runs the verb; gives the code to exit with.
    pub fn run(self) -> anyhow::Result<i32> {
        match self.verb {
            Verb::Install(args) => install::run(&args),
            Verb::Broker(args) => broker::life::run(&args, &launching()),
            Verb::Ready(args) => query::ready::run(&args),
            Verb::Overlay(verb) => query::overlay::run(verb),
            Verb::Version(args) => version::run(&args),
        }
    }
}

/// The launching side of this binary's brokers.
fn launching() -> Arc<dyn Launching> {
    Arc::new(Plain::default())
}

/// Parses the command line and runs it; errors are printed once, as a chain.
pub fn main() -> i32 {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { exit::USAGE } else { exit::OK };
        }
    };
    match cli.run() {
        Ok(code) => code,
        Err(error) => {
            crate::sys::complain(&format!("{error:#}"));
            exit::FAILED
        }
    }
}
