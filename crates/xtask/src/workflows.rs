//! Workflow managers from PyPI that drive a cluster's queue as they drive Slurm's, and frameworks that find
//! their ranks by Slurm's variables.
//!
//! Owns: their pinned versions (`tests/workflows/NAME.txt`), installed once into the cache, and the cases
//! of `tests/workflows/NAME.sh`, each run as the program of a cluster of this machine.

use crate::tally::{Clock, Tally};
use crate::{exec, workspace};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Packages for the installation of all that is pinned, and for all cases of one manager.
const LIMIT: Duration = Duration::from_mins(10);

/// Managers, or frameworks, and the cases of their scripts.
const MANAGERS: &[(&str, usize)] = &[("snakemake", 3), ("parsl", 2), ("frameworks", 4)];

/// Slurm's names, which the agent answers to.
const NAMES: &[&str] =
    &["sbatch", "srun", "salloc", "squeue", "scancel", "sinfo", "sacct", "scontrol"];

/// Runs all cases with this agent.
pub(crate) fn run(agent: &Path, clock: Clock) -> Result<Tally> {
    let names = links(agent)?;
    let folder = workspace::root().join("tests/workflows");
    let mut tally = Tally::default();
    for (name, cases) in MANAGERS {
        let manager = ensure_there(name, clock)?;
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(agent);
        command
            .args(["start", "--test-size", "3", "--", "bash"])
            .arg(folder.join(format!("{name}.sh")))
            .arg(&folder)
            .env("PATH", format!("{}:{}:{path}", names.display(), manager.join("bin").display()));
        let done = exec::capture(&mut command, &format!("workflows-{name}"), LIMIT)?;
        let verdicts: Vec<bool> = done
            .output
            .lines()
            .filter_map(|line| line.strip_prefix("case\t"))
            .map(|line| line.ends_with("\tpassed"))
            .collect();
        let passed = verdicts.iter().filter(|passed| **passed).count();
        clock.say(format!("{name}: {passed} of {cases} in {:.1} s", done.took.as_secs_f64()));
        if passed != *cases {
            println!("{}\n{name}: {}", done.output.trim_end(), done.how());
        }
        ensure!(verdicts.len() == *cases, "{name}: {} of {cases} cases ran", verdicts.len());
        for verdict in verdicts {
            tally.case(verdict);
        }
    }
    Ok(tally)
}

/// The virtual environment with all that is pinned for a manager.
fn ensure_there(name: &str, clock: Clock) -> Result<PathBuf> {
    let list = workspace::root().join(format!("tests/workflows/{name}.txt"));
    let pins = fs::read_to_string(&list).with_context(|| format!("read {}", list.display()))?;
    let mut hasher = DefaultHasher::new();
    pins.hash(&mut hasher);
    let folder = workspace::cache_dir().join(format!("workflows/{name}-{:016x}", hasher.finish()));
    let whole = folder.join("whole");
    if whole.exists() {
        return Ok(folder);
    }
    clock.say(format!("installing {name}"));
    // Scripts in it name its path, so it is made where it stays.
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    let step = |command: &mut Command, name: &str| -> Result<()> {
        let done = exec::capture(command, name, LIMIT)?;
        if !done.success() {
            bail!("{name}: {}\n{}", done.how(), done.output.trim_end());
        }
        Ok(())
    };
    step(Command::new("python3").args(["-m", "venv"]).arg(&folder), "workflows-venv")?;
    let mut pip = Command::new(folder.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", "--no-deps", "--requirement"]);
    step(pip.arg(&list), "workflows-pip")?;
    fs::write(&whole, "").with_context(|| format!("write {}", whole.display()))?;
    Ok(folder)
}

/// A folder with links to the agent by Slurm's names.
fn links(agent: &Path) -> Result<PathBuf> {
    let folder = workspace::target_dir().join("xtask/slurm");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("remove {}", folder.display()))?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let agent = fs::canonicalize(agent).with_context(|| format!("find {}", agent.display()))?;
    for name in NAMES {
        symlink(&agent, folder.join(name)).with_context(|| format!("link {name}"))?;
    }
    Ok(folder)
}
