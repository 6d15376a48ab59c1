//! PID 1 of a pod: starts the broker, reaps everything, passes signals on, and starts the broker
//! again when it dies, so that a broker killed with -9 costs a re-join and not a pod.
//!
//! It runs no async runtime and does nothing else, so that there is little that can fail. The
//! decisions are in [`policy`]; this module runs them. Tasks whose broker died become children of
//! this process; the next broker finds them in the journal of the run directory and ends them.

pub mod policy;

use crate::report::leave_report;
use crate::sys::{self, processes};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, pthread_sigmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use policy::{Decision, End, Ending, Policy};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

/// What is passed on to the broker.
const FORWARDED: [Signal; 9] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGCONT,
    Signal::SIGTSTP,
    Signal::SIGWINCH,
];

/// How long leftover processes have between SIGTERM and SIGKILL. The broker has given its tasks
/// their time before; what is left then are daemons that nobody owns.
const LEFTOVER_GRACE: Duration = Duration::from_secs(1);

/// A broker that was told to stop and has not ended by then is killed. Shorter than the 30 s that
/// Kubernetes gives a pod by default, so that there is time left for the report.
const STOP_LIMIT: Duration = Duration::from_secs(25);

/// Why no supervision came about.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// The kernel refused a call.
    #[error("cannot {what}")]
    Call {
        /// What was tried.
        what: &'static str,
        /// The system's word for it.
        #[source]
        source: io::Error,
    },
}

fn call(what: &'static str) -> impl FnOnce(Errno) -> SupervisorError {
    move |errno| SupervisorError::Call { what, source: errno.into() }
}

/// Runs `broker` in a child process, again and again if it dies, until it ends by itself or a
/// signal says so; gives the code to exit with. A report goes to `termination_log` when the broker
/// could not leave one. Must be called while the process has one thread.
pub fn supervise(termination_log: &Path, broker: &dyn Fn() -> i32) -> Result<i32, SupervisorError> {
    let mut set = SigSet::empty();
    for signal in FORWARDED {
        set.add(signal);
    }
    set.add(Signal::SIGCHLD);
    pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&set), None).map_err(call("block signals"))?;
    let signals = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .map_err(call("watch signals"))?;
    sys::become_subreaper().map_err(call("adopt orphans"))?;
    let mut watch = Watch {
        signals,
        policy: Policy::default(),
        started: Instant::now(),
        broker: None,
        restart_at: None,
        kill_at: None,
    };
    let ending = watch.run(broker)?;
    watch.sweep();
    if let Some(report) = &ending.report {
        leave_report(termination_log, report);
    }
    Ok(ending.code)
}

struct Watch {
    signals: SignalFd,
    policy: Policy,
    started: Instant,
    broker: Option<Pid>,
    restart_at: Option<Instant>,
    kill_at: Option<Instant>,
}

impl Watch {
    fn run(&mut self, broker: &dyn Fn() -> i32) -> Result<Ending, SupervisorError> {
        self.restart_at = Some(Instant::now());
        loop {
            if self.restart_at.is_some_and(|at| at <= Instant::now()) {
                self.restart_at = None;
                self.broker = Some(spawn(broker)?);
            }
            if self.kill_at.is_some_and(|at| at <= Instant::now()) {
                self.kill_at = None;
                if let Some(pid) = self.broker {
                    let _ = kill(pid, Signal::SIGKILL);
                }
            }
            let due = [self.restart_at, self.kill_at].into_iter().flatten().min();
            self.sleep(due.map(|at| at.saturating_duration_since(Instant::now())))?;
            while let Ok(Some(info)) = self.signals.read_signal() {
                let number = i32::try_from(info.ssi_signo).unwrap_or_default();
                match Signal::try_from(number) {
                    Ok(Signal::SIGCHLD) | Err(_) => {}
                    Ok(signal) => {
                        if let Some(ending) = self.forward(signal) {
                            return Ok(ending);
                        }
                    }
                }
            }
            if let Some(ending) = self.reap() {
                return Ok(ending);
            }
        }
    }

    fn sleep(&self, wait: Option<Duration>) -> Result<(), SupervisorError> {
        let timeout = wait.map_or(PollTimeout::NONE, |wait| {
            // Rounded up: waking early would spin.
            let millis = i32::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
            PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)
        });
        let mut descriptors = [PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        match poll(&mut descriptors, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(errno) => Err(call("wait for signals")(errno)),
        }
    }

    fn forward(&mut self, signal: Signal) -> Option<Ending> {
        let stops = matches!(signal, Signal::SIGTERM | Signal::SIGINT | Signal::SIGQUIT);
        if stops {
            self.policy.stop(signal as i32);
            self.kill_at.get_or_insert(Instant::now() + STOP_LIMIT);
        }
        match self.broker {
            Some(pid) => {
                let _ = kill(pid, signal);
                None
            }
            // Between two lives of the broker nobody is there to stop but us.
            None => stops.then(|| self.policy.stopped()),
        }
    }

    /// Takes all children that have ended; an ending when the broker's end is the pod's.
    fn reap(&mut self) -> Option<Ending> {
        let mut ending = None;
        loop {
            let status = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Err(Errno::EINTR) => continue,
                Err(_) | Ok(WaitStatus::StillAlive) => return ending,
                Ok(status) => status,
            };
            let Some(end) = End::from_wait(status) else { continue };
            let pid = status.pid()?;
            if self.broker == Some(pid) {
                self.broker = None;
                match self.policy.broker_ended(end, self.started.elapsed()) {
                    Decision::Restart { after } => {
                        self.restart_at = Some(Instant::now() + after);
                    }
                    Decision::End(end) => ending = Some(*end),
                }
            }
        }
    }

    /// Ends what is left below this process: SIGTERM, a grace, SIGKILL.
    fn sweep(&self) {
        // Orphans would be children of this process by now: without any there is nobody.
        if !processes::reap_all() {
            return;
        }
        let deadline = Instant::now() + LEFTOVER_GRACE;
        processes::signal_descendants(Signal::SIGTERM);
        while processes::reap_all() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let _ = self.sleep(Some(left.min(Duration::from_millis(50))));
            while let Ok(Some(_)) = self.signals.read_signal() {}
        }
        // A killed process may have forked just before: until nobody is left, in any case.
        while processes::reap_all() {
            processes::signal_descendants(Signal::SIGKILL);
            let _ = self.sleep(Some(Duration::from_millis(5)));
            while let Ok(Some(_)) = self.signals.read_signal() {}
        }
    }
}

/// Starts a broker.
fn spawn(broker: &dyn Fn() -> i32) -> Result<Pid, SupervisorError> {
    sys::fork(&|| {
        // The broker goes when its supervisor goes, however that happens.
        if sys::die_with_parent(Signal::SIGKILL).is_err() {
            return quorate_contract::exit::INTERNAL;
        }
        // It hears all signals, whatever mask this process was started with.
        let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None);
        broker()
    })
    .map_err(call("start the broker"))
}
