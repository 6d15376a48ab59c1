//! The benchmarks of the operator. A program of package `quorate-e2e` measures, with the test cluster that
//! this one must not depend on, and says each figure as a line of JSON.

use super::figure::Figure;
use crate::tally::Clock;
use crate::{dist, kube, workspace};
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// What it is compiled with: the shipped controller's profile, since it plans as the controller does.
const PROFILE: &str = "controller";

/// A line of its output.
#[derive(Debug, Deserialize)]
struct Line {
    what: String,
    unit: String,
    samples: Vec<f64>,
    target: Option<f64>,
    peer: Option<String>,
}

/// Whether this benchmark is one of the operator's.
pub(super) fn measures(name: &str) -> bool {
    ["controller", "cluster"].contains(&name)
}

/// Runs one. Its progress goes to standard error.
pub(super) fn run(name: &'static str, options: &[String], clock: Clock) -> Result<Vec<Figure>> {
    clock.say("building the controller and what measures it");
    dist::controller()?;
    let program = program()?;
    let testbed = kube::program()?;
    let mut command = Command::new(program);
    command.arg(name).args(options).env("QUORATE_TESTBED_PROGRAM", testbed);
    command.current_dir(workspace::root()).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().context("start the measuring program")?;
    let output = child.stdout.take().context("its output is a pipe")?;
    let mut figures = Vec::new();
    for line in BufReader::new(output).lines() {
        let line = line.context("read what was measured")?;
        figures.push(figure(name, &line)?);
    }
    let status = child.wait().context("wait for the measuring program")?;
    // What was measured before it failed is shown, and the failure, too.
    if !status.success() {
        println!("\n{}", super::figure::table(&figures));
    }
    ensure!(status.success(), "the measuring program ended with {status}");
    Ok(figures)
}

fn figure(bench: &'static str, line: &str) -> Result<Figure> {
    let line: Line =
        serde_json::from_str(line).with_context(|| format!("this is no figure: {line}"))?;
    ensure!(!line.samples.is_empty(), "{} was not measured", line.what);
    let figure = Figure::of(bench, line.what, line.unit, &line.samples);
    let figure = match line.target {
        Some(most) => figure.target(most),
        None => figure,
    };
    Ok(match line.peer {
        Some(peer) => figure.peer(peer),
        None => figure,
    })
}

fn program() -> Result<PathBuf> {
    let mut build = workspace::cargo();
    build.args(["build", "--locked", "--profile", PROFILE, "--package", "quorate-e2e"]);
    build.args(["--bin", "bench"]);
    let status = build.status().context("start cargo build")?;
    ensure!(status.success(), "the measuring program does not build ({status})");
    Ok(workspace::target_dir().join(PROFILE).join("bench"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_lines_of_json() {
        let line = r#"{"what":"p99","unit":"s","samples":[9.5],"target":8.0}"#;
        let ours = figure("controller", line).unwrap();
        assert_eq!(ours.met(), Some(false));
        let peer = figure("controller", r#"{"what":"p99","unit":"s","samples":[1],"peer":"x"}"#);
        assert_eq!(peer.unwrap().peer.as_deref(), Some("x"));
        assert!(figure("controller", r#"{"what":"p99","unit":"s","samples":[]}"#).is_err());
        assert!(figure("controller", "progress").is_err());
    }
}
