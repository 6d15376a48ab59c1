//! What runs in this pod, written down so that the next broker finds it.
//!
//! Owns: one file for each job in the run directory, with the process groups of its tasks and when
//! they started. A broker that was killed leaves them behind; the one that the supervisor starts
//! in its place ends what is still there: its leader has long counted those tasks as lost.
//!
//! The start time (field 22 of `/proc/PID/stat`, proc(5)) tells a task from a later process with
//! its number.

use crate::sys;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// The directory within the run directory.
pub const DIR: &str = "tasks";

/// The tasks of one job, or one session, in this pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// What they belong to: `job-5`, `program`, `rsh-3`.
    pub name: String,
    /// Process groups with the start time of their leaders.
    pub groups: Vec<(i32, u64)>,
}

/// The file of a record. Dropping it removes the file: nothing is left to find.
#[derive(Debug)]
pub struct Recorded {
    path: PathBuf,
}

impl Drop for Recorded {
    fn drop(&mut self) {
        // If it stays, the next broker finds numbers whose start times match nothing.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Writes a record. A broker without a writable run directory goes on without.
pub fn write(run_dir: &Path, name: &str, pids: &[i32]) -> io::Result<Recorded> {
    let dir = run_dir.join(DIR);
    let path = dir.join(name);
    let groups = pids.iter().filter_map(|pid| Some((*pid, start_time(*pid)?))).collect();
    let record = Record { name: name.to_string(), groups };
    let text = serde_json::to_vec(&record).map_err(io::Error::other)?;
    if std::fs::write(&path, &text).is_err() {
        std::fs::create_dir_all(&dir)?;
        std::fs::write(&path, &text)?;
    }
    Ok(Recorded { path })
}

/// Ends what an earlier broker of this pod left running, and forgets it. Gives the names of the
/// records that still had processes.
pub fn sweep(run_dir: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let Ok(entries) = std::fs::read_dir(run_dir.join(DIR)) else { return found };
    for entry in entries.flatten() {
        let record = std::fs::read(entry.path())
            .ok()
            .and_then(|bytes| serde_json::from_slice::<Record>(&bytes).ok());
        if let Some(record) = record {
            let mut alive = false;
            for (pid, started) in &record.groups {
                // The leader may be gone while others of its group live; a group number is not
                // given out again as long as the group has members, but it may have none.
                let mine = match start_time(*pid) {
                    Some(now) => now == *started,
                    None => group_without_leader(*pid),
                };
                if mine && sys::signal_group(*pid, libc::SIGKILL) {
                    alive = true;
                }
            }
            if alive {
                found.push(record.name);
            }
        }
        let _ = std::fs::remove_file(entry.path());
    }
    found
}

/// When a process started, in clock ticks since the boot of the machine.
pub fn start_time(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; what follows the last one is regular.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

fn group_without_leader(group: i32) -> bool {
    nix::sys::signal::killpg(nix::unistd::Pid::from_raw(group), None).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::Command;

    #[test]
    fn the_next_broker_ends_what_the_killed_one_left() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        let recorded = write(dir.path(), "job-1", &[child.id().cast_signed()]).unwrap();
        // A killed broker runs no destructor.
        std::mem::forget(recorded);
        assert_eq!(sweep(dir.path()), ["job-1"]);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        assert_eq!(sweep(dir.path()), Vec::<String>::new());
    }

    #[test]
    fn a_process_with_an_old_number_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        let pid = child.id().cast_signed();
        let record =
            Record { name: "job-1".into(), groups: vec![(pid, start_time(pid).unwrap() - 1)] };
        std::fs::create_dir(dir.path().join(DIR)).unwrap();
        std::fs::write(dir.path().join(DIR).join("x"), serde_json::to_vec(&record).unwrap())
            .unwrap();
        assert!(sweep(dir.path()).is_empty());
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_record_goes_with_its_job() {
        let dir = tempfile::tempdir().unwrap();
        drop(write(dir.path(), "job-7", &[std::process::id().cast_signed()]).unwrap());
        assert_eq!(std::fs::read_dir(dir.path().join(DIR)).unwrap().count(), 0);
    }
}
