//! What runs in this pod, written down so that the next broker finds it.
//!
//! Owns: a journal in the run directory, with the process groups of jobs, remote commands and the
//! program, and when they started. A broker that was killed leaves it behind; the one that the
//! supervisor starts in its place ends what is still there: the leader has long counted those
//! tasks as lost.
//!
//! The journal is lines of JSON, a [`Line`] each, appended while the broker lives and emptied when
//! nothing runs: a file for each job would cost more than starting a task. When the line was written
//! tells a task from a later process with its number: that starts (field 22 of `/proc/PID/stat`,
//! proc(5)) when the task has been reaped.

use crate::sys;
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The journal within the run directory.
pub const JOURNAL: &str = "tasks/journal";

/// Clock ticks of a second (`USER_HZ`): the same on all machines that the agent is built for.
const TICKS: u64 = 100;

/// A line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Line {
    /// Something has begun.
    Begun {
        /// What: `job-5`, `program`, `rsh-3`. Unique in the life of a broker.
        name: String,
        /// Its process groups, and a moment at which their leaders had not been reaped: clock ticks since
        /// the boot of the machine.
        groups: Vec<(i32, u64)>,
    },
    /// It has ended, and nothing is left of it.
    Ended {
        /// What.
        name: String,
    },
}

/// The journal of this broker. Clones share it.
#[derive(Clone, Debug)]
pub struct Records {
    journal: Arc<Mutex<Journal>>,
}

#[derive(Debug)]
struct Journal {
    file: File,
    running: usize,
}

/// Something that is written down. Dropping it says that it has ended.
#[derive(Debug)]
pub struct Recorded {
    records: Records,
    name: String,
}

impl Drop for Recorded {
    fn drop(&mut self) {
        let name = std::mem::take(&mut self.name);
        // If it cannot be said, the next broker finds numbers whose start times match nothing.
        let _ = self.records.append(&Line::Ended { name });
    }
}

impl Records {
    /// Begins an empty journal; what an earlier broker left must have been swept.
    pub fn open(run_dir: &Path) -> io::Result<Self> {
        let path = run_dir.join(JOURNAL);
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        file.set_len(0)?;
        Ok(Self { journal: Arc::new(Mutex::new(Journal { file, running: 0 })) })
    }

    /// Writes the process groups of something down. Their leaders must be unreaped children of this
    /// process.
    pub fn write(&self, name: &str, pids: &[i32]) -> io::Result<Recorded> {
        let now = now()?;
        let groups = pids.iter().map(|pid| (*pid, now)).collect();
        self.append(&Line::Begun { name: name.to_string(), groups })?;
        Ok(Recorded { records: self.clone(), name: name.to_string() })
    }

    fn append(&self, line: &Line) -> io::Result<()> {
        let mut text = serde_json::to_vec(line).map_err(io::Error::other)?;
        text.push(b'\n');
        let mut journal = self.journal.lock().map_err(|_| io::ErrorKind::Other)?;
        match line {
            Line::Begun { .. } => journal.running += 1,
            Line::Ended { .. } => journal.running -= 1,
        }
        if journal.running == 0 { journal.file.set_len(0) } else { journal.file.write_all(&text) }
    }
}

/// Ends what an earlier broker of this pod left running. Gives the names of what still had
/// processes; `None` when this is the pod's first broker.
pub fn sweep(run_dir: &Path) -> Option<Vec<String>> {
    let mut begun: BTreeMap<String, Vec<(i32, u64)>> = BTreeMap::new();
    let bytes = std::fs::read(run_dir.join(JOURNAL)).ok()?;
    for line in bytes.split(|b| *b == b'\n') {
        // The last line may be cut short.
        match serde_json::from_slice(line) {
            Ok(Line::Begun { name, groups }) => drop(begun.insert(name, groups)),
            Ok(Line::Ended { name }) => drop(begun.remove(&name)),
            Err(_) => {}
        }
    }
    let kill = |(pid, written): &(i32, u64)| {
        // The leader may be gone while others of its group live; a group's number is not given
        // out again as long as the group has members.
        let mine = match start_time(*pid) {
            Some(started) => started <= *written,
            None => group_without_leader(*pid),
        };
        mine && sys::signal_group(*pid, libc::SIGKILL)
    };
    let found = begun
        .into_iter()
        .filter(|(_, groups)| groups.iter().filter(|group| kill(group)).count() > 0)
        .map(|(name, _)| name)
        .collect();
    Some(found)
}

/// Clock ticks since the boot of the machine, as the start times of processes are told.
fn now() -> io::Result<u64> {
    let now = clock_gettime(ClockId::CLOCK_BOOTTIME)?;
    let (seconds, nanos) = (now.tv_sec().cast_unsigned(), now.tv_nsec().cast_unsigned());
    Ok(seconds * TICKS + nanos * TICKS / 1_000_000_000)
}

/// When a process started, in clock ticks since the boot of the machine.
pub fn start_time(pid: i32) -> Option<u64> {
    // The line is shorter than this: a name of at most 64 bytes and some fifty numbers.
    let mut line = [0; 2048];
    let count = File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut line).ok()?;
    // The name in parentheses may hold anything; what follows the last one is regular.
    let end = line[..count].iter().rposition(|b| *b == b')')?;
    let rest = std::str::from_utf8(&line[end + 1..count]).ok()?;
    rest.split_whitespace().nth(19)?.parse().ok()
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
        let records = Records::open(dir.path()).unwrap();
        let ended = records.write("job-1", &[std::process::id().cast_signed()]).unwrap();
        let running = records.write("job-2", &[child.id().cast_signed()]).unwrap();
        drop(ended);
        // A killed broker runs no destructor.
        std::mem::forget(running);
        assert_eq!(sweep(dir.path()), Some(vec!["job-2".to_string()]));
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
        Records::open(dir.path()).unwrap();
        assert_eq!(sweep(dir.path()), Some(Vec::new()));
    }

    #[test]
    fn a_process_with_an_old_number_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new("sleep").arg("1000").process_group(0).spawn().unwrap();
        let pid = child.id().cast_signed();
        let groups = vec![(pid, start_time(pid).unwrap() - 1)];
        let line = Line::Begun { name: "job-1".into(), groups };
        std::fs::create_dir(dir.path().join("tasks")).unwrap();
        std::fs::write(dir.path().join(JOURNAL), serde_json::to_vec(&line).unwrap()).unwrap();
        assert_eq!(sweep(dir.path()), Some(Vec::new()));
        assert!(child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_process_has_started_when_it_is_written_down_and_a_later_one_has_not() {
        let before = now().unwrap();
        let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
        let started = start_time(child.id().cast_signed()).unwrap();
        assert!((before..=now().unwrap()).contains(&started), "{before} {started}");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn a_journal_does_not_grow_for_ever_and_a_cut_line_hurts_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let records = Records::open(dir.path()).unwrap();
        for n in 0..100 {
            drop(records.write(&format!("job-{n}"), &[]).unwrap());
        }
        assert_eq!(std::fs::metadata(dir.path().join(JOURNAL)).unwrap().len(), 0);
        std::fs::write(dir.path().join(JOURNAL), "{\"begun\":{\"name\":\"job-1\",\"gro").unwrap();
        assert_eq!(sweep(dir.path()), Some(Vec::new()));
    }

    #[test]
    fn the_first_broker_of_a_pod_finds_nothing() {
        assert_eq!(sweep(tempfile::tempdir().unwrap().path()), None);
    }
}
