//! The long forms of the soak of the job queue and of the floods of output; the tier `local` runs the small ones.

use crate::workspace;
use anyhow::{Context, Result};

/// Megabytes of each flood.
const FLOOD: u32 = 2048;

/// How long, and with what.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Options {
    /// Jobs to submit at most.
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    jobs: u64,
    /// Minutes after which no more are submitted.
    #[arg(long, value_name = "N", default_value_t = 30)]
    minutes: u64,
    /// The seed of what happens when; drawn and printed without it.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

/// Runs it; tells whether all was in order.
pub(crate) fn run(options: Options) -> Result<bool> {
    let mut floods = workspace::cargo();
    floods
        .args(["test", "--locked", "-p", "quorate-agent", "--test", "queue", "--", "floods"])
        .env("QUORATE_FLOOD_MEGABYTES", FLOOD.to_string());
    let floods = floods.status().context("start cargo test")?.success();
    let mut command = workspace::cargo();
    command
        .args(["test", "--locked", "-p", "quorate-agent", "--test", "soak", "--", "--nocapture"])
        .arg("jobs_end_once")
        .env("QUORATE_SOAK_JOBS", options.jobs.to_string())
        .env("QUORATE_SOAK_MINUTES", options.minutes.to_string());
    if let Some(seed) = options.seed {
        command.env("QUORATE_SOAK_SEED", seed.to_string());
    }
    Ok(command.status().context("start cargo test")?.success() && floods)
}
