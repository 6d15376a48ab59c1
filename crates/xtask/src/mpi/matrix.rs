//! The tier `mpi`: real MPI programs of every implementation over local clusters, by direct launch
//! and by each MPI's own launcher.
//!
//! One cluster is brought up for each MPI and number of pods; a script on its launcher
//! (`tests/programs/matrix.sh`) runs all cases and writes a line for each.

use super::{ALL, Family, Mpi, fetch, programs};
use crate::dist::Dist;
use crate::tally::{Clock, Tally};
use crate::{exec, workspace};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

/// Numbers of pods.
const PODS: [u32; 3] = [1, 2, 4];
/// Hello and ring, each with 1, 2, 4 and 8 ranks, by two ways, and three bad ends.
const CASES: usize = 2 * 4 * 2 + 3;
/// For all cases of one cluster; the script bounds each of them.
const LIMIT: Duration = Duration::from_mins(6);

/// One case and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Case {
    pub mpi: String,
    pub pods: u32,
    /// `direct` or `mpirun`.
    pub way: String,
    pub program: String,
    pub ranks: u32,
    pub passed: bool,
    pub milliseconds: u64,
    pub code: i32,
}

/// Runs the matrix over the MPIs named, or all, and prints it as a table.
pub(crate) fn run(dist: &Dist, names: &[String], clock: Clock) -> Result<Tally> {
    let mut cases = Vec::new();
    let mut tally = Tally::default();
    for mpi in ALL.iter().filter(|mpi| names.is_empty() || names.iter().any(|n| n == mpi.name)) {
        match fetch::ensure_there(mpi, clock).and_then(|()| programs::build(mpi)) {
            Ok(folder) => {
                for pods in PODS {
                    cases.extend(cluster(dist, mpi, &folder, pods, clock)?);
                }
            }
            Err(error) => {
                clock.say(format!("{} cannot be tested: {error:#}", mpi.name));
                let missing = (CASES * PODS.len()) as u64;
                // On a developer's machine an MPI may be missing; in continuous integration not.
                if workspace::in_ci() {
                    tally.failed += missing;
                } else {
                    tally.skipped += missing;
                }
            }
        }
    }
    for case in &cases {
        tally.case(case.passed);
    }
    let table = table(&cases);
    println!("\n{table}");
    let folder = workspace::target_dir().join("xtask");
    let write = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    };
    write("mpi-matrix.txt", &table)?;
    write("mpi-matrix.json", &serde_json::to_string_pretty(&cases).context("render the matrix")?)?;
    Ok(tally)
}

/// All cases of one MPI on one number of pods.
fn cluster(
    dist: &Dist,
    mpi: &Mpi,
    programs: &PathBuf,
    pods: u32,
    clock: Clock,
) -> Result<Vec<Case>> {
    let name = format!("{}-on-{pods}", mpi.name.replace('.', "-"));
    let path = workspace::target_dir().join("xtask").join(format!("{name}.yaml"));
    let family = match mpi.family {
        Family::Mpich | Family::Intel => "hydra",
        Family::OpenMpi4 | Family::OpenMpi5 => "openmpi",
    };
    let script = workspace::root().join("tests/programs/matrix.sh");
    let object = json!({
        "apiVersion": "quorate.dev/v1alpha1",
        "kind": "MiniCluster",
        "metadata": {"name": name},
        "spec": {
            "size": pods,
            "slots": 8,
            "program": {"command": ["bash", script, family, programs, pods.to_string()]},
        },
    });
    // JSON is YAML too.
    let text = serde_json::to_string_pretty(&object).context("render a MiniCluster")?;
    fs::create_dir_all(path.parent().context("the file lies in a folder")?)
        .context("create the folder of the matrix")?;
    fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;

    let mut command = dist.quorate();
    command.arg("run").arg(&path);
    command.envs(mpi.environment(&env::var("PATH").unwrap_or_default()));
    let done = exec::capture(&mut command, &format!("mpi-{name}"), LIMIT)?;
    let cases = parse(mpi.name, pods, &done.output);
    let passed = cases.iter().filter(|case| case.passed).count();
    clock.say(format!(
        "{} on {pods}: {passed} of {CASES} in {:.1} s",
        mpi.name,
        done.took.as_secs_f64()
    ));
    if passed != CASES || !done.success() {
        println!("{}\n{name}: {}", done.output.trim_end(), done.how());
    }
    if cases.len() != CASES {
        bail!("{name}: {} of {CASES} cases were run", cases.len());
    }
    Ok(cases)
}

/// The lines `case WAY PROGRAM RANKS VERDICT MILLISECONDS CODE` of the script.
fn parse(mpi: &str, pods: u32, output: &str) -> Vec<Case> {
    let case = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let ["case", way, program, ranks, verdict, milliseconds, code] = fields[..] else {
            return None;
        };
        Some(Case {
            mpi: mpi.into(),
            pods,
            way: way.into(),
            program: program.into(),
            ranks: ranks.parse().ok()?,
            passed: verdict == "ok",
            milliseconds: milliseconds.parse().ok()?,
            code: code.parse().ok()?,
        })
    };
    output.lines().filter_map(case).collect()
}

/// One row an MPI, one column a way and number of pods: cases passed of cases run.
fn table(cases: &[Case]) -> String {
    let mut cells: BTreeMap<(&str, &str, u32), (u32, u32)> = BTreeMap::new();
    for case in cases {
        let cell = cells.entry((&case.mpi, &case.way, case.pods)).or_default();
        cell.0 += u32::from(case.passed);
        cell.1 += 1;
    }
    let columns: Vec<(&str, u32)> =
        ["direct", "mpirun"].into_iter().flat_map(|way| PODS.map(|pods| (way, pods))).collect();
    let mut text = format!("{:<16}", "MPI");
    for (way, pods) in &columns {
        let pods = if *pods == 1 { "1 pod".to_owned() } else { format!("{pods} pods") };
        let _ = write!(text, " {:>14}", format!("{way} {pods}"));
    }
    text.push('\n');
    for mpi in ALL.iter().filter(|mpi| cases.iter().any(|case| case.mpi == mpi.name)) {
        let _ = write!(text, "{:<16}", mpi.name);
        for (way, pods) in &columns {
            let (passed, all) = cells.get(&(mpi.name, *way, *pods)).copied().unwrap_or_default();
            let _ = write!(text, " {:>14}", format!("{passed}/{all}"));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_lines_become_cases_and_a_table() {
        let output = "bringing up\n\
            case\tdirect\thello\t4\tok\t120\t0\n\
            | case of nothing\n\
            case\tmpirun\thello\t4\tfailed\t60000\t124\n";
        let cases = parse("mpich-5.0.2", 2, output);
        assert_eq!(cases.len(), 2);
        assert!(cases[0].passed && !cases[1].passed);
        assert_eq!((cases[1].code, cases[1].ranks), (124, 4));
        let table = table(&cases);
        let row = table.lines().nth(1).unwrap();
        assert!(row.starts_with("mpich-5.0.2"), "{table}");
        assert!(row.contains("1/1") && row.contains("0/1"), "{table}");
    }
}
