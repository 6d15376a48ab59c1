//! The test cluster: builds the program that runs it, and hands over to it.

use crate::tally::Clock;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Becomes the program `testbed` with these arguments; returns only if it cannot.
pub(crate) fn run(arguments: &[OsString]) -> Result<bool> {
    let program = program()?;
    let error = Command::new(&program).args(arguments).exec();
    Err(error).with_context(|| format!("start {}", program.display()))
}

/// Builds the program and answers where it is.
pub(crate) fn program() -> Result<PathBuf> {
    let output = workspace::cargo()
        .args(["build", "--quiet", "--locked", "-p", "quorate-testbed", "--bin", "testbed"])
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .context("start cargo build")?;
    ensure!(output.status.success(), "testbed does not build ({})", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    let executable = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    };
    text.lines().filter_map(executable).next_back().context("cargo built no testbed")
}

/// What the tests need; the other modules are the peers of benchmarks.
const MODULES: [&str; 7] =
    ["core", "etcd", "containerd", "helm", "kueue", "kwok", "network-policies"];

/// Builds the programs of the cluster, so that no test waits for it. The first time takes minutes.
pub(crate) fn prepare(clock: Clock) -> Result<()> {
    clock.say("building the parts of Kubernetes that are not in the cache");
    let status = Command::new(program()?)
        .arg("build")
        .args(MODULES)
        .stdout(Stdio::null())
        .status()
        .context("start testbed")?;
    ensure!(status.success(), "the parts of Kubernetes do not build ({status})");
    Ok(())
}
