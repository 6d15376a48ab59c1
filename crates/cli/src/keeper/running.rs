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
    terminating: bool,
    /// When SIGKILL follows SIGTERM.
    pub(super) deadline: Option<Duration>,
}

impl RunningPod {
    pub(super) fn new(
        id: PodId,
        ordinal: u32,
        process: PodProcess,
        env: Vec<(String, String)>,
        working_dir: PathBuf,
        termination_log: PathBuf,
        grace: Duration,
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
        if self.started {
            self.signal(libc::SIGTERM);
        } else {
            // Before its command runs there is nobody who could take the signal.
            self.kill();
        }
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
