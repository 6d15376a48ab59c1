//! `quorate-agent start`: an instance within the allocation that it is started in
//! ([`crate::instance`]), or with `--test-size N` a whole cluster of brokers on this host, for tests and
//! measurements. Each broker is a process tree of its own, as in a pod, on a loopback port; the
//! program runs on rank 0, and its code is this command's. Meanwhile `quorate-agent testbed` kills,
//! pauses and starts brokers again, over a control socket.
//!
//! Nothing is left behind, not even when this process is killed with -9: supervisors end with it
//! (they are told by the kernel), and a janitor process removes the directory when the last of
//! them has gone.

mod cluster;
mod control;
mod faults;
mod janitor;

use crate::broker::Launching;
use crate::instance::{self, Options};
use crate::sys::processes;
use anyhow::Context;
use cluster::Cluster;
use control::Control;
use janitor::Janitor;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use quorate_contract::report::Reason;
use quorate_contract::{Report, exit};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Brokers have so long to follow their launcher before they are told to stop.
const FOLLOW: Duration = Duration::from_secs(10);
/// And so long again before they are killed.
const STOP: Duration = Duration::from_secs(10);

/// Start a cluster within this allocation, or a test cluster on this host, and run a command on it
///
/// As the tasks of a parallel job, one on each node, the brokers find each other by PMI:
/// `quorate-agent run -N2 quorate-agent start -- ./script.sh` is a cluster of two nodes within the
/// cluster, which ends with the script; `mpiexec` and `srun` start one just so.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// So many brokers on this host, the launcher included, instead of one a task
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    test_size: Option<u32>,
    /// Children of an inner broker of the tree (0: chosen by the size)
    #[arg(long, default_value_t = 0)]
    fanout: u32,
    /// Brokers that must be there before the command starts (default: all)
    #[arg(long, requires = "test_size")]
    min_size: Option<u32>,
    /// Start the command as so many parallel tasks instead of once on the launcher
    #[arg(short = 'n', long, value_name = "TASKS", requires = "test_size")]
    ntasks: Option<u32>,
    /// Tasks that each broker takes (default: as many as it has CPUs)
    #[arg(long, requires = "test_size")]
    slots: Option<u32>,
    /// A variable for all brokers and what they start
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable, requires = "test_size")]
    env: Vec<(String, String)>,
    /// Seconds until a cluster without quorum fails
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u32,
    /// Divides the overlay's silence limits
    #[arg(long, value_name = "N", default_value_t = 1, hide = true)]
    haste: u32,
    /// A socket for quorate-agent testbed, which kills, pauses and starts brokers again
    ///
    /// Without it, programs of the cluster alone find the socket, in QUORATE_TESTBED.
    #[arg(long, value_name = "SOCKET", requires = "test_size")]
    control: Option<PathBuf>,
    /// The command and its arguments; without one the cluster stays up until it is stopped
    #[arg(last = false, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("it must be NAME=VALUE".to_owned()),
    }
}

/// Runs the verb.
pub fn run(args: &Args, launching: &Arc<dyn Launching>) -> anyhow::Result<i32> {
    let Some(size) = args.test_size else {
        let Args { fanout, timeout, command, .. } = args;
        let options = Options { fanout: *fanout, timeout: *timeout, command: command.clone() };
        return instance::run(&options, launching);
    };
    let min_size = args.min_size.unwrap_or(size);
    anyhow::ensure!(
        (1..=size).contains(&min_size),
        "--min-size must be from 1 to --test-size, which is {size}"
    );
    let mut set = SigSet::empty();
    for signal in WATCHED {
        set.add(signal);
    }
    set.thread_block().context("cannot block signals")?;
    let signals = SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .context("cannot watch signals")?;
    crate::sys::become_subreaper().context("cannot adopt orphans")?;
    let outside = args.control.as_deref().map(std::path::absolute).transpose()?;
    let janitor = Janitor::hire(outside.as_deref())?;
    let path = outside.unwrap_or_else(|| janitor.dir().join("control.sock"));
    let control = Control::open(&path)?;
    let mut cluster = Cluster::prepare(args, size, min_size, path, &janitor)?;
    let code = match cluster.start() {
        Ok(()) => {
            let mut watch =
                Watch { cluster: &mut cluster, control, signals, launcher: None, told: None };
            let code = watch.run();
            if let Some(report) = cluster.last_words().filter(says_more) {
                crate::sys::complain(&report.message);
            }
            code
        }
        Err(error) => {
            crate::sys::complain(&format!("{error:#}"));
            exit::FAILED
        }
    };
    sweep(&janitor);
    janitor.dismiss();
    Ok(code)
}

