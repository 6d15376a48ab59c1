//! `testbed`: a real Kubernetes on this machine, from the command line.
//!
//! Owns the command line alone; what it does is in the library.
#![forbid(unsafe_code)]
// It talks to the person at the terminal: status on stderr, results on stdout.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use anyhow::Result;
use clap::{Parser, Subcommand};
use quorate_testbed::build::{self, BuildError};
use quorate_testbed::modules::{MODULES, module};
use std::process::ExitCode;

/// A real Kubernetes with several nodes in namespaces of this machine.
#[derive(Parser)]
#[command(name = "testbed", disable_version_flag = true)]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Builds the programs of a cluster, once for each version of them.
    Build {
        /// Modules of e2e/kube; all by default.
        modules: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(Args::parse().verb) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Build { modules } => {
            let all = MODULES.iter().map(|module| module.name.to_owned());
            let names = if modules.is_empty() { all.collect() } else { modules };
            for name in names {
                let row = module(&name).ok_or(BuildError::UnknownModule { name })?;
                let built = build::ensure(row, &mut |line| eprintln!("{line}"))?;
                println!("{}", built.bin().display());
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}
