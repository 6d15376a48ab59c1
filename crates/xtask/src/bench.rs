//! The benchmarks of `docs/benchmarks.md`: wall times of the shipped binaries beside those of their
//! peers in the same run, with medians, extremes and facts of the machine, as text and JSON.
//!
//! Runs of us and of peers alternate, so that a disturbance of the machine hits both.

mod figure;
mod machine;
mod memory;
mod operator;
mod queue;
mod rounds;
mod suite;

pub(crate) use rounds::run_inside;

use crate::tally::Clock;
use crate::{dist, workspace};
use anyhow::{Context, Result, ensure};
use figure::Figure;
use serde_json::json;
use std::fs;
use std::path::Path;

/// The names of the benchmarks, in order.
pub(crate) const NAMES: &[&str] =
    &["bringup", "launch", "queue", "mpi", "rsh", "fence", "local", "controller", "cluster"];

/// The benchmark of the job queue.
const QUEUE: &str = "queue";

/// Runs one benchmark or all; answers whether every target was met. `options` are for one that takes any,
/// which must be named then.
pub(crate) fn run(
    name: Option<&str>,
    json_file: Option<&Path>,
    options: &[String],
) -> Result<bool> {
    let clock = Clock::start();
    ensure!(
        options.is_empty() || name.is_some_and(|name| operator::measures(name) || name == QUEUE),
        "only the benchmarks queue, controller and cluster take options"
    );
    if let Some(name) = name {
        ensure!(
            NAMES.contains(&name),
            "no benchmark is named {name}; there are {}",
            NAMES.join(", ")
        );
    }
    clock.say("building quorate and its agent (release)");
    let dist = dist::build()?;
    let machine = machine::facts();
    println!("{machine}");
    let mut figures: Vec<Figure> = Vec::new();
    let mut whole = true;
    for each in NAMES.iter().filter(|each| name.is_none_or(|name| name == **each)) {
        clock.say(format!("== {each}"));
        let outcome = if operator::measures(each) {
            operator::run(each, options, clock)
        } else if *each == QUEUE {
            queue::run(&dist, options, clock)
        } else {
            suite::run(each, &dist, clock)
        };
        match outcome {
            Ok(list) => figures.extend(list),
            Err(error) => {
                clock.say(format!("{each} cannot run: {error:#}"));
                whole = false;
            }
        }
    }
    println!("\n{}", figure::table(&figures));
    if let Some(path) = json_file {
        let text = serde_json::to_string_pretty(&json!({"machine": machine, "figures": figures}))
            .context("render the figures")?;
        let path = workspace::root().join(path);
        fs::write(&path, text + "\n").with_context(|| format!("write {}", path.display()))?;
        clock.say(format!("written to {}", path.display()));
    }
    Ok(whole && figures.iter().all(|figure| figure.met() != Some(false)))
}
