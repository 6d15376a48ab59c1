//! The workspace's own tests: built once, grouped into tiers, run one program at a time (those on a
//! Kubernetes as many as the machine bears), counted from what libtest prints.

use crate::tally::{Clock, Tally};
use crate::{exec, kube, workspace};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// A test program that runs longer is killed and counts as failed.
const LIMIT: Duration = Duration::from_mins(15);
/// Test programs that share the machine, each with a Kubernetes of its own.
const SIDE_BY_SIDE: usize = 1;
/// Tests that share a Kubernetes. They wait for it most of the time, so it is not the machine's CPUs that
/// limit them.
const TESTS_OF_A_CLUSTER: &str = "4";

/// Tests by what they need, cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tier {
    /// Unit, property and golden tests, and the examples in the docs.
    Unit,
    /// Simulated overlays of thousands of brokers, in memory.
    Sim,
    /// Real processes on this machine: brokers on loopback, local clusters.
    Local,
    /// Real MPI programs over local clusters, and the examples.
    Mpi,
    /// A real Kubernetes with three nodes, in namespaces of this machine.
    Kube,
}

impl Tier {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unit => "unit",
            Self::Sim => "sim",
            Self::Local => "local",
            Self::Mpi => "mpi",
            Self::Kube => "kube",
        }
    }
}

/// A test program.
struct Program {
    /// Package and target, for people.
    name: String,
    tier: Tier,
    executable: PathBuf,
    /// The folder that cargo would start it in.
    folder: PathBuf,
}

/// The built test programs.
pub(crate) struct Suite {
    programs: Vec<Program>,
}

/// Builds all test programs of the workspace in one go, so that features are unified once.
pub(crate) fn build() -> Result<Suite> {
    let output = workspace::cargo()
        .args(["test", "--locked", "--workspace", "--no-run"])
        .arg("--message-format=json-render-diagnostics")
        .stderr(Stdio::inherit())
        .output()
        .context("start cargo test --no-run")?;
    if !output.status.success() {
        bail!("the tests do not build ({})", output.status);
    }
    let programs: Vec<Program> =
        String::from_utf8_lossy(&output.stdout).lines().filter_map(test_program).collect();
    if programs.is_empty() {
        bail!("cargo built no test program");
    }
    Ok(Suite { programs })
}

/// The test program that a line of cargo's JSON messages tells of.
fn test_program(line: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(line).ok()?;
    if message["reason"] != "compiler-artifact" || message["profile"]["test"] != true {
        return None;
    }
    let executable = PathBuf::from(message["executable"].as_str()?);
    let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
    let package = folder.file_name()?.to_str()?.to_owned();
    let kind = message["target"]["kind"][0].as_str()?;
    let target = message["target"]["name"].as_str()?;
    let name =
        if kind == "test" { format!("{package}/{target}") } else { format!("{package} ({kind})") };
    Some(Program { name, tier: tier_of(&package, kind, target), executable, folder })
}

/// Integration tests of the overlay are its simulations; those of the shells start real processes, and
/// one of `slurm` starts the real Slurm.
fn tier_of(package: &str, kind: &str, target: &str) -> Tier {
    match (package, kind, target) {
        ("overlay", "test", _) => Tier::Sim,
        ("agent" | "cli", "test", _) | ("slurm", "test", "live") => Tier::Local,
        ("testbed" | "e2e", "test", _) => Tier::Kube,
        _ => Tier::Unit,
    }
}

impl Suite {
    /// Runs the programs of `tier`; what a failed one printed is shown whole.
    pub(crate) fn run(&self, tier: Tier, clock: Clock) -> Result<Tally> {
        let mut total = Tally::default();
        let programs = self.programs.iter().filter(|program| program.tier == tier);
        if tier == Tier::Kube {
            // Otherwise each test program would ask cargo for it.
            let testbed = kube::program()?;
            let (shared, alone): (Vec<_>, Vec<_>) =
                programs.partition(|program| program.shares_the_machine());
            // What starts many clusters by itself, and looks for what they leave, has the machine alone.
            total.add(abreast(&alone, 1, |program| program.run(&[], &testbed, clock))?);
            let threads = [("RUST_TEST_THREADS", TESTS_OF_A_CLUSTER)];
            total.add(abreast(&shared, SIDE_BY_SIDE, |program| {
                program.run(&threads, &testbed, clock)
            })?);
            return Ok(total);
        }
        for program in programs {
            total.add(counted(&program.name, &mut program.command(), clock)?);
        }
        if tier == Tier::Unit {
            let mut docs = workspace::cargo();
            docs.args(["test", "--locked", "--workspace", "--doc"]);
            total.add(counted("docs", &mut docs, clock)?);
        }
        Ok(total)
    }
}

impl Program {
    fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command.current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }

    /// Whether its tests share one Kubernetes, and it may share the machine with others.
    fn shares_the_machine(&self) -> bool {
        self.name.starts_with("e2e/")
    }

    fn run(&self, variables: &[(&str, &str)], testbed: &Path, clock: Clock) -> Result<Tally> {
        let mut command = self.command();
        command.envs(variables.iter().copied()).env("QUORATE_TESTBED_PROGRAM", testbed);
        counted(&self.name, &mut command, clock)
    }
}

