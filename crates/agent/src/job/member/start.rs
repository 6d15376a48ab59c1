//! The start of a pod's tasks, and the watch over each until it has ended.
//!
//! Owns: what each task is given (words, variables, CPUs, pipes), and the report of its end. What they need
//! in common is made by [`super::prepare`].

use super::FILES;
use super::task::{Beginning, Running, Started, at_terminal};
use super::tasks::{Here, Tasks};
use crate::files;
use crate::job::protocol::EndedTask;
use crate::job::streams::{Stream, feed, pump};
use crate::launch::environment::{self, Standing};
use crate::launch::outcome::{Ended, Session, TaskEnd};
use crate::launch::spawn::starter::Order;
use crate::launch::stdio::{Slowest, Tail};
use crate::launch::text;
use crate::process_management::Server;
use quorate_contract::env as names;
use quorate_hostlist::IdSet;
use quorate_pmi::{Exit, RankState};
use std::ffi::{OsStr, OsString};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

impl Tasks<'_> {
    /// Starts all tasks; what does not start has ended.
    pub(super) async fn start_all(&mut self) {
        let pod = self.jobs.pod();
        let mut command = self.launch.command.clone();
        if let Some(script) = command.script.take() {
            match self.write(&script) {
                Ok(words) => command.argv.extend(words),
                Err(end) => {
                    self.none_started(&end);
                    return;
                }
            }
        }
        let argv: Arc<[OsString]> = command.argv.iter().map(|word| text::decode(word)).collect();
        let mut env = command.env.over(&pod.env);
        environment::pod(self.overlay.settings(), &mut env);
        let mark = environment::marks(self.overlay.settings(), &format!("job-{}", self.launch.job));
        env.insert(names::MARK.into(), mark.into());
        if env.contains_key(OsStr::new(names::SLURM)) {
            let socket = self.overlay.settings().socket().into_os_string();
            env.entry(names::SLURM_SOCKET.into()).or_insert(socket);
        }
        if let Some(parcel) = &command.files {
            let into = self.dir.join(FILES);
            let leader = self.launch.leader;
            if let Err(error) = files::fetch(self.overlay, leader, parcel, into).await {
                self.none_started(&TaskEnd::NotStarted(crate::logs::chain(&error)));
                return;
            }
        }
        let cwd: Arc<Path> = match self.directory().await {
            Ok(cwd) => cwd.into(),
            Err(end) => {
                self.none_started(&end);
                return;
            }
        };
        if let Err(end) = self.open_server() {
            self.none_started(&end);
            return;
        }
        if self.launch.one_host {
            // Open MPI 4 names shared memory by host and local rank.
            env.entry("OMPI_MCA_btl_vader_backing_directory".into())
                .or_insert_with(|| self.dir.clone().into_os_string());
        }
        let (tasks, turn) = (self.ranks.len() as u32, self.overlay.rank());
        let share = self.launch.shares.get(self.node as usize);
        let sets = match share.and_then(|share| share.slots.parse::<IdSet>().ok()) {
            Some(slots) => {
                let slots: Vec<u32> = slots.iter().collect();
                env.insert(names::SLOTS.into(), slots.len().to_string().into());
                let asked = command.cpus_per_task.is_some();
                pod.allowance.sets_within(command.binding, &slots, tasks, asked, turn)
            }
            None => pod.allowance.sets(command.binding, tasks, command.cpus_per_task, turn),
        };
        let seen = self.accelerators(tasks);
        let stdin = command.stdin;
        self.taken = Slowest::new(self.ranks.len());
        let mut starting = Vec::with_capacity(self.ranks.len());
        for (local, rank) in self.ranks.clone().into_iter().enumerate() {
            let wants_stdin = stdin.goes_to(rank);
            if !wants_stdin {
                self.taken.gone(local);
            }
            for (name, value) in seen.get(local).into_iter().flatten() {
                env.insert((*name).into(), value.into());
            }
            let order = Order {
                argv: argv.clone(),
                env: env.clone(),
                cwd: cwd.clone(),
                cpus: sets[local].clone(),
                stdin: wants_stdin,
                keep: None,
            };
            starting.push((rank, self.start(order, local as u32, rank)));
        }
        for (rank, beginning) in starting {
            let begun = match beginning {
                Ok(beginning) => beginning.begun().await,
                Err(end) => Err(end),
            };
            match begun {
                Ok(task) => self.runs(rank, task),
                Err(end) => {
                    self.running.push(Running::never(rank));
                    self.ended_unstarted(rank, end);
                }
            }
        }
        let pids: Vec<i32> = self.running.iter().map(|t| t.pid).filter(|pid| *pid > 0).collect();
        self.record = self.jobs.record(&format!("job-{}", self.launch.job), &pids);
    }

    /// Has a task started, whose order lacks what is its alone.
    fn start(&self, mut order: Order, local: u32, rank: u32) -> Result<Beginning, TaskEnd> {
        let env = &mut order.env;
        let standing = Standing {
            job: &self.launch.queued.unwrap_or(self.launch.job).to_string(),
            rank,
            size: self.launch.placement.tasks(),
            local_rank: local,
            node: self.node,
            beside: &self.ranks,
            cpus_per_task: self.launch.command.cpus_per_task,
            crowded: self.launch.crowded,
        };
        environment::task(&standing, env);
        if let Some(server) = &self.server {
            order.keep = server
                .rank_end(rank)
                .map_err(|error| TaskEnd::NotStarted(format!("no socket for PMI: {error}")))?;
            let fd = order.keep.as_ref().map(AsRawFd::as_raw_fd);
            for (name, value) in server.environment(rank, fd) {
                env.insert(name.into(), value.into());
            }
        }
        Ok(match self.launch.command.terminal {
            None => Beginning::There(self.jobs.starter().start(order)),
            Some(size) => Beginning::Here(at_terminal(&order.as_start(), rank, size)?),
        })
    }

    /// Serves a task that runs, to its end.
    fn runs(&mut self, rank: u32, task: Started) {
        let told = Arc::new(AtomicBool::new(false));
        let index = self.running.len();
        let stdin = task.stdin.map(|(pipe, end)| {
            let here = self.here.clone();
            feed(pipe, end, move |bytes| {
                let took = Here::Took { task: index, bytes: bytes as u64 };
                std::future::ready(here.send(took).is_ok())
            })
        });
        let terminal = task.terminal;
        let (pid, alive) = (task.pid, true);
        self.running.push(Running { rank, pid, told: told.clone(), alive, stdin, terminal });
        // One task's output needs no line ends to stay apart from others'.
        let whole_lines = !self.launch.command.unbuffered && self.launch.placement.tasks() > 1;
        let (over, ended) = watch::channel(false);
        let tail = Arc::new(Mutex::new(Tail::default()));
        let pump = |pipe, kind| {
            let uplink = self.uplink.clone();
            tokio::spawn(pump(
                pipe,
                Stream { kind, rank, whole_lines },
                move |piece| {
                    let uplink = uplink.clone();
                    async move { uplink.piece(piece).await }
                },
                tail.clone(),
                ended.clone(),
            ))
        };
        let outputs = task.outputs.into_iter();
        let pumps: Vec<_> = outputs.map(|(kind, pipe)| pump(pipe, kind)).collect();
        let (server, here) = (self.server.clone(), self.here.clone());
        tokio::spawn(async move {
            let end = task.exit.wait(true).await;
            let stopped = told.load(Ordering::Relaxed);
            let exit = if end == TaskEnd::Exited(0) { Exit::Success } else { Exit::Failure };
            let (state, protocol) = match &server {
                Some(server) => server.rank_exited(rank, exit),
                None => (RankState::default(), None),
            };
            let exchanges = server.as_ref().map(Server::exchanges).unwrap_or_default();
            let _ = over.send(true);
            for pump in pumps {
                let _ = pump.await;
            }
            let session = match (state.initialized, state.finalized) {
                (false, _) => Session::None,
                (true, false) => Session::Open,
                (true, true) => Session::Closed,
            };
            let bad = end != TaskEnd::Exited(0) || session == Session::Open;
            let tail = tail.lock().map(|mut tail| std::mem::take(&mut *tail)).unwrap_or_default();
            let log_tail = if bad && !stopped { tail.into_lines() } else { Vec::new() };
            let ended = Ended { rank, end, session, stopped, log_tail };
            let wire = protocol.map(|protocol| protocol.as_str().to_string());
            let _ = here.send(Here::Ended(Box::new(EndedTask { ended, wire, exchanges })));
        });
    }

    fn none_started(&mut self, end: &TaskEnd) {
        for rank in self.ranks.clone() {
            self.running.push(Running::never(rank));
            self.ended_unstarted(rank, end.clone());
        }
    }

    fn ended_unstarted(&self, rank: u32, end: TaskEnd) {
        let ended =
            Ended { rank, end, session: Session::None, stopped: false, log_tail: Vec::new() };
        let task = EndedTask { ended, wire: None, exchanges: [0; 3] };
        let _ = self.here.send(Here::Ended(Box::new(task)));
    }
}
