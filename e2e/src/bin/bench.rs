//! `bench`: measures the operator on a real Kubernetes; `cargo xtask bench controller|cluster` runs it.
//!
//! Owns the command line alone. Figures go to standard output, one JSON object a line.
#![forbid(unsafe_code)]
#![allow(clippy::print_stderr, reason = "it says why it cannot go on")]

use anyhow::Result;
use clap::builder::RangedU64ValueParser;
use clap::{Parser, Subcommand};
use quorate_e2e::bench::cluster;
use quorate_e2e::bench::controller::{self, Peer};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Benchmarks of the operator.
#[derive(Parser)]
#[command(name = "bench", disable_version_flag = true)]
struct Args {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Subcommand)]
enum Subject {
    /// Many MiniClusters at once on a control plane whose nodes are played.
    Controller {
        /// MiniClusters, and plain JobSets beside them.
        #[arg(long, value_name = "COUNT", default_value_t = 1000)]
        clusters: usize,
        /// Objects of each peer, and MiniClusters beside them.
        #[arg(long, value_name = "COUNT", default_value_t = 100)]
        peer_clusters: usize,
        /// How often MiniClusters and plain JobSets are measured, in turn.
        #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = at_least_one())]
        rounds: usize,
        /// Which peers, separated by commas; `--peers` alone for none.
        #[arg(
            long,
            value_enum,
            value_delimiter = ',',
            value_name = "PEER,...",
            num_args = 0..,
            default_values_t = [Peer::Trainer, Peer::MpiOperatorTuned, Peer::MpiOperator]
        )]
        peers: Vec<Peer>,
        /// Seconds for which the idle controller is looked at.
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        idle: u64,
        /// Keeps the logs of all clusters in this folder.
        #[arg(long, value_name = "FOLDER")]
        logs: Option<PathBuf>,
    },
    /// MiniClusters on three nodes with kubelets, and losses of their parts.
    Cluster {
        /// Clusters of each kind; half as many losses of each kind.
        #[arg(long, value_name = "COUNT", default_value_t = 5)]
        rounds: usize,
        /// Measures first lines alone.
        #[arg(long)]
        first_lines: bool,
        /// Keeps the cluster's logs in this folder.
        #[arg(long, value_name = "FOLDER")]
        logs: Option<PathBuf>,
    },
}

fn at_least_one() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..)
}

fn main() -> ExitCode {
    match run(Args::parse().subject) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(subject: Subject) -> Result<()> {
    match subject {
        Subject::Controller { clusters, peer_clusters, rounds, peers, idle, logs } => {
            controller::run(&controller::Options {
                clusters,
                peer_clusters,
                rounds,
                peers,
                idle: Duration::from_secs(idle),
                logs,
            })
        }
        Subject::Cluster { rounds, first_lines, logs } => {
            cluster::run(&cluster::Options { rounds, first_lines, logs })
        }
    }
}
