//! Running other programs: with a deadline, a log file and a timed line for the reader.
//!
//! Children stay in the caller's process group, so that Ctrl-C reaches them; a deadline kills the
//! child and everything below it.

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How a program ended.
pub(crate) struct Finished {
    /// Its status; `None` if it was killed at its deadline.
    pub status: Option<ExitStatus>,
    /// What it printed on both streams, in order.
    pub output: String,
    /// Start to end.
    pub took: Duration,
}

impl Finished {
    /// Whether it ended by itself with code 0.
    pub(crate) fn success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// How it ended, in words.
    pub(crate) fn how(&self) -> String {
        match self.status {
            Some(status) => status.to_string(),
            None => format!("killed at its deadline of {:.0} s", self.took.as_secs_f64()),
        }
    }
}

/// Runs `command` with both streams in a log file named `name` and no standard input.
pub(crate) fn capture(command: &mut Command, name: &str, limit: Duration) -> Result<Finished> {
    let path = log_path(name)?;
    let log = File::create(&path).with_context(|| format!("create {}", path.display()))?;
    let errors = log.try_clone().context("share the log between both streams")?;
    command.stdin(Stdio::null()).stdout(log).stderr(errors);
    let started = Instant::now();
    let mut child = command.spawn().with_context(|| format!("start {command:?}"))?;
    let status = wait(&mut child, limit)?;
    let took = started.elapsed();
    let bytes = fs::read(&path).with_context(|| format!("read {}", path.display()))?;
    Ok(Finished { status, output: String::from_utf8_lossy(&bytes).into_owned(), took })
}

/// Waits for `child` until `limit`, then kills it and all below it and answers `None`.
fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait().context("wait for a child")? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            kill_tree(child.id());
            child.wait().context("reap a killed child")?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Kills a process and its descendants. Stopped first, top down, so that none can have new children.
pub(crate) fn kill_tree(root: u32) {
    let mut todo = vec![root];
    let mut all = Vec::new();
    while let Some(pid) = todo.pop() {
        let id = Pid::from_raw(pid.cast_signed());
        // A process that is gone already needs no signal.
        let _ = kill(id, Signal::SIGSTOP);
        todo.extend(children().remove(&pid).unwrap_or_default());
        all.push(id);
    }
    for id in all {
        let _ = kill(id, Signal::SIGKILL);
    }
}

/// All processes by parent, from `/proc/PID/stat` (proc(5)).
fn children() -> BTreeMap<u32, Vec<u32>> {
    let mut by_parent: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // The command's name may hold blanks and brackets; the last bracket ends it.
        let parent = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.split_whitespace().nth(1))
            .and_then(|word| word.parse().ok());
        if let Some(parent) = parent {
            by_parent.entry(parent).or_default().push(pid);
        }
    }
    by_parent
}

/// Where the output of a captured program is kept: `target/xtask/NAME.log`.
fn log_path(name: &str) -> Result<PathBuf> {
    let folder = crate::workspace::target_dir().join("xtask");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    let safe: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    Ok(folder.join(format!("{safe}.log")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_status_are_kept() {
        let done = capture(
            Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]),
            "test-output",
            Duration::from_secs(10),
        )
        .unwrap();
        assert_eq!(done.status.unwrap().code(), Some(3));
        assert_eq!(done.output, "out\nerr\n");
    }

    #[test]
    fn a_deadline_kills_the_children_too() {
        let late = |limit: Duration| {
            let mut command = Command::new("sh");
            command.args(["-c", "sleep 600 & echo $!; wait"]);
            let done = capture(&mut command, "test-deadline", limit).unwrap();
            assert!(done.status.is_none());
            done.output.trim().to_owned()
        };
        // On a busy machine the shell may not have come to its first word by then.
        let limits = [300, 3_000, 30_000].map(Duration::from_millis);
        let pid = limits.into_iter().map(late).find(|pid| !pid.is_empty()).unwrap();
        // It is killed, but dies at its own pace, and is a zombie until init reaps it.
        let gone = || {
            let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            state.is_empty() || state.contains(") Z ")
        };
        let deadline = Instant::now() + Duration::from_secs(10);
        while !gone() {
            assert!(Instant::now() < deadline, "process {pid} is still there");
            thread::yield_now();
        }
    }
}
