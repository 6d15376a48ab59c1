//! `quorate-controller`: parse, build, run, exit code.

use anyhow::Context;
use clap::Parser;
use quorate_controller::settings::Settings;
use tokio_util::sync::CancellationToken;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let settings = Settings::parse();
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let client = kube::Client::try_default().await.context("find a Kubernetes cluster")?;
    let stop = CancellationToken::new();
    let told = stop.clone();
    let signal = async move {
        tokio::signal::ctrl_c().await?;
        told.cancel();
        anyhow::Ok(())
    };
    let run = quorate_controller::run(client, settings.options(), stop);
    tokio::pin!(run);
    tokio::select! {
        ended = &mut run => ended?,
        heard = signal => {
            heard.context("listen for signals")?;
            run.await?;
        }
    }
    Ok(())
}
