//! The keeper: the process that holds a local cluster. It plays the JobSet, starts and ends pods,
//! and answers those who ask. It is PID 1 of the cluster's namespaces, so its end is the cluster's.
//!
//! One thread, one loop over signals, sockets and timers; it starts pods by copying itself, which
//! would not be sound with threads. It prints nothing: people are the front's part.

mod cluster;
mod exits;
mod requests;
mod running;
mod start;

pub(crate) use cluster::end_descendants;

use crate::control::{Channel, Finish, Listener, Notice, Order};
use crate::player::{Action, Event, Outcome, Player};
use crate::pods::{LocalObjects, PlannedHost};
use crate::sandbox::{ClusterNetwork, Identity};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signalfd::SignalFd;
use running::RunningPod;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use start::start;

/// How pods are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandbox {
    /// In namespaces.
    Namespaces,
    /// Not at all: processes of this machine with loop-back addresses.
    None,
}

impl Sandbox {
    /// As people write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::None => "none",
        }
    }
}

/// What the front hands over to the keeper.
#[derive(Debug)]
pub struct KeeperInput {
    /// As whom.
    pub identity: Identity,
    /// How pods are kept apart.
    pub sandbox: Sandbox,
    /// What is to be played.
    pub objects: LocalObjects,
    /// The player, at the start.
    pub player: Player,
    /// The cluster's directory.
    pub dir: PathBuf,
    /// The lock on it.
    pub lock: OwnedFd,
    /// The connection to the front, until it leaves.
    pub front: Option<Channel>,
    /// The launcher's standard input.
    pub stdin: OwnedFd,
    /// The front wants the launcher's output; else it goes to the log.
    pub wants_output: bool,
}

/// What the keeper knows.
struct Keeper {
    input: Box<KeeperInput>,
    listener: Listener,
    clients: Vec<Channel>,
    signals: SignalFd,
    network: Option<ClusterNetwork>,
    hosts: Vec<PlannedHost>,
    pods: BTreeMap<i32, RunningPod>,
    /// The process that writes live status for the front.
    watcher: Option<i32>,
    started: Instant,
    max_restarts: u32,
    /// Which part of the loop-back network pods without a sandbox have.
    loopback_block: u16,
    /// The launcher's last code and the first bad end of any pod in this attempt.
    launcher_code: Option<i32>,
    first_failure: Option<(String, i32)>,
    /// Ends in order: no pod is made any more.
    ending: bool,
    /// The user interrupted: no restart follows.
    interrupted: Option<i32>,
    finish: Option<Finish>,
}

/// Why the loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The cluster has ended and the front (if any) knows.
    Over,
    /// The front died: everything goes at once.
    Abandoned,
}

