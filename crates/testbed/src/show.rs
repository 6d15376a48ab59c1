//! What the verbs print.

use anyhow::{Context as _, Result};
use quorate_testbed::build;
use quorate_testbed::component::State;
use quorate_testbed::control::{ControlError, Status};
use quorate_testbed::layout::Folder;
use quorate_testbed::plan::Plan;
use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

/// How a status is printed.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
}

/// Prints a status.
pub(crate) fn status(status: &Status, format: Format) -> Result<()> {
    if let Format::Json = format {
        println!("{}", serde_json::to_string_pretty(status).context("print the status")?);
        return Ok(());
    }
    println!("cluster {}, API at https://127.0.0.1:{}\n", status.name, status.port);
    println!("{:<12} {:<10} LINK  PID", "PART", "STATE");
    for part in &status.components {
        let (state, pid) = match &part.state {
            State::Running(pid) => ("running".into(), pid.to_string()),
            State::Stopped => ("stopped".into(), "-".into()),
            State::Ended(how) => (how.clone(), "-".into()),
        };
        println!("{:<12} {state:<10} -     {pid}", part.name);
    }
    for node in &status.nodes {
        let state = match (node.pid, node.ready.as_deref()) {
            (None, _) => "killed",
            (Some(_), Some("True")) => "ready",
            (Some(_), Some("False")) => "not ready",
            (Some(_), _) => "unknown",
        };
        let link = if node.linked { "up" } else { "cut" };
        let pid = node.pid.map_or("-".into(), |pid| pid.to_string());
        println!("{:<12} {state:<10} {link:<5} {pid}", node.name);
    }
    if status.fake_nodes > 0 {
        println!("and {} nodes played by kwok", status.fake_nodes);
    }
    Ok(())
}

/// Prints what a shell must set.
pub(crate) fn environment(folder: &Folder) -> Result<()> {
    let plan =
        Plan::read(folder).map_err(|_| ControlError::NotUp { name: folder.name().into() })?;
    println!("export KUBECONFIG={}", folder.outer_kubeconfig().display());
    // kubectl's cache goes by address, which is not for ever one cluster's.
    println!("export KUBECACHEDIR={}", folder.path("kubectl-cache").display());
    println!(
        "export PATH={}:$PATH",
        folders(&plan).iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(":")
    );
    Ok(())
}

/// The caller's search path with the cluster's programs before all others.
pub(crate) fn search_path(plan: &Plan) -> Result<OsString> {
    let others = env::var_os("PATH").unwrap_or_default();
    let all = folders(plan).into_iter().chain(env::split_paths(&others));
    env::join_paths(all).context("join the search path")
}

/// kubectl, etcdctl, and Helm where somebody has built it (`testbed build helm`).
fn folders(plan: &Plan) -> Vec<PathBuf> {
    let helm = build::existing("helm").map(|built| built.bin());
    [plan.core.join("bin"), plan.etcd.join("bin")].into_iter().chain(helm).collect()
}
