//! Every chore of the workspace, as `cargo xtask CHORE`.
//!
//! Owns: what runs in continuous integration, how tests are grouped into tiers, the test tools that
//! are downloaded, the benchmarks. Must not: hold anything that the products need, or depend on
//! their crates (what a chore needs of them it runs as a program), so that it builds in seconds.
#![forbid(unsafe_code)]
// Chores talk to the person at the terminal or to the log of a continuous integration.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod bench;
mod chart;
mod ci;
mod crd;
mod demo;
mod deps;
mod dist;
mod exec;
mod golden;
mod kube;
mod lint;
mod mpi;
mod order;
mod pages;
mod soak;
mod suite;
mod tally;
mod workflows;
mod workspace;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

/// Chores of the Quorate workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", disable_version_flag = true)]
struct Args {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Builds everything and runs a real MPI program over four pods of this machine.
    Demo,
    /// Everything that continuous integration runs: all tiers, then a table and the count.
    Ci,
    /// One tier of tests.
    Test {
        /// Which tier.
        tier: suite::Tier,
    },
    /// Format, clippy, docs and the structure of the workspace.
    Lint,
    /// Proves the direction of dependencies and the purity of the pure crates; lists long files.
    Deps,
    /// Benchmarks of the shipped binaries, beside their peers in the same run.
    Bench {
        /// One of bringup, launch, mpi, rsh, fence, local, controller, cluster; all by default.
        name: Option<String>,
        /// Writes all figures to this file as well.
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
        /// Options of `controller` and `cluster`; `-- --help` lists them.
        #[arg(last = true)]
        options: Vec<String>,
    },
    /// Times commands inside a cluster, for `bench`.
    #[command(hide = true)]
    TimeRounds { spec: PathBuf, results: PathBuf },
    /// Writes the CRD from the types of the API.
    Crd {
        /// Writes nothing, but fails if the file is not as it should be.
        #[arg(long)]
        check: bool,
    },
    /// Writes the kustomize bases below config/ from the Helm chart.
    Chart {
        /// Writes nothing, but fails if a file is not as it should be; tries the chart with Helm too.
        #[arg(long)]
        check: bool,
    },
    /// Rewrites the golden files of the tests.
    Golden,
    /// Builds the shipped binaries into target/dist.
    Dist,
    /// Writes the order of the agent's functions in its binary; needs valgrind.
    Order,
    /// The test cluster, a real Kubernetes on this machine: build, up, down, status, env, exec and
    /// more; `kube help` lists them.
    #[command(disable_help_flag = true)]
    Kube {
        /// What the program `testbed` takes.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Many jobs under kills, stops and cuts of brokers, for as long as wanted; the seed is printed.
    Soak(soak::Options),
    /// Workflow managers that drive a cluster's queue; a part of the tier `mpi`.
    Workflows {
        /// The agent to use instead of the shipped one.
        #[arg(long, value_name = "FILE")]
        agent: Option<PathBuf>,
    },
    /// The MPIs that the tests use.
    Mpi {
        #[command(subcommand)]
        chore: MpiChore,
    },
}

#[derive(Subcommand)]
enum MpiChore {
    /// Fetches MPIs into the cache and compiles the test programs with them.
    Setup {
        /// Which; all by default.
        names: Vec<String>,
    },
    /// Runs the matrix of the tier `mpi` alone.
    Matrix {
        /// Which MPIs; all by default.
        names: Vec<String>,
    },
}

fn main() -> ExitCode {
    match run(&Args::parse().chore) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the chore found all in order.
fn run(chore: &Chore) -> Result<bool> {
    match chore {
        Chore::Ci => Ok(ci::run()),
        Chore::Test { tier } => Ok(ci::run_tiers(&[ci::Stage::Test(*tier)])),
        Chore::Lint => Ok(ci::run_tiers(&[ci::Stage::Lint])),
        Chore::Demo => demo::run(),
        Chore::Bench { name, json, options } => {
            bench::run(name.as_deref(), json.as_deref(), options)
        }
        Chore::TimeRounds { spec, results } => bench::run_inside(spec, results),
        Chore::Crd { check } => crd::run(*check),
        Chore::Chart { check: false } => chart::write(),
        Chore::Chart { check: true } => Ok(chart::check(tally::Clock::start())?.failed == 0),
        Chore::Golden => golden::run(),
        Chore::Dist => {
            let dist = dist::build()?;
            let controller = dist::controller()?;
            for path in [dist.quorate, dist.agent, controller] {
                println!("{}", path.display());
            }
            Ok(true)
        }
        Chore::Order => order::run(),
        Chore::Soak(options) => soak::run(*options),
        Chore::Deps => deps::run(),
        Chore::Kube { arguments } => kube::run(arguments),
        Chore::Workflows { agent } => {
            let agent = match agent {
                Some(agent) => agent.clone(),
                None => dist::build()?.agent,
            };
            Ok(workflows::run(&agent, tally::Clock::start())?.failed == 0)
        }
        Chore::Mpi { chore: MpiChore::Setup { names } } => {
            mpi::fetch::setup(names, tally::Clock::start())
        }
        Chore::Mpi { chore: MpiChore::Matrix { names } } => {
            let tally = mpi::matrix::run(&dist::build()?, names, tally::Clock::start())?;
            Ok(tally.failed == 0)
        }
    }
}
