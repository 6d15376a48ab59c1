//! How tasks ended that outlived their broker: files in the run directory.
//!
//! A broker that starts a task which may outlive it creates `tasks/<pid>` (what is in it is the
//! broker's own business). When such a process ends as a child of the supervisor, the
//! supervisor writes `tasks/<pid>.exit`: one line, `exit CODE` or `signal NUMBER`. The next
//! broker takes both away.

use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskEnd {
    /// With this code.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

impl TaskEnd {
    /// From what waitpid said; `None` for states other than ends.
    pub fn from_wait(status: WaitStatus) -> Option<Self> {
        match status {
            WaitStatus::Exited(_, code) => Some(Self::Exit(code)),
            WaitStatus::Signaled(_, signal, _) => Some(Self::Signal(signal as i32)),
            _ => None,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text.trim().split_once(' ')? {
            ("exit", code) => code.parse().ok().map(Self::Exit),
            ("signal", number) => number.parse().ok().map(Self::Signal),
            _ => None,
        }
    }

    fn line(self) -> String {
        match self {
            Self::Exit(code) => format!("exit {code}\n"),
            Self::Signal(number) => format!("signal {number}\n"),
        }
    }
}

/// The record that a broker makes for a task that may outlive it.
pub fn record_path(run_dir: &Path, pid: i32) -> PathBuf {
    run_dir.join("tasks").join(pid.to_string())
}

/// Writes how a process ended, if a broker has made a record of it.
pub(super) fn write_end(run_dir: &Path, pid: Pid, end: TaskEnd) -> io::Result<()> {
    let record = record_path(run_dir, pid.as_raw());
    if !record.exists() {
        return Ok(());
    }
    // Renamed into place, so that a broker never reads half of it.
    let draft = record.with_extension("draft");
    fs::write(&draft, end.line())?;
    fs::rename(&draft, record.with_extension("exit"))
}

/// The ends that were written since the last call, with what the broker's records said; takes
/// the files away.
pub fn take_ends(run_dir: &Path) -> io::Result<Vec<(i32, TaskEnd, Vec<u8>)>> {
    let mut ends = Vec::new();
    let entries = match fs::read_dir(run_dir.join("tasks")) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ends),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "exit") {
            continue;
        }
        let pid = path.file_stem().and_then(|stem| stem.to_str()).and_then(|s| s.parse().ok());
        let end = TaskEnd::parse(&fs::read_to_string(&path)?);
        if let (Some(pid), Some(end)) = (pid, end) {
            let record = record_path(run_dir, pid);
            ends.push((pid, end, fs::read(&record)?));
            fs::remove_file(&record)?;
        }
        fs::remove_file(&path)?;
    }
    ends.sort_by_key(|(pid, ..)| *pid);
    Ok(ends)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_recorded_processes_leave_an_end() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("tasks")).unwrap();
        fs::write(record_path(dir.path(), 40), "job 1").unwrap();
        fs::write(record_path(dir.path(), 41), "job 2").unwrap();
        write_end(dir.path(), Pid::from_raw(40), TaskEnd::Exit(3)).unwrap();
        write_end(dir.path(), Pid::from_raw(42), TaskEnd::Exit(0)).unwrap();
        let ends = take_ends(dir.path()).unwrap();
        assert_eq!(ends, vec![(40, TaskEnd::Exit(3), b"job 1".to_vec())]);
        assert!(record_path(dir.path(), 41).exists());
        assert!(take_ends(dir.path()).unwrap().is_empty());
    }

    #[test]
    fn ends_survive_the_file() {
        for end in [TaskEnd::Exit(0), TaskEnd::Exit(255), TaskEnd::Signal(9)] {
            assert_eq!(TaskEnd::parse(&end.line()), Some(end));
        }
        assert_eq!(TaskEnd::parse("exit"), None);
    }
}
