//! Faults that are asked for: brokers killed, paused and started again.

use super::cluster::{Cluster, Member};
use crate::broker::life;
use crate::sys::processes;
use crate::testbed::{Broker, State, Testbed};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::HashSet;
use std::fs;

/// Why a fault did not come about.
#[derive(Debug, thiserror::Error)]
pub(super) enum FaultError {
    /// There is no such broker.
    #[error("there is no rank {rank}: the cluster has ranks 0 to {last}")]
    UnknownRank {
        /// What was asked for.
        rank: u32,
        /// The highest rank.
        last: u32,
    },
    /// The broker's pod has ended.
    #[error("the pod of rank {rank} is gone: `testbed rejoin {rank}` starts it again")]
    Gone {
        /// The rank.
        rank: u32,
    },
    /// The supervisor has not started the next broker yet.
    #[error("rank {rank} has no broker at the moment, its supervisor is about to start one")]
    Starting {
        /// The rank.
        rank: u32,
    },
    /// The pod is there.
    #[error("the pod of rank {rank} is still there")]
    Present {
        /// The rank.
        rank: u32,
    },
    /// The launcher has ended.
    #[error("the launcher has ended, and the cluster with it")]
    Over,
    /// The kernel refused the signal.
    #[error("cannot signal rank {rank}")]
    Signal {
        /// The rank.
        rank: u32,
        /// The system's word for it.
        #[source]
        source: Errno,
    },
    /// The pod could not be started.
    #[error("cannot start rank {rank}")]
    Start {
        /// The rank.
        rank: u32,
        /// Why.
        #[source]
        source: anyhow::Error,
    },
}

impl Member {
    /// The broker's process: its supervisor's child that says so in the run directory.
    fn broker(&self) -> Option<Pid> {
        let supervisor = self.supervisor?;
        let text = fs::read_to_string(self.run_dir.join(life::PID_FILE)).ok()?;
        let pid = text.trim().parse().ok()?;
        let (parent, state) = processes::parent_and_state(pid)?;
        (parent == supervisor.as_raw() && state != 'Z').then(|| Pid::from_raw(pid))
    }

    fn seen(&self) -> Broker {
        let broker = self.broker();
        let paused = broker
            .and_then(|pid| processes::parent_and_state(pid.as_raw()))
            .is_some_and(|(_, state)| state == 'T');
        let state = match (self.supervisor, broker) {
            (None, _) => State::Gone,
            (_, None) => State::Starting,
            _ if paused => State::Paused,
            _ => State::Running,
        };
        Broker {
            rank: self.rank,
            name: self.name.clone(),
            state,
            supervisor: self.supervisor.map(Pid::as_raw),
            pid: broker.map(Pid::as_raw),
            address: self.address.to_string(),
            run_dir: self.run_dir.clone(),
        }
    }
}

impl Cluster<'_> {
    /// What there is.
    pub(super) fn testbed(&self) -> Testbed {
        let brokers = self.members.iter().map(Member::seen).collect();
        Testbed { dir: self.dir().to_owned(), brokers }
    }

    /// Kills a broker; its supervisor lives on.
    pub(super) fn kill_broker(&self, rank: u32) -> Result<(), FaultError> {
        self.signal(rank, Signal::SIGKILL)
    }

    /// Stops a broker where it is. Its supervisor and its tasks go on.
    pub(super) fn pause(&self, rank: u32) -> Result<(), FaultError> {
        self.signal(rank, Signal::SIGSTOP)
    }

    /// Lets a broker go on.
    pub(super) fn resume(&self, rank: u32) -> Result<(), FaultError> {
        self.signal(rank, Signal::SIGCONT)
    }

    /// Kills all processes of a pod.
    pub(super) fn kill_pod(&self, rank: u32) -> Result<(), FaultError> {
        let supervisor = self.member(rank)?.supervisor.ok_or(FaultError::Gone { rank })?;
        // Stopped first, so that nobody starts another process meanwhile, or sees a death.
        let mut stopped = HashSet::from([supervisor]);
        let _ = kill(supervisor, Signal::SIGSTOP);
        loop {
            let fresh: Vec<Pid> = processes::below(supervisor)
                .into_iter()
                .filter(|&pid| stopped.insert(pid))
                .collect();
            if fresh.is_empty() {
                break;
            }
            for pid in fresh {
                let _ = kill(pid, Signal::SIGSTOP);
            }
        }
        for pid in stopped {
            let _ = kill(pid, Signal::SIGKILL);
        }
        Ok(())
    }

    /// Starts a pod again that is gone.
    pub(super) fn rejoin(&mut self, rank: u32) -> Result<(), FaultError> {
        if self.over {
            return Err(FaultError::Over);
        }
        if self.member(rank)?.supervisor.is_some() {
            return Err(FaultError::Present { rank });
        }
        self.start_one(rank as usize).map_err(|source| FaultError::Start { rank, source })
    }

    fn member(&self, rank: u32) -> Result<&Member, FaultError> {
        let last = self.members.len() as u32 - 1;
        self.members.get(rank as usize).ok_or(FaultError::UnknownRank { rank, last })
    }

    fn signal(&self, rank: u32, signal: Signal) -> Result<(), FaultError> {
        let member = self.member(rank)?;
        member.supervisor.ok_or(FaultError::Gone { rank })?;
        let broker = member.broker().ok_or(FaultError::Starting { rank })?;
        kill(broker, signal).map_err(|source| FaultError::Signal { rank, source })
    }
}
