//! MPI installations: launchers in `PATH` and where distributions, modules and wheels put them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Launchers, by the names under which they are installed.
const LAUNCHERS: [&str; 6] =
    ["mpiexec", "mpirun", "mpiexec.hydra", "mpiexec.mpich", "mpirun.mpich", "mpirun.openmpi"];
/// Places that are not in `PATH` before somebody loads a module or activates an environment.
const PLACES: [&str; 8] = [
    "/usr/lib64/mpich/bin",
    "/usr/lib64/openmpi/bin",
    "/usr/local/bin",
    "/opt/openmpi/bin",
    "/opt/mpich/bin",
    "/opt/intel/oneapi/mpi/latest/bin",
    "/opt/amazon/openmpi/bin",
    "/opt/hpcx/ompi/bin",
];

/// An installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mpi {
    /// Its launcher.
    pub(super) path: PathBuf,
    /// Name and version: `MPICH 4.3.0`.
    pub(super) version: String,
}

/// Looks for launchers and asks each for its version.
pub(super) fn find(variable: impl Fn(&str) -> Option<String>) -> Vec<Mpi> {
    let path = variable("PATH").unwrap_or_default();
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX", "I_MPI_ROOT", "MPI_HOME"];
    let environments = environments.iter().filter_map(|name| variable(name));
    let places: Vec<PathBuf> = std::env::split_paths(&path)
        .chain(environments.map(|dir| Path::new(&dir).join("bin")))
        .chain(PLACES.iter().map(PathBuf::from))
        .collect();
    let mut seen = BTreeSet::new();
    let mut found: Vec<Mpi> = Vec::new();
    for launcher in places.iter().flat_map(|dir| LAUNCHERS.iter().map(move |name| dir.join(name))) {
        // Many names lead to the same launcher.
        let Ok(real) = launcher.canonicalize() else { continue };
        if !seen.insert(real.clone()) {
            continue;
        }
        if let Some(version) = version(&launcher) {
            // Beside an mpiexec, mpirun is the same or a script that takes whatever is in PATH.
            let script = launcher.file_name().is_some_and(|name| name == "mpirun");
            let twin = found.iter().any(|mpi| {
                mpi.path.parent() == launcher.parent() && (script || mpi.version == version)
            });
            if !twin {
                found.push(Mpi { path: launcher, version });
            }
        }
    }
    found
}

fn version(launcher: &Path) -> Option<String> {
    let output = Command::new(launcher)
        .arg("--version")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    parse(&String::from_utf8_lossy(&output.stdout))
}

/// Name and version in what launchers print for `--version`.
fn parse(text: &str) -> Option<String> {
    let word_after = |line: &str, before: &str| {
        let rest = line.split_once(before)?.1;
        let word = rest.split_whitespace().next()?.trim_end_matches(',');
        Some(word.to_owned())
    };
    for line in text.lines() {
        // Open MPI 4 calls itself by its run-time system's name when it is called mpiexec.
        for name in ["(Open MPI)", "(OpenRTE)"] {
            if line.contains(name) {
                return word_after(line, name).map(|v| format!("Open MPI {v}"));
            }
        }
        if line.contains("Intel(R) MPI Library") {
            let version = word_after(line, "Version").or_else(|| word_after(line, "version"))?;
            return Some(format!("Intel MPI {version}"));
        }
        if line.trim_start().starts_with("Version:") {
            return word_after(line, "Version:").map(|v| format!("MPICH (Hydra) {v}"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_each_family_prints_them() {
        for (text, expected) in [
            ("mpirun (Open MPI) 4.1.4\n\nReport bugs to ...\n", Some("Open MPI 4.1.4")),
            ("mpiexec (OpenRTE) 4.1.4\n", Some("Open MPI 4.1.4")),
            (
                "HYDRA build details:\n    Version:                                 4.0.2\n",
                Some("MPICH (Hydra) 4.0.2"),
            ),
            (
                "Intel(R) MPI Library for Linux* OS, Version 2021.13 Build 20240701\n",
                Some("Intel MPI 2021.13"),
            ),
            ("something else 1.0\n", None),
        ] {
            assert_eq!(parse(text).as_deref(), expected);
        }
    }
}