/// Runs all programs, a few at the same time, and adds up what came of them.
fn abreast(
    programs: &[&Program],
    lanes: usize,
    run: impl Fn(&Program) -> Result<Tally> + Sync,
) -> Result<Tally> {
    let next = AtomicUsize::new(0);
    let lane = || -> Result<Tally> {
        let mut total = Tally::default();
        while let Some(program) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
            total.add(run(program)?);
        }
        Ok(total)
    };
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
        let mut total = Tally::default();
        for lane in lanes {
            total.add(lane.join().expect("a lane does not panic, its programs do")?);
        }
        Ok(total)
    })
}

/// Runs a program that prints as libtest does and counts its cases.
fn counted(name: &str, command: &mut Command, clock: Clock) -> Result<Tally> {
    let done = exec::capture(command, &format!("test-{name}"), LIMIT)?;
    let mut tally = count(&done.output);
    if !done.success() && tally.failed == 0 {
        // It crashed, hung or did not build: that is a failure too.
        tally.failed = 1;
    }
    let Tally { passed, failed, skipped } = tally;
    if failed > 0 {
        println!("{}\n{name}: {}", done.output.trim_end(), done.how());
    }
    if passed + failed + skipped > 0 {
        let seconds = done.took.as_secs_f64();
        clock.say(format!(
            "{name}: {passed} passed, {failed} failed, {skipped} ignored in {seconds:.1} s"
        ));
    }
    Ok(tally)
}

/// Adds up the lines `test result: ok. 3 passed; 0 failed; 1 ignored; ...` of libtest.
fn count(output: &str) -> Tally {
    let mut tally = Tally::default();
    for line in output.lines() {
        let Some(rest) = line.trim_start().strip_prefix("test result: ") else { continue };
        let Some((_, counts)) = rest.split_once(". ") else { continue };
        for part in counts.split("; ") {
            let Some((number, word)) = part.split_once(' ') else { continue };
            let Ok(number) = number.parse::<u64>() else { continue };
            match word {
                "passed" => tally.passed += number,
                "failed" => tally.failed += number,
                "ignored" => tally.skipped += number,
                _ => {}
            }
        }
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_libtest_add_up() {
        let output = "running 3 tests\n\
            test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished\n\
            test result: FAILED. 4 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n";
        assert_eq!(count(output), Tally { passed: 6, failed: 1, skipped: 1 });
    }

    #[test]
    fn a_test_that_prints_a_result_line_of_its_own_is_not_counted() {
        assert_eq!(count("my test result: ok. 9 passed; 0 failed"), Tally::default());
    }

    #[test]
    fn tiers_follow_package_and_kind() {
        assert_eq!(tier_of("overlay", "test", "any"), Tier::Sim);
        assert_eq!(tier_of("overlay", "lib", "any"), Tier::Unit);
        assert_eq!(tier_of("agent", "test", "any"), Tier::Local);
        assert_eq!(tier_of("api", "test", "any"), Tier::Unit);
        assert_eq!(tier_of("e2e", "test", "any"), Tier::Kube);
        assert_eq!(tier_of("testbed", "lib", "any"), Tier::Unit);
        // The one that starts a real Slurm.
        assert_eq!(tier_of("slurm", "test", "live"), Tier::Local);
        assert_eq!(tier_of("slurm", "test", "real"), Tier::Unit);
    }

    #[test]
    fn every_program_is_run_once_and_counted_however_many_lanes_there_are() {
        let program = |number: usize| Program {
            name: format!("e2e/{number}"),
            tier: Tier::Kube,
            executable: PathBuf::new(),
            folder: PathBuf::new(),
        };
        let programs: Vec<Program> = (0..7).map(program).collect();
        let programs: Vec<&Program> = programs.iter().collect();
        for lanes in [1, 2, 9] {
            let run = |_: &Program| Ok(Tally { passed: 2, ..Tally::default() });
            let total = abreast(&programs, lanes, run).unwrap();
            assert_eq!(total, Tally { passed: 14, ..Tally::default() }, "{lanes} lanes");
        }
        let failing = |_: &Program| bail!("it does not start");
        assert!(abreast(&programs, 2, failing).is_err());
    }

    #[test]
    fn a_test_program_is_read_from_cargos_message() {
        let line = r#"{"reason":"compiler-artifact","package_id":"x",
            "manifest_path":"/w/crates/overlay/Cargo.toml",
            "target":{"kind":["test"],"name":"cluster"},"profile":{"test":true},
            "executable":"/w/target/debug/deps/cluster-1"}"#;
        let program = test_program(&line.replace('\n', "")).unwrap();
        assert_eq!(program.name, "overlay/cluster");
        assert_eq!(program.tier, Tier::Sim);
        assert_eq!(program.folder, Path::new("/w/crates/overlay"));
    }
}