/// Whether a report says more than its code does: a command's own code needs no words.
pub(crate) fn says_more(report: &Report) -> bool {
    let rank = report.failure.as_ref().and_then(|failure| failure.rank);
    match report.reason {
        Reason::Completed | Reason::Terminated => false,
        Reason::ProgramFailed => rank.is_some(),
        _ => true,
    }
}

const WATCHED: [Signal; 7] = [
    Signal::SIGCHLD,
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];

/// Waits for the cluster.
struct Watch<'a, 'b> {
    cluster: &'a mut Cluster<'b>,
    control: Control,
    signals: SignalFd,
    /// The launcher's code and when it ended.
    launcher: Option<(i32, Instant)>,
    /// When this process was told to stop.
    told: Option<Instant>,
}

impl Watch<'_, '_> {
    /// Until all brokers have ended, or are told to; gives the launcher's code.
    fn run(&mut self) -> i32 {
        let mut reminded = false;
        loop {
            self.reap();
            if self.cluster.running() == 0 {
                break;
            }
            let mut wait = PollTimeout::NONE;
            let ended = self.launcher.map(|(_, ended)| ended);
            if let Some(since) = ended.or(self.told).map(|at| at.elapsed()) {
                if since > FOLLOW + STOP {
                    break;
                }
                if since > FOLLOW && !reminded {
                    reminded = true;
                    self.cluster.signal_all(Signal::SIGTERM);
                }
                wait = PollTimeout::from(100_u8);
            }
            let mut descriptors = [
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.control.waited_on(), PollFlags::POLLIN),
            ];
            let _ = poll(&mut descriptors, wait);
            if descriptors[1].any().unwrap_or(false) {
                self.control.answer(self.cluster);
            }
            while let Ok(Some(info)) = self.signals.read_signal() {
                let number = i32::try_from(info.ssi_signo).unwrap_or_default();
                if let Ok(signal) = Signal::try_from(number)
                    && signal != Signal::SIGCHLD
                {
                    if !matches!(signal, Signal::SIGUSR1 | Signal::SIGUSR2) {
                        self.told.get_or_insert_with(Instant::now);
                    }
                    self.cluster.pass_on(signal);
                }
            }
        }
        // A launcher that had to be killed has no code of its own.
        self.launcher.map_or(exit::signaled(Signal::SIGKILL as i32), |(code, _)| code)
    }

    fn reap(&mut self) {
        loop {
            let (pid, code) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => (pid, code),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid, exit::signaled(signal as i32)),
                Ok(WaitStatus::StillAlive) | Err(_) => return,
                Ok(_) => continue,
            };
            if self.cluster.ended(pid) == Some(0) {
                self.launcher = Some((code, Instant::now()));
            }
        }
    }
}

/// Kills what is left of the cluster.
fn sweep(janitor: &Janitor) {
    loop {
        let left: Vec<Pid> =
            processes::descendants().into_iter().filter(|&pid| pid != janitor.pid()).collect();
        if left.is_empty() {
            return;
        }
        for pid in left {
            let _ = kill(pid, Signal::SIGKILL);
        }
        while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            if status == WaitStatus::StillAlive {
                break;
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
