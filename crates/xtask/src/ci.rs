//! The order of a full run, and its closing table.

use crate::suite::{self, Suite, Tier};
use crate::tally::{Clock, Row, Tally, closing};
use crate::{dist, kube, lint, mpi, workflows, workspace};
use anyhow::Result;

/// A part of a run, one line of the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Format, clippy, docs, structure.
    Lint,
    /// A tier of tests.
    Test(Tier),
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Self::Lint => "lint",
            Self::Test(tier) => tier.name(),
        }
    }
}

/// All stages, cheapest first.
pub(crate) fn run() -> bool {
    run_tiers(&[
        Stage::Lint,
        Stage::Test(Tier::Unit),
        Stage::Test(Tier::Sim),
        Stage::Test(Tier::Local),
        Stage::Test(Tier::Mpi),
        Stage::Test(Tier::Kube),
    ])
}

/// The named stages; each runs even if one before it failed. A stage that cannot run at all counts
/// as one failed case.
pub(crate) fn run_tiers(stages: &[Stage]) -> bool {
    let clock = Clock::start();
    if workspace::in_ci() {
        clock.say("continuous integration: nothing may be skipped");
    }
    let mut rows = Vec::new();
    let mut suite = None;
    for stage in stages {
        let started = clock.elapsed();
        clock.say(format!("== {}", stage.name()));
        let outcome = match stage {
            Stage::Lint => lint::run(clock),
            Stage::Test(Tier::Mpi) => mpi_programs(clock),
            Stage::Test(Tier::Kube) => kubernetes(&mut suite, clock),
            Stage::Test(tier) => tests(&mut suite, *tier, clock),
        };
        let tally = outcome.unwrap_or_else(|error| {
            clock.say(format!("{} cannot run: {error:#}", stage.name()));
            Tally { failed: 1, ..Tally::default() }
        });
        rows.push(Row {
            tier: stage.name().into(),
            tally,
            took: clock.elapsed().saturating_sub(started),
        });
    }
    println!("\n{}", closing(&rows));
    let executed: u64 = rows.iter().map(|row| row.tally.passed).sum();
    executed > 0 && rows.iter().all(|row| row.tally.failed == 0)
}

/// Builds the test programs once, then runs those of `tier`.
fn tests(suite: &mut Option<Suite>, tier: Tier, clock: Clock) -> Result<Tally> {
    if suite.is_none() {
        clock.say("building the test programs of the workspace");
        *suite = Some(suite::build()?);
    }
    let suite = suite.as_ref().expect("the suite was built above");
    suite.run(tier, clock)
}

/// The cluster's programs and our own, of which its images are made, then the tests on it.
fn kubernetes(suite: &mut Option<Suite>, clock: Clock) -> Result<Tally> {
    clock.say("building quorate, its agent and its controller (release)");
    dist::build()?;
    dist::controller()?;
    kube::prepare(clock)?;
    tests(suite, Tier::Kube, clock)
}

/// Real MPI programs need the shipped binaries.
fn mpi_programs(clock: Clock) -> Result<Tally> {
    clock.say("building quorate and its agent (release)");
    let dist = dist::build()?;
    let mut tally = mpi::cases::run(&dist, clock)?;
    tally.add(mpi::matrix::run(&dist, &[], clock)?);
    tally.add(mpi::slurm::run(&dist, clock)?);
    // They, too, are real programs of others over the shipped agent.
    tally.add(workflows::run(&dist.agent, clock)?);
    Ok(tally)
}
