//! The part of the tier `mpi` that is not the matrix: every folder of `examples/`, and real
//! applications of the distribution, each one `quorate run`.

use super::{fetch, named, programs};
use crate::dist::Dist;
use crate::tally::{Clock, Tally};
use crate::{exec, workspace};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// The slowest takes seconds.
const LIMIT: Duration = Duration::from_mins(2);

/// One `quorate run` and what must come of it.
struct Case {
    /// The file, from the root.
    file: &'static str,
    /// The MPI whose environment it runs in.
    mpi: &'static str,
    /// A program that must be there, and the package that has it.
    needs: Option<(&'static str, &'static str)>,
    /// The exit code.
    code: i32,
    /// What its output must hold.
    says: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case {
        file: "examples/quickstart/minicluster.yaml",
        mpi: super::QUICKSTART,
        needs: None,
        code: 0,
        says: &["rank 0 of 8 on hello-launcher-0-0", "rank 7 of 8 on hello-worker-0-2"],
    },
    Case {
        file: "examples/mpirun/minicluster.yaml",
        mpi: super::QUICKSTART,
        needs: None,
        code: 0,
        says: &["job starts on batch-launcher-0-0", "rank 7 of 8 on batch-worker-0-2", "job ends"],
    },
    Case {
        file: "examples/groups/minicluster.yaml",
        mpi: super::QUICKSTART,
        needs: None,
        code: 0,
        says: &[
            "rank 0 of 5 on groups-actor-0-0",
            "rank 3 of 5 on groups-actor-0-1",
            "rank 4 of 5 on groups-learner-0-0",
        ],
    },
    Case {
        file: "examples/failing-rank/minicluster.yaml",
        mpi: super::QUICKSTART,
        needs: None,
        code: 139,
        says: &["rank 5 on worker-0-1 ended by signal 11", "cell 4711 has no neighbour"],
    },
    Case {
        file: "examples/batch/minicluster.yaml",
        mpi: super::QUICKSTART,
        needs: None,
        code: 0,
        says: &["job 1 has 2 nodes", "batch-script-"],
    },
    Case {
        file: "examples/pipeline/minicluster.yaml",
        mpi: super::QUICKSTART,
        needs: None,
        code: 0,
        says: &["mesh is ready", "solved on pipeline-worker-0-1", "plot is drawn"],
    },
    Case {
        file: "examples/lammps/minicluster.yaml",
        mpi: "openmpi-debian",
        needs: Some(("/usr/bin/lmp", "lammps")),
        code: 0,
        says: &["on 4 procs for 100 steps with 864 atoms"],
    },
    Case {
        file: "examples/mpi4py/minicluster.yaml",
        mpi: "openmpi-debian",
        needs: Some(("/usr/lib/python3/dist-packages/mpi4py", "python3-mpi4py")),
        code: 0,
        says: &["sum over 4 ranks: 6 to 4002, wrong on 0"],
    },
    Case {
        file: "tests/programs/lammps.yaml",
        mpi: "openmpi-debian",
        needs: Some(("/usr/bin/lmp", "lammps")),
        code: 0,
        says: &["direct    100 ", "by mpirun 100 "],
    },
    Case {
        file: "tests/programs/netpipe.yaml",
        mpi: "openmpi-debian",
        needs: Some(("/usr/bin/NPopenmpi", "netpipe-openmpi")),
        code: 0,
        says: &["4096 bytes"],
    },
];

/// Runs them all.
pub(crate) fn run(dist: &Dist, clock: Clock) -> Result<Tally> {
    let mut tally = Tally::default();
    // A folder without a case would be an example that nobody runs.
    let untested = untested()?;
    if !untested.is_empty() {
        clock.say(format!("examples that no case runs: {}", untested.join(", ")));
    }
    tally.case(untested.is_empty());
    for case in CASES {
        match ready(case, clock) {
            Ok(()) => tally.case(passes(case, dist, clock)?),
            Err(error) => {
                clock.say(format!("{} cannot run: {error:#}", case.file));
                if workspace::in_ci() {
                    tally.failed += 1;
                } else {
                    tally.skipped += 1;
                }
            }
        }
    }
    Ok(tally)
}

/// Makes sure that what the case needs is there.
fn ready(case: &Case, clock: Clock) -> Result<()> {
    let mpi = named(case.mpi).context("the case names an MPI of the matrix")?;
    fetch::ensure_there(mpi, clock)?;
    if let Some((path, package)) = case.needs {
        ensure!(Path::new(path).exists(), "{path} is missing; as root: apt-get install {package}");
    }
    if case.mpi == super::QUICKSTART {
        let folder = workspace::root().join("examples/quickstart");
        programs::compile(mpi, &folder.join("hello.c"), &folder.join("hello"))?;
    }
    Ok(())
}

fn passes(case: &Case, dist: &Dist, clock: Clock) -> Result<bool> {
    let mpi = named(case.mpi).context("the case names an MPI of the matrix")?;
    let mut command = dist.quorate();
    command.args(["run", case.file]);
    command.envs(mpi.environment(&env::var("PATH").unwrap_or_default()));
    let done = exec::capture(&mut command, case.file, LIMIT)?;
    let verdict = judge(case, done.status.and_then(|status| status.code()), &done.output);
    match &verdict {
        Ok(()) => {
            clock.say(format!("{}: as it should, {:.1} s", case.file, done.took.as_secs_f64()));
        }
        Err(error) => {
            clock.say(format!("{}: {error:#}", case.file));
            println!("{}\n{}: {}", done.output.trim_end(), case.file, done.how());
        }
    }
    Ok(verdict.is_ok())
}

/// What is wrong with a run, if anything is.
fn judge(case: &Case, code: Option<i32>, output: &str) -> Result<()> {
    if code != Some(case.code) {
        bail!("ended with {code:?}, not with {}", case.code);
    }
    for words in case.says {
        ensure!(output.contains(words), "its output lacks {words:?}");
    }
    Ok(())
}

/// Folders of `examples/` that have a MiniCluster which no case runs.
fn untested() -> Result<Vec<String>> {
    let root = workspace::root();
    let tested: BTreeSet<&Path> = CASES.iter().map(|case| Path::new(case.file)).collect();
    let mut missing = Vec::new();
    for entry in fs::read_dir(root.join("examples")).context("list examples")? {
        let folder = entry.context("list examples")?.path();
        // Those that need a Kubernetes are applied by `e2e/tests/programs/examples.rs`.
        if folder.ends_with("kubernetes") {
            continue;
        }
        let file = folder.join("minicluster.yaml");
        let name = file.strip_prefix(root).context("examples lie below the root")?;
        if folder.is_dir() && !tested.contains(name) {
            missing.push(name.display().to_string());
        }
    }
    missing.sort();
    Ok(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_run() {
        assert_eq!(untested().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_wrong_code_and_missing_words_are_told() {
        let case = &CASES[3];
        assert!(judge(case, Some(0), "").unwrap_err().to_string().contains("139"));
        let error = judge(case, Some(139), "rank 5 on worker-0-1 ended by signal 11").unwrap_err();
        assert!(error.to_string().contains("cell 4711"), "{error}");
    }
}
