//! A pod that runs, as the keeper holds it.

use crate::player::PodId;
use crate::sandbox::PodProcess;
use nix::sys::signal::{Signal, kill};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::time::Duration;

/// A pod from its creation until its PID 1 has been reaped.
#[derive(Debug)]
pub(super) struct RunningPod {
    pub(super) id: PodId,
    /// Its place among all pods of the cluster.
    pub(super) ordinal: u32,
    pub(super) process: PodProcess,
    pub(super) env: Vec<(String, String)>,
    pub(super) working_dir: PathBuf,
    pub(super) termination_log: PathBuf,
    /// Its command runs.
    pub(super) started: bool,
    /// What kept its command from starting.
    pub(super) problem: Option<String>,
    grace: Duration,
    /// It is PID 1 of its pod.
    is_init: bool,
    terminating: bool,
    /// When SIGKILL follows SIGTERM.
    pub(super) deadline: Option<Duration>,
}

impl RunningPod {
    #[expect(clippy::too_many_arguments, reason = "one call; the fields are all of it")]
    pub(super) fn new(
        id: PodId,
        ordinal: u32,
        process: PodProcess,
        env: Vec<(String, String)>,
        working_dir: PathBuf,
        termination_log: PathBuf,
        grace: Duration,
        is_init: bool,
    ) -> Self {
        Self {
            id,
            ordinal,
            process,
            env,
            working_dir,
            termination_log,
            started: false,
            problem: None,
            grace,
            is_init,
            terminating: false,
            deadline: None,
        }
    }

    pub(super) fn outcome(&self) -> BorrowedFd<'_> {
        self.process.outcome.as_fd()
    }

    /// Asks the pod to end; after its grace period it is killed.
    pub(super) fn terminate(&mut self, now: Duration) {
        if self.terminating {
            return;
        }
        self.terminating = true;
        self.deadline = Some(now + self.grace);
        // The kernel drops signals that PID 1 has no handler for. Before its command is ready to
        // take the request, to wait for it would be to wait for nothing.
        if self.started && (!self.is_init || self.catches(libc::SIGTERM)) {
            self.signal(libc::SIGTERM);
        } else {
            self.kill();
        }
    }

    /// Whether the pod's command has a handler for a signal (`SigCgt` of proc(5)).
    fn catches(&self, signal: i32) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.pid));
        let mask = status.ok().and_then(|status| {
            let line = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
            u64::from_str_radix(line.trim(), 16).ok()
        });
        // Where it cannot be told, the polite way is right.
        mask.is_none_or(|mask| mask & (1 << (signal - 1)) != 0)
    }

    pub(super) fn kill_if_due(&mut self, now: Duration) {
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.deadline = None;
            self.kill();
        }
    }

    /// Ends PID 1 and with it, in a sandbox, everything in the pod.
    pub(super) fn kill(&self) {
        self.signal(libc::SIGKILL);
    }

    pub(super) fn signal(&self, number: i32) {
        if let Ok(signal) = Signal::try_from(number) {
            // It is not reaped yet, so the id is still its own; a zombie takes no harm.
            let _ = kill(self.process.pid, signal);
        }
    }
}
