//! The agent under Slurm's names: `sbatch`, `srun`, `salloc`, `squeue`, `scancel`, `sinfo`, `sacct`, `scontrol`.
//!
//! Owns: which name means what, and what only a client knows (its clock, user, environment, files).
//! What options mean and how answers look is the business of [`quorate_slurm`]; jobs are the
//! queue's. Within a batch script `srun` starts steps in the script's own cluster, all other names ask
//! the cluster that the script was submitted to ([`names::SLURM_SOCKET`]), as people of Slurm expect.

mod placed;
mod salloc;
mod show;
mod step;
mod submit;

use crate::job::client as streams;
use quorate_contract::{env as names, exit};
use quorate_slurm::calendar::Clock;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) use placed::{of_an_allocation, variables};
pub(super) use show::answer;
pub(super) use submit::script;

/// All names that this program answers to.
pub const NAMES: [&str; 9] = [
    "sbatch",
    "srun",
    "salloc",
    "squeue",
    "scancel",
    "sinfo",
    "sacct",
    "scontrol",
    crate::queue::flux::NAME,
];

/// Runs the command of a name with its words; gives the code to exit with.
pub fn run(name: &str, words: impl Iterator<Item = OsString>) -> i32 {
    if name == crate::queue::flux::NAME {
        return crate::queue::flux::run(words);
    }
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    let done = match name {
        "sbatch" => submit::run(&words),
        "srun" => step::run(&words),
        "salloc" => salloc::run(&words),
        _ => show::run(name, &words),
    };
    done.unwrap_or_else(|error| {
        crate::sys::complain(&format!("{error:#}"));
        exit::FAILED
    })
}

/// The environment, as far as it is text.
fn environment() -> BTreeMap<String, String> {
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// The time, and how far the zone of this process is from UTC now.
fn clock() -> Clock {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    Clock { now, offset: crate::sys::zone_offset(now) }
}

/// The name of this process's user: what the environment says, else the number.
fn user(environment: &BTreeMap<String, String>) -> String {
    let named = ["USER", "LOGNAME"].iter().find_map(|name| environment.get(*name));
    let own = nix::unistd::geteuid();
    match named {
        Some(name) => name.clone(),
        None if own.is_root() => "root".to_owned(),
        None => own.to_string(),
    }
}

/// The cluster that jobs are submitted to and asked about.
fn socket() -> PathBuf {
    let of_the_job = std::env::var_os(names::SLURM_SOCKET).map(PathBuf::from);
    of_the_job.unwrap_or_else(|| streams::socket(None))
}

/// The one of the names that a program was started under.
pub fn called(name: &OsStr) -> Option<&'static str> {
    NAMES.into_iter().find(|known| name == *known)
}
