//! `testbed`: a real Kubernetes on this machine, from the command line.
//!
//! Owns the command line alone; what it does is in the library.
#![forbid(unsafe_code)]
// It talks to the person at the terminal: status on stderr, results on stdout.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use anyhow::Result;
use clap::{Parser, Subcommand};
use quorate_testbed::build::{self, BuildError};
use quorate_testbed::images::{self, Binaries, Name};
use quorate_testbed::modules::{MODULES, module};
use std::path::PathBuf;
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
    /// The images that tests run.
    Images {
        #[command(subcommand)]
        verb: ImagesVerb,
    },
}

#[derive(Subcommand)]
enum ImagesVerb {
    /// Writes images into the cache, once for each content of them, and prints their archives.
    Build {
        /// Which; all by default.
        names: Vec<String>,
        /// The static quorate-agent; by default what `cargo xtask dist` built.
        #[arg(long, value_name = "FILE")]
        agent: Option<PathBuf>,
        /// The static quorate-controller; by default what `cargo xtask dist` built.
        #[arg(long, value_name = "FILE")]
        controller: Option<PathBuf>,
    },
    /// What images there are.
    List,
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
        Verb::Images { verb } => {
            run_images(verb)?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn run_images(verb: ImagesVerb) -> Result<()> {
    match verb {
        ImagesVerb::List => {
            for name in images::ALL {
                println!("{:<32} {}", name.full(), name.about());
            }
        }
        ImagesVerb::Build { names, agent, controller } => {
            let named: Result<Vec<Name>, _> = names.iter().map(|name| Name::parse(name)).collect();
            let names = if names.is_empty() { images::ALL.to_vec() } else { named? };
            let mut binaries = Binaries::default();
            binaries.agent = agent.unwrap_or(binaries.agent);
            binaries.controller = controller.unwrap_or(binaries.controller);
            for path in images::build(&names, &binaries, &mut |line| eprintln!("{line}"))? {
                println!("{}", path.display());
            }
        }
    }
    Ok(())
}