impl Keeper {
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn notify(&mut self, notice: &Notice, files: &[std::os::fd::BorrowedFd<'_>]) {
        if let Some(front) = &self.input.front {
            // A front that has died is noticed when its end of the connection is read.
            let _ = front.send(notice, files);
        }
    }

    /// Runs until the cluster has ended or nobody wants it any more.
    fn run(&mut self) -> End {
        self.play(Event::Tick);
        loop {
            if self.pods.is_empty() && self.finish.is_some() {
                return End::Over;
            }
            if self.wait() == Some(End::Abandoned) {
                return End::Abandoned;
            }
        }
    }

    /// Gives the player an event and does what it asks for.
    fn play(&mut self, event: Event) {
        if self.ending {
            return;
        }
        let now = self.now();
        let mut create = Vec::new();
        for action in self.input.player.step(now, event) {
            match action {
                Action::Create(id) => create.push(id),
                Action::Terminate(id) => {
                    for pod in self.pods.values_mut().filter(|pod| pod.id == id) {
                        pod.terminate(now);
                    }
                }
                Action::Restarted { attempt, message } => {
                    if let Some(signal) = self.interrupted {
                        self.end_by_signal(signal);
                        return;
                    }
                    self.launcher_code = None;
                    self.first_failure = None;
                    let max_restarts = self.max_restarts;
                    self.notify(&Notice::Restarted { attempt, max_restarts, message }, &[]);
                }
                Action::Finished(outcome) => self.finished(outcome),
            }
        }
        if !create.is_empty()
            && let Err(problem) = self.create_pods(create)
        {
            self.give_up(problem);
        }
    }

    fn finished(&mut self, outcome: Outcome) {
        let finish = match outcome {
            Outcome::Completed => Finish {
                code: self.launcher_code.unwrap_or(0),
                completed: true,
                reason: "Completed".into(),
                message: String::new(),
            },
            Outcome::Failed { reason, message } => {
                let launcher = self.launcher_code.filter(|code| *code != 0);
                let other = self.first_failure.as_ref().map(|(_, code)| *code);
                let code = launcher.or(other).unwrap_or(quorate_contract::exit::FAILED);
                Finish { code, completed: false, reason: reason.into(), message }
            }
        };
        self.conclude(finish);
    }

    fn conclude(&mut self, finish: Finish) {
        if self.finish.is_none() {
            self.notify(&Notice::Finished(finish.clone()), &[]);
            self.finish = Some(finish);
        }
    }

    /// Something in the keeper's own part failed: the cluster cannot go on.
    fn give_up(&mut self, problem: String) {
        self.conclude(Finish {
            code: quorate_contract::exit::INTERNAL,
            completed: false,
            reason: "Internal".into(),
            message: problem,
        });
        self.end_pods();
    }

    fn end_by_signal(&mut self, signal: i32) {
        let code = self
            .launcher_code
            .filter(|code| *code != 0)
            .unwrap_or(quorate_contract::exit::signaled(signal));
        self.conclude(Finish {
            code,
            completed: false,
            reason: "Interrupted".into(),
            message: "interrupted".into(),
        });
        self.end_pods();
    }

    /// Ends all pods in order; no more are made.
    fn end_pods(&mut self) {
        self.ending = true;
        let now = self.now();
        for pod in self.pods.values_mut() {
            pod.terminate(now);
        }
    }

    /// Waits for one thing to happen and deals with it.
    fn wait(&mut self) -> Option<End> {
        let timeout = self.next_timer().map_or(PollTimeout::NONE, |at| {
            let rest = at.saturating_sub(self.now());
            PollTimeout::try_from(rest.as_millis() + 1).unwrap_or(PollTimeout::MAX)
        });
        let (mut signal, mut front, mut accept) = (false, false, false);
        let mut clients = Vec::new();
        let mut outcomes = Vec::new();
        {
            let readable = |fd| PollFd::new(fd, PollFlags::POLLIN);
            let mut fds = vec![readable(self.signals.as_fd()), readable(self.listener.as_fd())];
            fds.extend(self.input.front.iter().map(|f| readable(f.as_fd())));
            fds.extend(self.clients.iter().map(|c| readable(c.as_fd())));
            let starting: Vec<_> =
                self.pods.iter().filter(|(_, p)| !p.started).map(|(pid, _)| *pid).collect();
            fds.extend(starting.iter().map(|pid| readable(self.pods[pid].outcome())));
            // An interrupted wait is a wait that ended early.
            if poll(&mut fds, timeout).is_err() {
                return None;
            }
            let mut ready =
                fds.iter().map(|fd| fd.revents().is_some_and(|events| !events.is_empty()));
            let mut next = || ready.next().unwrap_or(false);
            signal |= next();
            accept |= next();
            if self.input.front.is_some() {
                front |= next();
            }
            for at in 0..self.clients.len() {
                if next() {
                    clients.push(at);
                }
            }
            outcomes.extend(starting.into_iter().filter(|_| next()));
        }
        for pid in outcomes {
            self.pod_outcome(pid);
        }
        if signal {
            self.take_signals();
        }
        for at in clients.into_iter().rev() {
            self.serve(at);
        }
        if accept && let Ok(client) = self.listener.accept() {
            self.clients.push(client);
        }
        if front && self.take_order() == Some(End::Abandoned) {
            return Some(End::Abandoned);
        }
        self.take_timers();
        None
    }

    fn next_timer(&self) -> Option<Duration> {
        let player = if self.ending { None } else { self.input.player.next_timer(self.now()) };
        self.pods.values().filter_map(|pod| pod.deadline).chain(player).min()
    }

    fn take_timers(&mut self) {
        let now = self.now();
        for pod in self.pods.values_mut() {
            pod.kill_if_due(now);
        }
        if !self.ending {
            self.play(Event::Tick);
        }
    }

    /// An order of the front; its silent end is a crash.
    fn take_order(&mut self) -> Option<End> {
        let order = self.input.front.as_ref()?.receive::<Order>();
        match order {
            Ok(Some((Order::Signal { number }, _))) => self.pass_signal(number),
            Ok(Some((Order::Kill { number }, _))) => {
                self.end_by_signal(number);
                for pod in self.pods.values() {
                    pod.kill();
                }
            }
            Ok(Some((Order::Detach, _))) => self.input.front = None,
            Ok(None) | Err(_) => {
                self.input.front = None;
                // After the end there is nothing left that the front could be missed for.
                if self.finish.is_none() || !self.pods.is_empty() {
                    return Some(End::Abandoned);
                }
            }
        }
        None
    }

    /// Passes Ctrl-C on to the launcher, whose agent gives it to the program. Any other signal means
    /// that the cluster shall end, in order; so does Ctrl-C while no launcher runs.
    fn pass_signal(&mut self, number: i32) {
        self.interrupted = Some(number);
        if number != libc::SIGINT {
            self.end_by_signal(number);
            return;
        }
        match self.pods.values().find(|pod| pod.started && self.is_launcher(&pod.id)) {
            Some(launcher) => launcher.signal(number),
            None => self.end_by_signal(number),
        }
    }
}
