//! `quorate-controller`: parse, start the logs, run, exit code.

use anyhow::Context;
use clap::Parser;
use quorate_controller::settings::Settings;
use quorate_controller::{process, telemetry};
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

/// One thread: a controller waits for the API most of its life, and each thread costs memory.
#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let settings = Settings::parse();
    let traces = match telemetry::start(&settings.log) {
        Ok(traces) => traces,
        Err(failed) => {
            // Nothing else can say it yet.
            #[expect(clippy::print_stderr, reason = "the logs did not start")]
            {
                eprintln!("error: {}", telemetry::chain(&failed));
            }
            return ExitCode::FAILURE;
        }
    };
    let ended = run(&settings).await;
    if let Some(traces) = traces {
        traces.end().await;
    }
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            error!(error = format!("{failed:#}"), "the controller cannot go on");
            ExitCode::FAILURE
        }
    }
}

async fn run(settings: &Settings) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
    let running = process::run(settings, stop.clone());
    tokio::pin!(running);
    let heard = tokio::select! {
        ended = &mut running => return Ok(ended?),
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    };
    info!(signal = heard, "stopping");
    stop.cancel();
    // The kubelet kills what takes longer than the pod's grace period; a second Ctrl-C does too.
    tokio::select! {
        ended = &mut running => Ok(ended?),
        _ = interrupt.recv() => anyhow::bail!("stopped at once by a second SIGINT"),
    }
}
