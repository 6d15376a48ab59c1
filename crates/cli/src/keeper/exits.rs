//! Ends of pods: reaping, reports, and what the player is told.

use super::Keeper;
use crate::control::Notice;
use crate::player::{Event, Exit, PodId};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use quorate_contract::exit;
use quorate_contract::paths::TERMINATION_LIMIT;
use quorate_contract::report::Report;
use std::io::Read as _;
use std::path::Path;

impl Keeper {
    /// The launcher is the first pod of the first replicated job.
    pub(super) fn is_launcher(&self, id: &PodId) -> bool {
        self.hosts.first().is_some_and(|host| {
            host.group == id.group && host.job == id.job && host.index == id.index
        })
    }

    pub(super) fn take_signals(&mut self) {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            match Signal::try_from(signal.ssi_signo.cast_signed()) {
                Ok(Signal::SIGCHLD) => self.reap(),
                // Somebody ends the keeper in order, such as the machine going down.
                Ok(Signal::SIGTERM) => self.delete(),
                _ => {}
            }
        }
    }

    fn reap(&mut self) {
        loop {
            let (pid, code) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => (pid, code),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, exit::signaled(signal as i32)),
                Ok(WaitStatus::StillAlive) | Err(_) => return,
                Ok(_) => continue,
            };
            self.pod_ended(pid.as_raw(), code);
        }
    }

    /// A pod's command runs, or cannot.
    pub(super) fn pod_outcome(&mut self, pid: i32) {
        let Some(pod) = self.pods.get_mut(&pid) else { return };
        if pod.started || pod.problem.is_some() {
            return;
        }
        pod.problem = pod.process.failure();
        // A pod that could not start ends by itself and is reaped.
        pod.started = true;
        if pod.problem.is_none() {
            let name = pod.id.display_name();
            let is_launcher = self.is_launcher(&self.pods[&pid].id.clone());
            self.notify(&Notice::Started { pod: name }, &[]);
            if is_launcher {
                self.watch_status(pid);
            }
        }
    }

    fn pod_ended(&mut self, pid: i32, code: i32) {
        if self.watcher == Some(pid) {
            self.watcher = None;
            return;
        }
        self.pod_outcome(pid);
        // Orphans of a pod without a sandbox come to the keeper too; they need no more than this.
        let Some(pod) = self.pods.remove(&pid) else { return };
        let report = read_report(&pod.termination_log);
        // The file must not be read again for a pod that takes the place.
        let _ = std::fs::remove_file(&pod.termination_log);
        let name = pod.id.display_name();
        if self.is_launcher(&pod.id) {
            self.launcher_code = Some(code);
        }
        if code != 0 && self.first_failure.is_none() {
            self.first_failure = Some((name.clone(), code));
        }
        let problem = pod.problem.clone();
        let report = report.map(Box::new);
        self.notify(
            &Notice::Ended { pod: name.clone(), code, report, problem: problem.clone() },
            &[],
        );
        if let Some(problem) = problem {
            self.give_up(format!("pod {name} cannot start: {problem}"));
            return;
        }
        if let Some(signal) = self.interrupted
            && self.is_launcher(&pod.id)
            && !self.ending
            && code != 0
        {
            self.end_by_signal(signal);
            return;
        }
        self.play(Event::PodEnded(pod.id, Exit { code, disrupted: false }));
    }
}

fn read_report(path: &Path) -> Option<Report> {
    let mut text = String::new();
    let file = std::fs::File::open(path).ok()?;
    file.take(TERMINATION_LIMIT as u64).read_to_string(&mut text).ok()?;
    Report::parse(&text).ok()
}
